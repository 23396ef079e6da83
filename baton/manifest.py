"""The manifest: what an agent hands to its successor, completed and verified from facts.

What the model said in `hand_off` is used where facts do not contradict it. What does not hold is corrected and the
correction is noted in the manifest, so that the successor and a person can see it.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field, ValidationError

from baton.breakers import Trip
from baton.facts import AgentFacts, InProgressItem, SavedPart
from baton.knowledge import Decision, Entry, Issue
from baton.ledger import ItemRecord
from baton.models import Stored, Submitted
from baton.plan import PlanStep

ENTRIES_CARRIED = 50
"""Of each kind a manifest carries the newest; all of them are in the knowledge."""


class HandoffReason(StrEnum):
    """Why an agent handed off."""

    OUTPUT_LIMIT = "output_limit"
    CONTEXT_LIMIT = "context_limit"
    SUBTASK_COMPLETE = "subtask_complete"
    ERROR_RECOVERY = "error_recovery"
    PAUSED = "paused"
    CANCELLED = "cancelled"


class FromAgent(Stored):
    """The agent that hands off."""

    id: str
    output_tokens: int
    turns: int
    model: str


class ToAgent(Stored):
    """The agent that goes on."""

    id: str


class Context(Stored):
    """Where the work stands in the task."""

    original_task: str
    plan: str = "plan.json"
    current_step: int | None = None
    completed_steps: tuple[int, ...] = ()
    success_criteria: tuple[str, ...] = ()


class Verification(Stored):
    """Whether the claims were held against facts, and what had to be corrected."""

    checked: bool = True
    corrections: tuple[str, ...] = ()


class Link(Stored):
    """One handoff in the chain of custody."""

    from_: str = Field(alias="from")
    to: str
    reason: HandoffReason
    at: datetime
    commit: str | None = None


class Manifest(Stored):
    """What `agent-<n>-handoff.json` holds, and the input of the successor's run.

    `cut_off`: the item in progress stands where an output that was too long was cut off. `trip`: the breaker because
    of which a fresh agent goes on, or nobody does.
    """

    agent_id: str
    task_id: str
    step: int | None = None
    reason: HandoffReason
    status: Literal["handoff_required", "complete", "stopped"] = "handoff_required"
    from_agent: FromAgent
    to_agent: ToAgent | None = None
    context: Context
    completed_items: tuple[str, ...] = ()
    in_progress_item: InProgressItem | None = None
    cut_off: bool = False
    pending_items: tuple[str, ...] = ()
    decisions_made: tuple[Decision, ...] = ()
    issues_encountered: tuple[Issue, ...] = ()
    patterns_established: tuple[str, ...] = ()
    notes: str | None = None
    verification: Verification = Verification()
    chain: tuple[Link, ...] = ()
    trip: Trip | None = None

    def repeats(self, before: "Manifest | None") -> bool:
        """Whether all came to a stop where the agent before did: the same output cut off, and nothing of it kept."""
        if before is None or not (self.cut_off and before.cut_off):
            return False
        return _place(self.in_progress_item) == _place(before.in_progress_item)


def missing_context(manifest: Manifest) -> str | None:
    """The question that a manifest leaves open: what remains of the item in progress, where nobody said it."""
    item = manifest.in_progress_item
    if item is None or item.remaining_work or item.partial_state or item.progress == 0:
        return None
    done = f" ({item.last_action})" if item.last_action else ""
    return f"You were working on {item.file}{done}. What have you done in it, and what remains to be done?"


def with_remaining_work(manifest: Manifest, answer: str | None) -> Manifest:
    """The manifest with the predecessor's answer; without one, the gap is an issue and not silence."""
    item = manifest.in_progress_item
    if item is None:
        return manifest
    if answer is None:
        gap = Issue(issue="it is not known what remains to be done; compare the file with the goal", file=item.file)
        return manifest.model_copy(update={"issues_encountered": (*manifest.issues_encountered, gap)})
    asked = f"what remains of {item.file} was asked of the predecessor"
    return manifest.model_copy(
        update={
            "in_progress_item": item.model_copy(update={"remaining_work": (answer,)}),
            "verification": Verification(corrections=(*manifest.verification.corrections, asked)),
        }
    )


class HandOffClaim(Submitted):
    """What the model may say in `hand_off`."""

    in_progress_item: InProgressItem | None = None
    notes: str | None = None
    decisions_made: tuple[Decision, ...] = ()
    issues_encountered: tuple[Issue, ...] = ()
    patterns_established: tuple[str, ...] = ()


class Handing(Stored):
    """The circumstances of a handoff, known to the workflow."""

    agent_id: str
    successor_id: str | None
    task_id: str
    task: str
    reason: HandoffReason
    from_agent: FromAgent
    step: PlanStep | None = None
    completed_steps: tuple[int, ...] = ()
    done_before: tuple[ItemRecord, ...] = ()
    inherited: Manifest | None = None
    chain: tuple[Link, ...] = ()
    commit: str | None = None
    at: datetime
    trip: Trip | None = None


def complete(
    handing: Handing, facts: AgentFacts, changed: Iterable[str] = (), corrections: Iterable[str] = ()
) -> Manifest:
    """The verified manifest.

    `changed`: paths that differ from where the step started, used to tell how far the item in progress is.
    `corrections`: what was found before, for example a lost conversation.
    """
    claim, found = _claim(facts)
    corrections = (*corrections, *found)
    inherited = handing.inherited
    pending = facts.open_items()
    in_progress, more = _in_progress(claim, facts, pending, frozenset(changed))
    finished = tuple(
        record.item for record in (*handing.done_before, *facts.records.values()) if record.status.finished
    )
    link = (
        ()
        if handing.successor_id is None
        else (
            Link(
                **{"from": handing.agent_id},
                to=handing.successor_id,
                reason=handing.reason,
                at=handing.at,
                commit=handing.commit,
            ),
        )
    )
    return Manifest(
        agent_id=handing.agent_id,
        task_id=handing.task_id,
        step=handing.step.step if handing.step else None,
        reason=handing.reason,
        status="handoff_required" if handing.successor_id else "stopped",
        from_agent=handing.from_agent,
        to_agent=ToAgent(id=handing.successor_id) if handing.successor_id else None,
        context=Context(
            original_task=handing.task,
            current_step=handing.step.step if handing.step else None,
            completed_steps=handing.completed_steps,
            success_criteria=handing.step.success_criteria if handing.step else (),
        ),
        completed_items=finished,
        in_progress_item=in_progress,
        cut_off=in_progress is not None and facts.saved_part is not None and in_progress.file == facts.saved_part.file,
        pending_items=tuple(item for item in pending if in_progress is None or item != in_progress.file),
        decisions_made=_decisions(facts.knowledge, inherited),
        issues_encountered=_issues(facts.knowledge, inherited),
        patterns_established=_patterns(facts.knowledge, inherited),
        notes=claim.notes,
        verification=Verification(corrections=(*corrections, *more)),
        chain=(*handing.chain, *link),
        trip=handing.trip,
    )


def _claim(facts: AgentFacts) -> tuple[HandOffClaim, list[str]]:
    submission = facts.submission
    if submission is None or submission.tool != "hand_off":
        return HandOffClaim(), ["the agent left no hand_off; everything here comes from facts"]
    try:
        return HandOffClaim.model_validate(submission.input), []
    except ValidationError as error:
        return HandOffClaim(), [
            f"the agent's hand_off could not be read ({error.error_count()} faults) and was left out"
        ]


def _in_progress(
    claim: HandOffClaim, facts: AgentFacts, pending: Sequence[str], changed: frozenset[str]
) -> tuple[InProgressItem | None, list[str]]:
    claimed = claim.in_progress_item
    if (part := facts.saved_part) is not None and part.file not in facts.records:
        return _from_part(part, claimed), []
    if claimed is not None and claimed.file in facts.records:
        return None, [f"{claimed.file} claimed in progress, but it is recorded as {facts.records[claimed.file].status}"]
    if claimed is not None and facts.items and claimed.file not in pending:
        return None, [f"{claimed.file} claimed in progress, but it is no open item of this step"]
    if claimed is not None:
        return claimed, []
    if facts.current_item in pending and facts.current_item is not None:
        touched = facts.current_item in changed
        action = "changed, not yet completed" if touched else "read, nothing changed yet"
        return InProgressItem(file=facts.current_item, progress=None if touched else 0, last_action=action), []
    return None, []


def _from_part(part: SavedPart, claimed: InProgressItem | None) -> InProgressItem:
    """Where a cut write left its file; what is on disk is known better than any claim."""
    remaining = claimed.remaining_work if claimed is not None and claimed.file == part.file else ()
    if part.replaces:
        action = "a rewrite of the whole file was cut off at the token limit; the file is as it was before"
        todo = (*remaining, "change the file with edit, in small pieces; do not write it as a whole again")
    elif part.line_number == 0:
        action = "the write was cut off before its first line was complete; nothing is on disk"
        todo = (*remaining, "write the beginning of the file, then go on with append, in small pieces")
    else:
        action = f"the first {part.line_number} lines are on disk"
        todo = (*remaining, f"go on with append at_line {part.line_number}; do not start again")
    return InProgressItem(
        file=part.file,
        line_number=part.line_number,
        progress=claimed.progress if claimed is not None and claimed.file == part.file else None,
        last_action=action,
        remaining_work=todo,
        partial_state=part.rest or None,
    )


def _place(item: InProgressItem | None) -> tuple[str, int | None] | None:
    return (item.file, item.line_number) if item else None


def _decisions(knowledge: Iterable[Entry], inherited: Manifest | None) -> tuple[Decision, ...]:
    """What this agent decided, after what the chain before it had decided: nothing is lost on the way."""
    before = inherited.decisions_made if inherited else ()
    own = (Decision(decision=e.text, rationale=e.rationale or "") for e in knowledge if e.kind == "decision")
    return tuple({decision.decision: decision for decision in (*before, *own)}.values())[-ENTRIES_CARRIED:]


def _issues(knowledge: Iterable[Entry], inherited: Manifest | None) -> tuple[Issue, ...]:
    before = inherited.issues_encountered if inherited else ()
    own = (Issue(issue=e.text, file=e.file, resolution=e.resolution) for e in knowledge if e.kind == "issue")
    return tuple({(issue.file, issue.issue): issue for issue in (*before, *own)}.values())[-ENTRIES_CARRIED:]


def _patterns(knowledge: Iterable[Entry], inherited: Manifest | None) -> tuple[str, ...]:
    before = inherited.patterns_established if inherited else ()
    own = (entry.text for entry in knowledge if entry.kind == "pattern")
    return tuple(dict.fromkeys([*before, *own]))[-ENTRIES_CARRIED:]

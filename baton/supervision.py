"""When finished work is reviewed and why, and what follows a verdict: the retry's assignment, a step that failed.

Reasons come from facts: what the agent claims beyond them, and what is risky to get wrong whoever did it.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from baton.breakers import TripKind
from baton.ledger import ItemStatus, counts
from baton.manifest import Context, FromAgent, HandoffReason, Link, Manifest, ToAgent
from baton.messages import AgentResult, Assignment
from baton.ownership import Allowed, Ownership
from baton.path_patterns import matches
from baton.plan import PlanStep
from baton.pricing import Usage
from baton.reviews import Decision, Review, Subject
from baton.roles import agent_id
from baton.settings import ReviewWhen
from baton.states import AgentEnd

RISKY = (
    *(".github/workflows/**", ".gitlab-ci.yml", "**/Dockerfile*", "**/migrations/**", "**/*.sql", "**/*.tf"),
    *("**/auth/**", "**/auth.*", "**/security/**", "**/*crypt*.*", "**/*payment*.*"),
)
"""Paths where a fault costs more than a review."""

BEYOND_ITEMS = 10
"""So many changed files that no item names are more than side effects."""
PATHS_SHOWN = 200


def review_reasons(when: ReviewWhen, step: PlanStep, result: AgentResult) -> tuple[str, ...]:
    """Why the work of a chain is reviewed now; empty when it is not. Work that did not end by itself is partial
    anyway and is not reviewed."""
    if result.end is not AgentEnd.FINISHED or _said(result).get("status") not in {"ok", "partial"}:
        return ()
    if result.reviews and result.reviews[-1].decision is Decision.NOT_REVIEWED:
        return ()
    if result.reviews:
        return ("it was sent back and done again",)
    match when:
        case "never":
            return ()
        case "always":
            return ("every step is reviewed (review: always)",)
        case "auto":
            # Repairs are judged by the gates that asked for them.
            return () if step.repair_round else (*_claims(step, result), *_risks(step, result))


def subject(step: PlanStep, result: AgentResult, since: str, reasons: Sequence[str]) -> Subject:
    """What a reviewer gets to know of the work."""
    said = _said(result)
    shown = {
        key: said.get(key) for key in ("status", "summary", "criteria", "findings", "blockers", "verification_gaps")
    }
    return Subject(
        result=shown
        | {
            "agent": result.agent_id,
            "items": counts(result.items).model_dump(),
            "skipped": [f"{r.item}: {r.note or ''}" for r in result.items if r.status is ItemStatus.SKIPPED][:50],
            "files_changed": list(result.changed[:PATHS_SHOWN]),
        },
        since=since,
        reasons=tuple(reasons),
        feedback_before=tuple(review.feedback for review in result.reviews if review.feedback),
    )


def sent_back(assignment: Assignment, result: AgentResult, review: Review, at: datetime) -> Assignment:
    """The executor's assignment after a review: the same workspace, the feedback, and what is to be done again.

    Items that the review named are open again; names that are no items of this chain are left out.
    """
    kept = tuple(r for r in result.items if r.item not in review.reopen and r.status.finished)
    done = {record.item for record in kept}
    open_items = tuple(record.item for record in result.items if record.item not in done)
    generation = int(result.agent_id.rpartition("~")[2]) if "~" in result.agent_id else 1
    following = agent_id(assignment.name, generation + 1)
    reason = HandoffReason.SUBTASK_COMPLETE
    link = Link(**{"from": result.agent_id}, to=following, reason=reason, at=at, commit=result.commit)
    chain = (*assignment.chain, link)
    step = assignment.step
    manifest = Manifest(
        agent_id=result.agent_id,
        task_id=assignment.task_id,
        step=step.step if step else None,
        reason=reason,
        from_agent=FromAgent(
            id=result.agent_id,
            output_tokens=result.totals.usage.output_tokens,
            turns=result.totals.turns,
            model=assignment.model,
        ),
        to_agent=ToAgent(id=following),
        context=Context(
            original_task=assignment.task,
            current_step=step.step if step else None,
            completed_steps=assignment.completed_steps,
            success_criteria=step.success_criteria if step else (),
        ),
        completed_items=tuple(done),
        pending_items=open_items,
        notes=f"A review sent this work back. Mend what it names, then finish the step again.\n{review.feedback}",
        chain=chain,
    )
    return assignment.model_copy(
        update={
            "generation": generation + 1,
            "items": open_items,
            "done": kept,
            "manifest": manifest,
            "chain": chain,
            "knowledge": result.knowledge,
        }
    )


def after_retry(before: AgentResult, again: AgentResult) -> AgentResult:
    """Both rounds as one result: what the second says counts, what both used adds up."""
    return again.model_copy(
        update={
            "totals": before.totals + again.totals,
            "changed": tuple(dict.fromkeys((*before.changed, *again.changed))),
            "reviews": before.reviews,
        }
    )


def with_review(result: AgentResult, review: Review, usage: Usage) -> AgentResult:
    """The result with what a review said of it and used."""
    totals = result.totals.model_copy(update={"usage": result.totals.usage + usage})
    return result.model_copy(update={"reviews": (*result.reviews, review), "totals": totals})


def failed_by_review(result: AgentResult, feedback: str) -> AgentResult:
    """Work that a person did not accept: it stays in its workspace, and nothing of it counts as done."""
    why = f"failed in review: {feedback or 'without a reason'}"[:500]
    items = tuple(
        record.model_copy(update={"status": ItemStatus.FAILED, "note": why}) if record.status.done else record
        for record in result.items
    )
    return result.model_copy(update={"end": AgentEnd.BLOCKED, "detail": why, "items": items, "rejected": True})


def _claims(step: PlanStep, result: AgentResult) -> list[str]:
    """What the agent says beyond what facts show."""
    said = _said(result)
    if said.get("status") != "ok":
        return []
    rows = {str(row.get("criterion")): row for row in said.get("criteria") or ()}
    unsaid = [text for text in step.success_criteria if text not in rows]
    bare = [text for text, row in rows.items() if row.get("met") and not str(row.get("evidence") or "").strip()]
    found = []
    if unsaid:
        found.append(f"it says ok and nothing of {_few(unsaid)}")
    if bare:
        found.append(f"it says without evidence that this is met: {_few(bare)}")
    unmet = [text for text, row in rows.items() if not row.get("met") and not str(row.get("evidence") or "").strip()]
    if unmet:
        found.append(f"it says ok though this is not met: {_few(unmet)}")
    if said.get("blockers"):
        found.append(f"it says ok though something is in the way: {_few(said['blockers'])}")
    return found


def _risks(step: PlanStep, result: AgentResult) -> list[str]:
    risky = [path for path in result.changed if any(matches(pattern, path) for pattern in RISKY)]
    # The chain's own items: with those of the whole step every shard of a large one would cost the workflow seconds.
    own = Ownership(items=tuple(record.item for record in result.items) or step.items, owns=step.owns)
    beside = [path for path in result.changed if step.items and not isinstance(own.may_write(path, True), Allowed)]
    found = []
    if risky:
        found.append(f"it changed what is risky to get wrong: {_few(risky)}")
    if len(beside) > BEYOND_ITEMS:
        found.append(f"it changed {len(beside)} files beside its items")
    if result.totals.trips:
        found.append(f"an agent of it was replaced ({TripKind.LOOP_DETECTED})")
    return found


def _said(result: AgentResult) -> dict[str, Any]:
    submission = result.submission
    return dict(submission.input) if submission and submission.tool == "finish_step" else {}


def _few(texts: Sequence[Any]) -> str:
    shown = ", ".join(str(text)[:120] for text in texts[:3])
    return shown if len(texts) <= 3 else f"{shown} and {len(texts) - 3} more"

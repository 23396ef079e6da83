"""The calls that say something about the work rather than do it: completing items, recording, submitting.

Each is judged against facts that the caller gathered; what the judgement gives is an answer for the model and what is
now known. Nothing here is believed because the model said it.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ValidationError

from baton.expansion import expand
from baton.facts import AgentFacts, Question, Submission, TurnFacts, judge_completion
from baton.knowledge import Decision, Entry, Issue, Need, entries
from baton.ledger import ItemRecord, ItemStatus
from baton.ownership import Allowed, Ownership
from baton.plan import Plan, PlanDraft, PlanFaults
from baton.tool_inputs import AskUser

ITEMS_NAMED = 20
QUESTIONS_AT_MOST = 5
NO_ANSWER = "No answer was given. Decide yourself what serves the task best, and go on."


@dataclass(frozen=True)
class Evidence:
    """What is known at the moment of a call. `changed`: paths that differ from where the step started. `unresolved`:
    places that still hold conflict markers."""

    facts: AgentFacts
    agent_id: str
    at: datetime
    changed: Collection[str] = ()
    files: Collection[str] = ()
    task_id: str = ""
    missing_outputs: Collection[str] = ()
    outputs: Collection[str] = ()
    unresolved: Collection[str] = ()


@dataclass(frozen=True)
class Judgement:
    """The answer to the model, and what is known from now on."""

    text: str
    is_error: bool = False
    facts: TurnFacts = field(default_factory=TurnFacts)


def judge(name: str, arguments: BaseModel, evidence: Evidence) -> Judgement:
    """The judgement of one bookkeeping call with valid arguments. KeyError for a tool that is none."""
    return JUDGES[name](arguments.model_dump(mode="json"), evidence)


def asked(call_id: str, arguments: AskUser, so_far: AgentFacts) -> Judgement:
    """A question to the person: its answer takes the place of this result, with the next message."""
    if so_far.questions >= QUESTIONS_AT_MOST:
        return Judgement(
            text=f"You asked {QUESTIONS_AT_MOST} questions already. Decide yourself and go on.", is_error=True
        )
    question = Question(call_id=call_id, question=arguments.question, options=tuple(arguments.options))
    return Judgement(text=NO_ANSWER, facts=TurnFacts(questions=1, asked=(question,)))


def unreadable_hand_off(raw: Any) -> TurnFacts:
    """A `hand_off` whose arguments are faulty still ends the agent: the manifest is completed from facts."""
    return TurnFacts(
        submission=Submission(tool="hand_off", input=raw if isinstance(raw, dict) else {"unreadable": True})
    )


def _complete_item(arguments: dict[str, Any], evidence: Evidence) -> Judgement:
    item = arguments["item"]
    verdict = judge_completion(
        evidence.facts,
        item,
        arguments.get("outcome") or "changed",
        has_diff=has_diff(item, evidence.changed),
        was_read=item in evidence.facts.read,
    )
    if not isinstance(verdict, ItemStatus):
        return Judgement(verdict, is_error=True)
    record = ItemRecord(item=item, status=verdict, agent_id=evidence.agent_id, note=arguments.get("note"))
    left = len(evidence.facts.open_items()) - 1
    return Judgement(f"{item} is recorded as {verdict}. {left} items are left.", facts=TurnFacts(items=(record,)))


def has_diff(item: str, changed: Collection[str]) -> bool:
    """Whether the item, or a path in its folder with its stem, is among the changed ones."""
    if item in changed:
        return True
    own = Ownership(items=(item,))
    return any(isinstance(own.may_write(path, exists=True), Allowed) for path in changed)


def _record(arguments: dict[str, Any], evidence: Evidence) -> Judgement:
    given = (arguments.get(key) for key in ("decisions", "patterns", "issues", "needs"))
    new = _entries(evidence, *given)
    return Judgement(f"Recorded {len(new)} entries.", facts=TurnFacts(knowledge=new))


def _entries(evidence: Evidence, decisions: Any, patterns: Any, issues: Any, needs: Any = ()) -> tuple[Entry, ...]:
    return entries(
        evidence.agent_id,
        evidence.at,
        decisions=[Decision.model_validate(decision) for decision in decisions or ()],
        patterns=patterns or (),
        issues=[Issue.model_validate(issue) for issue in issues or ()],
        needs=[Need.model_validate(need) for need in needs or ()],
    )


def _hand_off(arguments: dict[str, Any], evidence: Evidence) -> Judgement:
    said = _entries(
        evidence,
        arguments.get("decisions_made"),
        arguments.get("patterns_established"),
        arguments.get("issues_encountered"),
    )
    submission = Submission(tool="hand_off", input=arguments)
    return Judgement("The work is handed to your successor.", facts=TurnFacts(submission=submission, knowledge=said))


def _finish_step(arguments: dict[str, Any], evidence: Evidence) -> Judgement:
    left = evidence.facts.open_items()
    if arguments["status"] == "ok" and left:
        more = f" and {len(left) - ITEMS_NAMED} more" if len(left) > ITEMS_NAMED else ""
        named = ", ".join(left[:ITEMS_NAMED]) + more
        return Judgement(
            f"The step is not finished: {len(left)} items are not completed: {named}. "
            "Complete each with complete_item, or finish as partial, blocked or failed and say why in blockers.",
            is_error=True,
            facts=TurnFacts(refused_submissions=1),
        )
    if arguments["status"] == "ok" and evidence.missing_outputs:
        named = ", ".join(sorted(evidence.missing_outputs))
        return Judgement(
            f"The step is not finished: later steps need {named}. Write it with write, or finish as partial.",
            is_error=True,
            facts=TurnFacts(refused_submissions=1),
        )
    if arguments["status"] in {"partial", "blocked", "failed"} and not arguments.get("blockers"):
        return Judgement(
            f"Status {arguments['status']} needs at least one entry in blockers that says what is in the way.",
            is_error=True,
            facts=TurnFacts(refused_submissions=1),
        )
    if arguments["status"] == "ok" and not _shows_anything(arguments, evidence):
        return Judgement(
            "Nothing shows that this step is done: no file changed, nothing was recorded, no criterion has evidence. "
            "Do the work, or name in criteria what you checked and what came out, or finish as partial or blocked.",
            is_error=True,
            facts=TurnFacts(refused_submissions=1),
        )
    return Judgement("The step is finished.", facts=_submitted("finish_step", arguments))


def _shows_anything(arguments: dict[str, Any], evidence: Evidence) -> bool:
    """Whether a step that says ok left anything that can be looked at; one with items has their records."""
    facts = evidence.facts
    by_agent = (facts.items, facts.records, facts.written, facts.knowledge, arguments.get("findings"))
    left = (*by_agent, evidence.changed, evidence.outputs)
    return any(left) or any(str(row.get("evidence") or "").strip() for row in arguments.get("criteria") or ())


def _submit_plan(arguments: dict[str, Any], evidence: Evidence) -> Judgement:
    try:
        plan: Plan = expand(PlanDraft.model_validate(arguments), evidence.task_id, evidence.files)
    except (PlanFaults, ValidationError) as error:
        return Judgement(
            f"The plan is not accepted yet. Mend these faults and submit the whole plan again:\n{error}",
            is_error=True,
            facts=TurnFacts(refused_submissions=1),
        )
    return Judgement("The plan is accepted.", facts=_submitted("submit_plan", plan.model_dump(mode="json")))


def _submit_resolution(arguments: dict[str, Any], evidence: Evidence) -> Judgement:
    """Markers come back once; left again, they say that a person must decide."""
    left = list(evidence.unresolved)
    if left and not evidence.facts.refused_submissions:
        return Judgement(
            f"The conflict is not resolved: {'; '.join(left)}. Resolve these places and submit again. Where a person "
            "must decide, leave the markers, say in rationale what is to be decided, and submit again.",
            is_error=True,
            facts=TurnFacts(refused_submissions=1),
        )
    return Judgement("Received.", facts=_submitted("submit_resolution", arguments | {"unresolved": left}))


def _submit_review(arguments: dict[str, Any], _: Evidence) -> Judgement:
    faults = []
    if arguments["approved"] and arguments["retry"]:
        faults.append("approved and retry contradict each other: choose one")
    if not arguments["approved"] and not arguments["feedback"].strip():
        faults.append("a verdict that is no approval needs feedback that names file and fault")
    if faults:
        return Judgement("; ".join(faults), is_error=True, facts=TurnFacts(refused_submissions=1))
    return Judgement("Received.", facts=_submitted("submit_review", arguments))


def _submit(tool: str) -> Callable[[dict[str, Any], Evidence], Judgement]:
    def judge_submission(arguments: dict[str, Any], _: Evidence) -> Judgement:
        return Judgement("Received.", facts=_submitted(tool, arguments))

    return judge_submission


def _submitted(tool: str, arguments: dict[str, Any]) -> TurnFacts:
    return TurnFacts(submission=Submission(tool=tool, input=arguments))


JUDGES: dict[str, Callable[[dict[str, Any], Evidence], Judgement]] = {
    "complete_item": _complete_item,
    "record": _record,
    "hand_off": _hand_off,
    "finish_step": _finish_step,
    "submit_plan": _submit_plan,
    "submit_review": _submit_review,
    "submit_resolution": _submit_resolution,
    "submit_integration": _submit("submit_integration"),
}
"""The bookkeeping tools; every other tool is a file tool or `bash`."""

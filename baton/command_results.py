"""From what the commands of a `run` step did to its result, and to that of the step that takes its failures."""

from collections.abc import Sequence

from baton.facts import Submission
from baton.ledger import ItemRecord, ItemStatus, counts, merge
from baton.messages import AgentResult, CommandsRun, StepResult
from baton.plan import PlanStep
from baton.run_commands import failed, per_item
from baton.states import AgentEnd, StepStatusWord
from baton.wording import counted


def commands_result(
    step: PlanStep, ran: CommandsRun, end: AgentEnd, detail: str = "", *, failures_are_taken: bool = False
) -> AgentResult:
    """What the commands of a step came to, in the form of an agent's result. No agent took part.

    `failures_are_taken`: a later step takes the items that failed, so they do not make this one fail.
    """
    records = merge(step.items, ran.records)
    failures = failed(records)
    done = sum(record.status.done for record in records)
    status = "ok"
    if ran.refused:
        status, end = "blocked", AgentEnd.FINISHED
    elif ran.failure or failures:
        status = "partial" if done or failures_are_taken else "failed"
    summary = f"`{step.run}` ran for {done + len(failures)} of {len(records)} items; {len(failures)} failed."
    if not records:
        summary = f"`{step.run}` " + ("failed." if ran.failure else "ran.")
    given_on = failures_are_taken and bool(failures)
    reported = () if given_on else tuple(r for r in records if r.status is ItemStatus.FAILED)
    return AgentResult(
        agent_id=f"run-{step.step}",
        end=end,
        detail=detail,
        submission=Submission(
            tool="finish_step",
            input={
                "status": status,
                "summary": summary,
                "blockers": [text for text in (ran.refused, "" if given_on else ran.failure) if text],
                "findings": [
                    *({"finding": remark, "severity": "medium"} for remark in ran.remarks),
                    *_failures_by_note(reported if per_item(step.run or "") else ()),
                ],
            },
        ),
        items=records,
        commit=ran.commit,
    )


def without_failures(result: StepResult, records: Sequence[ItemRecord], taker: int) -> StepResult:
    """A step's result once another step took the items that failed; `records` are what is left of its own."""
    items = counts(records)
    moved = result.items.total - items.total
    if not moved:
        return result
    complete = items.done == items.total and result.status is StepStatusWord.PARTIAL and not result.blockers
    finding = {"finding": f"{counted(moved, 'item')} failed and went to step {taker}", "severity": "low"}
    return result.model_copy(
        update={
            "items": items,
            "status": StepStatusWord.OK if complete else result.status,
            "findings": (*result.findings, finding),
        }
    )


def nothing_to_take(step: PlanStep) -> StepResult:
    """A step for failures where there are none."""
    return StepResult(
        step=step.step,
        agent_type=step.agent_type,
        description=step.description,
        status=StepStatusWord.OK,
        summary=f"No item of step {step.failures_of} failed, so there was nothing to do.",
    )


def _failures_by_note(records: Sequence[ItemRecord]) -> list[dict[str, object]]:
    """Failed items as findings, those that failed alike together."""
    by_note: dict[str, list[str]] = {}
    for record in records:
        by_note.setdefault(record.note or "", []).append(record.item)
    return [
        {
            "finding": f"the command failed for {counted(len(items), 'item')}: {note}",
            "files": items,
            "severity": "high",
            "suggested_action": "do these by hand, or give them to a step with failures_of",
        }
        for note, items in by_note.items()
    ]

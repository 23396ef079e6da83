"""A new plan for what an earlier one left: numbers go on, finished work stays, nothing falls between the two."""

from collections.abc import Mapping, Sequence

from baton.ledger import ItemRecord, counts
from baton.messages import StepResult
from baton.models import Stored
from baton.plan import Plan, PlanStep
from baton.states import StepStatusWord
from baton.step_outputs import output_of

MOVED = "re-planned: {count} open items went to later steps"


class Replanned(Stored):
    """The plan that goes on, with results and records of the steps that are over."""

    plan: Plan
    results: dict[int, StepResult]
    records: dict[int, tuple[ItemRecord, ...]]


def replanned(
    before: Plan, results: Mapping[int, StepResult], records: Mapping[int, Sequence[ItemRecord]], new: Plan
) -> Replanned:
    """Put `new` after what is over of `before`. Steps without a result are dropped: `new` stands for them.

    An open item that a new step takes leaves the old step's records; one that nobody takes stays open there, so that
    the task says partial.
    """
    offset = max((step.step for step in before.plan), default=0)
    added = tuple(_renumbered(step, offset) for step in new.plan)
    taken = {item for step in added for item in step.items}
    kept = tuple(step for step in before.plan if step.step in results)
    records_after = {
        number: tuple(r for r in rows if r.status.finished or r.item not in taken) for number, rows in records.items()
    }
    results_after = {
        number: _result(result, records.get(number, ()), records_after.get(number, ()))
        for number, result in results.items()
    }
    plan = new.model_copy(update={"plan": (*kept, *added), "notes": (*before.notes, *new.notes)})
    return Replanned(plan=plan, results=results_after, records=records_after)


def remark(plan: Plan, results: Mapping[int, StepResult], records: Mapping[int, Sequence[ItemRecord]]) -> str:
    """What the planner must know: which steps are over, and what is left."""
    lines = ["The work was stopped for a new plan. Plan only what is left; number the steps from 1 again."]
    for step in plan.plan:
        result = results.get(step.step)
        if result is None:
            lines.append(f"Not started: step {step.step}, {step.description} ({len(step.items)} items)")
            continue
        left = [record.item for record in records.get(step.step, ()) if not record.status.finished]
        told = f"Over: step {step.step} ({result.status}), {step.description}"
        named = f"; still open: {', '.join(left[:100])}" if left else ""
        why = f"; in the way: {'; '.join(result.blockers)[:500]}" if result.blockers else ""
        lines.append(told + named + why)
        lines += [f"A reviewer wants of later steps: {text}" for r in result.reviews for text in r.plan_adjustments]
    return "\n".join(lines)


def _renumbered(step: PlanStep, offset: int) -> PlanStep:
    return step.model_copy(
        update={
            "step": step.step + offset,
            "depends_on": tuple(number + offset for number in step.depends_on),
            "input_context": _moved(step.input_context, offset),
            "failures_of": None if step.failures_of is None else step.failures_of + offset,
        }
    )


def _moved(input_context: str | None, offset: int) -> str | None:
    found = output_of(input_context) if input_context else None
    return f"{found[0] + offset}/{found[1]}" if found else input_context


def _result(result: StepResult, before: Sequence[ItemRecord], after: Sequence[ItemRecord]) -> StepResult:
    moved = len(before) - len(after)
    if not moved:
        return result
    items = counts(after)
    complete = items.done == items.total
    return result.model_copy(
        update={
            "items": items,
            "status": StepStatusWord.OK if complete else result.status,
            "blockers": () if complete else result.blockers,
            "findings": (*result.findings, {"finding": MOVED.format(count=moved), "severity": "low"}),
        }
    )

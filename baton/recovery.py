"""What follows when steps came to less than they should: nothing, a new plan for what is left, or a person.

Transient faults never get here: their activities are retried. What is critical (credentials, a lost repository) is a
question of its own. What is left is persistent: the same work in the same way would fail again. What a failed step left
usable is on the result already, and the planner is told what is over and what is in the way.
"""

from collections.abc import Iterable
from enum import StrEnum

from baton.bounds import AUTOMATIC_REPLANS, PLANS
from baton.breakers import TripKind
from baton.messages import AgentResult, MergedStep, StepResult
from baton.plan import PlanStep
from baton.states import AgentEnd, StepStatusWord

REPLAN, INTEGRATE = "replan", "integrate"
CHOICES = (REPLAN, INTEGRATE)


class Recovery(StrEnum):
    """What follows."""

    NONE = "none"
    REPLAN = "replan"
    ATTENTION = "attention"


def is_persistent(step: PlanStep, agent: AgentResult, merged: MergedStep | None, status: StepStatusWord) -> bool:
    """Whether a step fell short in a way that another plan may mend: not by a limit, a person, or a conflict."""
    if status is StepStatusWord.OK or step.run is not None or step.repair_round:
        return False
    if agent.rejected or agent.stopped_by_person or (merged is not None and merged.conflicts):
        return False
    if agent.trip is not None:
        return agent.trip.kind is TripKind.LOOP_DETECTED
    if agent.end is AgentEnd.FINISHED:
        # What an agent skipped with a reason is its answer; what it left open, or could not do at all, is not.
        said = agent.submission.input.get("status") if agent.submission is not None else None
        return said in {"blocked", "failed"} or any(not record.status.finished for record in agent.items)
    return agent.end in {AgentEnd.FAILED, AgentEnd.BLOCKED}


def recovery(
    results: Iterable[StepResult], *, plans: int, own_plan: bool, at_a_limit: bool, attended: bool
) -> Recovery:
    """What follows the execution of a plan.

    `plans`: how many plans the task had. `own_plan`: the plan is the user's, which nobody replaces unasked.
    """
    if own_plan or at_a_limit or plans >= PLANS or not any(result.persistent for result in results):
        return Recovery.NONE
    if plans <= AUTOMATIC_REPLANS:
        return Recovery.REPLAN
    return Recovery.ATTENTION if attended else Recovery.NONE


def question(results: Iterable[StepResult]) -> str:
    """What a person is asked when new plans did not help."""
    lines = [f"step {r.step} is {r.status}: {'; '.join(r.blockers)[:300]}" for r in results if r.persistent]
    return f"{AUTOMATIC_REPLANS} new plans did not finish the task. " + " ".join(lines[:5])

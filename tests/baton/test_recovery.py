"""What follows when steps fell short: new plans, a bounded number of times, then a person; never for some causes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.bounds import AUTOMATIC_REPLANS, PLANS
from baton.breakers import TripKind, limit_trip
from baton.facts import Submission
from baton.ledger import ItemRecord, ItemStatus
from baton.messages import AgentResult, MergedStep, StepResult
from baton.plan import PlanStep
from baton.recovery import Recovery, is_persistent, recovery
from baton.results import step_result
from baton.states import AgentEnd, StepStatusWord

STEP = PlanStep(step=1, agent_type="x", description="Do it.", items=("a.py",))
OPEN = (ItemRecord(item="a.py"),)
SKIPPED = (ItemRecord(item="a.py", status=ItemStatus.SKIPPED, note="generated"),)


def ended(end: AgentEnd, said: str | None = None, **fields: Any) -> AgentResult:
    submission = Submission(tool="finish_step", input={"status": said}) if said else None
    return AgentResult(**{"agent_id": "e", "end": end, "submission": submission, "items": OPEN, **fields})


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        (ended(AgentEnd.FAILED), True),
        (ended(AgentEnd.BLOCKED), True),
        (ended(AgentEnd.FINISHED, "blocked"), True),
        (ended(AgentEnd.FINISHED, "partial"), True),
        (ended(AgentEnd.STOPPED, trip=limit_trip(TripKind.LOOP_DETECTED, "x")), True),
        (ended(AgentEnd.FINISHED, "partial", items=SKIPPED), False),
        (ended(AgentEnd.STOPPED, trip=limit_trip(TripKind.TOKEN_LIMIT, "x")), False),
        (ended(AgentEnd.STOPPED), False),
        (ended(AgentEnd.CANCELLED), False),
        (ended(AgentEnd.BLOCKED, rejected=True), False),
        (ended(AgentEnd.BLOCKED, stopped_by_person=True), False),
    ],
)
def test_what_another_plan_may_mend(agent: AgentResult, expected: bool) -> None:
    assert step_result(STEP, agent, None).persistent is expected


def test_conflicts_and_repairs_have_their_own_ways() -> None:
    conflict = MergedStep(commit="c", merged=False, conflicts=("a.py",))
    assert not is_persistent(STEP, ended(AgentEnd.FAILED), conflict, StepStatusWord.FAILED)
    repair = STEP.model_copy(update={"repair_round": 1})
    assert not is_persistent(repair, ended(AgentEnd.FAILED), None, StepStatusWord.FAILED)


def short(**fields: Any) -> StepResult:
    return StepResult(**{"step": 1, "status": StepStatusWord.PARTIAL, "persistent": True, **fields})


USUAL = {"plans": 1, "own_plan": False, "at_a_limit": False, "attended": True}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, Recovery.REPLAN),
        ({"plans": AUTOMATIC_REPLANS}, Recovery.REPLAN),
        ({"plans": AUTOMATIC_REPLANS + 1}, Recovery.ATTENTION),
        ({"plans": AUTOMATIC_REPLANS + 1, "attended": False}, Recovery.NONE),
        ({"plans": PLANS}, Recovery.NONE),
        ({"own_plan": True}, Recovery.NONE),
        ({"at_a_limit": True}, Recovery.NONE),
    ],
)
def test_what_follows(fields: dict[str, Any], expected: Recovery) -> None:
    assert recovery([short()], **(USUAL | fields)) is expected
    assert recovery([short(persistent=False)], **(USUAL | fields)) is Recovery.NONE


@given(st.booleans())
def test_plans_end(attended: bool) -> None:
    plans = 1
    while recovery([short()], **(USUAL | {"plans": plans, "attended": attended})) is not Recovery.NONE:
        plans += 1
        assert plans <= PLANS

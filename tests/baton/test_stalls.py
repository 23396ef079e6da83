"""A silent model: waited for, then a fresh agent with a re-brief, then a report; bounded however long it lasts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.plan import PlanStep
from baton.stalls import CRITERIA_CHARACTERS, WAITS, Decision, decide, stall_trip

STEP = PlanStep(step=4, agent_type="editor", description="Edit", success_criteria=("it works", "tests pass"))


@pytest.mark.parametrize(
    ("in_a_row", "trips_before", "expected"),
    [
        (1, 0, Decision.WAIT),
        (WAITS, 0, Decision.WAIT),
        (WAITS, 5, Decision.WAIT),
        (WAITS + 1, 0, Decision.REBRIEF),
        (WAITS + 1, 1, Decision.REPORT),
        (WAITS + 9, 1, Decision.REPORT),
    ],
)
def test_decisions(in_a_row: int, trips_before: int, expected: Decision) -> None:
    assert decide(in_a_row, trips_before) is expected


@given(st.integers(1, 10_000), st.integers(0, 10))
def test_no_agent_waits_for_ever(in_a_row: int, trips_before: int) -> None:
    assert (decide(in_a_row, trips_before) is Decision.WAIT) == (in_a_row <= WAITS)


def test_the_re_brief_names_the_work_and_what_is_expected() -> None:
    trip = stall_trip(3, 7, "edit a.py", STEP)
    assert trip.evidence == "the model fell silent 3 times in a row in turn 7 after edit a.py"
    assert "step 4 (tasks/4.yaml), expected is: it works; tests pass" in trip.recommendation
    long = STEP.model_copy(update={"success_criteria": ("x" * 5_000,)})
    assert len(stall_trip(3, 7, "", long).recommendation) < CRITERIA_CHARACTERS + 200
    assert "tasks" not in stall_trip(3, 1, "", None).recommendation

"""What changes a status, and how it is told."""

import pytest

from baton.ledger import ItemCounts
from baton.messages import StepResult
from baton.states import StepStatusWord
from baton.status import StepStatus, TaskStatus
from baton.status_changes import with_result

STATUS = TaskStatus(steps=(StepStatus(step=1, agent_type="a", description="d", state="running"),))


@pytest.mark.parametrize(
    ("word", "cancelled", "unmerged", "state", "told"),
    [
        (StepStatusWord.FAILED, False, False, "failed", "step 1 failed: 1/3 items done"),
        (StepStatusWord.FAILED, True, False, "cancelled", "step 1 cancelled: 1/3 items done"),
        (StepStatusWord.FAILED, True, True, "failed", "step 1 failed: 1/3 items done"),
        (StepStatusWord.OK, True, False, "ok", "step 1 ok: 1/3 items done"),
        (StepStatusWord.NOT_ATTEMPTED, True, False, "not_attempted", "step 1 not attempted: 1/3 items done"),
    ],
)
def test_a_step_that_a_cancel_stopped_has_not_failed(
    word: StepStatusWord, cancelled: bool, unmerged: bool, state: str, told: str
) -> None:
    items = ItemCounts(total=3, changed=1, open=2)
    result = StepResult(step=1, agent_type="a", description="d", status=word, items=items, unmerged=unmerged)
    status, text = with_result(STATUS, result, cancelled=cancelled)
    assert (status.steps[0].state, status.steps[0].items, text) == (state, items, told)

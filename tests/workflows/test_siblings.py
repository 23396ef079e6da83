"""One agent that hangs, one that is refused each time, one that is cut off each time: those beside them finish."""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from baton.messages import TaskInput
from baton.plan import DraftStep, PlanDraft
from baton.states import TaskState
from baton.status import TaskStatus
from emulator.dialogue import Dialogue
from emulator.reply import Block, HttpError, Reply, Stall, Text
from tests.end_to_end.bench import Rules, git, task
from tests.workflows.rig import Rig, answer, running_rig, until
from tests.workflows.test_agent_workflow import editing

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMES = ("well", "hangs", "refused", "cut", "fine", "after")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(temporal_address: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    """A worker that is impatient with silent streams."""
    async with running_rig(temporal_address, tmp_path_factory.mktemp("rig"), timedelta(seconds=2)) as running:
        yield running


def troubled(dialogue: Dialogue) -> Reply | Sequence[Block]:
    """What the agent of each step does: told apart by their items."""
    blocks = editing(dialogue)
    match dialogue.assignment["items"]:
        case ["hangs.py"]:
            return Reply(blocks, fault=Stall(60, 3))
        case ["refused.py"]:
            return Reply(blocks, fault=HttpError(400, "invalid_request_error"))
        case ["cut.py"]:
            return Reply([Text("A thought too long. " * 8_000)])
    return blocks


def side_by_side(source: Path, **settings: object) -> TaskInput:
    """A step for each name side by side, but for the last, which waits for the first and the one before it."""
    steps = tuple(
        DraftStep(
            step=number,
            agent_type="editor",
            description="Edit the file",
            items=(f"{name}.py",),
            depends_on=(1, 5) if name == "after" else (),
        )
        for number, name in enumerate(NAMES, 1)
    )
    given = task(source, review="never", maxParallelAgents=5, maxAgents=40, **settings)
    return given.model_copy(update={"plan": PlanDraft(execution_strategy="parallel", plan=steps)})


def finished(now: TaskStatus) -> set[int]:
    """The steps that are through and well."""
    return {step.step for step in now.steps if step.state == "ok"}


async def test_agents_in_trouble_take_no_sibling_down(rig: Rig) -> None:
    """Nor who waits for a sibling. What the others cannot do is asked, and the silent one is reported."""
    given = side_by_side(rig.repository(**dict.fromkeys(NAMES, "old = 1\n")), outputBudget=4_000)
    with rig.api(Rules(troubled)):
        handle = await rig.start(given)
        now = await until(handle, lambda now: len(now.attention) == 2 and finished(now) >= {1, 5, 6})
        assert {item.step for item in now.attention} == {3, 4}
        assert {step.step for step in now.steps if step.state == "running"} == {2, 3, 4}
        for item in now.attention:
            await answer(handle, item, "skip_item")
        result = await handle.result()
    assert (result.state, result.items.changed) == (TaskState.PARTIAL, 3)
    assert git(Path(given.repository), "show", f"{result.ref}:after.py") == "new = 1\n"
    assert git(Path(given.repository), "show", f"{result.ref}:hangs.py") == "old = 1\n"

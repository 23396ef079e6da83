"""A model that falls silent, through the real workflows: waited for, re-briefed, reported; what was done stays done."""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import pytest
import pytest_asyncio

from baton.stalls import WAITS
from baton.states import TaskState
from emulator.dialogue import Dialogue
from emulator.reply import Block, Reply, Stall
from tests.end_to_end.bench import Rules, generation, task
from tests.workflows.rig import Rig, manifests, running_rig
from tests.workflows.test_agent_workflow import ITEMS, assert_all_edited, editing, three_files

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(temporal_address: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    """A worker that is impatient with silent streams."""
    async with running_rig(temporal_address, tmp_path_factory.mktemp("rig"), timedelta(seconds=2)) as running:
        yield running


class Silent:
    """Edits one item, then falls silent in the middle of the next answers of the first agents."""

    def __init__(self, agents: int, times: int) -> None:
        self.agents, self.times = agents, times
        self.stalls: dict[int, int] = {}

    def __call__(self, dialogue: Dialogue) -> Reply | Sequence[Block]:
        number = generation(dialogue)
        blocks = editing(dialogue)
        if number > self.agents or (number == 1 and dialogue.turn == 0) or self.stalls.get(number, 0) >= self.times:
            return blocks
        self.stalls[number] = self.stalls.get(number, 0) + 1
        return Reply(blocks, fault=Stall(60, 3))


async def test_a_short_silence_is_only_a_wait(rig: Rig) -> None:
    source, model = three_files(rig), Silent(agents=1, times=WAITS)
    with rig.api(Rules(model)):
        result = await rig.run(task(source, *ITEMS, review="never"))
    assert_all_edited(source, result)
    assert (result.handoffs, model.stalls) == (0, {1: WAITS})
    assert result.usage.model_calls == 4 + WAITS


async def test_a_silent_agent_is_followed_by_one_with_a_re_brief(rig: Rig) -> None:
    source, model = three_files(rig), Silent(agents=1, times=100)
    with rig.api(Rules(model)) as api:
        result = await rig.run(task(source, *ITEMS, review="never"))
        shown = str(api.bodies[-1])
    assert_all_edited(source, result)
    (manifest,) = manifests(result)
    assert (manifest["reason"], model.stalls) == ("error_recovery", {1: WAITS + 1})
    assert manifest["completed_items"] == ["a.py"]
    assert "tasks/1.yaml" in manifest["trip"]["recommendation"]
    assert "tasks/1.yaml" in shown
    assert result.usage.model_calls == 4 + WAITS + 1


async def test_silence_that_a_re_brief_does_not_end_is_reported(rig: Rig) -> None:
    source, model = three_files(rig), Silent(agents=9, times=100)
    with rig.api(Rules(model)):
        result = await rig.run(task(source, *ITEMS, review="never"))
    assert model.stalls == {1: WAITS + 1, 2: WAITS + 1}
    assert (result.state, result.items.changed, result.agents) == (TaskState.PARTIAL, 1, 2)

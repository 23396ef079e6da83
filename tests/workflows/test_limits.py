"""A task at its limits, through the real workflows: it waits for a person, loses nothing, and goes on when raised."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError, WorkflowUpdateFailedError

from baton.plan import PlanDraft
from baton.states import TaskState
from baton.status import AttentionItem, TaskStatus
from emulator.dialogue import Dialogue
from emulator.reply import Block, ToolUse
from emulator.server import EmulatorServer
from tests.end_to_end.bench import Handle, Rules, generation, statuses, task
from tests.workflows.rig import Rig, answer, attention, manifests, until, until_told
from tests.workflows.test_agent_workflow import ITEMS, assert_all_edited, editing, three_files

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def at_limit(handle: Handle) -> AttentionItem:
    """The question at the limit."""
    item = await attention(handle)
    assert (item.kind, item.choices) == ("limit", ("raise", "integrate", "stop"))
    return item


async def raised(handle: Handle, item: AttentionItem, comment: str) -> str:
    """A person's raise, by update."""
    given = {"attention_id": item.id, "choice": "raise", "comment": comment}
    return str(await handle.execute_update("answer_attention", given))


async def test_a_reached_limit_waits_and_goes_on_in_the_same_conversation(rig: Rig) -> None:
    source = three_files(rig)
    with rig.api(Rules(editing)) as api:
        handle = await rig.start(task(source, *ITEMS, limits={"modelCalls": 2}))
        item = await at_limit(handle)
        assert "The limit of 2 model calls is reached" in item.question
        assert "2 of 3 items are done, 1 left: likely" in item.question
        asked = calls(api)
        for comment, why in (("", "say the new max model calls"), ("2", "leaves nothing"), ("some", "max_model_calls")):
            with pytest.raises(WorkflowUpdateFailedError) as refused:
                await raised(handle, item, comment)
            assert why in str(refused.value.cause)
        assert calls(api) == asked == 2
        await raised(handle, item, "40")
        result = await handle.result()
        assert statuses(api).keys() == {200}
        assert result.usage.model_calls == calls(api)
    assert_all_edited(source, result)
    assert (result.handoffs, manifests(result)) == (0, [])


async def test_a_limit_raised_by_its_own_command_needs_no_answer(rig: Rig) -> None:
    source = three_files(rig)
    with rig.api(Rules(editing)):
        handle = await rig.start(task(source, *ITEMS, limits={"modelCalls": 2}))
        await at_limit(handle)
        await handle.signal("set_limits", {"max_model_calls": None})
        result = await handle.result()
    assert_all_edited(source, result)


@pytest.mark.parametrize("choice", ["integrate", "stop"])
async def test_what_is_there_is_kept(rig: Rig, choice: str) -> None:
    source = three_files(rig)
    with rig.api(Rules(editing)) as api:
        handle = await rig.start(task(source, *ITEMS, limits={"modelCalls": 2}))
        await answer(handle, await at_limit(handle), choice)
        result = await handle.result()
        assert calls(api) == 2
    assert (result.state, result.items.done, result.items.total) == (TaskState.PARTIAL, 2, 3)
    assert result.ref is not None
    (manifest,) = manifests(result)
    assert manifest["pending_items"] == ["c.py"]


async def test_unattended_the_setting_answers(rig: Rig) -> None:
    source = three_files(rig)
    with rig.api(Rules(editing)):
        result = await rig.run(task(source, *ITEMS, limits={"modelCalls": 1}, onLimit="integrate"))
    assert (result.state, result.items.done) == (TaskState.PARTIAL, 1)


async def test_a_waiting_task_can_be_cancelled(rig: Rig) -> None:
    source = three_files(rig)
    with rig.api(Rules(editing)):
        handle = await rig.start(task(source, *ITEMS, limits={"modelCalls": 1}))
        await at_limit(handle)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()


async def test_a_lowered_limit_stops_at_the_end_of_the_turn(rig: Rig) -> None:
    source, model = three_files(rig), Slow()
    with rig.api(Rules(model)) as api:
        handle = await rig.start(task(source, *ITEMS))
        await asyncio.to_thread(model.asked.wait, 20)
        await handle.execute_update("change_limits", {"max_cost_usd": "0"})
        await until_told(rig, f"{handle.id}/step-1")
        model.may_answer.set()
        item = await at_limit(handle)
        assert "The cost limit of 0.00 USD is reached" in item.question
        assert calls(api) == 2
        await raised(handle, item, "5 USD")
        result = await handle.result()
    assert_all_edited(source, result)


async def test_the_time_limit_holds_every_agent_and_can_be_raised(rig: Rig) -> None:
    source, model = three_files(rig), Slow()
    with rig.api(Rules(model)):
        handle = await rig.start(task(source, *ITEMS, limits={"duration": "2s"}))
        await asyncio.to_thread(model.asked.wait, 20)
        await until(handle, lambda now: any("time limit" in h.text for h in now.happenings))
        await until_told(rig, f"{handle.id}/step-1")
        model.may_answer.set()
        item = await at_limit(handle)
        assert item.question.startswith("The time limit is reached (2 s)")
        await raised(handle, item, "1h")
        result = await handle.result()
    assert_all_edited(source, result)


async def test_no_further_agent_is_a_limit_too(rig: Rig) -> None:
    def handing_off(dialogue: Dialogue) -> Sequence[Block]:
        if dialogue.done("complete_item"):
            return [ToolUse("hand_off", {})]
        return editing(dialogue)

    source = three_files(rig)
    with rig.api(Rules(handing_off)):
        handle = await rig.start(task(source, *ITEMS, maxAgents=2))
        item = await at_limit(handle)
        assert "no further agent is allowed" in item.question.lower()
        await handle.execute_update("change_limits", {"max_agents": 9})
        result = await handle.result()
    assert_all_edited(source, result)
    assert (result.agents, result.handoffs) == (4, 3)


async def test_eight_agents_side_by_side_stay_within_the_cap_and_go_on(rig: Rig) -> None:
    names = [f"m{n}" for n in range(8)]
    source = rig.repository(**{f"{name}_{part}": "old = 1\n" for name in names for part in ("a", "b", "c")})
    steps = [
        {
            "step": n,
            "agent_type": "editor",
            "description": "edit",
            "items": [f"{name}_{part}.py" for part in ("a", "b", "c")],
        }
        for n, name in enumerate(names, 1)
    ]
    given = task(source, "m0_a.py", limits={"modelCalls": 20}, maxParallelAgents=8, maxAgents=30)
    given = given.model_copy(update={"plan": plan_draft(steps)})
    with rig.api(Rules(editing)) as api:
        handle = await rig.start(given)
        item = await at_limit(handle)
        assert calls(api) == 20
        now = await until(handle, near)
        told = [text for text in (*now.warnings, *(one.text for one in now.happenings)) if "is used" in text]
        assert len(told) == len(set(told)) == 1
        await raised(handle, item, "60")
        result = await handle.result()
        assert calls(api) == result.usage.model_calls == 32
    assert (result.state, result.items.changed) == (TaskState.DONE, 24)


def calls(api: EmulatorServer) -> int:
    """Model calls that were made."""
    return sum(exchange.path == "/v1/messages" for exchange in api.requests)


def near(now: TaskStatus) -> bool:
    return any("of the limit of 20 model calls is used" in text for text in now.warnings)


def plan_draft(steps: list[dict[str, Any]]) -> PlanDraft:
    return PlanDraft.model_validate({"execution_strategy": "parallel", "plan": steps})


class Slow:
    """Edits like every model here, and lets the test decide when the second answer of the first agent comes."""

    def __init__(self) -> None:
        self.asked, self.may_answer = threading.Event(), threading.Event()
        self.rules: Callable[[Dialogue], Sequence[Block]] = editing

    def __call__(self, dialogue: Dialogue) -> Sequence[Block]:
        if dialogue.turn == 1 and generation(dialogue) == 1:
            self.asked.set()
            self.may_answer.wait(20)
        return self.rules(dialogue)

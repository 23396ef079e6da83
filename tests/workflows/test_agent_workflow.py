"""A handoff for every reason, through the real workflows: what was done stays done, and the successor goes on."""

import asyncio
import json
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.worker import ExecuteActivityInput

from activities.pulse import Pulse
from baton import trace
from baton.messages import TurnRequest
from baton.states import TaskState
from baton.status import TaskResult, TaskStatus
from emulator.dialogue import Dialogue
from emulator.reply import Block, HttpError, Reply, Text, ToolUse
from tests.end_to_end.bench import Rules, generation, git, statuses, task
from tests.workflows.rig import Attempt, Rig, answer, attention, manifests, status, until, until_told
from workflows.orchestration import OrchestrationWorkflow

pytestmark = pytest.mark.asyncio(loop_scope="module")

FINISH = ToolUse("finish_step", {"status": "ok", "summary": "all edited"})
ITEMS = ("a.py", "b.py", "c.py")


def editing(dialogue: Dialogue) -> Sequence[Block]:
    """One item per turn, then the end: what every model here does when nothing else is asked of it."""
    done = {call.input["item"] for call in dialogue.done("complete_item")}
    left = [item for item in dialogue.assignment["items"] if item not in done]
    if not left:
        return [FINISH]
    edit = {"file_path": left[0], "old_string": "old", "new_string": "new"}
    return [ToolUse("edit", edit), ToolUse("complete_item", {"item": left[0]})]


def three_files(rig: Rig) -> Path:
    return rig.repository(a="old = 1\n", b="old = 2\n", c="old = 3\n")


def assert_all_edited(source: Path, result: TaskResult) -> None:
    assert result.state is TaskState.DONE
    assert result.items.changed == len(ITEMS)
    assert [git(source, "show", f"{result.ref}:{item}") for item in ITEMS] == ["new = 1\n", "new = 2\n", "new = 3\n"]


async def test_a_model_that_ignores_the_request_to_hand_off(rig: Rig) -> None:
    def chatty(dialogue: Dialogue) -> Sequence[Block]:
        return [Text("I am not done talking. " * 400), *editing(dialogue)]

    source = three_files(rig)
    with rig.api(Rules(chatty)) as api:
        result = await rig.run(task(source, *ITEMS, outputBudget=8_000))
        assert statuses(api).keys() == {200}
    assert_all_edited(source, result)
    assert result.handoffs == len(manifests(result)) >= 1
    for manifest in manifests(result):
        assert manifest["reason"] == "output_limit"
        assert manifest["verification"]["corrections"] == [
            "the agent left no hand_off; everything here comes from facts"
        ]
    assert result.usage.output_tokens == sum(
        exchange.usage["output_tokens"] for exchange in api.requests if exchange.usage
    )


async def test_a_conversation_that_nearly_fills_the_window(rig: Rig) -> None:
    long = {f"long{number}": "# forty bytes of prose in every line\n" * 1_250 for number in range(14)}
    source = rig.repository(a="old = 1\n", b="old = 2\n", c="old = 3\n", **long)

    def reading(dialogue: Dialogue) -> Sequence[Block]:
        if generation(dialogue) > 1 or dialogue.turn >= 2:
            return editing(dialogue)
        return [ToolUse("read", {"file_path": f"long{number + 7 * dialogue.turn}.py"}) for number in range(7)]

    with rig.api(Rules(reading)) as api:
        result = await rig.run(task(source, *ITEMS, models={"executor": "claude-haiku-4-5"}))
        assert statuses(api).keys() == {200}
    assert_all_edited(source, result)
    assert [manifest["reason"] for manifest in manifests(result)] == ["context_limit"]


async def test_a_response_cut_by_the_window(rig: Rig) -> None:
    def cut(dialogue: Dialogue) -> Reply | Sequence[Block]:
        if generation(dialogue) == 1 and dialogue.turn == 1:
            return Reply([Text("There is no room for m")], stop_reason="model_context_window_exceeded")
        return editing(dialogue)

    source = three_files(rig)
    with rig.api(Rules(cut)):
        result = await rig.run(task(source, *ITEMS))
    assert_all_edited(source, result)
    (manifest,) = manifests(result)
    assert (manifest["reason"], manifest["completed_items"]) == ("context_limit", ["a.py"])


@pytest.mark.parametrize("damage", ["missing", "damaged"])
async def test_a_conversation_that_is_lost(rig: Rig, damage: str) -> None:
    async def lose(attempt: Attempt, given: ExecuteActivityInput) -> object:
        request = given.args[0]
        if isinstance(request, TurnRequest) and request.turn == 2 and "~" not in request.agent_id:
            blob = rig.folder_of(request.task_id).path / "store" / "blobs" / request.head[:2] / request.head[2:]
            blob.unlink() if damage == "missing" else blob.write_bytes(blob.read_bytes()[:-1])
            rig.tasks.forget(request.task_id)  # as after a restart: nothing is remembered
        return await attempt()

    source = three_files(rig)
    with rig.api(Rules(editing)) as api, rig.around(lose):
        result = await rig.run(task(source, *ITEMS))
        assert statuses(api) == {200: 4}
    assert_all_edited(source, result)
    (manifest,) = manifests(result)
    assert (manifest["reason"], manifest["completed_items"]) == ("error_recovery", ["a.py"])
    assert damage in manifest["verification"]["corrections"][0]


async def test_a_conversation_that_the_api_refuses(rig: Rig) -> None:
    def refused(dialogue: Dialogue) -> Reply | Sequence[Block]:
        if generation(dialogue) == 1 and dialogue.turn == 1:
            return Reply(fault=HttpError(400, "invalid_request_error", "messages.3: it cannot be used"))
        return editing(dialogue)

    source = three_files(rig)
    with rig.api(Rules(refused)) as api:
        result = await rig.run(task(source, *ITEMS))
        assert statuses(api) == {200: 4, 400: 1}
    assert_all_edited(source, result)
    (manifest,) = manifests(result)
    assert (manifest["reason"], manifest["completed_items"]) == ("error_recovery", ["a.py"])


class Stopping:
    """Edits; in its second turn it lets the test act before it answers."""

    def __init__(self) -> None:
        self.asked, self.may_answer = threading.Event(), threading.Event()

    def __call__(self, dialogue: Dialogue) -> Sequence[Block]:
        if dialogue.turn == 1 and generation(dialogue) == 1:
            self.asked.set()
            self.may_answer.wait(20)
        return editing(dialogue)


async def test_a_pause_and_its_end(rig: Rig) -> None:
    source, model = three_files(rig), Stopping()
    with rig.api(Rules(model)) as api:
        handle = await rig.start(task(source, *ITEMS))
        await asyncio.to_thread(model.asked.wait, 20)
        await handle.signal(OrchestrationWorkflow.pause)
        await until_told(rig, f"{handle.id}/step-1")
        model.may_answer.set()
        await until(handle, lambda now: now.handoffs == 1)
        asked = len(api.requests)
        await asyncio.sleep(0.5)
        assert (await status(handle)).paused
        assert len(api.requests) == asked
        await handle.signal(OrchestrationWorkflow.unpause)
        result = await handle.result()
    assert_all_edited(source, result)
    (manifest,) = manifests(result)
    assert (manifest["reason"], manifest["completed_items"]) == ("paused", ["a.py", "b.py"])


async def test_short_turns_share_an_activity(rig: Rig) -> None:
    source = three_files(rig)
    with rig.api(Rules(editing)) as api:
        handle = await rig.start(task(source, *ITEMS))
        result = await handle.result()
        assert statuses(api) == {200: 4}
    assert_all_edited(source, result)
    agent = rig.client.get_workflow_handle(f"{handle.id}/step-1")
    names = [
        event.activity_task_scheduled_event_attributes.activity_type.name
        async for event in agent.fetch_history_events()
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    # The first turn is told at once; the others are one activity's.
    assert names == ["open_agent", "execute_step", "execute_step", "close_agent"]
    told = trace.parse((Path(result.artifacts) / trace.NAME).read_text(encoding="utf-8"))
    assert [line.turn for line in told.of("model") if line.agent == "executor-1-editor"] == [1, 2, 3, 4]


async def test_turns_that_were_over_when_their_activity_died_count(rig: Rig) -> None:
    """The task is cancelled before another attempt could tell of them."""
    source, over = three_files(rig), asyncio.Event()

    async def dying(attempt: Attempt, given: ExecuteActivityInput) -> object:
        outcome = await attempt()
        if isinstance(given.args[0], TurnRequest) and given.args[0].turn == 2:
            over.set()
            raise RuntimeError("it died before it could tell")
        return outcome

    with rig.api(Rules(editing)) as api, rig.around(dying):
        handle = await rig.start(task(source, *ITEMS))
        await asyncio.wait_for(over.wait(), 20)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
        paid = sum(exchange.usage["output_tokens"] for exchange in api.requests if exchange.usage)
    now = await status(handle)
    assert (now.usage.model_calls, now.usage.output_tokens) == (4, paid)
    assert now.items.done == len(ITEMS)
    assert git(source, "show", f"baton/{handle.id}:c.py") == "new = 3\n"


async def test_cancel_stops_at_once_and_keeps_what_was_done(rig: Rig) -> None:
    source, model = three_files(rig), Stopping()
    loop = asyncio.get_running_loop()
    with rig.api(Rules(model)) as api:
        handle = await rig.start(task(source, *ITEMS))
        await asyncio.to_thread(model.asked.wait, 20)
        began = loop.time()
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
        assert loop.time() - began < 5
        model.may_answer.set()
        await asyncio.sleep(1)
        assert statuses(api) == {200: 2}
    now = await status(handle)
    assert now.state is TaskState.CANCELLED
    assert now.items.done == 1
    assert (Path(now.artifacts) / "report.md").is_file()
    manifest = json.loads((Path(now.artifacts) / "agent-1-handoff.json").read_text(encoding="utf-8"))
    assert (manifest["reason"], manifest["status"], manifest["completed_items"]) == ("cancelled", "stopped", ["a.py"])
    assert git(source, "show", f"baton/{handle.id}:a.py") == "new = 1\n"
    assert git(source, "show", f"baton/{handle.id}:b.py") == "old = 2\n"


async def test_an_answer_that_a_cancel_cut_off_is_paid(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def long_winded(dialogue: Dialogue) -> Sequence[Block]:
        return [Text("I think about it at length. " * 400), *editing(dialogue)] if dialogue.turn else editing(dialogue)

    source, streams, report = three_files(rig), asyncio.Event(), Pulse.report_tokens

    def reported(pulse: Pulse, tokens: int) -> None:
        report(pulse, tokens)
        if tokens > 150:
            streams.set()

    monkeypatch.setattr(Pulse, "report_tokens", reported)
    with rig.api(Rules(long_winded), tokens_per_second=300):
        handle = await rig.start(task(source, *ITEMS))
        async with asyncio.timeout(20):
            await streams.wait()
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
    now = await status(handle)
    told = trace.parse((Path(now.artifacts) / trace.NAME).read_text(encoding="utf-8")).of("model")
    assert [line.outcome for line in told] == ["tool_use", "cancelled"]
    assert told[-1].output_tokens > 0
    assert now.usage.model_calls == 2
    assert now.usage.cost_usd == sum(line.cost_usd for line in told)
    assert now.usage.output_tokens == sum(line.output_tokens for line in told)


async def test_cancel_reaches_a_chain_however_often_it_handed_off(rig: Rig) -> None:
    """Each agent hands off after one turn, so a cancellation meets a late run of the chain, or one in the handoff."""

    def endless(dialogue: Dialogue) -> Sequence[Block]:
        if dialogue.done("complete_item"):
            return [ToolUse("hand_off", {"notes": "more to come"})]
        return editing(dialogue)

    names = [f"module{number}" for number in range(40)]
    source = rig.repository(**dict.fromkeys(names, "old = 1\n"))
    with rig.api(Rules(endless), tokens_per_second=300) as api:
        handle = await rig.start(task(source, *(f"{name}.py" for name in names), maxAgents=200))
        await until(handle, lambda now: now.handoffs >= 3)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            async with asyncio.timeout(10):
                await handle.result()
        asked = len(api.requests)
        await asyncio.sleep(1.5)
        assert len(api.requests) == asked
    now = await status(handle)
    assert now.state is TaskState.CANCELLED
    assert now.handoffs < 20
    assert 3 <= now.items.done < 40
    assert (Path(now.artifacts) / "report.md").is_file()


def hesitant(dialogue: Dialogue) -> Sequence[Block]:
    """Never begins with b.py unless it has a big budget; the other items are no trouble."""
    if dialogue.told("budget_95"):
        return [ToolUse("hand_off", {"notes": "I could not decide"})]
    done = {call.input["item"] for call in dialogue.done("complete_item")}
    left = [item for item in dialogue.assignment["items"] if item not in done]
    if left[:1] == ["b.py"] and dialogue.assignment["output_budget"] < 8_000:
        return [Text("I think about it once more. " * 300), ToolUse("read", {"file_path": "b.py"})]
    return editing(dialogue)


async def asked_without_progress(rig: Rig, source: Path, choice: str) -> tuple[TaskStatus, TaskResult]:
    """The status while a person is asked, and the result after the answer."""
    with rig.api(Rules(hesitant)) as api:
        handle = await rig.start(task(source, *ITEMS, outputBudget=4_000))
        item = await attention(handle)
        assert item.kind == "no_progress"
        assert {"more_budget", "skip_item", "stop"} <= set(item.choices)
        assert "b.py" in item.question
        waiting, asked = await status(handle), len(api.requests)
        await asyncio.sleep(0.3)
        assert len(api.requests) == asked
        await answer(handle, item, choice)
        return waiting, await handle.result()


async def test_no_progress_answered_with_more_budget(rig: Rig) -> None:
    source = three_files(rig)
    waiting, result = await asked_without_progress(rig, source, "more_budget")
    assert waiting.state is TaskState.WAITING
    assert_all_edited(source, result)


async def test_no_progress_answered_with_a_skip(rig: Rig) -> None:
    source = three_files(rig)
    _, result = await asked_without_progress(rig, source, "skip_item")
    assert result.state is TaskState.PARTIAL
    assert (result.items.changed, result.items.skipped, result.items.open) == (2, 1, 0)
    assert [git(source, "show", f"{result.ref}:{item}") for item in ITEMS] == ["new = 1\n", "old = 2\n", "new = 3\n"]


async def test_no_progress_answered_with_a_stop(rig: Rig) -> None:
    source = three_files(rig)
    _, result = await asked_without_progress(rig, source, "stop")
    assert result.state is TaskState.PARTIAL
    assert (result.items.changed, result.items.open) == (1, 2)
    assert git(source, "show", f"{result.ref}:a.py") == "new = 1\n"


async def test_credentials_that_are_refused_and_replaced(rig: Rig) -> None:
    def refused(dialogue: Dialogue) -> Reply | Sequence[Block]:
        if dialogue.turn == 1:
            return Reply(fault=HttpError(401, "authentication_error", "invalid x-api-key"))
        return editing(dialogue)

    source = three_files(rig)
    with rig.api(Rules(refused)) as first:
        handle = await rig.start(task(source, *ITEMS))
        item = await attention(handle)
        assert item.kind == "credentials"
        assert "invalid x-api-key" in item.question
        with rig.api(Rules(editing)) as second:
            await answer(handle, item, "retry")
            result = await handle.result()
    assert_all_edited(source, result)
    assert statuses(first) == {200: 1, 401: 1}
    assert statuses(second) == {200: 3}
    assert result.handoffs == 0

"""Going on with a task that was stopped, in whatever way: what is done is neither lost nor paid again."""

import asyncio
import json
import shutil
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.testing import WorkflowEnvironment

from baton.messages import TaskInput
from baton.plan import DraftStep, PlanDraft
from baton.states import TaskState
from baton.status import TaskResult
from emulator.dialogue import Dialogue
from emulator.reply import Block, ToolUse
from emulator.server import EmulatorServer
from tests.end_to_end import bench
from tests.end_to_end.bench import Handle, Rules, git, paid_turns, task
from tests.workflows.rig import Rig, running_rig, status, until
from workflows.orchestration import OrchestrationWorkflow

pytestmark = pytest.mark.asyncio(loop_scope="module")

ITEMS = ("a.py", "b.py", "c.py", "d.py")
FINISH = [ToolUse("finish_step", {"status": "ok", "summary": "all items are done"})]


class Worker:
    """Changes one item a turn, by something that is not safe to do twice. Whoever first comes to the item `until` gets
    no answer until the test is over."""

    def __init__(self, until: str = "") -> None:
        self.until = until
        self.reached = threading.Event()
        self.go_on = threading.Event()

    def answer(self, dialogue: Dialogue) -> Sequence[Block]:
        done = {call.input["item"] for call in dialogue.done("complete_item")}
        left = [item for item in dialogue.assignment["items"] if item not in done]
        if not left:
            return FINISH
        if left[0] == self.until and not self.reached.is_set():
            self.reached.set()
            self.go_on.wait(30)
        note = {"decisions": [{"decision": f"as in {left[0]}", "rationale": "one style"}]}
        edit = ToolUse("bash", {"command": f"echo done >> {left[0]}"})
        return [edit, ToolUse("complete_item", {"item": left[0]}), ToolUse("record", note)]


def two_steps(source: Path, **settings: Any) -> TaskInput:
    """Step 1 has three items, step 2 the last one."""
    first = DraftStep(step=1, agent_type="editor", description="Edit three", items=ITEMS[:3])
    second = DraftStep(step=2, agent_type="editor", description="Edit one", items=ITEMS[3:], depends_on=(1,))
    return task(source, **settings).model_copy(update={"plan": PlanDraft(plan=(first, second))})


async def resume(rig: Rig, task_id: str, **settings: Any) -> Handle:
    """What the stock tools start: nothing but the wish to go on."""
    return await bench.start(rig.client, TaskInput(resume=True, settings=settings), task_id)


async def reached(worker: Worker) -> None:
    assert await asyncio.to_thread(worker.reached.wait, 30)


@asynccontextmanager
async def another_server(rig: Rig) -> AsyncIterator[Rig]:
    """Temporal knows nothing of any task, as after its retention or with another database; this host still does."""
    path = str(Path(sys.executable).parent / "temporal")
    async with (
        await WorkflowEnvironment.start_local(dev_server_existing_path=path) as server,
        running_rig(server.client.service_client.config.target_host, rig.folder) as running,
    ):
        yield running


def assert_each_item_was_done_once(source: Path, ref: str | None, api: EmulatorServer, task_id: str) -> None:
    assert ref is not None
    assert [git(source, "show", f"{ref}:{item}") for item in ITEMS] == ["start\ndone\n"] * len(ITEMS)
    assert max(paid_turns(api, task_id).values()) == 1


def agents_of(api: EmulatorServer, task_id: str) -> list[str]:
    """The agents that asked the model, in the order of their first request."""
    users = [exchange.user_id or "" for exchange in api.requests if exchange.status == 200]
    return list(dict.fromkeys(user.partition("/")[2] for user in users if user.startswith(f"{task_id}/")))


async def stopped(rig: Rig, source: Path, how: str, worker: Worker, **settings: Any) -> str:
    """A task that was stopped while its first step worked on its third item; returns its id."""
    handle = await rig.start(two_steps(source, **settings))
    await reached(worker)
    if how == "cancelled":
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
    else:
        await handle.terminate()
    return handle.id


@pytest.mark.parametrize("how", ["cancelled", "terminated", "forgotten"])
async def test_a_stopped_task_goes_on(rig: Rig, how: str) -> None:
    worker = Worker(until="c.py")
    source = rig.repository(**{item.removesuffix(".py"): "start\n" for item in ITEMS})
    with rig.api(Rules(worker.answer)) as api:
        task_id = await stopped(rig, source, how, worker)
        async with another_server(rig) if how == "forgotten" else nullcontext(rig) as there:
            result = await (await resume(there, task_id)).result()
        worker.go_on.set()
        assert_each_item_was_done_once(source, result.ref, api, task_id)
        paid = sum(e.usage["output_tokens"] for e in api.requests if e.complete and e.usage)
    assert (result.state, result.items.done, result.items.total) == (TaskState.DONE, 4, 4)
    names = agents_of(api, task_id)
    assert names == ["executor-1-editor", "executor-1-editor~2", "executor-2-editor"]
    assert result.agents == 3
    assert result.ref == f"baton/{task_id}"
    assert git(source, "rev-parse", result.ref).strip() == result.commit
    ledger = json.loads((Path(result.artifacts) / "ledger.json").read_text())
    by = {row["item"]: row["agent_id"] for row in ledger}
    assert by == {"a.py": names[0], "b.py": names[0], "c.py": names[1], "d.py": names[2]}
    assert "4 of 4 items done" in (Path(result.artifacts) / "report.md").read_text()
    # A request that was under way when the task was stopped is paid by the provider's count, but never told.
    assert 0 < result.usage.output_tokens <= paid
    knowledge = json.loads((Path(result.artifacts) / "knowledge.json").read_text())
    assert {entry["text"] for entry in knowledge} == {f"as in {item}" for item in ITEMS}


async def test_a_partial_task_goes_on_with_higher_limits(rig: Rig) -> None:
    source = rig.repository(**{item.removesuffix(".py"): "start\n" for item in ITEMS})
    with rig.api(Rules(Worker().answer)) as api:
        handle = await rig.start(two_steps(source, maxAgents=1, onLimit="stop"))
        first = await handle.result()
        assert (first.state, first.items.done) == (TaskState.PARTIAL, 3)
        again = await (await resume(rig, handle.id)).result()
        assert (again.state, again.items.done, again.agents) == (TaskState.PARTIAL, 3, 1)
        last = await (await resume(rig, handle.id, maxAgents=2)).result()
        assert_each_item_was_done_once(source, last.ref, api, handle.id)
    assert (last.state, last.items.done, last.agents) == (TaskState.DONE, 4, 2)
    assert last.usage.model_calls == len(paid_turns(api, handle.id))
    assert last.ref == first.ref
    with rig.api(Rules(Worker().answer)), pytest.raises(WorkflowFailureError) as refused:
        await (await resume(rig, handle.id)).result()
    assert "is done: there is nothing to resume" in str(refused.value.cause.cause)
    assert (await status(await resume(rig, handle.id))).task_id == handle.id


class Skipper:
    """Skips its first item and changes the others, until it is to do all; says that it lacked something at first."""

    def __init__(self) -> None:
        self.skips = True

    def answer(self, dialogue: Dialogue) -> Sequence[Block]:
        done = {call.input["item"] for call in dialogue.done("complete_item")}
        left = [item for item in dialogue.assignment["items"] if item not in done]
        if not left:
            said = {"status": "partial", "blockers": ["it cannot be tested here"]} if self.skips else {"status": "ok"}
            return [ToolUse("finish_step", {"summary": "that is all", **said})]
        if self.skips and left[0] == "a.py":
            return [ToolUse("complete_item", {"item": "a.py", "outcome": "skipped", "note": "no such text"})]
        edit = ToolUse("bash", {"command": f"echo done >> {left[0]}"})
        return [edit, ToolUse("complete_item", {"item": left[0]})]


def issues_of(result: TaskResult) -> list[str]:
    found = json.loads((Path(result.artifacts) / "issues.json").read_text())
    return [f"{issue['issue']}: {issue['evidence']}" for issue in found]


async def test_what_was_skipped_is_tried_again(rig: Rig) -> None:
    source = rig.repository(**{item.removesuffix(".py"): "start\n" for item in ITEMS})
    worker = Skipper()
    with rig.api(Rules(worker.answer)) as api:
        handle = await rig.start(two_steps(source))
        first = await handle.result()
        assert (first.state, first.items.skipped, first.items.done) == (TaskState.PARTIAL, 1, 3)
        again = await (await resume(rig, handle.id)).result()
        assert (again.state, again.items.skipped, again.items.done) == (TaskState.PARTIAL, 1, 3)
        told = issues_of(again)
        assert any("no such text" in issue for issue in told), told
        worker.skips = False
        last = await (await resume(rig, handle.id)).result()
        assert_each_item_was_done_once(source, last.ref, api, handle.id)
    # Step 2 lacks nothing but what its agent said; there is nothing to run again, and it is not done for that.
    assert (last.state, last.items.skipped, last.items.done) == (TaskState.PARTIAL, 0, 4)
    told = issues_of(last)
    assert len(told) == 1, told
    assert "step 2" in told[0].lower()
    assert "it cannot be tested here" in told[0]


async def test_a_resume_that_cannot_be_is_refused_and_touches_nothing(rig: Rig) -> None:
    with pytest.raises(WorkflowFailureError) as unknown:
        await (await resume(rig, "never-heard-of-it")).result()
    assert "nothing is known of a task 'never-heard-of-it'" in str(unknown.value.cause.cause)
    source = rig.repository(**{item.removesuffix(".py"): "start\n" for item in ITEMS})
    with rig.api(Rules(Worker().answer)):
        handle = await rig.start(two_steps(source, maxAgents=1, onLimit="stop"))
        await handle.result()
        shutil.rmtree(rig.folder_of(handle.id).repository.path)
        with pytest.raises(WorkflowFailureError) as gone:
            await (await resume(rig, handle.id)).result()
    assert f"--base baton/{handle.id}" in str(gone.value.cause.cause)
    assert (rig.folder_of(handle.id).path / "state.json").exists()


async def test_a_task_that_was_stopped_while_it_waited_asks_again(rig: Rig) -> None:
    source = rig.repository(**{item.removesuffix(".py"): "start\n" for item in ITEMS})
    with rig.api(Rules(Worker().answer)) as api:
        handle = await rig.start(two_steps(source, requireApproval=True, approvePhases=["planning"]))
        await until(handle, lambda now: bool(now.attention))
        await handle.terminate()
        again = await resume(rig, handle.id)
        await until(again, lambda now: bool(now.attention))
        assert not paid_turns(api, handle.id)
        await again.signal(OrchestrationWorkflow.approve, {"phase": "planning"})
        result = await again.result()
        assert_each_item_was_done_once(source, result.ref, api, handle.id)
    assert result.state is TaskState.DONE

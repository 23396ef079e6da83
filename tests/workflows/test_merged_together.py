"""Steps that wait to be merged: by one activity and in plan order, or one by one with gates in between."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.worker import ExecuteActivityInput, Replayer

from activities.git import GitError
from activities.pulse import pulse
from baton import trace
from baton.layout import TRAILER_STEP
from baton.messages import CloseAgent, MergedStep, MergeStep, MergeSteps, RunGates, TaskInput
from baton.states import TaskState
from baton.status import TaskStatus
from tests.end_to_end.bench import Handle, Rules, git
from tests.workflows.rig import Attempt, Rig, status, until
from tests.workflows.test_agent_workflow import editing
from tests.workflows.test_provider_limits import side_by_side
from workflows.orchestration import OrchestrationWorkflow

pytestmark = pytest.mark.asyncio(loop_scope="module")

STEPS = 5
OTHERS = (2, 3, 4, 5)
GATE = {"name": "there", "kind": "build", "command": "test -f a0.py"}
Other = Callable[[Attempt, MergeSteps], Awaitable[Any]]


class Merges:
    """What is asked of the host, in order. The agents of all other steps end while the first one is merged, which takes
    so long; `other` does something else to those that are merged together."""

    def __init__(self, rig: Rig, other: Other | None = None) -> None:
        self.asked: list[tuple[int | None, ...] | str] = []
        self.baseline = asyncio.Event()
        self.begun = asyncio.Event()
        self._rig, self._other = rig, other

    async def around(self, attempt: Attempt, given: ExecuteActivityInput) -> Any:
        request = given.args[0] if given.args else None
        if isinstance(request, MergeStep):
            self.asked.append((request.step,))
            if len(self.asked) == 1:
                self.begun.set()
                async with pulse():
                    await self._until_all_wait(request.task_id)
        elif isinstance(request, MergeSteps):
            self.asked.append(tuple(one.step for one in request.merges))
            if self._other is not None:
                return await self._other(attempt, request)
        elif isinstance(request, RunGates) and request.workspace == "baseline":
            found = await attempt()
            self.baseline.set()
            return found
        elif isinstance(request, RunGates):
            self.asked.append(request.workspace)
        elif isinstance(request, CloseAgent) and step_of(request) != 1:
            async with pulse():
                await self.begun.wait()
        return await attempt()

    async def _until_all_wait(self, task_id: str) -> None:
        await self.baseline.wait()
        handle = self._rig.client.get_workflow_handle(task_id)
        await until(handle, lambda now: not now.agents_at_work and agents_of(now) == STEPS)


def step_of(request: CloseAgent) -> int | None:
    return request.assignment.step.step if request.assignment.step is not None else None


def agents_of(now: TaskStatus) -> int:
    return now.usage.model_calls // 3


def five(rig: Rig, *gates: dict[str, str]) -> TaskInput:
    return side_by_side(rig, STEPS, sandbox="off", gates=list(gates))


async def replay(handle: Handle) -> None:
    """Its history gives the same commands once more."""
    replayer = Replayer(workflows=[OrchestrationWorkflow], data_converter=handle._client.data_converter)
    await replayer.replay_workflow(await handle.fetch_history())


def states(now: TaskStatus) -> dict[int, str]:
    return {step.step: step.state for step in now.steps}


def on_the_result(given: TaskInput, task_id: str) -> list[int]:
    """The steps, as they came onto it."""
    step = f"%(trailers:key={TRAILER_STEP},valueonly,separator=)"
    log = git(Path(given.repository), "log", "--reverse", f"--format={step}", f"main..baton/{task_id}")
    return [int(line) for line in log.splitlines()]


async def test_all_that_wait_are_merged_by_one_activity_in_plan_order(rig: Rig) -> None:
    merges, given = Merges(rig), five(rig)
    merges.baseline.set()
    with rig.api(Rules(editing)), rig.around(merges.around):
        result = await rig.run(given)
    assert result.state is TaskState.DONE, result.summary
    assert merges.asked == [(1,), OTHERS]
    assert on_the_result(given, result.task_id) == [1, *OTHERS]
    told = trace.parse((Path(result.artifacts) / trace.NAME).read_text())
    assert [line.step for line in told.of("merge")] == [1, *OTHERS]
    assert {line.step for line in told.of("wait") if line.name == "merge_queue"} == set(OTHERS)


async def test_with_cheap_gates_each_is_merged_alone_and_checked(rig: Rig) -> None:
    merges, given = Merges(rig), five(rig, GATE)
    with rig.api(Rules(editing)), rig.around(merges.around):
        result = await rig.run(given)
    assert result.state is TaskState.DONE, result.summary
    alone = [asked for step in (1, *OTHERS) for asked in ((step,), "gates")]
    assert merges.asked == [*alone[:-1], "result"]


async def test_gates_that_are_known_only_then_follow_on_those_merged_together(rig: Rig) -> None:
    """Those that are not cheap run on the result alone."""
    merges, given = Merges(rig), five(rig, GATE | {"kind": "test", "command": "sleep 11"})
    merges.baseline.set()
    with rig.api(Rules(editing)), rig.around(merges.around):
        result = await rig.run(given)
    assert result.state is TaskState.DONE, result.summary
    assert merges.asked == [(1,), OTHERS, "result"]


async def test_what_is_merged_while_the_task_is_cancelled_is_counted(rig: Rig) -> None:
    moved = asyncio.Event()

    async def cannot_be_stopped(attempt: Attempt, request: MergeSteps) -> Any:
        merged = await attempt()
        moved.set()
        try:
            async with pulse():
                await asyncio.sleep(30)
        except asyncio.CancelledError:
            return merged

    merges, given = Merges(rig, cannot_be_stopped), five(rig)
    merges.baseline.set()
    with rig.api(Rules(editing)), rig.around(merges.around):
        handle = await rig.start(given)
        await moved.wait()
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
        now = await status(handle)
        await replay(handle)
    assert states(now) == dict.fromkeys(range(1, STEPS + 1), "ok")
    assert on_the_result(given, now.task_id) == [1, *OTHERS]


async def test_what_is_not_merged_when_the_task_is_cancelled_is_not_counted(rig: Rig) -> None:
    begun = asyncio.Event()

    async def hangs(attempt: Attempt, request: MergeSteps) -> None:
        begun.set()
        async with pulse():
            await asyncio.sleep(30)

    merges, given = Merges(rig, hangs), five(rig)
    merges.baseline.set()
    with rig.api(Rules(editing)), rig.around(merges.around):
        handle = await rig.start(given)
        await begun.wait()
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
        now = await status(handle)
        await replay(handle)
    assert [step for step, state in states(now).items() if state == "ok"] == [1]
    assert on_the_result(given, now.task_id) == [1]


async def test_one_that_cannot_be_merged_takes_no_other_along(rig: Rig) -> None:
    """As when each is merged by itself: that step fails, those before and after it are on the result."""

    async def without_a_branch(attempt: Attempt, request: MergeSteps) -> tuple[MergedStep, ...]:
        await rig.folder_of(request.task_id).repository.git().output("update-ref", "-d", "refs/heads/step-3")
        try:
            merged: tuple[MergedStep, ...] = await attempt()
        except GitError as error:
            raise ApplicationError(str(error), non_retryable=True) from error
        return merged

    merges, given = Merges(rig, without_a_branch), five(rig)
    merges.baseline.set()
    with rig.api(Rules(editing)), rig.around(merges.around):
        handle = await rig.start(given)
        result, now = await handle.result(), await status(handle)
        await replay(handle)
    assert result.state is TaskState.PARTIAL
    assert merges.asked == [(1,), (2, 3, 4, 5), (3, 4, 5), (4, 5)]
    assert [step for step, state in states(now).items() if state != "ok"] == [3]
    assert on_the_result(given, result.task_id) == [1, 2, 4, 5]

"""Tasks as a client sees them, on a real Temporal server, with and without a worker.

The workflow here has the real name, queries and signals, and ends in every way that a task can.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio
from temporalio import workflow
from temporalio.client import Client
from temporalio.common import SearchAttributeKey
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from baton.messages import TaskInput
from baton.names import BAD_INPUT, ORCHESTRATION_WORKFLOW, TASK_QUEUE
from baton.states import TaskState
from baton.status import AttentionItem, Happening, TaskResult, TaskStatus
from cli import tasks
from cli.checks import Source
from cli.dev_server import server_binary
from cli.exits import Refused
from cli.following import PlainView, follow
from cli.listing import Wanted, rows
from cli.progress import progress, waiting
from cli.server import Server
from cli.starting import Order, start
from cli.tasks import WAITS_UNKNOWN, WORKER_AWAY, Task
from cli.terminal import plain

PHASE = SearchAttributeKey.for_keyword("BatonPhase")
ATTENTION = SearchAttributeKey.for_keyword("BatonAttention")
QUICK = timedelta(milliseconds=300)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@workflow.defn(name=ORCHESTRATION_WORKFLOW)
class ScriptedWorkflow:
    """Does what its task says: `done`, `bad`, `broken`, or waits until `approve` or cancellation."""

    @workflow.init
    def __init__(self, task: TaskInput) -> None:
        self._status = TaskStatus(
            task_id=workflow.info().workflow_id, task=task.task, phase="planning", started_at=workflow.now()
        )

    @workflow.query
    def status(self) -> TaskStatus:
        return self._status

    @workflow.signal
    def approve(self, request: dict[str, Any]) -> None:
        text = f"approved {request['phase']}"
        self._status = self._status.model_copy(update={"happenings": (Happening(at=workflow.now(), text=text),)})

    @workflow.update
    def approve_phase(self, request: dict[str, Any]) -> str:
        self.approve(request)
        return "taken"

    @approve_phase.validator
    def _check(self, request: dict[str, Any]) -> None:
        if request["phase"] != "planning":
            raise ApplicationError("no such approval is waited for")

    @workflow.run
    async def run(self, task: TaskInput) -> TaskResult:
        workflow.upsert_search_attributes([PHASE.value_set("planning")])
        if task.task == "bad":
            raise ApplicationError("no such base", type=BAD_INPUT, non_retryable=True)
        if task.task == "broken":
            raise ApplicationError("the disk is full", non_retryable=True)
        if task.task == "wait":
            workflow.upsert_search_attributes([ATTENTION.value_set("approval")])
            item = AttentionItem(
                id="limit-1", kind="limit", question="Go on?", choices=("raise", "stop"), since=workflow.now()
            )
            self._status = self._status.model_copy(update={"state": TaskState.WAITING, "attention": (item,)})
            await workflow.wait_condition(lambda: bool(self._status.happenings))
        workflow.upsert_search_attributes([PHASE.value_set("done")])
        self._status = self._status.model_copy(update={"state": TaskState.DONE, "phase": "done", "attention": ()})
        return TaskResult(task_id=self._status.task_id, state=TaskState.DONE, summary="all of it")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client() -> AsyncIterator[Client]:
    environment = await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(server_binary()),
        data_converter=pydantic_data_converter,
        search_attributes=[PHASE, ATTENTION, SearchAttributeKey.for_keyword("BatonRepository")],
    )
    async with environment:
        yield environment.client


@asynccontextmanager
async def working(client: Client) -> AsyncIterator[None]:
    runner = UnsandboxedWorkflowRunner()
    async with Worker(client, task_queue=TASK_QUEUE, workflows=[ScriptedWorkflow], workflow_runner=runner):
        yield


def server(client: Client) -> Server:
    """The same connection without the full client, as the command line has it."""
    return Server(client.service_client, client.namespace)


async def started(client: Client, task: str, task_id: str | None = None) -> Task:
    """A task of an id that no other test uses, unless one is given."""
    return Task(server(client), await start(server(client), order(task, task_id or f"{task}-{uuid.uuid4().hex[:8]}")))


def order(task: str, task_id: str | None) -> Order:
    return Order(TaskInput(task=task, repository="/somewhere/project"), Source("/somewhere/project"), task_id)


async def test_a_task_is_followed_to_its_result(client: Client) -> None:
    said: list[str] = []
    async with working(client):
        task = await started(client, "done")
        look, ending = await follow(task, patient=False, view=PlainView(said.append))
    assert look.closed
    assert ending is not None
    assert (ending.state, ending.result and ending.result.summary) == (TaskState.DONE, "all of it")
    assert look.status.phase == "done"


async def test_a_waiting_task_ends_the_following_and_takes_an_answer(client: Client) -> None:
    said: list[str] = []
    async with working(client):
        task = await started(client, "wait")
        look, ending = await follow(task, patient=False, view=PlainView(said.append))
        assert ending is None
        assert look.status.state is TaskState.WAITING
        await task.signal("approve", {"phase": "planning"})
        _, ending = await follow(task, patient=True, view=PlainView(said.append))
    assert ending is not None
    assert ending.state is TaskState.DONE
    assert said[0].endswith("  planning")
    assert any(line.endswith("approved planning") for line in said)


async def test_what_a_task_is_told_is_answered_or_refused(client: Client) -> None:
    async with working(client):
        task = await started(client, "wait")
        with pytest.raises(Refused, match="no such approval is waited for"):
            await task.tell("approve", {"phase": "integration"})
        assert await task.tell("approve", {"phase": "planning"}) == "taken"
        _, ending = await follow(task, patient=True, view=PlainView(lambda _: None))
    assert ending is not None
    assert ending.state is TaskState.DONE


async def test_without_a_worker_it_is_told_by_a_signal_that_is_kept(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "_UPDATE_LIMIT", QUICK)
    async with working(client):
        task = await started(client, "wait")
        await follow(task, patient=False, view=PlainView(lambda _: None))
    assert await task.tell("approve", {"phase": "planning"}) is None
    async with working(client):
        _, ending = await follow(task, patient=True, view=PlainView(lambda _: None))
    assert ending is not None
    assert ending.state is TaskState.DONE


@pytest.mark.parametrize(
    ("task", "fault", "bad"), [("bad", "no such base", True), ("broken", "the disk is full", False)]
)
async def test_a_failure_is_told_by_its_cause(client: Client, task: str, fault: str, bad: bool) -> None:
    async with working(client):
        _, ending = await follow(await started(client, task), patient=True, view=PlainView(lambda _: None))
    assert ending is not None
    assert (ending.state, ending.fault, ending.bad_input) == (TaskState.FAILED, fault, bad)


@pytest.mark.parametrize("terminate", [True, False])
async def test_a_task_that_was_ended_from_outside_is_cancelled(client: Client, terminate: bool) -> None:
    async with working(client):
        task = await started(client, "wait")
        await follow(task, patient=False, view=PlainView(lambda _: None))
        if terminate:
            await client.get_workflow_handle(task.task_id).terminate(reason="enough")
        else:
            await task.cancel()
        look, ending = await follow(task, patient=True, view=PlainView(lambda _: None))
    assert ending is not None
    assert (ending.state, look.status.state, look.status.attention) == (TaskState.CANCELLED, TaskState.CANCELLED, ())
    assert (look.terminated, ending.terminated) == ((True, "enough") if terminate else (False, ""))
    assert "▶" not in "".join(plain(line) for line in progress(look, datetime.now(UTC)))


async def test_without_a_worker_the_server_tells_what_it_knows(client: Client) -> None:
    async with working(client):
        waits = await started(client, "wait", "waiting")
        seen, _ = await follow(waits, patient=False, view=PlainView(lambda _: None))
        done = await started(client, "done", "finished")
        await follow(done, patient=True, view=PlainView(lambda _: None))
    look = await waits.look(query_limit=QUICK)
    assert (look.status.task, look.status.repository) == ("wait", "/somewhere/project")
    assert (look.status.state, look.status.phase) == (TaskState.WAITING, "planning")
    assert look.hint
    assert (await waits.look(seen, query_limit=QUICK)).hint == WORKER_AWAY
    closed = await done.look(query_limit=QUICK)
    assert closed.closed
    assert (closed.status.state, closed.status.summary) == (TaskState.DONE, "all of it")


async def test_following_goes_on_until_the_worker_says_what_is_waited_for(client: Client) -> None:
    async with working(client):
        task = await started(client, "wait")
        await follow(task, patient=False, view=PlainView(lambda _: None))
    said: list[str] = []
    following = asyncio.create_task(follow(task, patient=False, view=PlainView(said.append)))
    async with asyncio.timeout(60):
        while not said or WORKER_AWAY not in said[-1]:
            await asyncio.sleep(0.05)
    assert any(WAITS_UNKNOWN in line for line in said)
    assert not following.done()
    async with working(client), asyncio.timeout(60):
        look, ending = await following
    assert (ending, [item.id for item in look.status.attention]) == (None, ["limit-1"])
    assert said[-1].endswith("waiting for a person (limit-1): Go on?")
    assert [plain(line).strip() for line in waiting(look.status)][1:] == [
        f'orchestrate answer {task.task_id} limit-1 raise --comment "…"',
        f"orchestrate answer {task.task_id} limit-1 stop",
    ]


async def test_ids_are_free_or_refused(client: Client) -> None:
    async with working(client):
        ids = [await start(server(client), order("done", None)) for _ in range(3)]
        assert [task_id.removeprefix(ids[0]) for task_id in ids] == ["", "-2", "-3"]
        await started(client, "done", "mine")
        with pytest.raises(Refused, match="already used: choose another with --task-id"):
            await started(client, "done", "mine")


async def test_a_secret_is_not_sent_to_be_stored(client: Client) -> None:
    task = Task(server(client), f"none-{uuid.uuid4().hex}")
    token = "ghp_" + "a1" * 18
    with pytest.raises(Refused, match="guide holds what looks like a secret"):
        await task.tell("guide", {"text": f"use {token}"}, worker_away=True)


async def test_an_unknown_task_is_refused(client: Client) -> None:
    task = Task(server(client), f"none-{uuid.uuid4().hex}")
    with pytest.raises(Refused, match="there is no task"):
        await task.look()
    with pytest.raises(Refused, match="there is no task"):
        await task.signal("approve", {})
    with pytest.raises(Refused, match="there is no task"):
        await task.cancel()


async def test_the_list_shows_states_and_summaries_newest_first(client: Client) -> None:
    async with working(client):
        for task in ("done", "bad", "wait"):
            await started(client, task, f"{task}-task")
        await follow(Task(server(client), "wait-task"), patient=False, view=PlainView(lambda _: None))
        for _ in range(50):
            found = [
                row for row in await rows(server(client), Wanted(everything=True)) if row.task_id.endswith("-task")
            ]
            if [row.state for row in found] == ["waiting", "refused", "done"]:
                break
            await asyncio.sleep(0.1)
        assert [(row.task_id, row.state, row.summary) for row in found] == [
            ("wait-task", "waiting", "wait"),
            ("bad-task", "refused", "no such base"),
            ("done-task", "done", "all of it"),
        ]
        running = {row.task_id for row in await rows(server(client), Wanted(running_only=True))}
        assert "wait-task" in running
        assert "done-task" not in running

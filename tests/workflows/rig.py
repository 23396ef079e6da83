"""The workflows in the test's own event loop: a real local server, the real workflows and activities, real git, the
real SDK against the emulator. What the worker process adds is left out, so that a whole run takes a second."""

import asyncio
import inspect
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
    Worker,
)

from activities.agents import Agents
from activities.credentials import Credentials
from activities.directions import number_of
from activities.merging import Merging
from activities.model import LONGEST_SILENCE, Model
from activities.model_client import ModelClient
from activities.notifying import Notifying
from activities.opening import Opening
from activities.quota import Gate, Pauses
from activities.routing import Routing
from activities.run_steps import RunSteps
from activities.synthesizing import Synthesizing
from activities.task_folder import TaskFolder, Tasks
from activities.tasks import TaskWork
from activities.turn import Turns
from baton.messages import TaskInput
from baton.names import TASK_QUEUE
from baton.status import AttentionItem, TaskResult, TaskStatus
from cli.service import save_credentials
from emulator import reply
from emulator.server import EmulatorServer
from tests.end_to_end import bench
from tests.end_to_end.bench import Handle
from workflows.agent import AgentWorkflow
from workflows.orchestration import OrchestrationWorkflow
from workflows.quota import QuotaWorkflow

HEARTBEATS = timedelta(seconds=1)
"""As in worker.py: a cancellation is heard with a heartbeat."""

WAIT_SECONDS = 30

Attempt = Callable[[], Awaitable[Any]]
Around = Callable[[Attempt, ExecuteActivityInput], Awaitable[Any]]
"""Runs an attempt of an activity, or does something else to it."""


@dataclass
class Attempts(Interceptor):
    """Every attempt of every activity goes through `around`, which a test may set."""

    around: Around | None = None

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002
        """Put ourselves in between."""
        attempts = self

        class Inbound(ActivityInboundInterceptor):
            async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002
                if attempts.around is None:
                    return await self.next.execute_activity(input)
                return await attempts.around(lambda: self.next.execute_activity(input), input)

        return Inbound(next)


@dataclass
class Rig:
    """A server and a worker that run."""

    folder: Path
    client: Client
    tasks: Tasks
    attempts: Attempts
    numbers: Iterator[int] = field(default_factory=count)

    @contextmanager
    def api(self, model: reply.Model, **options: Any) -> Iterator[EmulatorServer]:
        """The Messages API that the activities talk to in the block."""
        with bench.served(model, self.folder, **options) as server:
            yield server

    @contextmanager
    def around(self, around: Around) -> Iterator[None]:
        """Attempts of activities go through `around` in the block."""
        self.attempts.around = around
        try:
            yield
        finally:
            self.attempts.around = None

    def new_key(self, server: EmulatorServer) -> None:
        """Have the activities use another key, and another server with it."""
        save_credentials(self.folder, {"ANTHROPIC_API_KEY": "another-key", "ANTHROPIC_BASE_URL": server.url})

    def repository(self, **files: str) -> Path:
        """A fresh repository with a module for each name."""
        named = {f"{name}.py": text for name, text in files.items()}
        return bench.repository(self.folder / f"project-{next(self.numbers)}", named)

    async def start(self, given: TaskInput) -> Handle:
        """Start a task under an id of its own."""
        return await bench.start(self.client, given, f"task-{uuid.uuid4().hex[:12]}")

    async def run(self, given: TaskInput) -> TaskResult:
        """Start a task and wait for its end."""
        return await (await self.start(given)).result()

    def folder_of(self, task_id: str) -> TaskFolder:
        """What the worker keeps of a task."""
        return self.tasks.folder(task_id)


async def status(handle: Handle) -> TaskStatus:
    """How the task stands."""
    return await handle.query(OrchestrationWorkflow.status)


async def attention(handle: Handle) -> AttentionItem:
    """What a person is asked, once there is something."""
    found = await until(handle, lambda now: bool(now.attention))
    return found.attention[0]


async def answer(handle: Handle, item: AttentionItem, choice: str) -> None:
    """A person's answer."""
    await handle.signal(OrchestrationWorkflow.answer, {"attention_id": item.id, "choice": choice})


async def until(handle: Handle, condition: Callable[[TaskStatus], bool]) -> TaskStatus:
    """Wait for a state of the task."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition(now := await status(handle)):
            await asyncio.sleep(0.05)
    return now


async def until_told(rig: "Rig", agent: str) -> None:
    """Wait until the agent of this workflow was told something: from then on it takes no further turn by itself."""
    run_id = (await rig.client.get_workflow_handle(agent).describe()).run_id
    async with asyncio.timeout(WAIT_SECONDS):
        while not number_of(run_id):
            await asyncio.sleep(0.02)


def manifests(result: TaskResult) -> list[dict[str, Any]]:
    """The handoff files of a task, in order of time."""
    paths = sorted(Path(result.artifacts).glob("agent-*-handoff.json"), key=lambda path: int(path.name.split("-")[1]))
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def activities_of(*owners: object) -> list[Callable[..., Any]]:
    """All activities that these objects have."""
    methods = [method for owner in owners for _, method in inspect.getmembers(owner, inspect.ismethod)]
    return [method for method in methods if hasattr(method, "__temporal_activity_definition")]


@asynccontextmanager
async def running_rig(address: str, folder: Path, longest_silence: timedelta = LONGEST_SILENCE) -> AsyncIterator[Rig]:
    """A worker with everything below the folder, for the block. `longest_silence`: of the model in a stream."""
    client = await Client.connect(address, data_converter=pydantic_data_converter)
    credentials = Credentials(folder / "service" / "credentials.json", {})
    clients = ModelClient(credentials)
    model = Model(clients.lend, longest_silence=longest_silence, gate=Gate(Pauses(client)))
    tasks = Tasks(folder)
    attempts = Attempts()
    async with Worker(
        client,
        task_queue=TASK_QUEUE,
        workflows=[OrchestrationWorkflow, AgentWorkflow, QuotaWorkflow],
        activities=activities_of(
            Opening(tasks, model, credentials, TASK_QUEUE, folder / "home", searchable=False),
            TaskWork(tasks, credentials),
            Merging(tasks, credentials),
            Notifying(tasks, credentials),
            Routing(tasks, model),
            Synthesizing(tasks, model, credentials),
            RunSteps(tasks, credentials),
            Agents(tasks, model, credentials),
            Turns(tasks, model, credentials),
        ),
        interceptors=[attempts],
        max_heartbeat_throttle_interval=HEARTBEATS,
        default_heartbeat_throttle_interval=HEARTBEATS,
    ):
        try:
            yield Rig(folder, client, tasks, attempts)
        finally:
            await clients.close()

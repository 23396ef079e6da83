"""What tests of whole runs share: a small repository, a task on it, the Messages API behind the worker, and looks at
what a run left. `Bench` is one real service (server, supervisor, worker) that all tests of a session use in turn."""

import os
import socket
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from temporalio.client import Client, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter

from baton.messages import TaskInput
from baton.names import ORCHESTRATION_WORKFLOW, TASK_QUEUE
from baton.plan import DraftStep, PlanDraft
from baton.status import TaskResult
from cli.service import Ports, Service, ensure, save_credentials, stop
from emulator.dialogue import Dialogue, read_dialogue
from emulator.reply import Block, Model, Reply
from emulator.request import Request
from emulator.server import EmulatorServer

RUN_LIMIT = timedelta(seconds=240)
"""No run of a test takes as long; a wedged one fails instead of hanging."""

Handle = WorkflowHandle[Any, TaskResult]


@dataclass(frozen=True)
class Rules:
    """A model that answers by a function of what the conversation says so far, and so has no state to lose."""

    answer: Callable[[Dialogue], Reply | Sequence[Block]]

    def respond(self, request: Request) -> Reply:
        """The next message."""
        answer = self.answer(read_dialogue(request))
        return answer if isinstance(answer, Reply) else Reply(answer)


def generation(dialogue: Dialogue) -> int:
    """The number of an agent in its chain, from 1."""
    return int(dialogue.assignment["agent_id"].partition("~")[2] or 1)


def git(repository: Path, *arguments: str) -> str:
    """The output of git."""
    command = ["git", "-C", str(repository), "-c", "user.name=Ada", "-c", "user.email=ada@example.org", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def repository(folder: Path, files: Mapping[str, str]) -> Path:
    """A repository with one commit that holds these files."""
    folder.mkdir(parents=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "as it was")
    return folder


def tree(folder: Path, ref: str) -> dict[str, str]:
    """The files of a commit by path, each with its mode and the name of its content."""
    lines = git(folder, "ls-tree", "-r", "-z", ref).split("\0")
    return {path: facts for facts, _, path in (line.partition("\t") for line in lines if line)}


def task(folder: Path, *items: str, owns: Sequence[str] = (), **settings: Any) -> TaskInput:
    """A task of one step on these items, planned already and without integration; `settings` as in the files."""
    step = DraftStep(step=1, agent_type="editor", description="Edit the files", items=items, owns=tuple(owns))
    return TaskInput(
        task="Edit the files",
        repository=str(folder),
        plan=PlanDraft(plan=(step,)),
        integration=False,
        settings={"gates": [], "sandbox": "off", **settings},
        environment={"PATH": os.environ["PATH"], "HOME": str(folder.parent)},
    )


async def start(client: Client, given: TaskInput, task_id: str, limit: timedelta = RUN_LIMIT) -> Handle:
    """Start a task."""
    return await client.start_workflow(
        ORCHESTRATION_WORKFLOW,
        given,
        id=task_id,
        task_queue=TASK_QUEUE,
        result_type=TaskResult,
        execution_timeout=limit,
    )


async def run(client: Client, given: TaskInput, task_id: str, limit: timedelta = RUN_LIMIT) -> TaskResult:
    """Start a task and wait for its end."""
    return await (await start(client, given, task_id, limit)).result()


def paid_turns(api: EmulatorServer, task_id: str) -> Counter[tuple[str, str]]:
    """How often each request of a task was answered with a response, complete or not: (user id, hash of the body)."""
    return Counter(
        (exchange.user_id or "", exchange.body_sha256 or "")
        for exchange in api.requests
        if exchange.status == 200 and (exchange.user_id or "").startswith(f"{task_id}/")
    )


def statuses(api: EmulatorServer) -> Counter[int]:
    """How the requests for messages were answered."""
    return Counter(exchange.status for exchange in api.requests if exchange.path == "/v1/messages")


def commands_below(folder: Path) -> list[str]:
    """Processes that work in the folder now, as `pid command line`."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if Path(process.cwd()).is_relative_to(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid} {' '.join(process.cmdline())}")
    return found


def free_ports() -> Ports:
    """Two ports that nobody uses."""
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return Ports(frontend=first.getsockname()[1], ui=second.getsockname()[1])


@contextmanager
def own_home(home: Path) -> Iterator[None]:
    """Processes started in the block see an empty home folder and no configured Temporal or model API."""
    home.mkdir(parents=True, exist_ok=True)
    with pytest.MonkeyPatch.context() as environment:
        for name in [name for name in os.environ if name.startswith(("TEMPORAL_", "ANTHROPIC_"))]:
            environment.delenv(name)
        environment.setenv("HOME", str(home))
        yield


@contextmanager
def served(model: Model, state: Path, **options: Any) -> Iterator[EmulatorServer]:
    """The Messages API around `model`, known to the worker of this state directory."""
    with EmulatorServer(model, **options) as server:
        save_credentials(state, {"ANTHROPIC_API_KEY": "key-of-the-test", "ANTHROPIC_BASE_URL": server.url})
        yield server


@dataclass(frozen=True)
class Bench:
    """A running service."""

    state: Path
    service: Service

    async def client(self) -> Client:
        """A client for it."""
        return await Client.connect(
            self.service.address, namespace=self.service.namespace, data_converter=pydantic_data_converter
        )

    @contextmanager
    def api(self, model: Model, **options: Any) -> Iterator[EmulatorServer]:
        """The Messages API that the worker talks to in the block."""
        with served(model, self.state, **options) as server:
            yield server


@contextmanager
def running_bench(folder: Path) -> Iterator[Bench]:
    """A service of its own below the folder, stopped with the block."""
    state = folder / "state"
    with own_home(folder / "home"):
        service = ensure(state, ports=free_ports(), exit_after=timedelta(minutes=30), embedded_only=True)
    try:
        yield Bench(state, service)
    finally:
        stop(state)

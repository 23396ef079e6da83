"""SIGKILL at every point of a turn, and of the server: the run ends as an unkilled one does, and nothing is paid for
or done twice. Each case has a worker process, a state directory and a namespace of its own; all run side by side."""

import asyncio
import signal
import subprocess
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client, WorkflowFailureError
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError

from baton.states import TaskState
from baton.status import TaskResult
from cli import processes
from cli.processes import python_command
from cli.service import inspect, save_credentials
from emulator.reply import Block, Reply, Text, Thinking, ToolUse
from emulator.request import Request
from emulator.server import EmulatorServer
from tests.end_to_end.bench import (
    Bench,
    commands_below,
    git,
    own_home,
    paid_turns,
    repository,
    run,
    start,
    statuses,
    task,
    tree,
)
from tests.end_to_end.killing_worker import POINTS

pytestmark = pytest.mark.end_to_end

ITEMS = ("a.py", "b.py", "c.py", "d.py")
FILES = {name: f"value = {number}\n" for number, name in enumerate(ITEMS)} | {".gitignore": "*.flag\n"}
EDITED = FILES | {"a.py": "value = 10\n# once\n", "b.py": "value = 1\nmore = 1\n", "c.py": "value = 12\n"}
READY_SECONDS = 120.0
CANCEL_SECONDS = 5.0
"""A second until the worker hears of it, two for the command to end by itself, and the report."""

ASKED_TWICE = {"streaming", "after-response"}
"""Points at which the provider has answered and nothing knows of it yet: only another request can tell the answer."""

WHILE_KEPT = {"before-node", "before-checkpoint", "within-checkpoint", "after-checkpoint", "after-outcome"}
"""Points at which the model may have been asked for the next turn, whose answer waits until this one is kept."""

ONCE = "test -e once.flag || {{ touch once.flag; sleep {seconds}; }}"
"""Git ignores the flag, so it outlives the reset of the workspace; what the killed attempt left running does not."""


class Editor:
    """Four turns: read, edit and run a command, edit and finish. `on_second` is called when the second one is asked."""

    def __init__(self, on_second: threading.Event | None = None) -> None:
        self._on_second = on_second

    def respond(self, request: Request) -> Reply:
        """The next turn by the number of those before it."""
        turn = sum(message.role == "assistant" for message in request.messages)
        if turn == 1 and self._on_second is not None:
            self._on_second.set()
        seconds = "300" if "during-tool" in (request.user_id or "") else "0.3"
        turns: list[list[Block]] = [
            [ToolUse("read", {"file_path": name}) for name in ITEMS],
            [
                Thinking("The number first, then the remark."),
                Text("I change the first file in two ways. " * 8),
                ToolUse("edit", {"file_path": "a.py", "old_string": "0", "new_string": "10"}),
                ToolUse("bash", {"command": f"echo '# once' >> a.py; {ONCE.format(seconds=seconds)}"}),
                ToolUse("complete_item", {"item": "a.py"}),
            ],
            [
                Thinking("A thought is bound to every byte before it."),
                ToolUse("append", {"file_path": "b.py", "content": "more = 1\n", "at_line": 1}),
                ToolUse("complete_item", {"item": "b.py"}),
                ToolUse("edit", {"file_path": "c.py", "old_string": "2", "new_string": "12"}),
                ToolUse("complete_item", {"item": "c.py"}),
                ToolUse("complete_item", {"item": "d.py", "outcome": "unchanged"}),
                ToolUse("record", {"decisions": [{"decision": "two digits", "rationale": "room to grow"}]}),
            ],
            [ToolUse("finish_step", {"status": "ok", "summary": "edited"})],
        ]
        return Reply(turns[turn])


@dataclass(frozen=True)
class Case:
    """What one run came to."""

    point: str | None
    outcome: dict[str, object]
    paid: Counter[tuple[str, str]]
    was_killed: bool
    left_running: list[str]


@dataclass(frozen=True)
class Host:
    """A host of its own for one case: a namespace, and one worker process at a time."""

    folder: Path
    address: str
    namespace: str

    def start_worker(self, point: str | None) -> subprocess.Popen[bytes]:
        """Start the real worker, or the one that kills itself."""
        command = python_command("worker")
        if point is not None:
            command = [*python_command("tests.end_to_end.killing_worker"), "--kill-at", point]
            command += ["--marker", str(self.folder / "killed")]
        command += ["--state", str(self.folder), "--address", self.address, "--namespace", self.namespace]
        with (self.folder / "worker.log").open("ab") as log:
            return subprocess.Popen(
                [*command, "--ready-file", str(self.folder / f"ready-{point}")],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


async def ended(process: subprocess.Popen[bytes]) -> int:
    """Wait for the end of a process; its exit code."""
    while (code := process.poll()) is None:
        await asyncio.sleep(0.05)
    return code


async def own_namespace(client: Client, name: str, address: str) -> Client:
    """A client in a new namespace, once the server knows it."""
    await client.workflow_service.register_namespace(
        RegisterNamespaceRequest(namespace=name, workflow_execution_retention_period=Duration(seconds=86_400))
    )
    found = await Client.connect(address, namespace=name, data_converter=pydantic_data_converter)
    async with asyncio.timeout(READY_SECONDS):
        while True:
            try:
                await found.count_workflows()
            except RPCError:
                await asyncio.sleep(0.2)
            else:
                return found


async def run_case(bench: Bench, api: EmulatorServer, folder: Path, point: str | None) -> Case:
    """One run whose worker is killed at `point`; the next worker starts at once, as the supervisor would do it."""
    task_id = f"kill-{point or 'never'}"
    source = repository(folder / "project", FILES)
    host = Host(folder / "host", bench.service.address, task_id)
    host.folder.mkdir()
    save_credentials(host.folder, {"ANTHROPIC_API_KEY": "key-of-the-test", "ANTHROPIC_BASE_URL": api.url})
    client = await own_namespace(await bench.client(), task_id, host.address)
    worker = host.start_worker(point)
    running = asyncio.create_task(run(client, task(source, *ITEMS), task_id))
    try:
        if point is not None:
            async with asyncio.timeout(READY_SECONDS):
                assert await ended(worker) == -signal.SIGKILL, (folder / "host" / "worker.log").read_text()
            worker = host.start_worker(None)
        result = await running
    finally:
        running.cancel()
        worker.terminate()
        await ended(worker)
    paid = paid_turns(api, task_id)
    return Case(
        point=point,
        outcome=outcome(source, result, paid),
        paid=paid,
        was_killed=(host.folder / "killed").exists(),
        left_running=commands_below(host.folder),
    )


def outcome(source: Path, result: TaskResult, paid: Counter[tuple[str, str]]) -> dict[str, object]:
    """What must not depend on any kill."""
    return {
        "state": result.state,
        "files": {name: git(source, "show", f"{result.ref}:{name}") for name in tree(source, result.ref or "main")},
        "items": (result.items.changed, result.items.unchanged),
        "agents": (result.agents, result.handoffs),
        "turns": len(paid),
        "model calls": result.usage.model_calls,
        "output tokens": result.usage.output_tokens,
    }


def counted(unkilled: dict[str, object], asked_twice: bool) -> dict[str, object]:
    """The same, with one lost call in the books: it was killed before its first heartbeat, so no output is known."""
    calls = unkilled["model calls"]
    assert isinstance(calls, int)
    return unkilled | {"model calls": calls + asked_twice}


def test_a_worker_killed_at_every_point_of_a_turn(bench: Bench, tmp_path: Path) -> None:
    points: list[str | None] = [None, *POINTS]

    async def run_all(api: EmulatorServer) -> list[Case]:
        return await asyncio.gather(*(run_case(bench, api, tmp_path / str(point), point) for point in points))

    with own_home(tmp_path / "home"), EmulatorServer(Editor()) as api:
        unkilled, *killed = asyncio.run(run_all(api))
        assert statuses(api).keys() == {200}
    assert unkilled.outcome["state"] is TaskState.DONE
    assert unkilled.outcome["files"] == EDITED
    assert [case.point for case in killed if not case.was_killed] == []
    assert {case.point: case.left_running for case in killed if case.left_running} == {}
    allowed = {
        case.point: [
            counted(unkilled.outcome, asked_twice)
            for asked_twice in (False, True)
            if case.point in WHILE_KEPT or asked_twice == (case.point in ASKED_TWICE)
        ]
        for case in killed
    }
    assert {case.point: case.outcome for case in killed if case.outcome not in allowed[case.point]} == {}
    twice = {case.point for case in killed if sorted(case.paid.values()) == [1, 1, 1, 2]}
    once = {case.point for case in killed if list(case.paid.values()) == [1, 1, 1, 1]}
    assert twice | once == POINTS.keys()
    assert twice - WHILE_KEPT == ASKED_TWICE
    # There it is the turn after the one that was being kept.
    assert {tuple(case.paid.values()) for case in killed if case.point in twice & WHILE_KEPT} <= {(1, 1, 2, 1)}


async def test_the_server_killed_within_a_turn(bench: Bench, tmp_path: Path) -> None:
    second_turn = threading.Event()
    source = repository(tmp_path / "project", FILES)
    before = inspect(bench.state)
    assert before is not None
    with bench.api(Editor(second_turn)) as api:
        running = asyncio.create_task(run(await bench.client(), task(source, *ITEMS), "kill-server"))
        assert await asyncio.to_thread(second_turn.wait, READY_SECONDS)
        processes.kill(before.server)
        result = await running
        paid = paid_turns(api, "kill-server")
        assert list(paid.values()) == [1, 1, 1, 1]
        assert statuses(api) == {200: 4}
    assert outcome(source, result, paid)["files"] == EDITED
    assert result.state is TaskState.DONE
    after = inspect(bench.state)
    assert after is not None
    assert after.server != before.server
    assert after.worker == before.worker


async def test_cancel_ends_the_command_that_runs(bench: Bench, tmp_path: Path) -> None:
    task_id = "cancel-during-tool"
    source = repository(tmp_path / "project", FILES)
    folder = bench.state / "tasks" / task_id
    loop = asyncio.get_running_loop()
    with bench.api(Editor()) as api:
        handle = await start(await bench.client(), task(source, *ITEMS), task_id)
        async with asyncio.timeout(READY_SECONDS):
            while not (folder / "workspaces" / "step-1" / "once.flag").exists():
                await asyncio.sleep(0.05)
        assert any("sleep 300" in command for command in commands_below(folder))
        cancelled = loop.time()
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
        assert loop.time() - cancelled < CANCEL_SECONDS
        assert commands_below(folder) == []
        assert statuses(api) == {200: 2}

"""One turn killed at every point of its transaction: paid once, applied once, whatever is left is taken up again."""

import asyncio
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import which
from typing import Any

import psutil
import pytest
from agents_bench import ENVIRONMENT, TASK, Agent, Bench, MakeBench, call, differing, does, git, says, texts

from activities.commands import ProcessGroup
from activities.git import GitError
from activities.known_tree import KnownTree
from activities.process_groups import TAG_VARIABLE
from activities.repository import Change, PrivateRepository
from activities.store import Store
from activities.turn_journal import turn_key
from baton import trace
from baton.messages import TurnOutcome
from emulator.reply import Reply
from emulator.request import Request

CALLS = does(
    call("append", file_path="src/a.py", content="A2 = 2\n", at_line=1),
    call("bash", command="echo made > made.txt; cat src/a.py made.txt"),
    call("complete_item", item="src/a.py"),
)
ROOT = Path(__file__).parents[2]
POINTS = ["response", "tools", "node", "checkpoint", "outcome"]


class Killed(BaseException):
    """The process ends here. No handler of ours may catch it."""


class DyingStore(Store):
    """Writes the entry with this word in its key, and dies."""

    def __init__(self, folder: Path, after: str) -> None:
        super().__init__(folder)
        self._after = after

    def enter(self, key: str, data: bytes, *, durable: bool = True) -> bytes:
        entry = super().enter(key, data, durable=durable)
        if self._after in key:
            raise Killed
        return entry


class DyingRepository(PrivateRepository):
    """Dies where the checkpoint is made, before or after it, or when the calls look at the changes."""

    def __init__(self, folder: Path, point: str) -> None:
        super().__init__(folder)
        self._point = point

    async def changed_paths(
        self, workspace: Path, since: str | None = None, tree: KnownTree | None = None
    ) -> list[Change]:
        if self._point == "tools":
            raise Killed
        return await super().changed_paths(workspace, since, tree)

    async def checkpoint(self, *given: Any, **more: Any) -> str:
        if self._point == "node":
            raise Killed
        commit = await super().checkpoint(*given, **more)
        if self._point == "checkpoint":
            raise Killed
        return commit


def arm(bench: Bench, point: str) -> None:
    """Let this process die at the point."""
    folder = bench.folder
    if point in {"response", "answer", "outcome"}:
        folder.store = DyingStore(folder.path / "store", f"/{point}")
    else:
        folder.repository = DyingRepository(folder.path, point)


async def undisturbed(make_bench: MakeBench) -> tuple[Bench, Agent]:
    bench = await make_bench(CALLS, says("Next."))
    return bench, await bench.start()


def files(agent: Agent) -> dict[str, str]:
    return {
        str(p.relative_to(agent.workspace)): p.read_text() for p in agent.workspace.rglob("*.*") if p.name != ".git"
    }


def assert_applied_once(bench: Bench, agent: Agent, outcome: TurnOutcome) -> None:
    assert bench.statuses() == [200]
    assert agent.commits() == ["executor-2-converter · turn 1"]
    assert files(agent) == {
        "src/a.py": "A = 1\nA2 = 2\n",
        "src/b.py": "B = 1\n",
        "docs/guide.md": "# Guide\n",
        "made.txt": "made\n",
    }
    assert differing(agent.workspace) == ""
    assert [record.item for record in outcome.items] == ["src/a.py"]
    assert outcome.items[0].commit == outcome.commit
    assert outcome.calls == 3
    assert traced(bench) == ["model tool_use", "tool append", "tool bash", "tool complete_item"]


def traced(bench: Bench) -> list[str]:
    """What the trace tells of calls, in order of time."""
    told = trace.parse((bench.folder.artifacts / trace.NAME).read_text())
    assert told.unreadable == 0
    return [f"{line.kind} {line.tool or line.outcome}" for line in told.of("model", "tool")]


@pytest.mark.parametrize("point", POINTS)
async def test_a_killed_turn_goes_on_where_it_was(make_bench: MakeBench, point: str) -> None:
    bench, agent = await undisturbed(make_bench)
    request = agent.request()
    arm(bench, point)
    with pytest.raises(Killed):
        await agent.attempt(request)
    left = agent.commits()
    assert len(left) == (1 if point in {"checkpoint", "outcome"} else 0)
    bench.restart()
    outcome = await agent.attempt(request, number=2)
    assert_applied_once(bench, agent, outcome)
    agent.state = agent.state.after(outcome)
    await agent.go_on()
    results = bench.sent()[-1]["content"]
    assert [texts([block]).splitlines()[0] for block in results[:2]] == [
        "appended 1 lines to src/a.py, which has 2 lines now",
        "A = 1",
    ]
    assert bench.statuses() == [200, 200]


@pytest.mark.parametrize("point", ["checkpoint", "outcome"])
async def test_a_finished_turn_keeps_its_node(make_bench: MakeBench, point: str) -> None:
    """Calls are not run again: what they would do now is not what was recorded."""
    bench, agent = await undisturbed(make_bench)
    request = agent.request()
    arm(bench, point)
    with pytest.raises(Killed):
        await agent.attempt(request)
    recorded = git(
        agent.workspace, "log", "-1", agent.workspace.name, "--format=%(trailers:key=Baton-Result,valueonly)"
    ).strip()
    (agent.workspace / "made.txt").write_text("changed by nobody\n")
    bench.restart()
    assert (await agent.attempt(request, number=2)).head == recorded
    assert (agent.workspace / "made.txt").read_text() == "changed by nobody\n"


async def test_a_checkpoint_whose_node_was_not_stored_is_made_again(make_bench: MakeBench) -> None:
    """Both are made side by side: the process may have died between the one and the other."""
    bench, agent = await undisturbed(make_bench)
    request = agent.request()
    arm(bench, "checkpoint")
    with pytest.raises(Killed):
        await agent.attempt(request)
    recorded = git(
        agent.workspace, "log", "-1", agent.workspace.name, "--format=%(trailers:key=Baton-Result,valueonly)"
    ).strip()
    (bench.folder.path / "store" / "blobs" / recorded[:2] / recorded[2:]).unlink()
    bench.restart()
    assert_applied_once(bench, agent, await agent.attempt(request, number=2))


async def test_killed_twice_at_different_points(make_bench: MakeBench) -> None:
    bench, agent = await undisturbed(make_bench)
    request = agent.request()
    for number, point in enumerate(POINTS, start=1):
        arm(bench, point)
        with pytest.raises(Killed):
            await agent.attempt(request, number=number)
        bench.restart()
    assert_applied_once(bench, agent, await agent.attempt(request, number=9))


async def test_two_attempts_at_once(make_bench: MakeBench) -> None:
    """The first one still lives when the second one begins, in another process."""
    bench, agent = await undisturbed(make_bench)
    request = agent.request()
    first = asyncio.create_task(agent.attempt(request))
    await asyncio.sleep(0)
    bench.restart()
    second = asyncio.create_task(agent.attempt(request, number=2))
    outcomes = await asyncio.gather(first, second)
    assert outcomes[0] == outcomes[1]
    assert_applied_once(bench, agent, outcomes[0])


async def test_cancelled_in_the_middle_of_a_command(make_bench: MakeBench, tmp_path: Path) -> None:
    """The half of the work that was done is taken back, the command is over, and the same calls run again."""
    once = tmp_path / "once"
    slow = f"echo half >> half.txt; if mkdir {once}; then exec sleep 600; fi; cat src/a.py half.txt"
    calls = [call("append", file_path="src/a.py", content="A2 = 2\n", at_line=1), call("bash", command=slow)]
    bench = await make_bench(does(*calls), says("Next."))
    agent = await bench.start()
    request = agent.request()
    attempt = asyncio.create_task(agent.attempt(request))
    while not once.exists():
        await asyncio.sleep(0.02)
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    assert not [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "600"]]
    assert (agent.workspace / "half.txt").exists()
    bench.restart()
    agent.state = agent.state.after(await agent.attempt(request, number=2))
    assert (agent.workspace / "half.txt").read_text() == "half\n"
    assert (agent.workspace / "src/a.py").read_text() == "A = 1\nA2 = 2\n"
    await agent.go_on()
    assert [block.get("is_error", False) for block in bench.sent()[-1]["content"][:2]] == [False, False]
    assert bench.statuses() == [200, 200]
    assert agent.commits() == ["executor-2-converter · turn 1"]


class FullExecutor(ThreadPoolExecutor):
    """Its one thread is taken from `fill` on, and it tells when a journal entry waits for it."""

    def __init__(self) -> None:
        super().__init__(max_workers=1)
        self.free, self.entry_waits = threading.Event(), threading.Event()

    def fill(self) -> None:
        super().submit(self.free.wait)

    def submit(self, fn: Any, /, *args: Any, **options: Any) -> Any:
        if getattr(fn.args[0], "__name__", "") == "enter":
            self.entry_waits.set()
        return super().submit(fn, *args, **options)


async def test_cancelled_while_the_response_waits_for_a_thread(make_bench: MakeBench) -> None:
    """It has come and is paid for: it is journaled all the same."""
    executor = FullExecutor()
    asyncio.get_running_loop().set_default_executor(executor)

    def answers(_: Request) -> Reply:
        executor.fill()
        return CALLS

    bench = await make_bench(answers)
    agent = await bench.start()
    attempt = asyncio.create_task(agent.attempt(agent.request()))
    try:
        while not executor.entry_waits.is_set():
            await asyncio.sleep(0.02)
        attempt.cancel()
        journaled = f"{turn_key(agent.run_id, 1, agent.state.head)}/response"
        while bench.folder.store.entry(journaled) is None:
            await asyncio.sleep(0.02)
    finally:
        executor.free.set()
    with pytest.raises(asyncio.CancelledError):  # what the workspace needs a thread for is waited for
        await attempt
    bench.restart()
    assert_applied_once(bench, agent, await agent.attempt(agent.request(), number=2))


async def test_a_command_left_running_by_a_killed_process_is_ended(make_bench: MakeBench) -> None:
    bench, agent = await undisturbed(make_bench)
    await agent.furnished()
    environment = {**ENVIRONMENT, TAG_VARIABLE: "left-over"}
    left = subprocess.Popen(["sleep", "600"], start_new_session=True, env=environment, cwd=agent.workspace)
    try:
        async with bench.folder.locked("step-2") as lock:
            lock.remember(ProcessGroup.led_by(left.pid, "left-over"))
        (agent.workspace / "src/a.py").write_text("half")
        assert_applied_once(bench, agent, await agent.attempt(agent.request(), number=2))
        assert left.wait(timeout=1) != 0
    finally:
        left.kill()


RESET = """
import asyncio, sys
from pathlib import Path
from activities.task_folder import Tasks
async def main():
    folder = Tasks(Path(sys.argv[1])).folder(sys.argv[2])
    async with folder.locked("step-2"):
        await folder.repository.reset(folder.workspace("step-2"))
asyncio.run(main())
"""


async def test_a_git_that_outlives_a_killed_process_is_waited_for(make_bench: MakeBench, tmp_path: Path) -> None:
    """It still writes in the workspace: nobody may take its lock of the index away."""
    bench, agent = await undisturbed(make_bench)
    await agent.furnished()
    slow, seen = tmp_path / "programs" / "git", tmp_path / "seen"
    slow.parent.mkdir()
    slow.write_text(
        f'#!/bin/sh\ncase "$*" in *read-tree*) echo $$ > {seen}; sleep 2;; esac\nexec {which("git")} "$@"\n'
    )
    slow.chmod(0o755)
    environment = {**ENVIRONMENT, "PATH": f"{slow.parent}:{ENVIRONMENT['PATH']}", "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen([sys.executable, "-c", RESET, str(bench.state), TASK], env=environment)
    while not (seen.exists() and seen.read_text().strip()):
        assert parent.poll() is None
        await asyncio.sleep(0.02)
    parent.kill()
    parent.wait()
    left = int(seen.read_text())
    assert psutil.pid_exists(left)
    async with asyncio.timeout(20), bench.folder.locked("step-2"):
        assert not psutil.pid_exists(left) or psutil.Process(left).status() == psutil.STATUS_ZOMBIE
    assert_applied_once(bench, agent, await agent.attempt(agent.request(), number=2))


def instead_of_checkouts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str) -> None:
    """From now on git does this in the place of a checkout."""
    program = tmp_path / "programs" / "git"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\ncase "$*" in *read-tree*) {does};; esac\nexec {which("git")} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


async def test_a_cancellation_ends_the_making_of_a_workspace_too(
    make_bench: MakeBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    instead_of_checkouts(tmp_path, monkeypatch, f"echo $$ > {seen}; exec sleep 600")
    bench, agent = await undisturbed(make_bench)
    attempt = asyncio.create_task(agent.attempt(agent.request()))
    while not (bench.statuses() and seen.exists() and seen.read_text().strip()):
        await asyncio.sleep(0.02)
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    left = int(seen.read_text())
    assert not psutil.pid_exists(left) or psutil.Process(left).status() == psutil.STATUS_ZOMBIE
    async with asyncio.timeout(5), bench.folder.locked("step-2"):
        pass


async def test_a_workspace_that_cannot_be_made_ends_the_call(
    make_bench: MakeBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instead_of_checkouts(tmp_path, monkeypatch, "echo no room >&2; exit 128")
    bench = await make_bench(says("word " * 2_000), tokens_per_second=10)
    agent = await bench.start()
    async with asyncio.timeout(20):
        with pytest.raises(GitError, match="no room"):
            await agent.attempt(agent.request())
    assert [exchange.complete for exchange in bench.server.requests if exchange.path == "/v1/messages"] != [True]


@pytest.mark.parametrize("point", ["response", "checkpoint"])
async def test_killed_and_the_workspace_deleted(make_bench: MakeBench, point: str) -> None:
    bench, agent = await undisturbed(make_bench)
    request = agent.request()
    arm(bench, point)
    with pytest.raises(Killed):
        await agent.attempt(request)
    shutil.rmtree(agent.workspace, ignore_errors=True)  # the response may have come before it was made
    bench.restart()
    assert_applied_once(bench, agent, await agent.attempt(request, number=2))


@pytest.mark.parametrize("opened_again", [True, False], ids=["terminated", "reset"])
async def test_what_a_turn_of_another_run_left_is_in_no_commit(make_bench: MakeBench, opened_again: bool) -> None:
    """Whoever comes after a reset, or after a start from the beginning, knows nothing of the turn that was killed."""
    bench = await make_bench(
        does(call("bash", command="echo half > half.txt"), call("complete_item", item="src/a.py")), CALLS
    )
    agent = await bench.start()
    arm(bench, "tools")
    with pytest.raises(Killed):
        await agent.attempt(agent.request())
    assert (agent.workspace / "half.txt").exists()
    bench.restart()
    if opened_again:
        agent = await bench.start()
    agent.run_id = "another-run"
    outcome = await agent.attempt(agent.request())
    assert not (agent.workspace / "half.txt").exists()
    assert files(agent)["src/a.py"] == "A = 1\nA2 = 2\n"
    assert outcome.calls == 3
    assert bench.statuses() == [200, 200]


async def test_a_checkpoint_of_another_turn_is_not_this_one(make_bench: MakeBench) -> None:
    """The head of the branch belongs to a turn that the workflow never heard of: its work is done anew."""
    bench = await make_bench(
        does(call("append", file_path="src/a.py", content="STRAY = 1\n", at_line=1)), CALLS, says("Next.")
    )
    agent = await bench.start()
    request = agent.request()
    await agent.attempt(request)
    agent.run_id = "reset-run"
    outcome = await agent.attempt(request.model_copy(update={"turn": 2}))
    assert bench.statuses() == [200, 200]
    assert (agent.workspace / "src/a.py").read_text() == "A = 1\nA2 = 2\n"
    assert outcome.calls == 3

"""The commands of `run` steps with real git and real processes: odd names, failures, foreign files, kills, rules."""

import asyncio
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from activities import run_steps
from activities.credentials import Credentials
from activities.run_steps import RunSteps
from activities.task_folder import TaskFolder, TaskRecord, Tasks
from baton import trace
from baton.ledger import ItemStatus
from baton.messages import CommandsRun, OpenedTask, RunCommands, TaskInput
from baton.plan import Plan, PlanStep
from baton.settings import PermissionRules, Settings

ODD = ("a b.txt", "a'b.txt", 'a"b.txt', "a\nb.txt", "-rf.txt", "$(x).txt", "é.txt", "a;b.txt", "sub/c.txt")
UPPER = "tr a-z A-Z < {item} > x.tmp && cat x.tmp > {item} && rm x.tmp"


class Work:
    """A task with a step that runs commands."""

    def __init__(self, state: Path, source: Path) -> None:
        self.state, self.source = state, source

    @property
    def folder(self) -> TaskFolder:
        return Tasks(self.state).folder("t")

    async def create(self, sandbox: str = "off", **rules: tuple[str, ...]) -> None:
        folder = self.folder
        facts = await folder.repository.inspect(str(self.source))
        await folder.repository.create(facts)
        opened = OpenedTask(
            host_queue="q",
            source=str(self.source),
            base_commit=facts.base_commit,
            base_name="main",
            settings=Settings.model_validate({"sandbox": sandbox}),
            artifacts=str(self.state / "artifacts"),
        )
        task = TaskInput(task="t", repository=str(self.source))
        environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
        record = TaskRecord(
            task_id="t", input=task, opened=opened, environment=environment, permissions=PermissionRules(**rules)
        )
        folder.write_record(record)

    async def run(
        self, command: str, *items: str, only_tell: bool = False, attempt: int = 1, **step: Any
    ) -> CommandsRun:
        one = PlanStep(step=1, agent_type="x", description="d", items=items, run=command, **step)
        other = PlanStep(step=2, agent_type="x", description="d", items=("other.txt",))
        self.folder.write_plan(Plan(task_id="t", plan=(one, other)))
        request = RunCommands(
            task_id="t",
            agent_id="run-1",
            step=one,
            workspace="step-1",
            start_commit=self.folder.record.opened.base_commit,
            only_tell=only_tell,
        )
        activities = RunSteps(Tasks(self.state), Credentials(self.state / "none.json", {}))
        environment = ActivityEnvironment()
        environment.info = replace(environment.info, attempt=attempt)
        told: CommandsRun = await environment.run(activities.run_commands, request)
        return told

    @property
    def lines(self) -> list[trace.TraceLine]:
        """What is told of commands; the last telling counts."""
        return list(trace.parse((self.state / "artifacts" / trace.NAME).read_text()).of("command"))

    def content(self, told: CommandsRun, name: str) -> bytes:
        show = ["git", f"--git-dir={self.folder.repository.path}", "cat-file", "blob", f"{told.commit}:{name}"]
        return subprocess.run(show, capture_output=True, check=True).stdout


@pytest.fixture
def work(tmp_path: Path) -> Work:
    source = tmp_path / "source"
    for name in (*ODD, "other.txt", "plain.txt", "done.txt"):
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("DONE\n" if name == "done.txt" else f"text of {len(name)}\n")
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    for command in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-qm", "x")):
        subprocess.run(["git", *command], cwd=source, check=True)
    return Work(tmp_path / "state", source)


def statuses(told: CommandsRun) -> dict[str, ItemStatus]:
    return {record.item: record.status for record in told.records}


async def test_every_item_gets_its_command_whatever_its_name(work: Work) -> None:
    await work.create()
    told = await work.run(UPPER, *ODD, "done.txt")
    assert statuses(told) == dict.fromkeys(ODD, ItemStatus.CHANGED) | {"done.txt": ItemStatus.UNCHANGED}
    assert told.finished
    assert not told.remarks
    assert work.content(told, "-rf.txt") == b"TEXT OF 7\n"
    assert await work.run("false {item}", *ODD, "done.txt") == told, "nothing is run a second time"


async def test_what_attempts_that_died_have_run_is_told_by_the_next(work: Work) -> None:
    await work.create()
    items = ("plain.txt", "done.txt", "sub/c.txt")
    file = work.state / "artifacts" / trace.NAME
    file.mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        await work.run(UPPER, *items)
    file.rmdir()
    await work.run(UPPER, *items, attempt=2)
    assert [(line.calls, line.outcome, line.step) for line in work.lines] == [(3, "ok", 1)]
    await work.run(UPPER, *items, attempt=3)
    assert len(work.lines) == 1


async def test_a_failure_is_noted_and_what_it_did_is_taken_back(work: Work) -> None:
    await work.create()
    told = await work.run(
        "echo half > {item}; echo it broke; test {item} != plain.txt", "plain.txt", "done.txt", "sub/c.txt"
    )
    assert statuses(told)["plain.txt"] is ItemStatus.FAILED
    assert told.records[0].note == "exit code 1: it broke"
    assert (work.content(told, "plain.txt"), work.content(told, "done.txt")) == (b"text of 9\n", b"half\n")


async def test_files_of_others_are_as_they_were(work: Work) -> None:
    await work.create()
    told = await work.run(
        "for f in plain.txt other.txt; do echo new > $f; done; echo made > made.log; : {item}", "plain.txt"
    )
    assert "other.txt" in told.remarks[0]
    assert work.content(told, "other.txt") == b"text of 9\n"
    assert (work.content(told, "plain.txt"), work.content(told, "made.log")) == (b"new\n", b"made\n")


async def test_a_command_that_commits_on_the_branch_hides_nothing(work: Work) -> None:
    await work.create()
    who = "-c user.name=m -c user.email=m@x"
    told = await work.run(f"git checkout -q step-1; echo x > other.txt; git add -A; git {who} commit -qm x", "a.txt")
    assert any("other.txt" in remark for remark in told.remarks)


async def test_one_command_for_all(work: Work) -> None:
    await work.create()
    told = await work.run("echo new > plain.txt", "plain.txt", "done.txt")
    assert statuses(told) == {"plain.txt": ItemStatus.CHANGED, "done.txt": ItemStatus.UNCHANGED}


async def test_one_command_that_fails_leaves_nothing(work: Work) -> None:
    await work.create()
    told = await work.run("echo new > plain.txt; exit 3")
    assert (told.failure, told.finished) == ("exit code 3: no output", True)
    assert work.content(told, "plain.txt") == b"text of 9\n"


async def test_an_attempt_goes_on_behind_the_last_batch(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    await work.create()
    monkeypatch.setattr(run_steps, "BATCH_ITEMS", 1)
    log, block = work.state.parent / "log", work.state.parent / "block"
    os.mkfifo(block)
    command = f"echo {{item}} >> {log}; echo x >> {{item}}; test {{item}} != done.txt || cat {block}"
    first = asyncio.create_task(work.run(command, "plain.txt", "done.txt", "sub/c.txt"))
    while not log.exists() or log.read_text().count("\n") < 2:
        await asyncio.sleep(0.01)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    told = await work.run(command, "plain.txt", "done.txt", "sub/c.txt", only_tell=True)
    assert (statuses(told), told.finished) == ({"plain.txt": ItemStatus.CHANGED}, False)
    block.unlink()
    block.write_text("")
    told = await work.run(command, "plain.txt", "done.txt", "sub/c.txt")
    assert log.read_text().splitlines() == ["plain.txt", "done.txt", "done.txt", "sub/c.txt"]
    assert work.content(told, "done.txt") == b"DONE\nx\n", "the half-done item started anew"


async def test_a_slice_ends_and_the_next_goes_on(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    await work.create()
    monkeypatch.setattr(run_steps, "SLICE_SECONDS", 0)
    told = await work.run("true {item}", "plain.txt", "done.txt")
    assert (len(told.records), told.finished) == (1, False)
    told = await work.run("true {item}", "plain.txt", "done.txt")
    assert (len(told.records), told.finished) == (2, True)


async def test_rules_bind_the_commands_of_a_plan(work: Work) -> None:
    await work.create(deny=("Bash(rm *)",))
    assert "Bash(rm *)" in (await work.run("rm {item}", "plain.txt")).refused
    assert (await work.run("true; sh -c 'rm plain.txt'")).refused
    assert (await work.run("true")).finished


async def test_without_a_sandbox_only_what_is_allowed_runs(work: Work) -> None:
    await work.create(sandbox="auto", allow=("Bash(touch *)",))
    refused = await work.run("echo {item} > {item}", "plain.txt")
    assert "no sandbox" in refused.refused
    assert not refused.records
    assert (await work.run("touch {item}", "plain.txt")).finished


async def test_secrets_are_masked_in_notes(work: Work) -> None:
    (work.source / ".env").write_text("API_KEY=hunter2hunter2hunter2\n")
    subprocess.run(["git", "add", "-fA"], cwd=work.source, check=True)
    subprocess.run(
        ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-qm", "x"],
        cwd=work.source,
        check=True,
    )
    await work.create()
    told = await work.run("cat .env; exit 1; : {item}", "plain.txt")
    assert "API_KEY=[secret]" in str(told.records[0].note)


async def test_a_token_that_a_command_wrote_is_taken_back_and_told(work: Work) -> None:
    await work.create()
    make = "printf 'token = gh' > plain.txt; printf p_ >> plain.txt; "
    told = await work.run(
        make + "printf 'k3Rw9ZbQ7mLx%.0s' 1 2 3 >> plain.txt; echo new > done.txt", "plain.txt", "done.txt"
    )
    assert told.remarks == ("changes that held secrets were taken back: plain.txt",)
    assert work.content(told, "plain.txt") == b"text of 9\n"

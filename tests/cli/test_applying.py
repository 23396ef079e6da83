"""`apply` with real git: what it refuses, what it does, and that a failure leaves the checkout as it was."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.application import build

TASK = "some-task"
REF = f"baton/{TASK}"
Orchestrate = Callable[..., Result]


class Repository:
    """A user's repository with a task's result and its report in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "Ada")
        self.git("config", "user.email", "ada@example.org")
        self.write("a.py", "a = 1\n")
        self.commit("first")
        self.base = self.head()
        self.git("switch", "-q", "-c", REF)
        self.write("a.py", "a = 2\n")
        self.commit("Change a\n\nBaton-Task: some-task\nBaton-Step: 1\n")
        self.write("b.py", "b = 1\n")
        self.commit("Add b\n\nBaton-Task: some-task\nBaton-Step: 2\n")
        self.tip = self.head()
        self.git("switch", "-q", "main")
        self.report()

    def git(self, *arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(self.folder), *arguments], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def commit(self, message: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def report(self, **changes: object) -> None:
        folder = self.folder / ".claude/orchestration" / TASK
        folder.mkdir(parents=True, exist_ok=True)
        (folder.parent / ".gitignore").write_text("*\n")
        (folder / "report.md").write_text("# Done\n")
        told = {
            "task_id": TASK, "task": "Change everything that there is", "state": "done", "ready": True,
            "base_commit": self.base, "result": {"ref": REF, "commit": self.tip},
            "steps": [{"step": 1, "status": "ok"}], "quality_gates": [], "items": {"open": 0, "failed": 0},
        }  # fmt: skip
        (folder / "integration-report.json").write_text(json.dumps({**told, **changes}))

    def state(self) -> tuple[str, ...]:
        """Everything that must stay as it was when nothing was applied."""
        return (self.git("for-each-ref"), self.git("status", "--porcelain=v2", "--branch"), self.git("stash", "list"))


@pytest.fixture
def repository(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    made = Repository(tmp_path / "repository")
    monkeypatch.chdir(made.folder)
    return made


@pytest.fixture
def apply(home: Path) -> Orchestrate:
    def run(*arguments: str) -> Result:
        return CliRunner().invoke(build(), ["apply", TASK, *arguments])

    return run


def test_a_result_is_merged_and_can_be_taken_back(repository: Repository, apply: Orchestrate) -> None:
    repository.write("own.py", "own = 1\n")
    repository.commit("own work")
    before = repository.head()
    done = apply()
    assert done.exit_code == 0, done.output
    assert "2 files changed" in done.stdout
    assert repository.git("log", "-1", "--format=%an %s") == f"Ada Merge branch '{REF}'"
    undo = done.stdout.partition("Take it back: ")[2].partition("\n")[0]
    subprocess.run(undo.split(), check=True)
    assert repository.head() == before
    assert repository.git("status", "--porcelain") == ""


def test_what_is_there_already_is_said(repository: Repository, apply: Orchestrate) -> None:
    assert apply().exit_code == 0
    merged = repository.head()
    again = apply("--json")
    assert (again.exit_code, json.loads(again.stdout)["outcome"]) == (0, "already")
    assert repository.head() == merged


def test_a_squash_is_one_commit_that_is_known_again(repository: Repository, apply: Orchestrate) -> None:
    done = json.loads(apply("--squash", "--json").stdout)
    assert (done["outcome"], done["files_changed"], done["before"]) == ("applied", 2, repository.base)
    assert repository.git("rev-parse", "HEAD^") == repository.base
    message = repository.git("log", "-1", "--format=%B")
    assert message.startswith("Change everything that there is\n\n- Change a\n- Add b\n")
    assert f"Baton-Applied: {repository.tip}" in message
    repository.write("a.py", "a = 3\n")
    repository.commit("later work on the same line")
    assert "already holds" in apply().stdout


def test_a_result_that_somebody_squashed_by_hand_is_known_again(repository: Repository, apply: Orchestrate) -> None:
    repository.git("merge", "--squash", REF)
    repository.commit("by hand")
    assert "already holds" in apply().stdout


def test_a_conflict_touches_nothing_and_says_how_to_go_on(repository: Repository, apply: Orchestrate) -> None:
    repository.write("a.py", "a = 9\n")
    repository.commit("own work")
    before = repository.state()
    for arguments in ((), ("--squash",), ("--force",)):
        refused = apply(*arguments)
        assert refused.exit_code == 1
        assert "a.py" in refused.stderr
        assert f"merge {REF}" in refused.stderr
        assert repository.state() == before
    assert json.loads(apply("--json").stdout)["conflicts"] == ["a.py"]


@pytest.mark.parametrize("squash", [(), ("--squash",)])
def test_what_a_hook_refuses_is_taken_back(repository: Repository, apply: Orchestrate, squash: tuple[str, ...]) -> None:
    repository.write("own.py", "own = 1\n")
    repository.commit("own work")
    for name in ("pre-merge-commit", "pre-commit"):
        hook = repository.folder / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\necho the hook says no >&2\nexit 1\n")
        hook.chmod(0o755)
    before = repository.state()
    refused = apply(*squash)
    assert refused.exit_code == 1
    assert "the hook says no" in refused.stderr
    assert "as it was" in refused.stderr
    assert repository.state() == before
    assert not (repository.folder / ".git/MERGE_HEAD").exists()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"quality_gates": [{"name": "tests", "status": "new_failure", "blocks": True}]}, "gate tests: new failure"),
        ({"state": "partial", "steps": [{"step": 1, "status": "blocked"}]}, "step 1 is blocked"),
        ({"items": {"open": 2, "failed": 0}}, "items open: 2"),
        ({"state": "cancelled"}, "the task is cancelled"),
    ],
)
def test_what_is_undone_needs_force(
    repository: Repository, apply: Orchestrate, changes: dict[str, object], reason: str
) -> None:
    repository.report(**changes)
    before = repository.state()
    refused = apply()
    assert refused.exit_code == 3
    assert reason in refused.stderr
    assert "--force" in refused.stderr
    assert repository.state() == before
    assert apply("--force").exit_code == 0
    assert repository.head() == repository.tip


def change_a_file(repository: Repository) -> None:
    repository.write("a.py", "a = 7\n")


def detach(repository: Repository) -> None:
    repository.git("switch", "-q", "--detach")


def stand_on_the_result(repository: Repository) -> None:
    repository.git("switch", "-q", REF)


def remove_the_branch(repository: Repository) -> None:
    repository.git("branch", "-q", "-D", REF)


def begin_a_merge(repository: Repository) -> None:
    repository.git("merge", "--no-ff", "--no-commit", REF)


def start_anew(repository: Repository) -> None:
    repository.git("switch", "-q", "--orphan", "empty")


@pytest.mark.parametrize(
    ("situation", "message"),
    [
        (change_a_file, "changes that are not committed"),
        (detach, "detached HEAD"),
        (stand_on_the_result, "is itself checked out"),
        (remove_the_branch, f"has no branch {REF}"),
        (begin_a_merge, "a merge is in progress"),
        (start_anew, "has no commits"),
    ],
)
def test_where_it_cannot_be_applied_it_is_refused(
    repository: Repository, apply: Orchestrate, situation: Callable[[Repository], None], message: str
) -> None:
    situation(repository)
    before = repository.state()
    refused = apply("--force")
    assert refused.exit_code == 2, refused.output
    assert message in refused.stderr
    assert repository.state() == before

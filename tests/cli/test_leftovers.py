"""What a task left, with real git: what counts as merged, what would be lost, and what is never removed."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from cli import leftovers as leftovers_module
from cli.leftovers import Leftovers, leftovers, remove, size_bytes

TASK, REF = "some-task", "baton/some-task"


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder: Path, name: str, text: str, message: str) -> str:
    (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)
    return git(folder, "rev-parse", "HEAD")


class Left:
    """A repository, and a task's folder as a worker leaves it: one step on the result, published as a branch."""

    def __init__(self, folder: Path) -> None:
        self.state, self.repository = folder / "state", folder / "repository"
        self.folder = self.state / "tasks" / TASK
        self.private = self.folder / "repository.git"
        self.artifacts = self.repository / ".claude/orchestration" / TASK
        self.folder.mkdir(parents=True)
        git(folder, "init", "-q", "-b", "main", str(self.repository))
        self.base = commit(self.repository, "a.py", "a = 1\n", "first")
        git(folder, "clone", "-q", "--bare", "--local", str(self.repository), str(self.private))
        git(self.repository, "switch", "-q", "-c", REF)
        self.tip = commit(self.repository, "a.py", "a = 2\n", "Change a\n\nBaton-Task: some-task\nBaton-Step: 1\n")
        git(self.repository, "switch", "-q", "main")
        git(self.private, "fetch", "-q", str(self.repository), f"{REF}:refs/heads/result", f"{REF}:refs/heads/step-1")
        git(self.private, "update-ref", "refs/baton/base", self.base)
        git(self.private, "branch", "-q", "-D", "main")
        self.artifacts.mkdir(parents=True)
        (self.artifacts.parent / ".gitignore").write_text("*\n")
        (self.artifacts / "report.md").write_text("# Done\n")
        opened = {"source": str(self.repository), "base_commit": self.base, "artifacts": str(self.artifacts)}
        (self.folder / "task.json").write_text(json.dumps({"opened": opened}))

    def look(self) -> Leftovers:
        return leftovers(TASK, self.state)


@pytest.fixture
def left(tmp_path: Path) -> Left:
    return Left(tmp_path)


def test_work_on_no_other_branch_would_be_lost(left: Left) -> None:
    found = left.look()
    assert found.lost == (f"{left.tip[:7]} Change a",)
    assert (found.branches, found.artifacts, found.folders) == ({REF: left.tip}, left.artifacts, (left.folder,))


@pytest.mark.parametrize("how", ["merge", "other branch", "squash", "tag"])
def test_work_that_is_elsewhere_is_not_lost(left: Left, how: str) -> None:
    match how:
        case "merge":
            git(left.repository, "merge", "-q", "--no-ff", "--no-edit", REF)
        case "other branch":
            git(left.repository, "branch", "kept", REF)
        case "squash":
            git(left.repository, "merge", "-q", "--squash", REF)
            git(left.repository, "commit", "-q", "-m", f"All\n\nBaton-Applied: {left.tip}")
            commit(left.repository, "a.py", "a = 5\n", "later on the same line")
        case "tag":
            git(left.repository, "tag", "kept", REF)
    assert left.look().lost == ()


def test_a_commit_that_somebody_added_to_the_branch_would_be_lost_too(left: Left) -> None:
    git(left.repository, "merge", "-q", REF)
    git(left.repository, "switch", "-q", REF)
    added = commit(left.repository, "mine.py", "mine = 1\n", "mine")
    git(left.repository, "switch", "-q", "main")
    assert left.look().lost == (f"{added[:7]} mine",)


def test_a_result_whose_branch_is_gone_is_looked_for_elsewhere(left: Left) -> None:
    git(left.repository, "branch", "-q", "-D", REF)
    assert left.look().lost == (f"{left.tip[:7]} Change a",)
    git(left.repository, "merge", "-q", left.tip)
    assert left.look().lost == ()


def test_checkpoints_of_a_step_that_was_not_merged_would_be_lost(left: Left, tmp_path: Path) -> None:
    git(left.repository, "merge", "-q", REF)
    work = tmp_path / "work"
    git(left.private, "worktree", "add", "-q", "-b", "step-2", str(work), left.base)
    tip = commit(work, "b.py", "b = 1\n", "checkpoint")
    git(left.private, "worktree", "remove", str(work))
    assert left.look().lost == (f"{tip[:7]} step-2, not on the result: b.py",)


@pytest.mark.parametrize(("step", "kept"), [(1, False), (2, True)])
def test_where_a_conflict_was_laid_out_counts_with_its_step(left: Left, tmp_path: Path, step: int, kept: bool) -> None:
    git(left.repository, "merge", "-q", REF)
    work = tmp_path / "work"
    git(left.private, "worktree", "add", "-q", "-b", "resolve-1", str(work), left.base)
    tip = commit(work, "a.py", "<<<<<<< a\n", f"Conflict of step-{step}\n\nBaton-Conflict: step-{step}\n")
    git(left.private, "worktree", "remove", str(work))
    assert left.look().lost == ((f"{tip[:7]} resolve-1, not on the result: a.py",) if kept else ())


def test_the_branch_of_a_task_with_a_longer_name_is_not_its_own(left: Left) -> None:
    git(left.repository, "branch", "baton/some-task-2", left.base)
    git(left.repository, "switch", "-q", "-c", "baton/some-task-3", left.base)
    commit(left.repository, "a.py", "a = 3\n", "Other\n\nBaton-Task: some-task-3\n")
    git(left.repository, "switch", "-q", "main")
    assert set(left.look().branches) == {REF}


def test_everything_goes_and_the_bytes_are_told(left: Left) -> None:
    git(left.repository, "merge", "-q", REF)
    cache = left.folder / "store/cache"
    cache.mkdir(parents=True)
    (cache / "large").write_bytes(os.urandom(300_000))
    cache.chmod(0o500)
    expected = sum(size_bytes(place) for place in left.look().places)
    assert expected >= 300_000
    assert remove(left.look(), left.state) == expected
    assert not left.folder.exists()
    assert not (left.repository / ".claude").exists()
    assert git(left.repository, "for-each-ref", "--format=%(refname)") == "refs/heads/main"
    assert git(left.repository, "status", "--porcelain") == ""
    assert (left.repository / "a.py").read_text() == "a = 2\n"


def test_what_shares_its_bytes_with_others_frees_none(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "original").write_bytes(os.urandom(100_000))
    empty = size_bytes(folder)
    (folder / "shared").hardlink_to(tmp_path / "original")
    (folder / "link").symlink_to(tmp_path)
    assert size_bytes(folder) - empty < 100_000
    (folder / "one").write_bytes(os.urandom(100_000))
    (folder / "two").hardlink_to(folder / "one")
    assert 100_000 <= size_bytes(folder) - empty < 200_000


def test_a_folder_that_is_not_surely_the_tasks_own_stays(left: Left, tmp_path: Path) -> None:
    other = tmp_path / "precious" / TASK
    other.mkdir(parents=True)
    (other / "report.md").write_text("mine\n")
    for artifacts in (other, left.repository, left.repository / "src"):
        opened = {"source": str(left.repository), "base_commit": left.base, "artifacts": str(artifacts)}
        (left.folder / "task.json").write_text(json.dumps({"opened": opened}))
        assert left.look().artifacts is None
    linked = left.repository / "linked"
    linked.mkdir()
    (linked / TASK).symlink_to(other)
    opened = {"source": str(left.repository), "base_commit": left.base, "artifacts": str(linked / TASK)}
    (left.folder / "task.json").write_text(json.dumps({"opened": opened}))
    assert left.look().artifacts is None


def test_payloads_of_the_task_go_with_it(left: Left) -> None:
    git(left.repository, "merge", "-q", REF)
    own, other = (left.state / "payloads/tasks" / name / "blobs" for name in (TASK, "other-task"))
    for folder in (own, other):
        folder.mkdir(parents=True)
        (folder / "payload").write_bytes(b"x" * 10_000)
    found = left.look()
    assert own.parent in found.folders
    remove(found, left.state)
    assert not own.parent.exists()
    assert (other / "payload").is_file()


def test_what_somebody_removed_by_hand_is_no_fault(left: Left) -> None:
    git(left.repository, "merge", "-q", REF)
    for folder in (left.private, left.artifacts):
        subprocess.run(["rm", "-rf", str(folder)], check=True)
    found = left.look()
    assert (found.lost, found.artifacts) == ((), None)
    remove(found, left.state)
    assert not left.folder.exists()


def test_what_a_worker_removes_meanwhile_stops_no_clean_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a task does not wait until the files of its workspaces are gone."""
    (tmp_path / "task" / "gone" / "deep").mkdir(parents=True)
    (tmp_path / "task" / "file").write_text("kept\n")
    listed = leftovers_module._entries

    def listing(folder: Path) -> list[os.DirEntry[str]]:
        found = listed(folder)
        if folder.name == "gone":
            (folder / "deep").rmdir()
        return found

    monkeypatch.setattr(leftovers_module, "_entries", listing)
    assert size_bytes(tmp_path / "task") > 0
    leftovers_module._remove(Leftovers(task_id="t", folders=(tmp_path / "task",)))
    assert not (tmp_path / "task").exists()

"""The result branch of a task as the user's repository has it: its tip, and whether its work is elsewhere too.

Work counts as applied to a commit when that commit's history holds it, when a commit there says so (a squash by
`apply`), or when merging it would change nothing. Everything here only reads.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from baton.layout import (
    BASE,
    BRANCHES,
    RESULT,
    TRAILER_APPLIED,
    TRAILER_CONFLICT,
    TRAILER_STEP,
    TRAILER_TASK,
    may_be_branch_of,
)
from cli.checks import git
from cli.exits import ServiceError

_CONFLICT_EXIT = 1
_STEP = re.compile(r"(?:again-\d+-)?step-(\d+)(?:\.\d+)?")


@dataclass(frozen=True)
class Merge:
    """What a merge would come to: the tree (a name of git), or the paths in conflict."""

    tree: str
    conflicts: tuple[str, ...] = ()


def commit_of(repository: Path, name: str) -> str | None:
    """The commit that a name stands for; None where there is none."""
    found = git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    return found.stdout.decode().strip() if found.returncode == 0 else None


def trial_merge(repository: Path, ours: str, theirs: str) -> Merge:
    """Merge two commits without touching files, index or branches. ServiceError where git cannot."""
    flags = ("--write-tree", "--name-only", "--no-messages", "-z")
    tried = git(repository, "merge-tree", *flags, ours, theirs)
    if tried.returncode not in {0, _CONFLICT_EXIT}:
        raise ServiceError(f"git cannot merge {theirs[:12]} here: {tried.stderr.decode(errors='replace').strip()}")
    tree, *paths = [os.fsdecode(part) for part in tried.stdout.split(b"\0") if part]
    return Merge(tree, tuple(dict.fromkeys(paths)) if tried.returncode else ())


def is_applied(repository: Path, tip: str, base: str, head: str) -> bool:
    """Whether `head` holds the work of `tip`, in one of the three ways."""
    if git(repository, "merge-base", "--is-ancestor", tip, head).returncode == 0:
        return True
    if _said_to_be_in(repository, tip, base, head):
        return True
    return _adds_nothing(repository, tip, head)


def branches_of(repository: Path, task_id: str, base: str) -> dict[str, str]:
    """The branches that hold work of this task, by the trailers of their commits: name -> tip."""
    listed = _text(repository, "for-each-ref", "--format=%(objectname) %(refname:lstrip=2)", f"refs/heads/{BRANCHES}")
    tips = {name: tip for tip, _, name in (line.partition(" ") for line in listed.splitlines())}
    return {
        name: tip
        for name, tip in tips.items()
        if may_be_branch_of(task_id, name) and task_id in _tasks_in(repository, tip, base)
    }


def unmerged(repository: Path, own: dict[str, str], tip: str, base: str) -> list[str]:
    """The commits of `tip` that no branch or tag beside `own` holds, each as `abc1234 subject`."""
    head = commit_of(repository, "HEAD")
    if head is not None and _current(repository) not in own and is_applied(repository, tip, base, head):
        return []
    excluded = [f"--exclude={name}" for name in own]
    if _said_to_be_in(repository, tip, base, *excluded, "--branches", "--remotes", "--tags"):
        return []
    known = ("--not", *excluded, "--branches", "--remotes", "--tags", *([base] if commit_of(repository, base) else []))
    return _text(repository, "log", "--format=%h %s", tip, *known).splitlines()


def only_private(private: Path, repository: Path | None, own: dict[str, str]) -> list[str]:
    """What only the task's private repository holds: a result that was never published, or is published no more, and
    checkpoints of steps that were not merged. Nothing where the private repository is gone."""
    result = commit_of(private, RESULT) if private.is_dir() else None
    base = commit_of(private, BASE) if result else None
    if result is None or base is None:
        return []
    found: list[str] = []
    if result != base and result not in own.values():
        there = repository is not None and commit_of(repository, result) is not None
        if not there or repository is None or unmerged(repository, own, result, base):
            found = _text(private, "log", "--format=%h %s", result, "--not", base).splitlines()
    trailers = f"--format=%(trailers:key={TRAILER_STEP},valueonly)"
    steps = set(_text(private, "log", trailers, result, "--not", base).split())
    heads = _text(private, "for-each-ref", "--format=%(objectname) %(refname:lstrip=2)", "refs/heads").splitlines()
    for tip, _, name in (line.partition(" ") for line in heads):
        served = _steps_of(private, name, tip, result)
        if tip != result and not (served and served <= steps) and not _adds_nothing(private, tip, result):
            changed = _text(private, "diff", "--name-only", f"{result}...{tip}").splitlines()
            files = ", ".join(changed[:5]) + (" …" if len(changed) > 5 else "")
            found.append(f"{tip[:7]} {name}, not on the result: {files}")
    return found


def _steps_of(private: Path, name: str, tip: str, result: str) -> set[str]:
    """The steps that a branch of the private repository worked for; of one where conflicts were laid out, those that
    were in conflict."""
    if name == "integrate":
        return {"integration"}
    if _STEP.fullmatch(name):
        return set(_STEP.findall(name))
    trailers = f"--format=%(trailers:key={TRAILER_CONFLICT},valueonly)"
    laid_out = _text(private, "log", trailers, tip, "--not", result).split()
    return {number for branch in laid_out for number in _STEP.findall(branch)}


def checked_out_at(repository: Path, name: str) -> str | None:
    """The checkout where a branch is the current one; None where it is not."""
    place = None
    for line in git(repository, "worktree", "list", "--porcelain", "-z").stdout.split(b"\0"):
        if line.startswith(b"worktree "):
            place = os.fsdecode(line.removeprefix(b"worktree "))
        if line == f"branch refs/heads/{name}".encode():
            return place
    return None


def _adds_nothing(repository: Path, tip: str, head: str) -> bool:
    merge = trial_merge(repository, head, tip)
    return not merge.conflicts and merge.tree == _text(repository, "rev-parse", f"{head}^{{tree}}")


def _said_to_be_in(repository: Path, tip: str, base: str, *where: str) -> bool:
    """Whether a commit there carries the trailer of a squashed result."""
    since = ["--not", base] if commit_of(repository, base) else []
    sought = (f"--grep={TRAILER_APPLIED}: {tip}", "--fixed-strings", "-1", "--format=%H")
    return bool(_text(repository, "log", *sought, *where, *since))


def _tasks_in(repository: Path, tip: str, base: str) -> set[str]:
    since = ["--not", base] if commit_of(repository, base) else ["-1"]
    trailers = f"--format=%(trailers:key={TRAILER_TASK},valueonly)"
    return set(_text(repository, "log", trailers, tip, *since).split())


def _current(repository: Path) -> str:
    return _text(repository, "branch", "--show-current")


def _text(repository: Path, *arguments: str) -> str:
    done = git(repository, *arguments)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise ServiceError(f"git {arguments[0]} failed in {repository}: {said}")
    return done.stdout.decode(errors="replace").strip()

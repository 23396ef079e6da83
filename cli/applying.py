"""`orchestrate apply`: put a result on the current branch, with the user's own git: it is their commit.

Everything that speaks against it is found out before anything is touched. What fails on the way is taken back, so
that the checkout is as it was.
"""

import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.exits import ExitCode, Refused
from cli.reading_commands import Json, TaskId
from cli.terminal import Line, Tone, remark, show, show_json

if TYPE_CHECKING:
    from cli.finished import Finished

# fmt: off
_LED_ELSEWHERE = frozenset((
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_SHALLOW_FILE",
))
# fmt: on
"""What a git hook or alias leaves in the environment, and would make git work in another place."""
_SUBJECT_CHARACTERS = 72
_APPLY = """\b
Examples:
  orchestrate apply migrate-typescript-2026-11-30
  orchestrate apply migrate-typescript-2026-11-30 --squash

Merges the result branch into the current branch with your own git: your identity, hooks and signing. Exit codes:
0 applied (or it was already), 1 conflict or git refuses, 2 it cannot be applied here, 3 something is undone or a gate
newly fails (--force applies it all the same). After 1, 2 and 3 the checkout is as it was.
"""


@dataclass(frozen=True)
class Checkout:
    """Where the result goes: a clean checkout of a branch."""

    folder: Path
    branch: str
    head: str


def register(application: typer.Typer) -> None:
    """Add the command."""
    application.command("apply", help="Merge a result into the current branch.", epilog=_APPLY)(apply)


def apply(
    task_id: TaskId,
    squash: Annotated[bool, typer.Option("--squash", help="One commit instead of a merge.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also what is undone, or where a gate newly fails.")] = False,
    repo: Annotated[str, typer.Option(metavar="PATH", help="The checkout; default: the current one.")] = ".",
    as_json: Json = False,
) -> None:
    """Merge the result."""
    from cli.checks import check_folder
    from cli.finished import finished
    from cli.result_branch import is_applied, trial_merge

    folder = check_folder(repo)
    task = finished(task_id, folder)
    ref, tip = _result(folder, task)
    checkout = _checkout(folder, ref)
    told: dict[str, Any] = {"task_id": task_id, "branch": ref, "commit": tip, "into": checkout.branch}
    if is_applied(folder, tip, task.base_commit, checkout.head):
        _tell(told | {"outcome": "already"}, [Line(f"{checkout.branch} already holds {ref}: nothing to do.")], as_json)
        return
    if task.undone and not force:
        lines = [f"{ref} was not applied:", *(f"  {reason}" for reason in task.undone)]
        lines.append(f"See orchestrate report {task_id}; apply it all the same: orchestrate apply {task_id} --force")
        _fail(told | {"outcome": "undone", "reasons": task.undone}, lines, as_json, ExitCode.PARTIAL)
    merge = trial_merge(folder, checkout.head, tip)
    if merge.conflicts:
        _fail(told | {"outcome": "conflict", "conflicts": merge.conflicts}, _by_hand(checkout, ref, merge.conflicts),
              as_json, ExitCode.FAILED)  # fmt: skip
    fault = _squash(checkout, task, ref, tip) if squash else _merge(checkout, ref)
    if fault is not None:
        lines = [f"{ref} was not applied: git says", fault, *_take_back(checkout)]
        _fail(told | {"outcome": "refused by git", "git": fault}, lines, as_json, ExitCode.FAILED)
    _tell(*_applied(checkout, told, task_id, squash=squash), as_json)


def _result(folder: Path, task: "Finished") -> tuple[str, str]:
    """The branch of the result and its tip. Raises `Refused` where this repository does not have it."""
    from baton.layout import branch_name
    from cli.result_branch import commit_of

    ref = task.ref or branch_name(task.task_id)
    tip = commit_of(folder, f"refs/heads/{ref}")
    if tip is not None:
        return ref, tip
    if not task.commit or task.commit == task.base_commit:
        raise Refused(f"the task {task.task_id} changed nothing ({task.state}): there is nothing to apply")
    if task.private_repository.is_dir():
        fetch = f"git fetch {shlex.quote(str(task.private_repository))} {task.commit}:refs/heads/{ref}"
        raise Refused(f"{folder} has no branch {ref}. Its work is still here; bring it with: {fetch}")
    raise Refused(f"{folder} has no branch {ref}, and the task's private repository is gone; was it applied already?")


def _checkout(folder: Path, ref: str) -> Checkout:
    """The checkout as it is. Raises `Refused` unless a merge can be made in it, and taken back."""
    from baton.layout import OPERATIONS
    from cli.checks import git
    from cli.result_branch import commit_of

    directory = Path(os.fsdecode(git(folder, "rev-parse", "--absolute-git-dir").stdout[:-1]))
    operation = next((word for name, word in OPERATIONS.items() if (directory / name).exists()), None)
    if operation is not None:
        raise Refused(f"a {operation} is in progress in {folder}: finish it or end it first (git status shows how)")
    branch = git(folder, "symbolic-ref", "--quiet", "--short", "HEAD").stdout.decode().strip()
    if not branch:
        raise Refused(
            f"no branch is checked out in {folder} (detached HEAD), so a merge would belong to none: "
            "git switch BRANCH first, or git switch -c NAME for a new one"
        )
    if branch == ref:
        raise Refused(f"{ref} is itself checked out in {folder}: git switch to the branch that it shall be merged into")
    head = commit_of(folder, "HEAD")
    if head is None:
        raise Refused(f"the branch {branch} of {folder} has no commits: there is nothing to merge into")
    if git(folder, "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty").stdout:
        raise Refused(f"{folder} has changes that are not committed: commit them, or git stash, then apply again")
    return Checkout(folder, branch, head)


def _merge(checkout: Checkout, ref: str) -> str | None:
    """Merge; what git said where it did not."""
    return _git(checkout, "merge", "--commit", "--no-squash", "--no-edit", ref)


def _squash(checkout: Checkout, task: "Finished", ref: str, tip: str) -> str | None:
    """Put everything into one commit that says where it comes from; what git said where it did not."""
    from baton.layout import TRAILER_APPLIED, TRAILER_TASK
    from baton.status import title_of
    from cli.checks import git

    title = title_of(task.task) or f"Apply {ref}"
    subject = title if len(title) <= _SUBJECT_CHARACTERS else f"{title[: _SUBJECT_CHARACTERS - 1]}…"
    listed = git(checkout.folder, "log", "--reverse", "--format=- %s", f"{checkout.head}..{tip}").stdout
    trailers = f"{TRAILER_TASK}: {task.task_id}\n{TRAILER_APPLIED}: {tip}\n"
    message = f"{subject}\n\n{listed.decode(errors='replace')}\n{trailers}"
    return _git(checkout, "merge", "--squash", ref) or _git(checkout, "commit", "-F", "-", given=message)


def _git(checkout: Checkout, *arguments: str, given: str | None = None) -> str | None:
    """The user's git, with all that is theirs; None when it succeeds, else what it said. Hooks have no time limit."""
    environment = {name: value for name, value in os.environ.items() if name not in _LED_ELSEWHERE}
    source: dict[str, Any] = {"input": given} if given is not None else {}
    if given is None and not sys.stdin.isatty():
        source = {"stdin": subprocess.DEVNULL}
    done = subprocess.run(
        ["git", "-C", str(checkout.folder), *arguments],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", check=False, **source,
    )  # fmt: skip
    return None if done.returncode == 0 else done.stdout.strip() or f"git {arguments[0]}: exit code {done.returncode}"


def _take_back(checkout: Checkout) -> list[str]:
    """Make the checkout what it was; says so, or how to where git does not."""
    from cli.checks import git
    from cli.result_branch import commit_of

    if commit_of(checkout.folder, "MERGE_HEAD"):
        _git(checkout, "merge", "--abort")
    else:
        _git(checkout, "reset", "--merge", checkout.head)
    dirty = git(checkout.folder, "status", "--porcelain", "--untracked-files=no").stdout
    if dirty or commit_of(checkout.folder, "HEAD") != checkout.head:
        return [
            f"It could not be taken back whole (a hook changed files?): {_in(checkout)} reset --hard {checkout.head}"
        ]
    return ["The checkout is as it was."]


def _by_hand(checkout: Checkout, ref: str, conflicts: tuple[str, ...]) -> list[str]:
    return [
        f"{ref} was not applied: it conflicts with {checkout.branch}. Nothing was touched. In conflict:",
        *(f"  {path}" for path in conflicts),
        "To merge it by hand:",
        f"  {_in(checkout)} merge {ref}",
        "  (mend the files, git add them, git commit; or give it up: git merge --abort)",
    ]


def _applied(
    checkout: Checkout, told: dict[str, Any], task_id: str, *, squash: bool
) -> tuple[dict[str, Any], list[Line]]:
    from baton.wording import counted
    from cli.checks import git
    from cli.result_branch import commit_of

    after = commit_of(checkout.folder, "HEAD")
    names = git(checkout.folder, "diff", "--name-only", "-z", checkout.head, "HEAD").stdout.split(b"\0")
    files, undo = len(names) - 1, f"{_in(checkout)} reset --keep {checkout.head[:12]}"
    how = "as one commit" if squash else "merged"
    lines = [
        Line(f"Applied {told['branch']} to {checkout.branch} ({how}): {counted(files, 'file')} changed.", Tone.GOOD),
        Line(f"Take it back: {undo}", indent=1),
        Line(f"Remove what the task left: orchestrate cleanup --task-id {task_id}", indent=1),
    ]
    facts = {"outcome": "applied", "before": checkout.head, "after": after, "files_changed": files, "undo": undo}
    return told | facts, lines


def _in(checkout: Checkout) -> str:
    return f"git -C {shlex.quote(str(checkout.folder))}"


def _tell(told: dict[str, Any], lines: list[Line], as_json: bool) -> None:
    if as_json:
        show_json(told)
    else:
        show(lines)


def _fail(told: dict[str, Any], lines: list[str], as_json: bool, code: ExitCode) -> None:
    if as_json:
        show_json(told)
    for line in lines:
        remark(line)
    raise typer.Exit(code)

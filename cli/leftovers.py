"""What a task left on this host, and its removal: folder, payloads, artifacts and result branches.

Only places that are certainly the task's own are removed: its folders in the state directory, and an artifacts folder
that has its name and its files and lies in its repository. Links are never followed.
"""

import os
import shutil
import stat
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from baton.layout import (
    DEFAULT_ARTIFACTS,
    PRIVATE_REPOSITORY,
    REPORT_JSON,
    REPORT_MARKDOWN,
    payloads_folder,
    task_folder,
    task_lock,
    task_payloads,
)
from cli.checks import git
from cli.exits import ServiceError
from cli.finished import opened_as
from cli.result_branch import branches_of, checked_out_at, only_private, unmerged
from cli.service_record import try_lock

_OWN_FILES = (REPORT_MARKDOWN, REPORT_JSON, "plan.json", "task.md")
_BLOCK_BYTES = 512
"""The unit of `st_blocks`, whatever the file system."""


@dataclass(frozen=True)
class Leftovers:
    """Places and branches of one task. `branches`: name -> tip. `lost`: work that would exist nowhere afterwards."""

    task_id: str
    folders: tuple[Path, ...] = ()
    artifacts: Path | None = None
    repository: Path | None = None
    branches: dict[str, str] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    checked_out: str | None = None

    @property
    def places(self) -> tuple[Path, ...]:
        """All folders."""
        return (*self.folders, *([self.artifacts] if self.artifacts else []))


def leftovers(task_id: str, state: Path, *, repository: str = "", artifacts: str = "", base: str = "") -> Leftovers:
    """What is left of a task. The task's own record on this host goes before what Temporal told of it."""
    opened = opened_as(task_id, state)
    base = opened.base_commit or base
    checkout = _checkout(opened.source or repository)
    folders = (task_folder(state, task_id), task_payloads(payloads_folder(state), task_id))
    told = opened.artifacts or artifacts
    files = Path(told) if told else (checkout or Path("/")) / DEFAULT_ARTIFACTS / task_id
    branches = branches_of(checkout, task_id, base) if checkout else {}
    lost: list[str] = []
    away = None
    if checkout is not None:
        for tip in dict.fromkeys(branches.values()):
            lost += unmerged(checkout, branches, tip, base)
        away = next((place for name in branches if (place := checked_out_at(checkout, name))), None)
    lost += only_private(task_folder(state, task_id) / PRIVATE_REPOSITORY, checkout, branches)
    return Leftovers(
        task_id=task_id,
        folders=tuple(folder for folder in folders if folder.is_dir() and not folder.is_symlink()),
        artifacts=files if checkout and _is_artifacts(files, task_id, checkout) else None,
        repository=checkout,
        branches=branches,
        lost=tuple(dict.fromkeys(lost)),
        checked_out=away,
    )


def is_in_use(task_id: str, state: Path) -> bool:
    """Whether a worker holds one of the task's locks now."""
    locks = task_folder(state, task_id) / "locks"
    for path in (task_lock(state, task_id), *(sorted(locks.iterdir()) if locks.is_dir() else ())):
        if path.is_file():
            if (descriptor := try_lock(path)) is None:
                return True
            os.close(descriptor)
    return False


def remove(left: Leftovers, state: Path) -> int:
    """Remove everything that is left; the bytes that the disk gets back. OSError, ServiceError where it cannot."""
    lock = task_lock(state, left.task_id)
    if not lock.parent.is_dir():
        return _remove(left)
    if (descriptor := try_lock(lock)) is None:
        raise ServiceError(f"the task {left.task_id} is in use: a worker opens or discards it now")
    try:
        freed = _remove(left)
        lock.unlink(missing_ok=True)
        return freed
    finally:
        os.close(descriptor)


def _remove(left: Leftovers) -> int:
    for name, tip in left.branches.items():
        # With the tip as it was looked at: a commit that came in between is not lost.
        done = git(left.repository or Path("/"), "update-ref", "-d", f"refs/heads/{name}", tip)
        if done.returncode != 0:
            raise ServiceError(f"the branch {name} was not removed: {done.stderr.decode(errors='replace').strip()}")
    freed = 0
    for place in left.places:
        freed += size_bytes(place, make_writable=True)
        shutil.rmtree(place, onerror=_unless_gone)
    if left.artifacts is not None:
        _remove_if_alone(left.artifacts.parent)
    return freed


def _unless_gone(_function: object, _path: str, error: tuple[type[BaseException], BaseException, object]) -> None:
    """What a worker removes meanwhile is gone too."""
    if not isinstance(error[1], FileNotFoundError):
        raise error[1]


def size_bytes(folder: Path, *, make_writable: bool = False) -> int:
    """What the disk gets back when the folder goes: files that have links elsewhere, as clones share them, count not.

    `make_writable`: folders without write permission, as package caches leave them, get it on the way.
    """
    links: Counter[tuple[int, int]] = Counter()
    freed, waiting = 0, [folder]
    while waiting:
        current = waiting.pop()
        # A worker may still be removing files of workspaces that are closed.
        with suppress(FileNotFoundError):
            if make_writable and (mode := current.lstat().st_mode) & stat.S_IRWXU != stat.S_IRWXU:
                current.chmod(stat.S_IMODE(mode) | stat.S_IRWXU)
            for entry in _entries(current):
                found = entry.stat(follow_symlinks=False)
                links[found.st_dev, found.st_ino] += 1
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
                    freed += found.st_blocks * _BLOCK_BYTES
                elif links[found.st_dev, found.st_ino] == found.st_nlink:
                    freed += found.st_blocks * _BLOCK_BYTES
    return freed


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return list(entries)


def _checkout(source: str) -> Path | None:
    folder = Path(source or ".")
    there = bool(source) and folder.is_absolute() and folder.is_dir()
    return folder if there and git(folder, "rev-parse", "--git-dir").returncode == 0 else None


def _is_artifacts(folder: Path, task_id: str, checkout: Path) -> bool:
    if folder.name != task_id or not folder.is_dir() or folder.is_symlink():
        return False
    inside = folder.resolve().is_relative_to(checkout.resolve())
    return inside and any((folder / name).is_file() for name in _OWN_FILES)


def _remove_if_alone(parent: Path) -> None:
    """The folder of all artifacts, and `.claude` above it, when nothing of anybody else is in them."""
    with suppress(OSError):
        if {path.name for path in parent.iterdir()} <= {".gitignore"}:
            shutil.rmtree(parent)
            parent.parent.rmdir()

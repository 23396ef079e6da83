"""Writes into submodules: a commit of the task names a submodule's commit and holds none of its files, so nothing of
them would reach the result. File tools refuse them; what commands write there is found by the times of files, since git
must not run in a repository whose configuration the commands could have written.
"""

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from activities.git import Git
from activities.outside_parts import submodules

_CACHES = frozenset({".git", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", "node_modules"})
MOST_FOUND = 200
_COMMITS_KEPT = 64
_known: dict[tuple[Path, str], frozenset[str]] = {}


async def submodule_paths(git: Git, commit: str, workspace: Path) -> frozenset[str]:
    """Paths of the submodules of the commit where the workspace's step began. Git is asked once for each commit, and
    never where there is no `.gitmodules`."""
    key = (git.cwd, commit)
    if key not in _known:
        if not os.path.lexists(workspace / ".gitmodules"):
            return frozenset()
        found = frozenset([path for path, _ in await submodules(git, commit)])
        if len(_known) >= _COMMITS_KEPT:
            _known.clear()
        _known[key] = found
    return _known[key]


def submodule_of(path: str, paths: Iterable[str]) -> str | None:
    """The submodule that a path is, or is in."""
    return next((one for one in paths if path == one or path.startswith(f"{one}/")), None)


def refusal(path: str, submodule: str) -> str:
    """What the model is told whose file tool would write there."""
    return (
        f"{path} is in the submodule {submodule} and was not changed: its files belong to another repository, and "
        "nothing of them gets into the result. Put the file outside of it; or, if the submodule itself must change, "
        "record that as an issue and go on."
    )


def now(workspace: Path) -> int:
    """The present in nanoseconds by the clock that files beside the workspace get their times from; it may be some
    milliseconds behind others."""
    with tempfile.TemporaryFile(dir=workspace.parent) as file:
        return os.fstat(file.fileno()).st_ctime_ns


def written_since(workspace: Path, paths: Iterable[str], since: int) -> list[str]:
    """Files in these submodules that were written since then, and folders (`name/`) out of which something went;
    caches are left aside."""
    found: list[str] = []
    for path in sorted(paths):
        top = workspace / path
        if not top.is_symlink():
            found += _below(workspace, top, since)
    return found[:MOST_FOUND]


def _below(workspace: Path, top: Path, since: int) -> Iterable[str]:
    for folder, folders, files in os.walk(top):
        new = {name for name in (*folders, *files) if _is_new(f"{folder}/{name}", since)}
        changed = new.difference(folders, _CACHES)
        folders[:] = sorted(set(folders) - _CACHES)
        place = os.path.relpath(folder, workspace)
        yield from sorted(f"{place}/{name}" for name in changed)
        if not new and _is_new(folder, since):
            yield f"{place}/"


def _is_new(place: str, since: int) -> bool:
    try:
        return os.lstat(place).st_ctime_ns >= since
    except OSError:
        return False

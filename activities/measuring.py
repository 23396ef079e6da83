"""Sizes of files of a workspace, by path, folder or glob, after its gates ran. No link is followed."""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from baton.path_patterns import matches
from baton.performance import Size

FILES_LOOKED_AT = 500_000
_MAGIC = re.compile(r"[*?\[{]")


def sizes_of(workspace: Path, patterns: Sequence[str]) -> tuple[Size, ...]:
    """The size of everything that each pattern names; a folder counts with all below it."""
    return tuple(_size(workspace, pattern) for pattern in patterns)


def _size(workspace: Path, pattern: str) -> Size:
    named = pattern.removeprefix("./").rstrip("/")
    found = [size for path, size in _files(workspace, _start(named)) if _names(named, path)]
    return Size(pattern=pattern, bytes=sum(found) if found else None, files=len(found))


def _names(pattern: str, path: str) -> bool:
    return matches(pattern, path) or matches(f"{pattern}/**", path)


def _start(pattern: str) -> str:
    """The leading folders of the pattern in which nothing is left open."""
    fixed = []
    for part in PurePosixPath(pattern).parts:
        if _MAGIC.search(part):
            break
        fixed.append(part)
    return "/".join(fixed)


def _files(workspace: Path, start: str) -> Iterator[tuple[str, int]]:
    """Regular files at or below `start`, with their sizes in bytes."""
    place = workspace / start
    # A folder on the way may be a link that leads outside.
    if place.is_symlink() or not place.resolve().is_relative_to(workspace.resolve()):
        return
    if place.is_file():
        yield start, place.lstat().st_size
        return
    seen = 0
    for folder, folders, names in os.walk(place):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in names:
            seen += 1
            if seen > FILES_LOOKED_AT:
                return
            path = Path(folder) / name
            try:
                found = path.lstat()
            except OSError:
                continue
            if stat.S_ISREG(found.st_mode):
                yield path.relative_to(workspace).as_posix(), found.st_size

"""Removal of folders that are ours, whatever commands left in them."""

import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def remove_tree(path: Path) -> None:
    """Remove a folder, read-only parts included; nothing happens when there is none. Links are not followed."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        try:
            shutil.rmtree(path, onerror=_remove_read_only)
        except (RecursionError, OSError):
            _remove_flat(path)


def _remove_flat(path: Path) -> None:
    """Remove a folder of any depth: every folder in it is moved to the top before it is emptied."""
    top = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchmod(top, stat.S_IRWXU)
        waiting = _emptied(top, top, 0)
        number = len(waiting)
        while waiting:
            name = waiting.pop()
            folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
            try:
                found = _emptied(folder, top, number)
            finally:
                os.close(folder)
            number += len(found)
            waiting += found
            os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    path.rmdir()


def _emptied(folder: int, top: int, number: int) -> list[str]:
    """Remove the files of a folder, and move its folders to the top; their names there."""
    moved = []
    with os.scandir(folder) as listed:
        entries = list(listed)
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            # A folder without permissions can be moved only by its owner once it may be written.
            os.chmod(entry.name, stat.S_IRWXU, dir_fd=folder)
            number += 1
            moved.append(f".baton-removed-{number}")
            os.rename(entry.name, moved[-1], src_dir_fd=folder, dst_dir_fd=top)
        else:
            os.unlink(entry.name, dir_fd=folder)
    return moved


def _remove_read_only(_function: Callable[..., object], path: str, _error: object) -> None:
    """Package caches and tests leave folders without write permission: give it, and try again. What somebody else
    removed in between is gone."""
    with suppress(FileNotFoundError):
        for place in (Path(path).parent, Path(path)):
            if not place.is_symlink() and place.is_dir():
                place.chmod(stat.S_IRWXU)
        if Path(path).is_dir() and not Path(path).is_symlink():
            shutil.rmtree(path)
        else:
            Path(path).unlink()

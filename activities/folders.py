"""Removal of folders that are ours, whatever commands left in them."""

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
        shutil.rmtree(path, onerror=_remove_read_only)


def _remove_read_only(function: Callable[..., object], path: str, _error: object) -> None:
    """Package caches and tests leave folders without write permission: give it, and try again."""
    with suppress(FileNotFoundError):
        for place in (Path(path).parent, Path(path)):
            if not place.is_symlink() and place.is_dir():
                place.chmod(stat.S_IRWXU)
        if Path(path).is_dir() and not Path(path).is_symlink():
            shutil.rmtree(path)
        else:
            function(path)

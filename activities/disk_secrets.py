"""The secrets that lie on disk where commands can read them: `.env`-like files and private keys of a folder.

Only names decide which files are read; links are never followed, so nothing outside the folder is looked at.
"""

import os
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from activities.file_stamp import Stamp, stamp
from baton.redaction import is_key_file, is_secret_file, secrets_of_file

FOLDERS_AT_MOST = 600
FILE_LIMIT_BYTES = 1_000_000
ROOTS_KEPT = 64
CLOCK_TICK_NS = 2_000_000_000
"""Times of changes are exact to this on every file system."""
_PASSED_OVER = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__", ".tox", "target", "dist", "build"})


@dataclass(frozen=True)
class _Folder:
    """What a look found in a folder: folders to look into, and names of files that are made for secrets. `changed_ns`
    tells whether it is as it was then; None: it was changed too shortly before to tell."""

    changed_ns: int | None
    folders: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class _File:
    """The secrets of a file as it was."""

    stamp: Stamp | None
    values: frozenset[str]


@dataclass
class _Root:
    """What is remembered of one root."""

    folders: dict[str, _Folder] = field(default_factory=dict)
    files: dict[str, _File] = field(default_factory=dict)


class SecretFiles:
    """Looks for secrets again and again, in any thread: what is as it was is not read again."""

    def __init__(self) -> None:
        self._roots: OrderedDict[str, _Root] = OrderedDict()
        self._lock = threading.Lock()

    def below(self, root: Path) -> dict[str, frozenset[str]]:
        """The values by the file that holds them, its path beginning with the root; from the folders nearest to it."""
        with self._lock:
            known = self._roots.pop(str(root), _Root())
            seen, found = _Root(), {}
            folders = [str(root)]
            for number, path in enumerate(folders):
                if number >= FOLDERS_AT_MOST:
                    break
                with suppress(OSError):
                    folder = seen.folders[path] = _folder(path, known.folders.get(path))
                    folders += [f"{path}/{name}" for name in folder.folders]
                    for place in (f"{path}/{name}" for name in folder.files):
                        file = seen.files[place] = _file(place, known.files.get(place))
                        found[place] = file.values
            self._roots[str(root)] = seen
            while len(self._roots) > ROOTS_KEPT:
                self._roots.popitem(last=False)
        return found


def secrets_below(*roots: Path | None) -> frozenset[str]:
    """Their values, from the folders nearest to each root. Blocks; a root that is gone, or None, has none."""
    files = SecretFiles()
    return frozenset().union(*(values for root in roots if root is not None for values in files.below(root).values()))


def _folder(path: str, known: _Folder | None) -> _Folder:
    # Before the look: what comes in between makes it another.
    changed_ns = _changed_ns(os.lstat(path))
    if known is not None and known.changed_ns is not None and known.changed_ns == changed_ns:
        return known
    folders, files = [], []
    with os.scandir(path) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False):
                folders += [entry.name] if entry.name not in _PASSED_OVER else []
            elif entry.is_file(follow_symlinks=False) and (is_secret_file(entry.name) or is_key_file(entry.name)):
                files.append(entry.name)
    return _Folder(changed_ns, tuple(folders), tuple(files))


def _file(path: str, known: _File | None) -> _File:
    found = os.lstat(path)
    now = None if _changed_ns(found) is None else stamp(found)
    if known is not None and known.stamp is not None and known.stamp == now:
        return known
    return _File(now, frozenset(secrets_of_file(os.path.basename(path), _text(path))))  # noqa: PTH119


def _changed_ns(found: os.stat_result) -> int | None:
    """When it was changed last; None where another change could have the same time. Commands can set the one time back,
    not the other."""
    changed_ns = max(found.st_mtime_ns, found.st_ctime_ns)
    return changed_ns if time.time_ns() - changed_ns > CLOCK_TICK_NS else None


def _text(path: str) -> str:
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return file.read(FILE_LIMIT_BYTES).decode("utf-8", "replace")
    return ""

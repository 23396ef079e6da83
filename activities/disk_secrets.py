"""The secrets that lie on disk where commands can read them: `.env`-like files and private keys of a folder.

Only names decide which files are read; links are never followed, so nothing outside the folder is looked at.
"""

import os
from contextlib import suppress
from pathlib import Path

from baton.redaction import is_key_file, is_secret_file, secrets_of_file

FOLDERS_AT_MOST = 600
FILE_LIMIT_BYTES = 1_000_000
_PASSED_OVER = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__", ".tox", "target", "dist", "build"})


def secrets_below(*roots: Path | None) -> frozenset[str]:
    """Their values, from the folders nearest to each root. Blocks; a root that is gone, or None, has none."""
    return frozenset().union(*secret_files_below(*filter(None, roots)).values())


def secret_files_below(*roots: Path) -> dict[str, frozenset[str]]:
    """The values by the file that holds them, its path beginning with its root."""
    found: dict[str, frozenset[str]] = {}
    for root in roots:
        folders = [root]
        for number, folder in enumerate(folders):
            if number >= FOLDERS_AT_MOST:
                break
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in sorted(entries, key=lambda entry: entry.name):
                    if entry.is_dir(follow_symlinks=False):
                        folders += [Path(entry.path)] if entry.name not in _PASSED_OVER else []
                    elif entry.is_file(follow_symlinks=False) and (
                        is_secret_file(entry.name) or is_key_file(entry.name)
                    ):
                        found[entry.path] = frozenset(secrets_of_file(entry.name, _text(entry.path)))
    return found


def _text(path: str) -> str:
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return file.read(FILE_LIMIT_BYTES).decode("utf-8", "replace")
    return ""

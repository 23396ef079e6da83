"""The secrets that lie on disk where commands can read them: `.env`-like files and private keys of a folder.

Only names decide which files are read; links are never followed, so nothing outside the folder is looked at.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from baton.redaction import is_key_file, is_secret_file, secrets_of_file

FOLDERS_AT_MOST = 600
FILE_LIMIT_BYTES = 1_000_000
_PASSED_OVER = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__", ".tox", "target", "dist", "build"})


@dataclass
class DiskSecrets:
    """What is known of the secrets that lie in a workspace (`inside`, by file; None: nobody looked) and outside where
    its commands can read. It holds until something may have written there: looking takes long in a large repository."""

    inside: dict[str, frozenset[str]] | None = None
    outside: frozenset[str] = frozenset()

    def look(self, root: Path, readable: Iterable[Path]) -> None:
        """Look in the workspace and in the folders outside. Blocks."""
        self.outside = frozenset().union(*secret_files_below(*readable).values())
        self.inside = {os.path.relpath(path, root): values for path, values in secret_files_below(root).items()}

    def wrote(self, paths: Iterable[str]) -> None:
        """These paths were written, and nothing else."""
        if any(is_secret_file(path) or is_key_file(path) for path in paths):
            self.forget()

    def forget(self) -> None:
        """Anything may have been written."""
        self.inside = None


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

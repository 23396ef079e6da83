"""The configuration of the private repository, as Baton made it and as it stays.

Where commands run without a sandbox they can write into it, and what stands there (filters, text converters, a sparse
checkout) would take part in every later git of the task. So it is put back before git is used on a workspace.
"""

import secrets
from contextlib import suppress
from pathlib import Path

_SEALED = {"config": "repository.config", "info/exclude": "repository.exclude"}
"""Files of the repository, and the copies beside it that hold what they must say."""
_NEVER_OURS = ("info/attributes", "info/sparse-checkout", "info/grafts")


def seal(repository: Path, task_directory: Path, name: str, data: bytes) -> None:
    """Have a file of the repository hold this and keep it."""
    # The copy first: who compares the two in between must not put the old one back.
    for place in (task_directory / _SEALED[name], repository / name):
        temporary = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
        temporary.write_bytes(data)
        temporary.replace(place)


def seal_as_made(repository: Path, task_directory: Path) -> None:
    """Keep what a repository has that was just made."""
    for name in _SEALED:
        seal(repository, task_directory, name, (repository / name).read_bytes())


def unseal(repository: Path, administration: Path) -> None:
    """Put the sealed files back, where something changed them, and take away what else steers git in this workspace.

    A repository that was made before there were seals keeps what it has. `administration`: of the workspace.
    """
    for name, copy in _SEALED.items():
        with suppress(FileNotFoundError):
            wanted = (repository.parent / copy).read_bytes()
            if (repository / name).is_symlink() or _read(repository / name) != wanted:
                seal(repository, repository.parent, name, wanted)
    (administration / "config.worktree").unlink(missing_ok=True)
    for folder in (repository, administration):
        for name in _NEVER_OURS:
            (folder / name).unlink(missing_ok=True)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None

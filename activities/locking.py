"""Locks between processes of one host: a file, held by `flock`, free again when its holder dies."""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

POLL_SECONDS = 0.02
_NOTE_BYTES = 512


@dataclass(frozen=True)
class Note:
    """What the holder of a lock leaves in its file for whoever gets it after a crash. A file has several, by `slot`."""

    descriptor: int
    slot: int

    def read(self) -> bytes:
        """What was written last; empty for nothing."""
        return os.pread(self.descriptor, _NOTE_BYTES, self.slot * _NOTE_BYTES).strip(b" \0")

    def write(self, data: bytes) -> None:
        """Note this, of at most 512 bytes, and nothing else."""
        # One write, padded: a kill can leave the old note or the new one, never none.
        os.pwrite(self.descriptor, data.ljust(_NOTE_BYTES), self.slot * _NOTE_BYTES)


@asynccontextmanager
async def exclusive(path: Path) -> AsyncIterator[int]:
    """Hold the lock file `path` (made when missing); gives its descriptor.

    A child that inherits the descriptor keeps the lock as long as it lives: so a git that outlives a killed worker is
    never joined by a second one. Waits without end; bound it with `asyncio.timeout`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not _taken(descriptor):  # noqa: ASYNC110 (the kernel gives no event)
            await asyncio.sleep(POLL_SECONDS)
        yield descriptor
    finally:
        # Closing frees it, unless a child still holds the same open file.
        os.close(descriptor)


@asynccontextmanager
async def exclusive_file(path: Path) -> AsyncIterator[int]:
    """The same for a lock file that its holder may remove, as the last thing done under it: whoever waited for one
    that was removed takes the new one."""
    while True:
        async with exclusive(path) as descriptor:
            if _is_at(path, descriptor):
                yield descriptor
                return


@contextmanager
def held(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """A folder's lock; the kernel frees it when its holder dies. BlockingIOError where another has it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False

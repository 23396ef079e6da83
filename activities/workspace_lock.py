"""The lock of one workspace: only one attempt of one turn works in it, on whatever process.

It remembers the process group of the command that runs under it: whoever gets the lock after a crash ends what the
crashed attempt left running.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from activities.commands import ProcessGroup, end_group
from activities.locking import Note, exclusive


class WorkspaceLock:
    """A held lock."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._note = Note(descriptor, 0)

    def remember(self, group: ProcessGroup) -> None:
        """Note the process group that now runs."""
        self._note.write(group.model_dump_json().encode())

    def forget(self) -> None:
        """Nothing runs any more."""
        self._note.write(b"")

    def remembered(self) -> ProcessGroup | None:
        """What an earlier holder left running, as far as it was noted."""
        data = self._note.read()
        try:
            return ProcessGroup.model_validate_json(data) if data else None
        except ValueError:
            return None


@asynccontextmanager
async def workspace_lock(path: Path) -> AsyncIterator[WorkspaceLock]:
    """Hold the lock; what an earlier holder left running is ended first."""
    async with exclusive(path) as descriptor:
        lock = WorkspaceLock(descriptor)
        if (group := lock.remembered()) is not None:
            await end_group(group)
            lock.forget()
        yield lock

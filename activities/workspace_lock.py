"""The lock of one workspace: only one attempt of one turn works in it, on whatever process.

It remembers the process group of the command that runs under it: whoever gets the lock after a crash ends what the
crashed attempt left running.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from activities.commands import ProcessGroup, end_group
from activities.locking import exclusive

NOTE_BYTES = 512
"""Of each note in a lock's file: the process group first, then the model call (`activities/lost_calls.py`)."""


class WorkspaceLock:
    """A held lock."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def remember(self, group: ProcessGroup) -> None:
        """Note the process group that now runs."""
        data = group.model_dump_json().encode()
        # One write, padded: a kill can leave the old note or the new one, never none.
        os.pwrite(self.descriptor, data.ljust(NOTE_BYTES), 0)

    def forget(self) -> None:
        """Nothing runs any more."""
        os.truncate(self.descriptor, 0)

    def remembered(self) -> ProcessGroup | None:
        """What an earlier holder left running, as far as it was noted."""
        data = os.pread(self.descriptor, NOTE_BYTES, 0).strip(b" \0")
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

"""Times in which something of a task could have gone on and had to wait: what they were is told by the activity that
comes after them, in its input, so that telling them takes no command of its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from baton.messages import Waited, WaitReason


@asynccontextmanager
async def in_slot(slots: asyncio.Semaphore) -> AsyncIterator[tuple[Waited, ...]]:
    """Hold a slot; gives the time in which there was none."""
    since = workflow.now()
    async with slots:
        yield waited("slot", since)


def waited(reason: WaitReason, since: datetime) -> tuple[Waited, ...]:
    """From then until now; nothing where no time has passed."""
    now = workflow.now()
    return (Waited(reason=reason, since=since, until=now),) if now > since else ()

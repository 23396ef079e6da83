"""How a worker ends: SIGTERM and SIGINT stop it within seconds, SIGUSR1 lets it finish what it does first."""

import asyncio
import signal
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from temporalio.worker import Worker

from activities.running import RunningActivities

DRAIN_LIMIT = timedelta(hours=1)
"""The longest turns and gates end within it."""
STOP_GRACE = timedelta(seconds=10)
DRAIN = signal.SIGUSR1


class Stopping:
    """Listens from the moment it is made. Needs a running event loop."""

    def __init__(self) -> None:
        self._asked, self._at_once = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(DRAIN, self._asked.set)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)

    async def wait(self, workers: Sequence[Worker], running: RunningActivities) -> None:
        """Wait for a signal, then until the workers have ended as it says. A stop also cuts a drain short."""
        await self._asked.wait()
        ended = asyncio.gather(*(worker.shutdown() for worker in workers))
        at_once = asyncio.create_task(self._at_once.wait())
        first: set[asyncio.Future[Any]] = {ended, at_once}
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        at_once.cancel()
        await asyncio.wait({ended}, timeout=STOP_GRACE.total_seconds())
        if not ended.done():
            running.cancel()
        await ended

    def _stop(self) -> None:
        self._at_once.set()
        self._asked.set()

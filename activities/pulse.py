"""Heartbeats by timer: an activity is alive as long as its event loop is, whatever it waits for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from temporalio import activity

BEAT_SECONDS = 1.0


@dataclass
class Pulse:
    """What the heartbeat tells: what is being done, and the live estimate of output tokens."""

    doing: str = ""
    tokens: int = 0

    def report_waiting(self, waits: bool) -> None:
        """The provider is waited for, or not any longer."""
        self.doing = "waiting for the provider" if waits else "model"

    def report_tokens(self, tokens: int) -> None:
        """Take a newer estimate."""
        self.tokens = tokens


@asynccontextmanager
async def pulse(doing: str = "") -> AsyncIterator[Pulse]:
    """Heartbeat while the block runs."""
    current = Pulse(doing)

    async def beat() -> None:
        while True:
            activity.heartbeat({"doing": current.doing, "tokens": current.tokens})
            await asyncio.sleep(BEAT_SECONDS)

    task = asyncio.create_task(beat())
    try:
        yield current
    finally:
        task.cancel()

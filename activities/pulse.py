"""Heartbeats by timer: an activity is alive as long as its event loop is, whatever it waits for."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from temporalio import activity

BEAT_SECONDS = 1.0
FIRST_BEAT_SECONDS = 2.0
"""Most activities are over before anybody could look."""
MODEL = "model"
"""What the heartbeat of a turn says while its model answers."""


@dataclass
class Pulse:
    """What the heartbeat tells: what is being done, in which turn, the live estimate of output tokens, and for how many
    seconds no token and no tool output came. `answers`: what it tells while a model answers."""

    doing: str = ""
    tokens: int = 0
    last_sign: float = field(default_factory=time.monotonic)
    answers: str = MODEL
    turn: int = 0

    def report_waiting(self, waits: bool) -> None:
        """The provider is waited for, or not any longer."""
        self.doing = "waiting for the provider" if waits else self.answers

    @contextmanager
    def asking(self, what: str) -> Iterator[str]:
        """Inside, a model is asked something beside the turn; gives what the heartbeat says meanwhile."""
        before = self.doing, self.tokens, self.answers
        self.doing = self.answers = f"asking: {what}"
        self.tokens = 0
        try:
            yield self.answers
        finally:
            self.doing, self.tokens, self.answers = before

    def report_tokens(self, tokens: int) -> None:
        """Take a newer estimate."""
        self.tokens = tokens
        self.report_sign()

    def report_sign(self) -> None:
        """Something came: the model or a command is at work."""
        self.last_sign = time.monotonic()

    @property
    def silent_seconds(self) -> int:
        """Since the last sign."""
        return int(time.monotonic() - self.last_sign)


@asynccontextmanager
async def pulse(doing: str = "") -> AsyncIterator[Pulse]:
    """Heartbeat while the block runs."""
    current = Pulse(doing)

    async def beat() -> None:
        await asyncio.sleep(FIRST_BEAT_SECONDS)
        while True:
            told = {"doing": current.doing, "tokens": current.tokens, "silent_seconds": current.silent_seconds}
            if current.turn:
                told["turn"] = current.turn
            # What an attempt told is there until another one tells something.
            activity.heartbeat({**told, "attempt": activity.info().attempt})
            await asyncio.sleep(BEAT_SECONDS)

    task = asyncio.create_task(beat())
    try:
        yield current
    finally:
        task.cancel()

"""Sends an answer as server-sent events, paced, and with the fault that the reply asks for.

Whatever happens on the way (fault, client gone, shutdown), the record of the request says how far it came.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from emulator.journal import Journal, Record
from emulator.render import Event, Rendered
from emulator.reply import BadData, Cut, ErrorEvent, Fault, NoMessageStop, Stall

PING_SECONDS = 5.0
STALL_PING_SECONDS = 0.1
_BAD_DATA = b'event: content_block_delta\ndata: {"type": "content_block_del\n\n'

HangUp = Callable[[Any], None]
"""Closes the connection of the client with this address."""


class _ConnectionCutError(Exception):
    """The fault says that the connection ends here."""


@dataclass(frozen=True)
class Pace:
    """How an answer is sent: output tokens per second (0: at once), and what goes wrong."""

    tokens_per_second: float = 0
    fault: Fault | None = None


class StreamedAnswer(Response):
    """The event stream of one answer."""

    media_type = "text/event-stream"

    def __init__(
        self,
        rendered: Rendered,
        headers: Mapping[str, str],
        pace: Pace,
        record: Record,
        journal: Journal,
        hang_up: HangUp,
    ) -> None:
        super().__init__(status_code=200, headers={**headers, "cache-control": "no-cache"})
        del self.headers["content-length"]
        self._rendered = rendered
        self._fault = pace.fault
        self._rate = pace.tokens_per_second
        self._record = record
        self._journal = journal
        self._hang_up = hang_up
        self._is_recorded = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the end, the fault, or the client's hanging up."""
        sending = asyncio.create_task(self._send(send))
        leaving = asyncio.create_task(_until_gone(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
            else:
                self._record.update(error="the client closed the connection")
        except _ConnectionCutError:
            self._record.update(error="fault: connection cut")
            self._close_record()
            self._hang_up(scope.get("client"))
            await leaving
        finally:
            sending.cancel()
            leaving.cancel()
            self._close_record()

    async def _send(self, send: Send) -> None:
        if isinstance(self._fault, Cut) and self._fault.after_events is None:
            raise _ConnectionCutError
        if isinstance(self._fault, Stall) and self._fault.after_events is None:
            await asyncio.sleep(self._fault.seconds)
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(start)
        async for data in self._paced():
            await send({"type": "http.response.body", "body": data, "more_body": True})
        if isinstance(self._fault, Cut):
            raise _ConnectionCutError
        self._record.update(complete=not isinstance(self._fault, ErrorEvent | NoMessageStop | BadData))
        # The line is written before the client can know that the answer has ended.
        self._close_record()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _close_record(self) -> None:
        if not self._is_recorded:
            self._is_recorded = True
            self._journal.close(self._record)

    async def _paced(self) -> AsyncIterator[bytes]:
        if self._rate == 0 and getattr(self._fault, "after_events", None) is None:
            # Nothing comes in between, so it leaves in one piece.
            yield b"".join(event.encode() for event in self._events())
            return
        began = pinged = time.monotonic()
        tokens = 0
        for number, event in enumerate(self._events()):
            fault = await self._break(number)
            if fault is not None:
                yield fault
                return
            async for ping in self._kept_alive(number):
                yield ping
            tokens += event.tokens
            if self._rate > 0:
                await asyncio.sleep(max(0.0, began + tokens / self._rate - time.monotonic()))
            if time.monotonic() - pinged > PING_SECONDS:
                pinged = time.monotonic()
                yield Event({"type": "ping"}).encode()
            yield event.encode()

    async def _kept_alive(self, number: int) -> AsyncIterator[bytes]:
        """The pings of a stall at event `number`."""
        fault = self._fault
        if isinstance(fault, Stall) and fault.pings and number == fault.after_events:
            for _ in range(int(fault.seconds / STALL_PING_SECONDS)):
                await asyncio.sleep(STALL_PING_SECONDS)
                yield Event({"type": "ping"}).encode()

    def _events(self) -> list[Event]:
        events = self._rendered.events
        if isinstance(self._fault, NoMessageStop):
            return events[: -self._fault.left_out]
        if isinstance(self._fault, Cut):
            return events[: self._fault.after_events]
        return events

    async def _break(self, number: int) -> bytes | None:
        """What the fault sends instead of event `number`, after which the stream ends."""
        match self._fault:
            case Stall(seconds, after_events, pings=False) if number == after_events:
                await asyncio.sleep(seconds)
            case BadData(after_events) if number == after_events:
                self._record.update(error="fault: malformed data")
                return _BAD_DATA
            case ErrorEvent(kind, message, after_events) if number == after_events:
                self._record.update(error=f"fault: {kind}")
                body = {"type": "error", "error": {"type": kind, "message": message}}
                return Event({**body, "request_id": self.headers["request-id"]}).encode()
            case _:
                pass
        return None


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

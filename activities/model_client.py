"""The client of the model's API, with the newest credentials.

It is kept while these hold, and its connections with it, so that a turn's call need not connect anew.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache

import anthropic

from activities.credentials import Credentials


@dataclass
class _Kept:
    """A client, what it was made for, and how many calls use it now."""

    client: anthropic.AsyncAnthropic
    credentials: dict[str, str]
    loop: asyncio.AbstractEventLoop
    calls: int = 0


class ModelClient:
    """Lends one client to all calls."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._kept: _Kept | None = None

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[anthropic.AsyncAnthropic]:
        """The client, for one call. One with older credentials is closed after its last call."""
        kept = await self._current()
        kept.calls += 1
        try:
            yield kept.client
        finally:
            kept.calls -= 1
            await self._close_unused(kept)

    async def close(self) -> None:
        """Close it; the next call makes a new one."""
        kept, self._kept = self._kept, None
        if kept is not None:
            await self._close_unused(kept)

    async def _current(self) -> _Kept:
        found, loop = self._credentials.current(), asyncio.get_running_loop()
        if self._kept is None or (self._kept.credentials, self._kept.loop) != (found, loop):
            before, self._kept = self._kept, _Kept(new_client(found), found, loop)
            if before is not None and before.loop is loop:
                await self._close_unused(before)
        return self._kept

    async def _close_unused(self, kept: _Kept) -> None:
        if kept.calls == 0 and kept is not self._kept:
            await kept.client.close()


def new_client(credentials: dict[str, str]) -> anthropic.AsyncAnthropic:
    """A client with these credentials."""
    return anthropic.AsyncAnthropic(
        api_key=credentials.get("ANTHROPIC_API_KEY"),
        auth_token=credentials.get("ANTHROPIC_AUTH_TOKEN"),
        base_url=credentials.get("ANTHROPIC_BASE_URL"),
        max_retries=0,
        open_telemetry=False,
        http_client=anthropic.DefaultAsyncHttpxClient(verify=_tls()),
    )


@cache
def _tls() -> ssl.SSLContext:
    """Reading the certificates takes some 30 ms, so all clients share them."""
    return ssl.create_default_context()

"""A served emulator and a real client for it."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack

import anthropic
import pytest

from emulator.reply import Model, Reply, Text
from emulator.request import Request
from emulator.server import EmulatorServer

Serve = Callable[..., EmulatorServer]


class Greeter:
    """Answers everything with the same words."""

    def respond(self, request: Request) -> Reply:
        return Reply([Text("Good day.")])


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts emulators that stop with the test."""
    with ExitStack() as stack:

        def start(model: Model, **options: object) -> EmulatorServer:
            return stack.enter_context(EmulatorServer(model, **options))  # type: ignore[arg-type]

        yield start


@pytest.fixture
async def connect() -> AsyncIterator[Callable[[EmulatorServer], anthropic.AsyncAnthropic]]:
    """Makes clients as the worker does."""
    clients: list[anthropic.AsyncAnthropic] = []

    def client(server: EmulatorServer) -> anthropic.AsyncAnthropic:
        clients.append(anthropic.AsyncAnthropic(api_key="test", base_url=server.url, max_retries=0))
        return clients[-1]

    yield client
    for opened in clients:
        await opened.close()


@pytest.fixture(scope="module")
def greeter() -> Iterator[EmulatorServer]:
    """One emulator for all tests of a module that only look at refusals."""
    with EmulatorServer(Greeter()) as server:
        yield server

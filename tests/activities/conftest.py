"""Benches for tests of agents: made on demand, closed with the test."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from agents_bench import Answer, Bench, MakeBench, Serve, make_source, script

from emulator.server import EmulatorServer


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The user's repository, which no test changes."""
    return make_source(tmp_path_factory.mktemp("source"))


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves these replies, one after the other."""
    with ExitStack() as stack:

        def start(*replies: Answer, tokens_per_second: float = 0) -> EmulatorServer:
            return stack.enter_context(EmulatorServer(script(*replies), tokens_per_second=tokens_per_second))

        yield start


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """An activity takes further turns however slow this machine is."""
    monkeypatch.setattr("activities.turn.QUICK_SECONDS", 600.0)


@pytest.fixture
def make_bench(tmp_path: Path, source: Path, serve: Serve) -> MakeBench:
    """A task whose model gives these replies."""

    async def make(*replies: Answer, tokens_per_second: float = 0) -> Bench:
        bench = Bench(tmp_path / "state", source, serve(*replies, tokens_per_second=tokens_per_second))
        await bench.create()
        return bench

    return make

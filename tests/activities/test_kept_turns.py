"""The model is asked for the next turn while one is kept: nothing is journaled out of order, and nothing is lost."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from agents_bench import Agent, Bench, MakeBench, call, does
from test_several_turns import LAST, Answers, edit, quick, stopped, subjects
from test_turn_kills import Killed

from activities import directions, logs
from activities.repository import PrivateRepository
from activities.store import Store
from baton.messages import TurnOutcome
from baton.roles import Role
from emulator.reply import Reply, Stall

pytestmark = pytest.mark.usefixtures("unhurried")

SLOW = Reply(edit(2).blocks, fault=Stall(60, after_events=6))
"""An answer that begins, and does not end while anybody waits."""


class Slow(PrivateRepository):
    """Does something first where a checkpoint is made, whose number it is told."""

    def __init__(self, bench: Bench, first: Callable[[int], Awaitable[None]]) -> None:
        super().__init__(bench.folder.path)
        self._first = first
        self._made = 0
        bench.folder.repository = self

    async def checkpoint(self, *given: Any, **more: Any) -> str:
        self._made += 1
        await self._first(self._made)
        return await super().checkpoint(*given, **more)


class Noting(Store):
    """Notes which turn enters what."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench.folder.path / "store")
        self.entered: list[tuple[str, str]] = []
        bench.folder.store = self

    def enter(self, key: str, data: bytes, *, durable: bool = True) -> bytes:
        _, turn, *_, what = key.split("/")
        self.entered.append((turn, what))
        return super().enter(key, data, durable=durable)


async def test_a_response_is_journaled_after_the_turn_before_is_kept(make_bench: MakeBench) -> None:
    bench = await make_bench(edit(1), edit(2), LAST)
    agent = await bench.start()
    store, answers, turns_of_lines = Noting(bench), Answers(bench), []

    async def next_is_answered(made: int) -> None:
        turns_of_lines.append((logs._turn.get() or {})["turn"])
        await answers.over[made + 1].wait()

    Slow(bench, next_is_answered)
    outcome = await agent.attempt(quick(agent))
    assert [one.calls for one in (outcome, *outcome.further)] == [2, 2, 0]
    assert [one.commit for one in (outcome, *outcome.further)][1:] == [outcome.further[0].commit] * 2
    assert agent.commits() == subjects(1, 2)
    assert bench.statuses() == [200] * 3
    assert store.entered == [(turn, what) for turn in "123" for what in ("response", "outcome")]
    assert turns_of_lines == [1, 2]


async def test_a_reader_is_asked_while_its_turn_is_kept_too(make_bench: MakeBench) -> None:
    look = does(call("read", file_path="src/a.py"))
    bench = await make_bench(look, look, LAST)
    agent = await bench.start(bench.assignment(role=Role.REVIEWER, name="reviewer-2"))
    store = Noting(bench)
    outcome = await agent.attempt(quick(agent))
    assert [one.calls for one in (outcome, *outcome.further)] == [1, 1, 0]
    assert store.entered == [(turn, what) for turn in "123" for what in ("response", "outcome")]


@pytest.mark.parametrize("told", [False, True], ids=["", "told meanwhile"])
async def test_a_call_that_a_kill_lost_is_counted_though_the_turn_before_comes_to_something_else(
    make_bench: MakeBench, told: bool
) -> None:
    """Its calls run again, and the clock has another time: the next request is another one."""
    clock = does(call("bash", command="date +%N"))
    bench = await make_bench(clock, SLOW, edit(2), LAST)
    agent = await bench.start(run_id=f"killed while a turn is kept {told}")
    answers = Answers(bench, dies=True)

    async def dies(_: int) -> None:
        await answers.begun[2].wait()
        raise Killed

    Slow(bench, dies)
    with pytest.raises(Killed):
        await agent.attempt(quick(agent))
    if told:
        directions.note(agent.run_id, 1)
    bench.restart()
    outcome = await agent.attempt(quick(agent), number=2)
    assert [one.calls for one in (outcome, *outcome.further)] == ([1, 2] if told else [1, 2, 0])
    assert [one.extra_usage.model_calls for one in (outcome, *outcome.further)][:2] == [0, 1]
    assert len({exchange.body_sha256 for exchange in bench.server.requests}) == len(bench.statuses())


@pytest.mark.parametrize("answer", [SLOW, edit(2)], ids=["under way", "answered"])
async def test_a_turn_that_cannot_be_kept_fails_its_attempt(make_bench: MakeBench, answer: Reply) -> None:
    """And takes back the call that stands on it, whose cost is counted by the next attempt."""
    bench = await make_bench(edit(1), answer, edit(2), LAST)
    agent = await bench.start()
    answers = Answers(bench)

    async def fails(_: int) -> None:
        await (answers.begun if answer is SLOW else answers.over)[2].wait()
        raise OSError(28, "No space left on device")

    Slow(bench, fails)
    with pytest.raises(OSError, match="No space"):
        await agent.attempt(quick(agent))
    bench.restart()
    outcome = await agent.attempt(quick(agent), number=2)
    assert [one.calls for one in (outcome, *outcome.further)] == [2, 2, 0]
    lost = outcome.further[0].extra_usage
    assert lost.model_calls == 1
    if answer is not SLOW:
        paid = bench.server.requests[1].usage or {}
        assert lost.output_tokens == paid["output_tokens"]
    assert agent.commits() == subjects(1, 2)


async def test_a_later_turn_that_cannot_be_kept_is_left_to_the_next_activity(make_bench: MakeBench) -> None:
    bench = await make_bench(edit(1), edit(2), Reply(edit(3).blocks, fault=Stall(60, after_events=6)), edit(3))
    agent = await bench.start()
    answers = Answers(bench)

    async def fails(made: int) -> None:
        if made == 2:
            await answers.begun[3].wait()
            raise OSError(28, "No space left on device")

    Slow(bench, fails)
    outcome = await agent.attempt(quick(agent))
    assert (outcome.calls, outcome.further, outcome.in_vain) == (2, (), None)
    agent.state = agent.state.after(outcome)
    bench.restart()
    assert (await agent.turn()).calls == 2
    assert agent.commits() == subjects(1, 2)
    assert bench.statuses() == [200] * 3


async def ended(agent: Agent, *, by_workflow: bool) -> TurnOutcome | None:
    """As `stopped`, while its first turn is kept."""
    goes_on = asyncio.Event()

    async def go_on() -> None:
        await asyncio.sleep(0.2)
        goes_on.set()

    async def waits(_: int) -> None:
        await goes_on.wait()

    Slow(agent.bench, waits)
    return await stopped(agent, by_workflow=by_workflow, then=go_on)


async def test_a_turn_is_kept_although_its_activity_is_cancelled(make_bench: MakeBench) -> None:
    bench = await make_bench(edit(1), SLOW)
    agent = await bench.start()
    outcome = await ended(agent, by_workflow=True)
    assert outcome is not None
    assert (outcome.calls, outcome.further) == (2, ())
    assert agent.commits() == subjects(1)


async def test_a_turn_is_kept_although_the_worker_stops(make_bench: MakeBench) -> None:
    bench = await make_bench(edit(1), SLOW, edit(2), LAST)
    agent = await bench.start()
    assert await ended(agent, by_workflow=False) is None
    assert agent.commits() == subjects(1)
    bench.restart()
    outcome = await agent.attempt(quick(agent), number=2)
    assert [one.calls for one in (outcome, *outcome.further)] == [2, 2, 0]
    assert [one.extra_usage.model_calls for one in (outcome, *outcome.further)] == [0, 1, 0]
    assert agent.commits() == subjects(1, 2)


async def test_a_turn_is_kept_although_the_worker_stops_before_its_spans_are_sent(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = await make_bench(edit(1))
    agent = await bench.start()
    sends, goes_on = asyncio.Event(), asyncio.Event()

    async def delivered() -> None:
        sends.set()
        await goes_on.wait()

    monkeypatch.setattr("activities.transaction.delivered", delivered)
    running = asyncio.create_task(agent.attempt(agent.request()))
    await asyncio.wait_for(sends.wait(), 20)
    running.cancel("the worker stops")
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 20)
    assert agent.commits() == subjects(1)

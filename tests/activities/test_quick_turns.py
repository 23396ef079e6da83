"""Several short turns in one activity: each is a transaction of its own, and what was done is never lost."""

import asyncio
from typing import Any

import pytest
from agents_bench import Agent, Bench, MakeBench, call, does
from test_turn_kills import POINTS, DyingRepository, DyingStore, Killed

from activities import directions
from activities.store import Store
from baton.budget import Budget
from baton.messages import Ahead, TurnOutcome, TurnRequest
from baton.pricing import Usage
from emulator.reply import Cut, HttpError, Reply, Stall

AHEAD = Ahead(turns=5, directions=0, budget=Budget(), used_tokens=0)


def edit(number: int) -> Reply:
    """One more line in a file of its own."""
    return does(
        call("write", file_path=f"new/{number}.txt", content=f"{number}\n"),
        call("bash", command=f"echo {number} >> log.txt"),
    )


LAST = does(call("complete_item", item="src/none.py"))
"""Fails, so the workflow is to look at it."""


def quick(agent: Agent) -> TurnRequest:
    return agent.request().model_copy(update={"ahead": AHEAD})


def subjects(*turns: int) -> list[str]:
    return [f"executor-2-converter · turn {number}" for number in turns]


def log(agent: Agent) -> str:
    return (agent.workspace / "log.txt").read_text()


async def test_one_activity_takes_turns_until_there_is_something_to_decide(make_bench: MakeBench) -> None:
    bench = await make_bench(edit(1), edit(2), edit(3), LAST)
    agent = await bench.start()
    outcome = await agent.attempt(quick(agent))
    assert [one.calls for one in (outcome, *outcome.further)] == [2, 2, 2, 1]
    assert outcome.in_vain is None
    assert agent.commits() == subjects(1, 2, 3, 4)
    assert log(agent) == "1\n2\n3\n"
    assert bench.statuses() == [200] * 4
    # Each goes on from the one before.
    heads = [outcome.head, *(one.head for one in outcome.further)]
    assert [bench.folder.conversations.load(heads[-1]).turns[n].parent for n in (1, 2, 3)] == heads[:3]


async def test_without_leave_an_activity_takes_one_turn(make_bench: MakeBench) -> None:
    bench = await make_bench(edit(1), edit(2))
    agent = await bench.start()
    assert (await agent.attempt(agent.request())).further == ()


async def test_an_agent_that_was_told_something_comes_back_first(make_bench: MakeBench) -> None:
    bench = await make_bench(edit(1), edit(2), LAST)
    agent = await bench.start(run_id="told something")
    directions.note(agent.run_id, 1)
    outcome = await agent.attempt(quick(agent))
    assert outcome.further == ()
    agent.state = agent.state.after(outcome)
    knows = quick(agent).model_copy(update={"ahead": AHEAD.model_copy(update={"directions": 1})})
    assert len((await agent.attempt(knows)).further) == 1


class Arming:
    """Dies at a point of the third turn."""

    def __init__(self, bench: Bench, point: str) -> None:
        self._bench, self._point = bench, point

    def __call__(self) -> None:
        folder = self._bench.folder
        if self._point in {"response", "outcome"}:
            folder.store = DyingStore(folder.path / "store", f"/{self._point}")
        else:
            dying = DyingRepository(folder.path, self._point)
            # What the process knows of its workspaces stays known.
            dying.__dict__ |= {name: value for name, value in folder.repository.__dict__.items() if name != "_point"}
            folder.repository = dying


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("forgotten", [False, True], ids=["kill", "power cut"])
async def test_a_kill_in_a_later_turn_pays_nothing_twice(make_bench: MakeBench, point: str, forgotten: bool) -> None:
    replies = [edit(1), edit(2), does(*edit(3).blocks, call("complete_item", item="src/none.py")), LAST]
    bench = await make_bench(*replies)
    agent = await bench.start()
    request, before = quick(agent), bench.turns._turn

    async def third(given: TurnRequest, *rest: Any) -> TurnOutcome:
        if given.turn == 3:
            Arming(bench, point)()
        return await before(given, *rest)

    bench.turns._turn = third  # type: ignore[method-assign]
    if forgotten:
        bench.folder.store = Forgetful(bench.folder.path / "store")
    with pytest.raises(Killed):
        await agent.attempt(request)
    bench.restart()
    outcome = await agent.attempt(request, number=2)
    assert bench.statuses() == [200] * 4
    assert len(outcome.further) == 3
    assert agent.commits() == subjects(1, 2, 3, 4)
    assert log(agent) == "1\n2\n3\n"


class Forgetful(Store):
    """As after a power cut: what the disk was not waited for is not there."""

    def enter(self, key: str, data: bytes, *, durable: bool = True) -> bytes:
        return super().enter(key, data, durable=durable) if durable else data


async def test_a_call_that_fails_later_leaves_what_was_done(make_bench: MakeBench) -> None:
    bench = await make_bench(edit(1), Reply(fault=HttpError(529, "overloaded_error")), edit(2), LAST)
    agent = await bench.start()
    outcome = await agent.attempt(quick(agent))
    assert (outcome.further, outcome.in_vain) == ((), Usage())
    assert bench.statuses() == [200, 529]
    agent.state = agent.state.after(outcome)
    assert (await agent.attempt(agent.request())).calls == 2
    assert agent.commits() == subjects(1, 2)


async def test_what_a_broken_call_cost_is_told(make_bench: MakeBench) -> None:

    bench = await make_bench(edit(1), Reply(edit(2).blocks, fault=Cut(after_events=6)), edit(2))
    agent = await bench.start()
    outcome = await agent.attempt(quick(agent))
    assert outcome.further == ()
    assert outcome.in_vain is not None
    assert (outcome.in_vain.model_calls, outcome.in_vain.output_tokens > 0) == (1, True)


async def test_a_cancelled_activity_tells_what_was_done(make_bench: MakeBench) -> None:
    bench = await make_bench(edit(1), Reply(edit(2).blocks, fault=Stall(60)))
    agent = await bench.start()
    environment = bench.environment(agent.run_id)
    running = asyncio.create_task(environment.run(bench.turns.execute_step, quick(agent)))
    while len(bench.statuses()) < 1 or not agent.commits():
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.3)
    environment.cancel()
    outcome = await asyncio.wait_for(running, 10)
    assert (outcome.calls, outcome.further) == (2, ())
    assert agent.commits() == subjects(1)


async def test_a_fault_of_a_later_turn_is_left_to_the_next_activity(make_bench: MakeBench) -> None:
    bench = await make_bench(edit(1), edit(2))
    agent = await bench.start()
    before = bench.turns._turn

    async def second(given: TurnRequest, *rest: Any) -> TurnOutcome:
        if given.turn == 2:
            raise OSError(28, "No space left on device")
        return await before(given, *rest)

    bench.turns._turn = second  # type: ignore[method-assign]
    outcome = await agent.attempt(quick(agent))
    assert (outcome.calls, outcome.further, outcome.in_vain) == (2, (), None)

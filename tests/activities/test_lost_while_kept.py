"""What a call cost that went out while the turn before could not be kept: it is in the books, whatever comes after."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from agents_bench import Agent, MakeBench, call, does
from test_kept_turns import SLOW, Slow
from test_several_turns import LAST, Answers, edit, quick, stopped, subjects

from activities import directions
from baton.manifest import HandoffReason
from baton.messages import TurnOutcome
from emulator.reply import Cut, Reply, Stall

pytestmark = pytest.mark.usefixtures("unhurried")

CLOCK = does(call("bash", command="date +%N"))
"""Another answer each time: the next request is another one."""


def model_calls(*outcomes: TurnOutcome) -> list[int]:
    """Of each turn, the lost ones among them."""
    every = [one for outcome in outcomes for one in (outcome, *outcome.further)]
    return [(one.usage + one.extra_usage).model_calls for one in every]


def failing(agent: Agent, turn: int, *, arrives: bool) -> None:
    """Let this turn not be kept, once the call after it is under way or has its answer."""
    bench = agent.bench
    answers = Answers(bench)

    async def fails(made: int) -> None:
        if made == turn:
            await (answers.over if arrives else answers.begun)[turn + 1].wait()
            raise OSError(28, "No space left on device")

    Slow(bench, fails)


@pytest.mark.parametrize("arrives", [False, True], ids=["under way", "answered"])
async def test_another_head_after_a_turn_that_could_not_be_kept(make_bench: MakeBench, arrives: bool) -> None:
    bench = await make_bench(CLOCK, edit(2) if arrives else SLOW, edit(2), LAST)
    agent = await bench.start()
    failing(agent, 1, arrives=arrives)
    with pytest.raises(OSError, match="No space"):
        await agent.attempt(quick(agent))
    bench.restart()
    outcome = await agent.attempt(quick(agent), number=2)
    assert model_calls(outcome) == [1, 2, 1]


@pytest.mark.parametrize("first", [CLOCK, edit(2)], ids=["another head", "same head"])
@pytest.mark.parametrize("arrives", [False, True], ids=["under way", "answered"])
async def test_the_next_activity_counts_the_call_after_a_turn_that_could_not_be_kept(
    make_bench: MakeBench, first: Reply, arrives: bool
) -> None:
    bench = await make_bench(edit(1), first, edit(3) if arrives else SLOW, edit(3), LAST)
    agent = await bench.start()
    failing(agent, 2, arrives=arrives)
    outcome = await agent.attempt(quick(agent))
    assert outcome.further == ()
    agent.state = agent.state.after(outcome)
    bench.restart()
    following = await agent.attempt(quick(agent))
    assert model_calls(outcome, following) == [1, 1, 2, 1]


async def test_an_agent_that_ends_after_a_turn_that_could_not_be_kept(make_bench: MakeBench) -> None:
    bench = await make_bench(edit(1), edit(2), edit(3))
    agent = await bench.start()
    failing(agent, 2, arrives=True)
    agent.state = agent.state.after(await agent.attempt(quick(agent)))
    bench.restart()
    closed = await agent.close(HandoffReason.CANCELLED, has_successor=False)
    assert closed.unheard == ()
    assert closed.usage.model_calls == 2


async def test_a_call_that_a_stop_broke_off_is_counted_though_the_agent_was_told_something(
    make_bench: MakeBench,
) -> None:
    bench = await make_bench(edit(1), Reply(edit(2).blocks, fault=Stall(60, after_events=6)), edit(2), LAST)
    agent = await bench.start(run_id="told while its worker stopped")
    assert await stopped(agent, by_workflow=False) is None
    directions.note(agent.run_id, 1)
    bench.restart()
    outcome = await agent.attempt(quick(agent), number=2)
    assert outcome.further == ()
    agent.state = agent.state.after(outcome)
    assert model_calls(outcome, await agent.attempt(agent.request())) == [1, 2]


async def test_calls_that_two_activities_lost_are_both_counted(make_bench: MakeBench) -> None:
    cut = Reply(edit(3).blocks, fault=Cut(after_events=6))
    bench = await make_bench(edit(1), edit(2), SLOW, cut, edit(3), LAST)
    agent = await bench.start()
    failing(agent, 2, arrives=False)
    agent.state = agent.state.after(await agent.attempt(quick(agent)))
    bench.restart()
    environment = bench.environment(agent.run_id)
    environment.info = replace(environment.info, activity_id="the next one")
    outcome: TurnOutcome = await environment.run(bench.turns.execute_step, quick(agent))
    assert outcome.in_vain is not None
    assert outcome.in_vain.lost.model_calls == 2
    agent.state = agent.state.after(outcome)
    asked = {"asked_before": 1, "lost": outcome.in_vain.lost}
    assert model_calls(await agent.attempt(agent.request().model_copy(update=asked))) == [3]


async def test_a_turn_is_kept_although_its_activity_is_cancelled_twice(make_bench: MakeBench) -> None:
    bench = await make_bench(edit(1), LAST)
    agent = await bench.start()
    begins, goes_on = asyncio.Event(), asyncio.Event()

    async def waits(_: int) -> None:
        begins.set()
        await goes_on.wait()

    Slow(bench, waits)
    running: asyncio.Task[Any] = asyncio.create_task(
        bench.environment(agent.run_id).run(bench.turns.execute_step, agent.request())
    )
    await asyncio.wait_for(begins.wait(), 20)
    for _ in range(3):
        running.cancel("the worker stops")
        await asyncio.sleep(0.1)
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 20)
    assert agent.commits() == subjects(1)

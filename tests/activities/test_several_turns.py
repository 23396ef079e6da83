"""Several short turns in one activity: each is a transaction of its own, and what was done is never lost."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from agents_bench import Agent, Bench, MakeBench, call, does, says
from test_turn_kills import POINTS, Killed, arm

from activities import directions
from activities.model import ModelCancelled, ModelRequest, Progress
from activities.store import Store
from activities.transaction import Ran, Workplace
from baton import trace
from baton.budget import Budget
from baton.conversation import Notice, NoticeKind, Response
from baton.manifest import HandoffReason
from baton.messages import Ahead, InVain, TurnOutcome, TurnRequest
from baton.roles import Role
from emulator.reply import Cut, HttpError, Reply, Stall

pytestmark = pytest.mark.usefixtures("unhurried")

AHEAD = Ahead(turns=5, directions=0, budget=Budget(), used_tokens=0)


def edit(number: int) -> Reply:
    """One more line in a file of its own."""
    return does(
        call("write", file_path=f"new/{number}.txt", content=f"{number}\n"),
        call("bash", command=f"echo {number} >> log.txt"),
    )


LAST = says("And now?")
"""The workflow is to look at it."""


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
    assert [one.calls for one in (outcome, *outcome.further)] == [2, 2, 2, 0]
    assert outcome.in_vain is None
    assert agent.commits() == subjects(1, 2, 3)
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


def at_turn(bench: Bench, number: int, act: Callable[[], None]) -> None:
    """Have this happen when the turn of that number begins, and the one before is kept."""
    transactions = bench.turns._transactions
    take = transactions.turn

    async def turn(place: Workplace, given: TurnRequest, before: Ran | None = None) -> Ran:
        if given.turn == number:
            if before is not None:
                await before.kept()
            act()
        return await take(place, given, before)

    transactions.turn = turn  # type: ignore[method-assign]


def arm_in_the_middle(bench: Bench, point: str) -> None:
    """As `arm`; what the process knows of its workspaces stays known."""
    known = dict(bench.folder.repository.__dict__)
    arm(bench, point)
    bench.folder.repository.__dict__.update(known)


def die() -> None:
    raise Killed


def fill_the_disk() -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("forgotten", [False, True], ids=["kill", "power cut"])
async def test_a_kill_in_a_later_turn_pays_nothing_twice(make_bench: MakeBench, point: str, forgotten: bool) -> None:
    replies = [edit(1), edit(2), does(*edit(3).blocks, call("complete_item", item="src/none.py")), LAST, LAST]
    bench = await make_bench(*replies)
    agent = await bench.start()
    request = quick(agent)
    at_turn(bench, 3, lambda: arm_in_the_middle(bench, point))
    if forgotten:
        bench.folder.store = Forgetful(bench.folder.path / "store")
    with pytest.raises(Killed):
        await agent.attempt(request)
    bench.restart()
    outcome = await agent.attempt(request, number=2)
    asked = Counter(exchange.body_sha256 for exchange in bench.server.requests)
    in_flight = point in {"node", "checkpoint", "outcome"}  # the call of the turn after it
    assert list(asked.values())[:3] == [1, 1, 1]
    assert len(asked) == 4
    lost = sum(one.extra_usage.model_calls for one in (outcome, *outcome.further))
    assert lost <= asked.total() - 4 <= in_flight
    assert len(outcome.further) == 3
    assert agent.commits() == subjects(1, 2, 3)
    assert log(agent) == "1\n2\n3\n"


class Forgetful(Store):
    """As after a power cut: what the disk was not waited for is not there."""

    def enter(self, key: str, data: bytes, *, durable: bool = True) -> bytes:
        return super().enter(key, data, durable=durable) if durable else data


async def test_a_call_that_fails_later_leaves_what_was_done(make_bench: MakeBench) -> None:
    bench = await make_bench(edit(1), Reply(fault=HttpError(529, "overloaded_error")), edit(2), LAST)
    agent = await bench.start()
    outcome = await agent.attempt(quick(agent))
    assert (outcome.further, outcome.in_vain) == ((), InVain())
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
    assert (outcome.in_vain.lost.model_calls, outcome.in_vain.lost.output_tokens > 0) == (1, True)


async def test_a_fault_of_a_later_turn_is_left_to_the_next_activity(make_bench: MakeBench) -> None:
    bench = await make_bench(edit(1), edit(2))
    agent = await bench.start()
    at_turn(bench, 2, fill_the_disk)
    outcome = await agent.attempt(quick(agent))
    assert (outcome.calls, outcome.further, outcome.in_vain) == (2, (), None)


class Answers:
    """Events by the number of a call: the model answers it, and its answer is here. `dies`: the process ends where a
    call is cancelled."""

    def __init__(self, bench: Bench, *, dies: bool = False) -> None:
        self.begun: dict[int, asyncio.Event] = defaultdict(asyncio.Event)
        self.over: dict[int, asyncio.Event] = defaultdict(asyncio.Event)
        self._respond, self._dies, self._calls = bench.model.respond, dies, 0
        bench.model.respond = self._watched  # type: ignore[method-assign]

    async def _watched(self, asked: ModelRequest, progress: Progress, *more: Any) -> Response:
        self._calls += 1
        number = self._calls

        def told(tokens: int) -> None:
            progress(tokens)
            if tokens:
                self.begun[number].set()

        try:
            response = await self._respond(asked, told, *more)
        except ModelCancelled:
            if self._dies:
                raise Killed from None
            raise
        self.over[number].set()
        return response


async def nothing_more() -> None:
    return


async def stopped(
    agent: Agent, *, by_workflow: bool, then: Callable[[], Awaitable[None]] = nothing_more
) -> TurnOutcome | None:
    """An activity that ends in the middle of its second turn's call, and what happens then; None where it is left to
    another attempt."""
    bench = agent.bench
    environment, answers = bench.environment(agent.run_id), Answers(bench)
    running = asyncio.create_task(environment.run(bench.turns.execute_step, quick(agent)))
    await asyncio.wait_for(answers.begun[2].wait(), 20)
    if by_workflow:
        environment.cancel()
    else:
        running.cancel("the worker stops")
    await then()
    try:
        outcome: TurnOutcome = await asyncio.wait_for(running, 20)
    except asyncio.CancelledError:
        return None
    return outcome


async def test_a_cancelled_activity_tells_what_was_done(make_bench: MakeBench) -> None:
    bench = await make_bench(edit(1), Reply(edit(2).blocks, fault=Stall(60, after_events=6)))
    agent = await bench.start()
    outcome = await stopped(agent, by_workflow=True)
    assert outcome is not None
    assert (outcome.calls, outcome.further) == (2, ())
    assert agent.commits() == subjects(1)


async def test_a_worker_that_stops_leaves_its_turn_to_another_attempt(make_bench: MakeBench) -> None:
    """What the call that it broke off cost is counted there, once."""
    bench = await make_bench(edit(1), Reply(edit(2).blocks, fault=Stall(60, after_events=6)), edit(2), LAST)
    agent = await bench.start()
    assert await stopped(agent, by_workflow=False) is None
    outcome = await agent.attempt(quick(agent), number=2)
    assert [one.calls for one in (outcome, *outcome.further)] == [2, 2, 0]
    assert outcome.further[0].extra_usage.model_calls == 1
    assert sum(one.extra_usage.model_calls for one in (outcome, *outcome.further)) == 1


async def test_guidance_that_came_after_a_half_done_turn_is_told_later(make_bench: MakeBench) -> None:
    """The turn has its response already; the workflow hears that its guidance was not in it."""
    bench = await make_bench(edit(1), edit(2), LAST)
    agent = await bench.start()
    arm(bench, "response")
    with pytest.raises(Killed):
        await agent.attempt(agent.request())
    bench.restart()
    guidance = (Notice(kind=NoticeKind.GUIDANCE, text="Keep the tabs."),)
    first = await agent.turn(notices=guidance)
    assert first.guidance == 0
    again = await agent.turn(notices=guidance)
    assert again.guidance == 1
    assert "Keep the tabs." in str(bench.sent()[-1]["content"])


async def test_a_later_attempt_takes_up_the_turn_that_was_asked_whatever_it_is_told(make_bench: MakeBench) -> None:
    bench = await make_bench(edit(1), edit(2), LAST)
    agent = await bench.start(run_id="told while it was killed")
    at_turn(bench, 2, lambda: arm(bench, "response"))
    with pytest.raises(Killed):
        await agent.attempt(quick(agent))
    directions.note(agent.run_id, 1)
    bench.restart()
    outcome = await agent.attempt(quick(agent), number=2)
    assert [one.calls for one in (outcome, *outcome.further)] == [2, 2]
    assert bench.statuses() == [200] * 2


async def test_an_agent_that_ends_before_the_next_attempt_has_all_its_turns(make_bench: MakeBench) -> None:
    """Three turns were over when the process died, one had its response."""
    change = call("append", file_path="src/a.py", content="A2 = 2\n", at_line=1)
    bench = await make_bench(edit(1), edit(2), does(change, call("complete_item", item="src/a.py")), edit(4))
    agent = await bench.start()
    at_turn(bench, 4, lambda: arm(bench, "response"))
    with pytest.raises(Killed):
        await agent.attempt(quick(agent))
    bench.restart()
    closed = await agent.close(HandoffReason.CANCELLED, has_successor=False)
    assert [turn.calls for turn in closed.unheard] == [2, 2, 2]
    spent = sum((turn.usage for turn in closed.unheard), closed.usage)
    paid = [exchange.usage["output_tokens"] for exchange in bench.server.requests if exchange.usage]
    assert (spent.model_calls, spent.output_tokens) == (4, sum(paid))
    assert [record.item for turn in closed.unheard for record in turn.items] == ["src/a.py"]


async def test_a_power_cut_pays_no_turn_of_a_reader_twice(make_bench: MakeBench) -> None:
    """It makes no checkpoints, and its calls may answer otherwise when they run again."""
    looks = [does(call("bash", command=f"date +%N; echo {number}")) for number in range(3)]
    bench = await make_bench(*looks, LAST)
    agent = await bench.start(bench.assignment(role=Role.REVIEWER, name="reviewer-2"))
    at_turn(bench, 4, die)
    bench.folder.store = Forgetful(bench.folder.path / "store")
    with pytest.raises(Killed):
        await agent.attempt(quick(agent))
    bench.restart()
    outcome = await agent.attempt(quick(agent), number=2)
    assert [one.calls for one in (outcome, *outcome.further)] == [1, 1, 1, 0]
    assert bench.statuses() == [200] * 4


async def test_a_response_that_is_found_is_told_once(make_bench: MakeBench) -> None:
    bench = await make_bench(edit(1), edit(2), LAST)
    agent = await bench.start()
    transactions = bench.turns._transactions
    before = transactions._apply

    async def full(attempt: Any, *rest: Any) -> Any:
        if attempt.request.turn == 2:
            fill_the_disk()
        return await before(attempt, *rest)

    transactions._apply = full  # type: ignore[method-assign]
    agent.state = agent.state.after(await agent.attempt(quick(agent)))
    bench.restart()
    await agent.turn()
    lines = (bench.folder.artifacts / trace.NAME).read_text().splitlines()
    assert sum('"kind": "model"' in line for line in lines) == 2

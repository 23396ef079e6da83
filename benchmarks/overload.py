"""Requests per second over a 15-minute overload wall: the real gate, on a clock that jumps, and a provider that refuses
everything while the wall stands.

An agent does turn after turn. A refused call comes again when the gate says, as Temporal's retry does; a call that
finds no place comes again by its workflow's timer. Beside it stand the same agents without a shared view, each with its
own back-off of 1 s doubling to 60 s.
"""

import asyncio
import random
import selectors
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from activities.quota import Gate, NotNow
from baton.quota import JITTER, LONGEST_BACK_OFF
from benchmarks.table import Row

WALL_BEGINS, WALL_ENDS, OVER = 120.0, 120.0 + 15 * 60, 30 * 60.0
EPOCH = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)
ANSWER_SECONDS = (10.0, 40.0)
REFUSAL_SECONDS = 0.3
ACCEPTED_SECONDS = 1.0
BACK_SECONDS = 300.0
ACCOUNT = "account"


@dataclass
class Traffic:
    """What reached the provider: when calls began, by second, and how they ended."""

    begun: Counter[int] = field(default_factory=Counter)
    refused: int = 0
    turns: Counter[int] = field(default_factory=Counter)
    last_turn: dict[int, float] = field(default_factory=dict)
    under_way: int = 0
    back_at: float | None = None

    def most(self, first: float, last: float) -> int:
        """The most calls that began in one second of that time."""
        return max((number for second, number in self.begun.items() if first <= second < last), default=0)

    def number(self, first: float, last: float) -> int:
        """How many calls began in that time."""
        return sum(number for second, number in self.begun.items() if first <= second < last)


Caller = Callable[[int], Awaitable[None]]


def shared(agents: int) -> Traffic:
    """The traffic of agents that share a gate."""
    return _simulated(agents, _through_gate)


def alone(agents: int) -> Traffic:
    """The traffic of agents that each wait on their own."""
    return _simulated(agents, _on_its_own)


def measure() -> list[Row]:
    """Both, for few and for many agents."""
    rows = []
    for agents in (8, 64):
        for name, traffic in (("shared view", shared(agents)), ("each on its own", alone(agents))):
            ours = name == "shared view"
            quiet = WALL_BEGINS + 60
            during = traffic.number(quiet, WALL_ENDS) / (WALL_ENDS - quiet)
            after = traffic.most(WALL_ENDS, WALL_ENDS + 90)
            back = traffic.back_at - WALL_ENDS if traffic.back_at else None
            idle = sum(1 for agent in range(agents) if traffic.last_turn.get(agent, 0) < WALL_ENDS)
            title = f"{agents} agents, {name}"
            rows += [
                Row(f"{title}: calls refused", str(traffic.refused), *_goal(ours, "at most 40", traffic.refused <= 40)),
                Row(
                    f"{title}: requests per second within the wall",
                    f"{during:.3f}",
                    *_goal(ours, "at most 0.05", during <= 0.05),
                ),
                Row(
                    f"{title}: most requests in one second when it falls",
                    str(after),
                    *_goal(ours, "at most 8", after <= 8),
                ),
                Row(
                    f"{title}: all at work again after",
                    "never" if back is None else f"{back:.0f} s",
                    *_goal(ours, "at most 5 min", back is not None and back <= BACK_SECONDS),
                ),
                Row(f"{title}: agents lost", str(idle), *_goal(ours, "none", idle == 0)),
            ]
    return rows


def _goal(ours: bool, goal: str, met: bool) -> tuple[str, bool | None]:
    return (goal, met) if ours else ("", None)


async def _nobody() -> None:
    """Without a gate nobody hears that a call was taken."""


async def _call(
    traffic: Traffic, dice: random.Random, agents: int, taken: Callable[[], Awaitable[None]] = _nobody
) -> bool:
    """One call of the provider; whether it was answered."""
    loop = asyncio.get_running_loop()
    traffic.begun[int(loop.time())] += 1
    if WALL_BEGINS <= loop.time() < WALL_ENDS:
        await asyncio.sleep(REFUSAL_SECONDS)
        traffic.refused += 1
        return False
    traffic.under_way += 1
    if traffic.under_way == agents and loop.time() >= WALL_ENDS and traffic.back_at is None:
        traffic.back_at = loop.time()
    await asyncio.sleep(ACCEPTED_SECONDS)
    await taken()
    await asyncio.sleep(dice.uniform(*ANSWER_SECONDS))
    traffic.under_way -= 1
    return True


async def _through_gate(traffic: Traffic, dice: random.Random, agents: int) -> None:
    loop = asyncio.get_running_loop()

    def now() -> datetime:
        return EPOCH + timedelta(seconds=loop.time())

    gate = Gate(clock=now, dice=dice.random)

    async def turn() -> None:
        while True:
            try:
                async with gate.place(ACCOUNT, lambda _: None) as place:
                    if await _call(traffic, dice, agents, lambda: place.accepted(())):
                        place.succeeded()
                        return
                    _, delay = await place.overloaded("Overloaded", None, ())
            except NotNow as error:
                delay = (error.pause.until or now()) - now()
            await asyncio.sleep(delay.total_seconds())

    await _agents(traffic, agents, turn)


async def _on_its_own(traffic: Traffic, dice: random.Random, agents: int) -> None:
    async def turn() -> None:
        delay = 1.0
        while not await _call(traffic, dice, agents):
            await asyncio.sleep(delay * (1 + JITTER * dice.random()))
            delay = min(delay * 2, LONGEST_BACK_OFF.total_seconds())

    await _agents(traffic, agents, turn)


async def _agents(traffic: Traffic, agents: int, turn: Callable[[], Awaitable[None]]) -> None:
    loop = asyncio.get_running_loop()

    async def agent(number: int) -> None:
        while loop.time() < OVER:
            await turn()
            traffic.turns[number] += 1
            traffic.last_turn[number] = loop.time()

    await asyncio.gather(*(agent(number) for number in range(agents)))


def _simulated(agents: int, run: Callable[[Traffic, random.Random, int], Awaitable[None]]) -> Traffic:
    traffic = Traffic()
    loop = _JumpingLoop()
    try:
        loop.run_until_complete(_awaited(run(traffic, random.Random(1), agents)))
    finally:
        loop.close()
    return traffic


async def _awaited(work: Awaitable[None]) -> None:
    await work


class _JumpingSelector(selectors.DefaultSelector):
    """Where the loop would sleep, its clock jumps."""

    jumped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout > 0:
            self.jumped += timeout
        return list(super().select(0))


class _JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.jumped

"""Wall time of whole tasks against the critical path of model time, with real processes; memory on the way; and how
long a step's dependant waits."""

import statistics
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

from baton.states import TaskState
from benchmarks.pacing import Paced, one_after_another, side_by_side
from benchmarks.processes import Use, watched
from benchmarks.table import Row
from emulator.journal import read_journal
from tests.end_to_end.bench import Bench, run

ANSWER_SECONDS = 1.0
TURNS, LONG_LIFE = 20, 120
"""Turns of an agent. A budget of 32 000 tokens lasts for hundreds of turns of 1 s, so the second is more like it; in
the first the start and the end of a task weigh most."""
GOALS = {8: 1.05}
CHAIN, CHAIN_TURNS = 5, 3


async def measure(bench: Bench, folder: Path) -> list[Row]:
    """Tasks of independent steps with few and many agents, and one of steps in a chain."""
    # First: for minutes after a task has removed its workspaces, ext4 looks at each of their inodes before it gives a
    # new file one, and a file costs up to fifteen times as much.
    long_life = (await _side_by_side(bench, folder / "long-life", 8, LONG_LIFE))[:4]
    rows = []
    for agents in (8, 1, 30):
        rows += await _side_by_side(bench, folder / f"agents-{agents}", agents, TURNS)
    return [*long_life, *rows, await _dependants(bench, folder / "chain")]


async def _side_by_side(bench: Bench, folder: Path, agents: int, turns: int) -> list[Row]:
    given, model = side_by_side(folder, agents, turns), Paced(ANSWER_SECONDS)
    journal = folder.with_suffix(".jsonl")
    with bench.api(model, keep=False, journal=journal), watched(bench.service) as use:
        started = time.monotonic()
        result = await run(await bench.client(), given, f"bench-parallel-{agents}-{turns}")
        wall = time.monotonic() - started
    assert (result.state, result.items.changed) == (TaskState.DONE, agents * turns), result
    critical, set_time = _model_time(journal), model.longest_life
    ratio = wall / critical
    goal = GOALS.get(agents)
    what = f"{agents} agent{'s' * (agents > 1)}{f' of {turns} turns' if turns != TURNS else ''}"
    return [
        Row(
            f"{what}, task from start to end",
            f"{wall:.1f} s for {critical:.1f} s of model time: {ratio:.2f}",
            f"at most {goal}" if goal else "",
            ratio <= goal if goal else None,
        ),
        Row(f"{what}, first call to last answer", f"{model.seconds:.1f} s: {model.seconds / critical:.2f}"),
        Row(
            f"{what}, against the set time of the answers", f"{wall:.1f} s for {set_time:.1f} s: {wall / set_time:.2f}"
        ),
        Row(f"{what}, from start to first call, from last answer to end", _edges(model, started, wall)),
        Row(f"{what}, most memory", _memory(use)),
        Row(f"{what}, processor time per turn", _processor(use, agents * turns)),
    ]


def _model_time(journal: Path) -> float:
    """The critical path: the model time of the agent that needed most, as a client sees it, each answer from the
    arrival of its request to its last byte. No schedule can be faster."""
    lives: dict[str, float] = defaultdict(float)
    for exchange in read_journal(journal):
        lives[exchange.user_id or ""] += exchange.seconds
    return max(lives.values())


def _edges(model: Paced, started: float, wall: float) -> str:
    first = min(call.begun for call in model.calls) - started
    last = started + wall - max(call.ended for call in model.calls)
    return f"{first:.2f} s, {last:.2f} s"


def _memory(use: Use) -> str:
    return f"worker {use.worker_mb:.0f} MB, server {use.server_mb:.0f} MB"


def _processor(use: Use, turns: int) -> str:
    worker, git, server = (1000 * seconds / turns for seconds in (use.worker_cpu, use.children_cpu, use.server_cpu))
    return f"worker {worker:.0f} ms, git {git:.0f} ms, server {server:.0f} ms"


async def _dependants(bench: Bench, folder: Path) -> Row:
    given, model = one_after_another(folder, CHAIN, CHAIN_TURNS), Paced(ANSWER_SECONDS / 4)
    with bench.api(model, keep=False):
        result = await run(await bench.client(), given, "bench-chain")
    assert (result.state, result.agents) == (TaskState.DONE, CHAIN), result
    lives = sorted(model.by_agent().values(), key=lambda life: life[0].begun)
    waits = [after[0].begun - before[-1].ended for before, after in pairwise(lives)]
    value = f"{statistics.median(waits):.2f} s (least {min(waits):.2f}, most {max(waits):.2f})"
    return Row("from a step's last answer to its dependant's first call: tools, merge, workspace", value)

"""How long nothing happens after the worker or the server was killed in the middle of a model call."""

import asyncio
import statistics
import time
from pathlib import Path

from baton.states import TaskState
from benchmarks.pacing import Paced, side_by_side
from benchmarks.table import Row
from cli import processes
from cli.service import inspect
from tests.end_to_end.bench import Bench, run

ANSWER_SECONDS = 1.0
TURNS, KILLED_AT = 5, 3
KILLS = 3
GOAL_SECONDS = 10.0
LIMIT_SECONDS = 120.0


async def measure(bench: Bench, folder: Path) -> list[Row]:
    """Some kills of each, one task after the other."""
    rows = []
    for victim in ("worker", "server"):
        times = [await _killed(bench, folder / f"{victim}-{n}", victim, n) for n in range(KILLS)]
        value = f"{statistics.median(times):.1f} s (least {min(times):.1f}, most {max(times):.1f})"
        goal = f"under {GOAL_SECONDS:.0f} s"
        rows.append(Row(f"from SIGKILL of the {victim} to the next model call", value, goal, max(times) < GOAL_SECONDS))
    return rows


async def _killed(bench: Bench, folder: Path, victim: str, number: int) -> float:
    given, model = side_by_side(folder, 1, TURNS), Paced(ANSWER_SECONDS)
    with bench.api(model, keep=False):
        running = asyncio.create_task(run(await bench.client(), given, f"bench-{victim}-{number}"))
        await _asked(model, KILLED_AT)
        service = inspect(bench.state)
        assert service is not None
        asked, killed = len(model.calls), time.monotonic()
        processes.kill(service.worker if victim == "worker" else service.server)
        await _asked(model, asked + 1)
        seconds = model.calls[asked].begun - killed
        result = await running
    assert (result.state, result.items.changed) == (TaskState.DONE, TURNS), result
    return seconds


async def _asked(model: Paced, times: int) -> None:
    async with asyncio.timeout(LIMIT_SECONDS):
        while len(model.calls) < times:
            await asyncio.sleep(0.02)

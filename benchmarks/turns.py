"""What a turn costs beside its model call, and how many turns a second there can be, with real processes and a model
that answers at once."""

import statistics
from dataclasses import dataclass
from pathlib import Path

from baton.states import TaskState
from benchmarks.pacing import Paced, side_by_side
from benchmarks.processes import watched
from benchmarks.table import Row
from tests.end_to_end.bench import Bench, run

ALONE_TURNS, CROWD_TURNS = 50, 15


@dataclass(frozen=True)
class Pace:
    """Of one run: seconds from answer to next call (median, least), turns a second, bytes stored per turn."""

    gap: float
    least_gap: float
    rate: float
    stored: float


async def measure(bench: Bench, folder: Path) -> tuple[list[Row], dict[int, Pace]]:
    """One agent, then several at once; the paces are compared with those of others."""
    paces, rows = {}, []
    for agents, turns in ((1, ALONE_TURNS), (8, CROWD_TURNS), (30, CROWD_TURNS)):
        given, model = side_by_side(folder / f"turns-{agents}", agents, turns), Paced()
        before = _bytes_in(bench.state)
        with bench.api(model, keep=False), watched(bench.service) as use:
            result = await run(await bench.client(), given, f"bench-turns-{agents}")
        assert result.state is TaskState.DONE, result
        count = agents * turns
        gaps = model.gaps()
        pace = Pace(
            statistics.median(gaps), min(gaps), count / model.seconds, (_bytes_in(bench.state) - before) / count
        )
        paces[agents] = pace
        what = f"{agents} agent{'s' * (agents > 1)}"
        if agents == 1:
            value = f"{pace.gap * 1000:.0f} ms (least {pace.least_gap * 1000:.0f})"
            rows.append(Row(f"{what}, from an answer to the next call: two tools, checkpoint, workflow", value))
        worker, git, server = (1000 * one / count for one in (use.worker_cpu, use.children_cpu, use.server_cpu))
        rows += [
            Row(f"{what}, turns a second", f"{pace.rate:.1f}"),
            Row(
                f"{what}, processor time per turn", f"worker {worker:.0f} ms, git {git:.0f} ms, server {server:.0f} ms"
            ),
        ]
    return rows, paces


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())

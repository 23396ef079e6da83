"""What an item costs when there are few and when there are many: the same."""

import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from baton.states import TaskState
from benchmarks.pacing import Paced, in_shards
from benchmarks.processes import watched
from benchmarks.table import Row
from tests.end_to_end.bench import Bench, run

FEW, MANY = 200, 5_000
AGENTS, ITEMS_PER_TURN, TOKENS_PER_ITEM = 8, 10, 500
GROWTH = 1.25
LIMIT = timedelta(minutes=30)
"""A busy machine takes long for many items."""


@dataclass(frozen=True)
class Cost:
    """Per item."""

    wall_ms: float
    cpu_ms: float
    history_bytes: float
    history_events: float


async def measure(bench: Bench, folder: Path) -> list[Row]:
    """A task with few items and one with many, cut into shards of the same size."""
    few, many = await _task(bench, folder / "few", FEW), await _task(bench, folder / "many", MANY)
    rows = []
    for what, unit, before, after in (
        ("time", "ms", few.wall_ms, many.wall_ms),
        ("processor time of worker, git and server", "ms", few.cpu_ms, many.cpu_ms),
        ("bytes in the task's own history", "bytes", few.history_bytes, many.history_bytes),
        ("events in the task's own history", "", few.history_events, many.history_events),
    ):
        value = f"{before:.3g} {unit} of {FEW}, {after:.3g} {unit} of {MANY:,} (ratio {after / before:.2f})"
        rows.append(Row(f"{what} per item", value, f"ratio at most {GROWTH}", after / before <= GROWTH))
    return rows


async def _task(bench: Bench, folder: Path, items: int) -> Cost:
    given, model = in_shards(folder, items, TOKENS_PER_ITEM, AGENTS), Paced(items_per_turn=ITEMS_PER_TURN)
    client = await bench.client()
    name = f"bench-items-{items}"
    with bench.api(model, keep=False), watched(bench.service) as use:
        started = time.monotonic()
        result = await run(client, given, name, LIMIT)
        wall = time.monotonic() - started
    assert (result.state, result.items.changed) == (TaskState.DONE, items), result
    events = await _events(client, name)
    cpu = use.worker_cpu + use.children_cpu + use.server_cpu
    size = sum(event.ByteSize() for event in events)
    return Cost(1000 * wall / items, 1000 * cpu / items, size / items, len(events) / items)


async def _events(client: Client, workflow_id: str) -> list[HistoryEvent]:
    """The events of all runs of a workflow."""
    found: list[HistoryEvent] = []
    run_id: str | None = None
    while True:
        history = await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
        found += history.events
        run_id = history.events[0].workflow_execution_started_event_attributes.continued_execution_run_id
        if not run_id:
            return found

"""The history of tasks, from Temporal's visibility: newest first, readable without a worker."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import PurePath

from temporalio.api.enums.v1 import WorkflowExecutionStatus
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.service import RPCError

from baton.models import Stored
from baton.names import ORCHESTRATION_WORKFLOW, SEARCH_ATTENTION, SEARCH_PHASE, SEARCH_REPOSITORY
from baton.states import TaskState
from cli.server import Server, decoded
from cli.tasks import Task, unanswered
from cli.terminal import Line, Tone, printable

ROWS = 20
RESULTS_AT_ONCE = 8
SUMMARY_AT_LEAST = 30
_ENDED = {
    WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_FAILED: "failed",
    WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_CANCELED: "cancelled",
    WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_TERMINATED: "terminated",
    WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_TIMED_OUT: "timed out",
}
_TONES = {
    "done": Tone.GOOD,
    "waiting": Tone.WAITS,
    "partial": Tone.WAITS,
    "failed": Tone.BAD,
    "cancelled": Tone.FAINT,
    "terminated": Tone.BAD,
}


class Row(Stored):
    """One task in the list. `state` is a `TaskState`, the phase of a running one, or Temporal's word."""

    task_id: str
    state: str
    started_at: datetime
    repository: str = ""
    summary: str = ""
    running: bool = False


async def rows(server: Server, *, everything: bool = False, running_only: bool = False) -> list[Row]:
    """Tasks, newest first: the last 20, or `everything`. Raises ServiceError when the server does not answer."""
    query = f"WorkflowType = '{ORCHESTRATION_WORKFLOW}'"
    if running_only:
        query += " AND ExecutionStatus = 'Running'"
    try:
        found = await server.executions(query, everything=everything)
    except RPCError as error:
        raise unanswered(error) from error
    # A run that continued as new is listed once per run: the newest one speaks for the task.
    newest = {info.execution.workflow_id: info for info in sorted(found, key=_seconds)}
    ordered = sorted((_row(info) for info in newest.values()), key=lambda row: row.started_at, reverse=True)
    return await _with_results(server, ordered if everything else ordered[:ROWS])


def table(listed: Sequence[Row], now: datetime, width: int | None) -> list[Line]:
    """The list in columns. `width`: of the terminal, at which the summary is cut; None cuts nothing."""
    if not listed:
        return [Line('No tasks yet. Start one with: orchestrate "TASK", or see a whole run with: orchestrate demo')]
    cells = [("TASK", "STATE", "AGE", "REPOSITORY", "SUMMARY")]
    cells += [
        (row.task_id, row.state, _age(now - row.started_at), PurePath(row.repository).name, printable(row.summary))
        for row in listed
    ]
    widths = [max(len(row[column]) for row in cells) for column in range(4)]
    if width is not None and width - sum(widths) - 8 < SUMMARY_AT_LEAST:
        widths[3] = 0  # the summary says more than the name of the repository
    tones = [Tone.FAINT, *(_TONES.get(row.state, Tone.ACTIVE if row.running else Tone.PLAIN) for row in listed)]
    return [Line(_columns(row, widths, width), tone) for row, tone in zip(cells, tones, strict=True)]


def _columns(cells: Sequence[str], widths: Iterable[int], width: int | None) -> str:
    shown = [f"{cell:<{space}}" for cell, space in zip(cells[:-1], widths, strict=True) if space]
    text = "  ".join([*shown, cells[-1]])
    return text if width is None or len(text) <= width else f"{text[: width - 1]}…"


def _row(info: WorkflowExecutionInfo) -> Row:
    attributes = {key: _one(decoded(value)) for key, value in info.search_attributes.indexed_fields.items()}
    memo = {key: str(decoded(value) or "") for key, value in info.memo.fields.items()}
    running = info.status == WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_RUNNING
    phase = attributes.get(SEARCH_PHASE, "")
    if running:
        state = "waiting" if attributes.get(SEARCH_ATTENTION) else phase or "starting"
    else:
        state = _ENDED.get(info.status, phase if phase in set(TaskState) else "closed")
    return Row(
        task_id=info.execution.workflow_id,
        state=state,
        started_at=info.start_time.ToDatetime(tzinfo=UTC),
        repository=memo.get("repository") or attributes.get(SEARCH_REPOSITORY, ""),
        summary=memo.get("task", ""),
        running=running,
    )


async def _with_results(server: Server, listed: Sequence[Row]) -> list[Row]:
    """Rows of finished tasks with what their results say; a result that cannot be read leaves its row as it is."""
    limit = asyncio.Semaphore(RESULTS_AT_ONCE)

    async def complete(row: Row) -> Row:
        if row.running or row.state in _ENDED.values():
            return row
        async with limit:
            try:
                ending = await Task(server, row.task_id).ending()
            except (RPCError, ValueError):
                return row
        summary = ending.result.summary if ending.result and ending.result.summary else row.summary
        return row.model_copy(update={"state": str(ending.state), "summary": summary})

    recent = await asyncio.gather(*(complete(row) for row in listed[:ROWS]))
    return [*recent, *listed[ROWS:]]


def _age(age: timedelta) -> str:
    """In the largest unit: the list is for finding, not for measuring."""
    seconds = max(0, int(age.total_seconds()))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _seconds(info: WorkflowExecutionInfo) -> float:
    return info.start_time.seconds + info.start_time.nanos / 1e9


def _one(value: object) -> str:
    first = value[0] if isinstance(value, list) and value else value
    return str(first or "")

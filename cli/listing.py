"""The history of tasks, from Temporal's visibility: newest first, readable without a worker."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
NONE_YET = 'No tasks yet. Start one with: orchestrate "TASK", or see a whole run with: orchestrate demo'
RESULTS_AT_ONCE = 8
SUMMARY_AT_LEAST = 30
REFUSED = "refused"
"""What was given could not be used, so nothing was begun."""
_ENDED = {
    WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_FAILED: "failed",
    WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_CANCELED: "cancelled",
    WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_TERMINATED: "terminated",
    WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_TIMED_OUT: "timed out",
}
STATES = (*(str(state) for state in TaskState), "terminated", "timed out", REFUSED)
"""The words that a list can be narrowed by; `running` is every phase of a task that does not wait."""
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
    closed_at: datetime | None = None
    repository: str = ""
    summary: str = ""
    running: bool = False


@dataclass(frozen=True)
class Wanted:
    """Which tasks are listed: the newest 20, or `everything`, which brings refused ones and ends the limit.

    `states`: words of `STATES`; empty means any. `repository`: a folder or URL as tasks name it. The times bound the
    start.
    """

    everything: bool = False
    running_only: bool = False
    states: frozenset[str] = frozenset()
    repository: str | None = None
    started_after: datetime | None = None
    started_before: datetime | None = None

    @property
    def query(self) -> str:
        """What the server itself can tell apart."""
        parts = [f"WorkflowType = '{ORCHESTRATION_WORKFLOW}'"]
        parts += ["ExecutionStatus = 'Running'"] if self.running_only else []
        parts += [f"StartTime >= '{_stamp(self.started_after)}'"] if self.started_after else []
        parts += [f"StartTime <= '{_stamp(self.started_before)}'"] if self.started_before else []
        return " AND ".join(parts)

    def takes(self, row: "Row") -> bool:
        """Whether a row is listed."""
        if self.repository is not None and row.repository != self.repository:
            return False
        if self.states:
            return row.state in self.states or (row.running and row.state != "waiting" and "running" in self.states)
        return self.everything or row.state != REFUSED


async def rows(server: Server, wanted: Wanted) -> list[Row]:
    """Tasks, newest first. Raises ServiceError when the server does not answer."""
    narrowed = bool(wanted.states or wanted.repository)
    try:
        found = await server.executions(wanted.query, everything=wanted.everything or narrowed)
    except RPCError as error:
        raise unanswered(error) from error
    # A run that continued as new is listed once per run: the newest one speaks for the task.
    newest = {info.execution.workflow_id: info for info in sorted(found, key=_seconds)}
    ordered = sorted((_row(info) for info in newest.values()), key=lambda row: row.started_at, reverse=True)
    listed: list[Row] = []
    for first in range(0, len(ordered), ROWS):
        told = await _with_results(server, ordered[first : first + ROWS])
        listed += [row for row in told if wanted.takes(row)]
        if len(listed) >= ROWS and not wanted.everything:
            return listed[:ROWS]
    return listed


def table(listed: Sequence[Row], now: datetime, width: int | None, none: str = NONE_YET) -> list[Line]:
    """The list in columns; `none` where it is empty. `width`: of the terminal, where the summary is cut, or None."""
    if not listed:
        return [Line(none)]
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
        closed_at=info.close_time.ToDatetime(tzinfo=UTC) if info.HasField("close_time") else None,
        repository=memo.get("repository") or attributes.get(SEARCH_REPOSITORY, ""),
        summary=memo.get("task", ""),
        running=running,
    )


async def _with_results(server: Server, listed: Sequence[Row]) -> list[Row]:
    """Rows with what results and faults say; one that cannot be read leaves its row as it is."""
    limit = asyncio.Semaphore(RESULTS_AT_ONCE)

    async def complete(row: Row) -> Row:
        if row.running or (row.state in _ENDED.values() and row.state != "failed"):
            return row
        async with limit:
            try:
                ending = await Task(server, row.task_id).ending()
            except (RPCError, ValueError):
                return row
        told = ending.result.summary if ending.result else ending.fault
        state = REFUSED if ending.bad_input else str(ending.state)
        return row.model_copy(update={"state": state, "summary": told or row.summary})

    return list(await asyncio.gather(*(complete(row) for row in listed)))


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


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

"""Tasks whose workflow ended without telling it: terminated, timed out, broken off, or forgotten by the server.

Nothing of ours runs when that happens. So the worker looks now and then, and first when it starts, for tasks of this
host whose end nobody told, asks the server how each stands, and tells the end of those that are over: the agents that
were at work, the last line of the trace, the spans that are missing, the timeline. A task that is resumed later ends
once more.
"""

import asyncio
import hashlib
import logging
from datetime import UTC, datetime, timedelta

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from activities.artifacts import Artifacts
from activities.task_folder import TaskFolder, Tasks, UnknownTaskError
from activities.task_telemetry import Closed, task_ended
from activities.telemetry import delivered
from activities.trace import TaskTrace
from baton.layout import RECORD, tasks_folder
from baton.status import PAUSE, TaskStatus, Wait
from baton.trace import NAME, OPEN

INTERVAL_SECONDS = 60.0
ANSWER_LIMIT = timedelta(seconds=10)
FORGOTTEN = "forgotten"
"""How a task ended that the server knows nothing of any more."""

_GOES_ON = frozenset((WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.CONTINUED_AS_NEW))

_OUR_WORDS = {"canceled": "cancelled"}
_BY_ITSELF = frozenset(("completed", "cancelled"))
"""So a workflow ends that came to its own end."""

logger = logging.getLogger("baton.closed")


async def tell_end(folder: TaskFolder, closed: Closed, key: str = "", stood: TaskStatus | None = None) -> None:
    """Tell the end of a task, in the trace and to telemetry, and settle that it is told; told again, it is the same.

    `key`: of the journal's entry that settles it, where it is not the run's own. `stood`: how a task stood that was
    broken off, where that is known better than by the progress that was kept.
    """
    lost: dict[str, datetime] = {}
    progress = await asyncio.to_thread(folder.state.current)
    if folder.artifacts.is_dir():
        trace = TaskTrace(folder)
        kept = progress.status if progress is not None else TaskStatus()
        if closed.broken_off:
            stood = stood or kept
            await asyncio.to_thread(trace.attended, [wait for wait in stood.waits if wait not in kept.waits])
            await asyncio.to_thread(trace.attended, _still_open(stood, closed.at), OPEN)
        lost = await asyncio.to_thread(trace.lost_agents, closed.at if closed.broken_off else None)
        trace.begin()
        trace.write("closed", name=folder.record.run_id, outcome=closed.how, **closed.fields)
    await asyncio.to_thread(lambda: task_ended(folder, progress, closed, lost))
    await delivered()
    await asyncio.to_thread(folder.store.enter, key or _key(folder), closed.how.encode())


class ClosedTasks:
    """Looks after the tasks of this host."""

    def __init__(self, tasks: Tasks, client: Client) -> None:
        self._folders = tasks_folder(tasks.state)
        self._client = client
        asked = f"{client.service_client.config.target_host}/{client.namespace}"
        self._forgotten = f"forgotten-{hashlib.sha256(asked.encode()).hexdigest()[:16]}"

    async def watch(self) -> None:
        """Look for as long as the worker runs."""
        while True:
            await self.look()
            await asyncio.sleep(INTERVAL_SECONDS)

    async def look(self) -> None:
        """Tell the ends that nobody told."""
        for folder in await asyncio.to_thread(self._unsettled):
            try:
                if (closed := await self._closed(folder)) is not None:
                    await self._tell(folder, closed)
            except RPCError as error:
                logger.info("the server cannot be asked whether %s is over: %s", folder.path.name, error.message)
            except Exception:
                # A folder that is damaged keeps no other task from being told.
                logger.exception("the end of %s could not be told", folder.path.name)

    async def _tell(self, folder: TaskFolder, closed: Closed) -> None:
        task_id, progress = folder.path.name, await asyncio.to_thread(folder.state.current)
        if progress is not None and progress.status.closed_at is not None:
            if closed.how in _BY_ITSELF:
                # It told its end, perhaps to an earlier version, which settled nothing here.
                await asyncio.to_thread(folder.store.enter, _key(folder), closed.how.encode())
                return
            closed = Closed(str(progress.status.state), progress.status.closed_at)
        logger.warning(
            "%s is over, and nobody told its end: %s", task_id, closed.how, extra={"event": {"task": task_id}}
        )
        # Another server may know the task: only for this one it is over.
        key = self._key_here(folder) if closed.how == FORGOTTEN else ""
        await tell_end(folder, closed, key, await self._stood(folder) if closed.broken_off else None)
        if folder.artifacts.is_dir() and folder.record.opened.settings.persist_state:
            await asyncio.to_thread(Artifacts(folder.artifacts).write_timeline, task_id)

    def _unsettled(self) -> list[TaskFolder]:
        """Tasks of which it is not settled here that they are over."""
        found = sorted(self._folders.iterdir()) if self._folders.is_dir() else []
        return [folder for path in found if path.is_dir() and not self._is_settled(folder := TaskFolder(path))]

    async def _closed(self, folder: TaskFolder) -> Closed | None:
        """How and when a task ended; None while it runs."""
        try:
            found = await self._client.get_workflow_handle(folder.path.name).describe()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return Closed(FORGOTTEN, await asyncio.to_thread(_last_sign, folder), broken_off=True)
        if found.status is None or found.status in _GOES_ON:
            return None
        how = found.status.name.lower()
        return Closed(_OUR_WORDS.get(how, how), found.close_time, broken_off=True)

    async def _stood(self, folder: TaskFolder) -> TaskStatus | None:
        """How a task stood when it was broken off; its history may be gone, or no workflow of this version."""
        try:
            handle = self._client.get_workflow_handle(folder.path.name)
            found: TaskStatus = await handle.query("status", result_type=TaskStatus, rpc_timeout=ANSWER_LIMIT)
        except (RPCError, WorkflowQueryFailedError, ValueError):
            return None
        return found

    def _is_settled(self, folder: TaskFolder) -> bool:
        try:
            return any(folder.store.entry(key) is not None for key in (_key(folder), self._key_here(folder)))
        except (UnknownTaskError, ValueError):
            # Nothing was opened there, or another version's: its end cannot be told.
            return True

    def _key_here(self, folder: TaskFolder) -> str:
        return f"{_key(folder)}/{self._forgotten}"


def _still_open(status: TaskStatus, at: datetime | None) -> list[Wait]:
    """What waited for a person when a task was broken off, as far as it was told."""
    ended = at or datetime.now(UTC)
    asked = [(item.kind, item.step, item.phase, item.since) for item in status.attention]
    asked += [(PAUSE, None, None, since)] if (since := status.paused_since) is not None else []
    return [
        Wait(kind=kind, step=step, phase=phase, since=since, until=max(since, ended))
        for kind, step, phase, since in asked
    ]


def _key(folder: TaskFolder) -> str:
    """A resumed task has another run, and another end."""
    return f"over/{folder.record.run_id}"


def _last_sign(folder: TaskFolder) -> datetime:
    """When something was last kept of a task."""
    kept = [folder.artifacts / NAME, folder.path / "state.json", folder.path / RECORD]
    return datetime.fromtimestamp(max(path.stat().st_mtime for path in kept if path.exists()), UTC)

"""Keeping the progress of a task: after every merge and at the turn of a phase this host is told what is new.

Saves go one by one, each adding to the one before, and what waits for one goes together; the task goes on meanwhile.
Where the host knows another state (a reset brought the task back to an earlier point, or the file was lost) it is told
the whole.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from activities.tasks import TaskWork
    from baton.knowledge import Knowledge
    from baton.messages import Artifact
    from baton.names import OTHER_REVISION
    from baton.progress import Progress, SaveProgress, added
    from workflows import policies
    from workflows.failures import reason_of, type_of
    from workflows.log import say
    from workflows.versions import SAVED_TOGETHER


@dataclass(eq=False)
class _Wanted:
    """Files that are to be written with the next save."""

    artifacts: tuple[Artifact, ...]
    written: bool = False


class Keeping:
    """What the host was told of one task. `progress` gives the whole as it stands now."""

    def __init__(self, task_id: str, progress: Callable[[], Progress]) -> None:
        self._task_id = task_id
        self._progress = progress
        self._told: Progress | None = None
        self._lock = asyncio.Lock()
        self._waiting: list[_Wanted] = []
        self._aside: asyncio.Task[None] | None = None
        self.host_queue = ""

    @property
    def revision(self) -> str:
        """The state that the host knows."""
        return self._told.revision if self._told is not None else ""

    def untold(self, knowledge: Knowledge) -> Knowledge:
        """What the host was not told of this knowledge."""
        told = {entry.subject for entry in self._told.knowledge} if self._told is not None else set()
        return Knowledge(entries=tuple(entry for entry in knowledge.entries if entry.subject not in told))

    def take_up(self, progress: Progress) -> None:
        """Go on from what the host knows."""
        self._told = progress

    async def write(self, artifacts: tuple[Artifact, ...], *, with_progress: bool, for_next_run: bool = False) -> None:
        """Write files for people, and with them what is new of the progress. Files of a caller that is cancelled while
        it waits are written with the next save."""
        if not with_progress:
            await self._write(artifacts, None)
            return
        wanted = _Wanted(artifacts)
        if not for_next_run:
            self._waiting.append(wanted)
        elif self._aside is not None:
            await asyncio.shield(self._aside)
        async with self._lock:
            if not wanted.written:
                await self._save_with_others(wanted, for_next_run)

    def write_aside(self, artifacts: tuple[Artifact, ...]) -> None:
        """Write files, and what is new of the progress, while the caller goes on. What can't be written then is written
        with the next save that somebody waits for, and told there."""
        self._waiting.append(_Wanted(artifacts))
        if self._aside is None or self._aside.done():
            self._aside = asyncio.create_task(self._write_waiting())

    async def _write_waiting(self) -> None:
        try:
            while self._waiting:
                await self.write((), with_progress=True)
        except ActivityError as error:
            say(f"what is new could not be written, and is tried again with the next save: {reason_of(error)[:300]}")

    async def _save_with_others(self, wanted: _Wanted, for_next_run: bool) -> None:
        """One save for all that wait for it by now, so that a task with many merges in a row is not behind them."""
        together = [wanted]
        others = [one for one in self._waiting if one is not wanted]
        # Who writes aside came after those that did not do it together.
        if others and (self._aside is not None or workflow.patched(SAVED_TOGETHER)):
            together = [*others, wanted]
        try:
            await self._save(tuple(artifact for one in together for artifact in one.artifacts), for_next_run)
        except BaseException:
            together = [wanted]
            raise
        finally:
            self._waiting = [one for one in self._waiting if one not in together]
        for one in together:
            one.written = True

    async def _save(self, artifacts: tuple[Artifact, ...], for_next_run: bool) -> None:
        number = int(self.revision.rpartition("-")[2] or 0) + 1
        now = self._progress().model_copy(update={"revision": f"{workflow.info().run_id[:8]}-{number}"})
        try:
            await self._write(artifacts, added(self._told, now) if self._told is not None else now, for_next_run)
        except ActivityError as error:
            if type_of(error) != OTHER_REVISION:
                raise
            await self._write(artifacts, now, for_next_run)
        self._told = now

    def is_up_to_date(self) -> bool:
        """Whether nothing happened since the host was told; only the clock may have moved."""
        if self._told is None:
            return False
        same_clock = {"revision": self.revision, "active": self._told.active}
        return self._told == self._progress().model_copy(update=same_clock)

    async def _write(
        self, artifacts: tuple[Artifact, ...], progress: Progress | None, for_next_run: bool = False
    ) -> None:
        what = ", ".join(artifact.name for artifact in artifacts[:3])
        await workflow.execute_activity_method(
            TaskWork.write_artifacts,
            SaveProgress(task_id=self._task_id, artifacts=artifacts, progress=progress, for_next_run=for_next_run),
            task_queue=self.host_queue,
            summary=f"write {what}" if what else "keep the progress",
            **policies.GIT,
        )

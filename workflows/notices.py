"""Notices to a person by the `notify` setting: when a task begins to wait, and when it has ended.

Nothing waits for a notice but the end of the task, and a notice that fails is a warning.
"""

import asyncio
from typing import TYPE_CHECKING

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.notifying import Notifying
    from baton.messages import Notified, Notify
    from baton.status import AttentionItem
    from workflows import policies
    from workflows.failures import reason_of
    from workflows.versions import NOTIFY

if TYPE_CHECKING:
    from workflows.task_run import TaskRun

TEXT_CHARACTERS = 1000


class Notices:
    """The notices of one task."""

    def __init__(self, run: "TaskRun") -> None:
        self._run = run
        self._under_way: set[asyncio.Task[None]] = set()

    def waits(self, item: AttentionItem) -> None:
        """A question was opened."""
        if not self._wanted():
            return
        notice = Notify(
            task_id=self._run.task_id,
            event="waiting",
            text=item.question[:TEXT_CHARACTERS],
            state="waiting",
            attention_id=item.id,
            kind=item.kind,
            choices=item.choices,
        )
        task = asyncio.create_task(self._send(notice))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def ended(self, state: str, summary: str) -> None:
        """The task has ended."""
        if self._wanted():
            text = f"{state}: {summary}"[:TEXT_CHARACTERS]
            await self._send(Notify(task_id=self._run.task_id, event="ended", text=text, state=state))

    def _wanted(self) -> bool:
        return self._run.is_open and bool(self._run.opened.settings.notify) and workflow.patched(NOTIFY)

    async def _send(self, notice: Notify) -> None:
        try:
            done: Notified = await workflow.execute_activity_method(
                Notifying.notify_person,
                notice,
                task_queue=self._run.opened.host_queue,
                summary=f"notify: {notice.event}",
                **policies.NOTIFY,
            )
            fault = done.fault
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            fault = reason_of(error)
        if fault:
            self._run.warn(f"the notify command did not work: {fault}")

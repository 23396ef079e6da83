"""What an agent tells the task that it belongs to: how it stands, now and then, and whatever the task has to decide.

The order stays: what is told next waits for what was told before.
"""

import asyncio
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from baton.messages import AgentEvent
    from workflows.versions import TOLD_ASIDE

INTERVAL = timedelta(seconds=30)


class Telling:
    """Tells the task of this id. An agent that was started on its own has nobody to tell."""

    def __init__(self, task_id: str) -> None:
        self._task_id = task_id
        self._last: datetime | None = None
        self._aside: asyncio.Task[None] | None = None

    @property
    def is_due(self) -> bool:
        """Whether the last word is old."""
        return self._last is None or workflow.now() - self._last >= INTERVAL

    def be_due(self) -> None:
        """There is news: tell it at the next occasion."""
        self._last = None

    async def aside(self, event: AgentEvent) -> None:
        """Tell it and go on meanwhile."""
        if workflow.info().parent is None or not workflow.patched(TOLD_ASIDE):
            await self.tell(event)
            return
        await self._told()
        self._aside = asyncio.create_task(self._signal(event))

    async def tell(self, event: AgentEvent) -> None:
        """Tell it; over when the server has it."""
        await self._told()
        await self._signal(event)

    async def _told(self) -> None:
        """What was told aside is over."""
        if (telling := self._aside) is not None:
            await workflow.wait_condition(telling.done)
            self._aside = None
            if not telling.cancelled():
                telling.result()

    async def _signal(self, event: AgentEvent) -> None:
        self._last = workflow.now()
        workflow.set_current_details(f"**{event.agent_id}** {event.kind} {event.detail}")
        if workflow.info().parent is None:
            return
        try:
            parent = workflow.get_external_workflow_handle(self._task_id)
            await parent.signal("agent_event", event)
        except ApplicationError:
            workflow.logger.warning("the orchestration did not take an event of %s", event.agent_id)

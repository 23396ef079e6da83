"""The time limit of one task: when it is up, agents ask before they go on."""

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from baton.messages import Direction
    from workflows.versions import LIMITS_ASK, LIMITS_FIRST

if TYPE_CHECKING:
    from workflows.task_run import TaskRun


class TimeLimit:
    """The clock of one task."""

    def __init__(self, run: "TaskRun") -> None:
        self._run = run
        self._clock: asyncio.Task[None] | None = None

    def start(self) -> None:
        """From now on the time limit is watched; one of zero is reached at once."""
        if self._run.opened.settings.limits.duration == timedelta() and workflow.patched(LIMITS_FIRST):
            self._run.time_is_up = True
        self._clock = asyncio.create_task(self._end_in_time())

    def stop(self) -> None:
        """No time limit is watched any more."""
        if self._clock is not None:
            self._clock.cancel()

    async def _end_in_time(self) -> None:
        """When the task's time is up, no agent begins another turn, and none starts, until a person has decided."""
        limit = self._run.opened.settings.limits.duration
        if limit is None:
            return
        await workflow.sleep(max(limit - self._run.active, timedelta()))
        self._run.time_is_up = True
        self._run.happened(self._run.limit_reached() or "")
        for agent in self._run.status.agents_at_work:
            await self._run.chains.direct(agent.workflow_id, self.direction())

    def direction(self) -> Direction:
        """What an agent is told then: to ask before its next turn."""
        kind: Literal["hold", "stop"] = "hold" if workflow.patched(LIMITS_ASK) else "stop"
        return Direction(kind=kind, text=self._run.limit_reached() or "")

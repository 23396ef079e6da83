"""The activities that run in this worker, so that they can be ended while the worker waits for them.

Temporal's worker has one time limit for its shutdown. A worker on old code may take long to finish what it does, one
that is told to stop may not: it cancels what is left, and the server gives it to another worker.
"""

import asyncio
from typing import Any

from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor


class RunningActivities(Interceptor):
    """Give it to every worker of the process."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - its name
        return _Noting(next, self._tasks)

    def cancel(self) -> None:
        """Cancel all that run. Each fails its attempt, with its processes ended, and is tried again elsewhere."""
        for task in self._tasks:
            task.cancel("the worker stops")


class _Noting(ActivityInboundInterceptor):
    def __init__(self, following: ActivityInboundInterceptor, tasks: set[asyncio.Task[Any]]) -> None:
        super().__init__(following)
        self._tasks = tasks

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - its name
        task = asyncio.current_task()
        if task is None:
            return await super().execute_activity(input)
        self._tasks.add(task)
        try:
            return await super().execute_activity(input)
        finally:
            self._tasks.discard(task)

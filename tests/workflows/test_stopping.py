"""How a worker ends: told to drain it finishes what runs, told to stop it gives it back."""

import asyncio
import os
import signal
import uuid
from collections.abc import Iterator
from datetime import timedelta

import pytest
from temporalio import activity, workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.common import RetryPolicy
from temporalio.worker import Worker

from activities import stopping
from activities.running import RunningActivities
from activities.stopping import DRAIN, DRAIN_LIMIT, Stopping


@workflow.defn(sandboxed=False)
class OneActivity:
    @workflow.run
    async def run(self) -> str:
        return await workflow.execute_activity(
            "work",
            result_type=str,
            start_to_close_timeout=timedelta(minutes=1),
            retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=50)),
        )


class Work:
    """Its first attempt waits to be released."""

    def __init__(self) -> None:
        self.began, self.released, self.cancelled = asyncio.Event(), asyncio.Event(), False

    @activity.defn(name="work")
    async def work(self) -> str:
        attempt = activity.info().attempt
        if attempt == 1:
            self.began.set()
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                self.cancelled = True
                raise
        return f"attempt {attempt}"


@pytest.fixture(autouse=True)
def own_signal_handlers() -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGINT, DRAIN)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


class Pair:
    """A worker that ends by signal while its activity runs, and one that is there for what is left."""

    def __init__(self, client: Client, work: Work) -> None:
        self._client, self._queue = client, f"stopping-{uuid.uuid4()}"
        self._running, self._work = RunningActivities(), work
        self.stopping = Stopping()
        self.first = self._worker(client)

    def _worker(self, client: Client) -> Worker:
        return Worker(
            client,
            task_queue=self._queue,
            workflows=[OneActivity],
            activities=[self._work.work],
            graceful_shutdown_timeout=DRAIN_LIMIT,
            interceptors=[self._running],
            sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
        )

    async def started(self) -> WorkflowHandle[OneActivity, str]:
        handle = await self._client.start_workflow(OneActivity.run, id=self._queue, task_queue=self._queue)
        await asyncio.wait_for(self._work.began.wait(), 20)
        return handle

    async def ended(self) -> None:
        await self.stopping.wait([self.first], self._running)

    async def second(self) -> Worker:
        """With a connection of its own, as another process has."""
        return self._worker(await Client.connect(self._client.service_client.config.target_host))


async def test_a_drained_worker_finishes_and_takes_nothing_new(temporal: Client) -> None:
    work = Work()
    pair = Pair(temporal, work)
    async with pair.first:
        handle = await pair.started()
        ended = asyncio.create_task(pair.ended())
        os.kill(os.getpid(), DRAIN)
        async with await pair.second():
            done, _ = await asyncio.wait({ended}, timeout=0.5)
            assert not done
            work.released.set()
            await asyncio.wait_for(ended, 20)
            assert await handle.result() == "attempt 1"
    assert not work.cancelled


async def test_a_stopped_worker_gives_back_what_it_cannot_finish(
    temporal: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "STOP_GRACE", timedelta(milliseconds=200))
    work = Work()
    pair = Pair(temporal, work)
    async with pair.first:
        handle = await pair.started()
        ended = asyncio.create_task(pair.ended())
        os.kill(os.getpid(), DRAIN)
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGTERM)  # it cuts the drain short
        await asyncio.wait_for(ended, 20)
        assert work.cancelled
    async with await pair.second():
        assert await handle.result() == "attempt 2"

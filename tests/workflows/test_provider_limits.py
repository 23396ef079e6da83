"""All agents of an account at the provider's limits: they wait together, nobody is lost, one word frees them all."""

import asyncio
import itertools
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowExecutionStatus

from activities.quota import Pauses
from activities.trace import SHORTEST_WAIT_SECONDS
from baton import trace
from baton.messages import TaskInput
from baton.names import QUOTA_ID
from baton.plan import PlanDraft
from baton.quota import Pause, account_hash
from baton.states import TaskState
from baton.status import TaskStatus
from cli.progress import provider_pause
from emulator.dialogue import Dialogue
from emulator.reply import Block, HttpError, Reply
from emulator.server import EmulatorServer
from tests.end_to_end.bench import Rules, statuses, task
from tests.workflows.rig import WAIT_SECONDS, Rig, answer, attention, status, until
from tests.workflows.test_agent_workflow import ITEMS, assert_all_edited, editing, three_files
from workflows.agent import AgentWorkflow
from workflows.quota import QuotaWorkflow

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOLD = "EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED"
KEY = "key-of-the-test"
USED_UP = HttpError(429, "rate_limit_error", "Your usage limit is reached", {"retry-after": "7200"})


class Faulty:
    """Edits, but answers with a fault while there is one."""

    def __init__(self, fault: HttpError | None = None) -> None:
        self.fault = fault

    def __call__(self, dialogue: Dialogue) -> Reply | Sequence[Block]:
        return Reply(fault=self.fault) if self.fault is not None else editing(dialogue)


class Together:
    """Holds the second answer of every agent back until the test says so; by then all are at work."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.held: set[str] = set()

    def __call__(self, dialogue: Dialogue) -> Sequence[Block]:
        if dialogue.turn == 1:
            self.held.add(f"{dialogue.assignment['task_id']}/{dialogue.assignment['agent_id']}")
            self.may_answer.wait(60)
        return editing(dialogue)


def account(api: EmulatorServer, key: str = KEY) -> str:
    return account_hash(key, api.url)


def side_by_side(rig: Rig, number: int, **settings: Any) -> TaskInput:
    """A task of so many steps that do not depend on each other, each with two files."""
    source = rig.repository(**{f"{name}{n}": "old = 1\n" for n in range(number) for name in "ab"})
    steps = [
        {"step": n + 1, "agent_type": "editor", "description": "edit", "items": [f"a{n}.py", f"b{n}.py"]}
        for n in range(number)
    ]
    given = task(source, "a0.py", maxParallelAgents=number, maxAgents=30, review="never", **settings)
    plan = PlanDraft.model_validate({"execution_strategy": "parallel", "plan": steps})
    return given.model_copy(update={"plan": plan})


def event_name(event: HistoryEvent) -> str:
    return EventType.Name(event.event_type)


def is_paused(now: TaskStatus) -> bool:
    return now.paused_until is not None


async def test_eight_agents_get_through_a_wall_of_overload(rig: Rig) -> None:
    numbers = itertools.count()

    def walled(dialogue: Dialogue) -> Reply | Sequence[Block]:
        if 4 <= next(numbers) < 8:
            return Reply(fault=HttpError(529, "overloaded_error", "Overloaded"))
        return editing(dialogue)

    with rig.api(Rules(walled)) as api:
        result = await rig.run(side_by_side(rig, 8))
        assert statuses(api) == {200: 24, 529: 4}
    assert (result.state, result.items.changed, result.agents, result.handoffs) == (TaskState.DONE, 16, 8, 0)


async def test_a_usage_limit_pauses_everything_until_its_reset(rig: Rig) -> None:
    model = Faulty(USED_UP)
    with rig.api(Rules(model)) as api:
        first = await rig.start(side_by_side(rig, 3))
        now = await until(first, is_paused)
        assert now.state is TaskState.RUNNING
        assert now.paused_until is not None
        assert timedelta(minutes=110) < now.paused_until - datetime.now(UTC) <= timedelta(hours=2)
        assert "paused by the provider until" in provider_pause(now.paused_until)
        held = rig.client.get_workflow_handle(f"{first.id}/step-1")
        async with asyncio.timeout(WAIT_SECONDS):  # the task knows it from whichever agent asked first
            while (learned := (await held.query(AgentWorkflow.status)).paused_until) is None:
                await asyncio.sleep(0.05)
        # Who asked a moment later was told a moment later reset, and the later one holds.
        assert abs(learned - now.paused_until) < timedelta(minutes=1)
        model.fault = None
        asked = statuses(api)
        second = await rig.start(side_by_side(rig, 2))
        await until(second, is_paused)
        assert statuses(api) == asked
        assert asked.keys() == {429}
        held = rig.client.get_workflow_handle(QUOTA_ID.format(account=account(api)))
        pause = await Pauses(rig.client).current(account(api))
        await held.signal("release", pause)
        results = [await handle.result() for handle in (first, second)]
        assert statuses(api)[429] == asked[429]
    assert [result.state for result in results] == [TaskState.DONE, TaskState.DONE]
    assert await Pauses(rig.client).current(account(api)) is None


async def test_a_pause_ends_by_itself(rig: Rig) -> None:
    source = three_files(rig)
    with rig.api(Rules(editing)) as api:
        now = datetime.now(UTC)
        reset = now + timedelta(seconds=3)
        pause = Pause(kind="usage", reason="used up", since=now, until=reset)
        await Pauses(rig.client).begin(account(api), pause)
        handle = await rig.start(task(source, *ITEMS, review="never"))
        await until(handle, is_paused)
        result = await handle.result()
        asked = [exchange.at for exchange in api.requests if exchange.path == "/v1/messages"]
        assert min(asked) >= reset
    assert_all_edited(source, result)


async def test_a_later_reset_counts(rig: Rig) -> None:
    with rig.api(Rules(editing)) as api:
        now, pauses, name = datetime.now(UTC), Pauses(rig.client), account(api)
        for hours in (1, 3, 2):
            pause = Pause(kind="usage", reason="used up", since=now, until=now + timedelta(hours=hours))
            await pauses.begin(name, pause)
        async with asyncio.timeout(10):
            while (held := await pauses.current(name)) is None or held.until != now + timedelta(hours=3):
                await asyncio.sleep(0.05)
        handle = rig.client.get_workflow_handle(QUOTA_ID.format(account=name))
        await handle.signal("release", held.model_copy(update={"since": now - timedelta(hours=1)}))
        assert (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
        await handle.signal("release", held)
        await handle.result()


async def test_a_refused_key_is_one_question_per_task_and_a_new_key_serves_all(rig: Rig) -> None:
    model = Together()
    with rig.api(Rules(model)) as api:
        tasks = [await rig.start(side_by_side(rig, 3)), await rig.start(side_by_side(rig, 2))]
        async with asyncio.timeout(60):
            while len(model.held) < 5:
                await asyncio.sleep(0.05)
        api.refused_keys.add(KEY)
        model.may_answer.set()
        items = [await attention(handle) for handle in tasks]
        for item in items:
            assert (item.kind, item.choices) == ("credentials", ("retry", "stop"))
            assert "invalid x-api-key" in item.question
        name = QUOTA_ID.format(account=account(api))
        async with asyncio.timeout(60):
            while len((await rig.client.get_workflow_handle(name).query(QuotaWorkflow.status)).waiting) < 5:
                await asyncio.sleep(0.1)
        assert [len((await status(handle)).attention) for handle in tasks] == [1, 1]
        refused = statuses(api)[401]
        rig.new_key(api)
        await answer(tasks[0], items[0], "retry")
        results = [await handle.result() for handle in tasks]
        assert statuses(api)[401] == refused
    assert [(result.state, result.handoffs) for result in results] == [(TaskState.DONE, 0), (TaskState.DONE, 0)]


async def test_everyone_is_told_once_that_a_pause_is_over(rig: Rig) -> None:
    model = Faulty(HttpError(401, "authentication_error", "refused for now"))
    with rig.api(Rules(model)) as api:
        handle = await rig.start(side_by_side(rig, 6))
        item = await attention(handle)
        held = rig.client.get_workflow_handle(QUOTA_ID.format(account=account(api)))
        async with asyncio.timeout(60):
            while len((await held.query(QuotaWorkflow.status)).waiting) < 6:
                await asyncio.sleep(0.1)
        model.fault = None
        await answer(handle, item, "retry")
        result = await handle.result()
        told = [event async for event in held.fetch_history_events() if event_name(event) == TOLD]
    assert result.state is TaskState.DONE
    assert len(told) <= 6
    assert await Pauses(rig.client).current(account(api)) is None


async def test_a_pause_that_begins_as_another_ends_holds(rig: Rig) -> None:
    with rig.api(Rules(editing)) as api:
        pauses, name, now = Pauses(rig.client), account(api), datetime.now(UTC)
        first = await pauses.begin(name, Pause(kind="person", reason="refused", since=now))
        handle = rig.client.get_workflow_handle(QUOTA_ID.format(account=name))
        await handle.signal("release", first)
        second = await pauses.begin(name, Pause(kind="person", reason="again", since=now + timedelta(seconds=1)))
        async with asyncio.timeout(30):
            while (found := await pauses.current(name)) is None or found.reason != "again":
                await asyncio.sleep(0.05)
        await handle.signal("release", second.model_copy(update={"since": found.since}))
        await handle.result()


async def test_a_spend_limit_that_nobody_raises_stops_what_asks(rig: Rig) -> None:
    source = three_files(rig)
    spent = HttpError(400, "invalid_request_error", "You have reached your specified API usage limits.")
    with rig.api(Rules(Faulty(spent))) as api:
        handle = await rig.start(task(source, *ITEMS, review="never"))
        item = await attention(handle)
        await asyncio.sleep(2 * SHORTEST_WAIT_SECONDS)
        await answer(handle, item, "retry")
        again = await until(handle, lambda now: bool(now.attention) and now.attention[0].id != item.id)
        await asyncio.sleep(2 * SHORTEST_WAIT_SECONDS)
        await answer(handle, again.attention[0], "stop")
        result = await handle.result()
        assert statuses(api) == {400: 2}
    assert result.state is TaskState.FAILED
    told = trace.parse((Path(result.artifacts) / trace.NAME).read_text())
    # The first by the call that came after it, the second by the end of the agent, which made no other.
    assert [wait.name for wait in told.of("wait")] == ["quota", "quota"]
    assert told.lines.index(told.of("wait")[-1]) < told.lines.index(told.of("ended")[-1])

"""One task as a client sees it: look, steer, and tell how it ended.

What the worker cannot answer now is filled from what the server knows, so a task can be looked at without a worker.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.enums.v1 import EventType, WorkflowExecutionStatus
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.update.v1 import Outcome
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.service import RPCError, RPCStatusCode

from baton.names import BAD_INPUT, SEARCH_ATTENTION, SEARCH_PHASE, UPDATES, secret_fault
from baton.states import TaskState
from baton.status import AgentStatus, TaskResult, TaskStatus
from cli.exits import Refused, ServiceError
from cli.look import Look, Pulse
from cli.server import READ_LIMIT, Server, decoded

_RUNNING = WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_RUNNING
_CONTINUED = WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW
_COMPLETED = WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_COMPLETED
_CANCELED = WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_CANCELED
_TERMINATED = WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_TERMINATED
_OPEN = (_RUNNING, _CONTINUED)

_UPDATE_LIMIT = timedelta(seconds=8)
_ITEMS_AT_ONCE = 500

WORKER_AWAY = "the worker does not answer now; this is what was known last"
SERVER_KNOWS = "the worker does not answer; this is what the server knows"
WAITS_UNKNOWN = f"{SERVER_KNOWS}: it waits for a person, and what for is told when the worker is back"
SENT_ONLY = "was sent; no worker answers now: it is taken as soon as one is back"
"""What is said of what a task could not answer."""
SERVER_AWAY = "the Temporal server does not answer now; this is what was known last"


@dataclass(frozen=True)
class Ending:
    """How a task ended. `fault` says why where there is no result; `bad_input` that nothing was begun; `terminated`
    why it was ended from outside, where it was."""

    state: TaskState
    result: TaskResult | None = None
    fault: str = ""
    bad_input: bool = False
    terminated: str = ""


_CANCELLED = Ending(TaskState.CANCELLED, fault="it was cancelled")


class Task:
    """A task by its id. Methods raise `Refused` where no such task is known."""

    def __init__(self, server: Server, task_id: str) -> None:
        self._server = server
        self.task_id = task_id

    async def look(self, before: Look | None = None, *, query_limit: timedelta = READ_LIMIT) -> Look:
        """The task now. Where worker or server are away, what was seen `before`, with a hint."""
        try:
            described = await self._server.describe(self.task_id)
        except RPCError as error:
            if before is None or error.status is RPCStatusCode.NOT_FOUND:
                self._explain(error)
            return Look(before.status, hint=SERVER_AWAY)
        closed = described.workflow_execution_info.status not in _OPEN
        try:
            answer = await self._server.query(self.task_id, "status", query_limit)
        except RPCError:
            return await self._without_worker(described, before, closed=closed)
        status = TaskStatus.model_validate_json(answer)
        if closed:
            return closed_look(status, described.workflow_execution_info)
        agents, pulses = await self._at_work(status.agents_at_work)
        return Look(status.model_copy(update={"agents_at_work": agents}), pulses)

    async def ending(self) -> Ending:
        """How the task ended; call it when it is closed."""
        return _ending(await self._server.last_event(self.task_id))

    async def signal(self, name: str, payload: dict[str, Any]) -> None:
        """Send a signal; it is kept even while the worker is away."""
        try:
            await self._server.signal(self.task_id, name, payload)
        except RPCError as error:
            self._explain(error)

    async def whole_plan(self) -> dict[str, Any]:
        """The plan with the items of its steps. Raises `Refused` while the worker is away or before there is one."""
        plan = await self.plan()
        if not plan.get("plan"):
            raise Refused(f"the plan of {self.task_id} cannot be read now: there is none yet, or no worker answers")
        for step in plan["plan"]:
            step["items"] = await self._items(step["step"], step["items"])
        return plan

    async def _items(self, step: int, total: int) -> list[str]:
        found: list[str] = []
        while len(found) < total:
            asked = {"step": step, "offset": len(found), "limit": _ITEMS_AT_ONCE}
            try:
                page = json.loads(await self._server.query(self.task_id, "plan", asked=asked))["items"]
            except RPCError as error:
                self._explain(error)
            if not page:
                break
            found += page
        return found

    async def tell(
        self, name: str, payload: dict[str, Any], *, worker_away: bool = False, limit: timedelta | None = None
    ) -> str | None:
        """Tell the task something, as the update of a signal; its answer in a sentence.

        None where no worker answers in time: then the signal was sent, which the server keeps. Raises `Refused` where
        the task says that it makes no sense, and for what holds a secret: the server would keep that too.
        """
        if (fault := secret_fault(name, json.dumps(payload, ensure_ascii=False))) is not None:
            raise Refused(fault)
        outcome: Outcome | None = None
        if not worker_away:
            try:
                outcome = await self._server.update(self.task_id, UPDATES[name], payload, limit or _UPDATE_LIMIT)
            except RPCError as error:
                self._explain(error)
        if outcome is None:
            await self.signal(name, payload)
            return None
        if outcome.HasField("failure"):
            raise Refused(outcome.failure.message)
        return str(decoded(outcome.success.payloads[0]))

    async def cancel(self) -> None:
        """Ask the task to stop; it still reports what was done."""
        try:
            await self._server.cancel(self.task_id)
        except RPCError as error:
            self._explain(error)

    async def plan(self) -> dict[str, Any]:
        """The answer of the query `plan`; empty while the worker is away."""
        try:
            answer: dict[str, Any] = json.loads(await self._server.query(self.task_id, "plan"))
        except RPCError:
            return {}
        return answer

    def _explain(self, error: RPCError) -> NoReturn:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise Refused(f"there is no task {self.task_id!r} that can be used so; see: orchestrate list") from error
        raise unanswered(error) from error

    async def _at_work(self, agents: Sequence[AgentStatus]) -> tuple[tuple[AgentStatus, ...], dict[str, Pulse]]:
        """Agents as they are now, by their own word, and the pulse of the turn that each of them runs."""
        seen = await asyncio.gather(*(self._agent(agent) for agent in agents))
        return tuple(agent for agent, _ in seen), {agent.workflow_id: pulse for agent, pulse in seen if pulse}

    async def _agent(self, agent: AgentStatus) -> tuple[AgentStatus, Pulse | None]:
        if not agent.workflow_id:
            return agent, None
        try:
            answer, described = await asyncio.gather(
                self._server.query(agent.workflow_id, "status"), self._server.describe(agent.workflow_id)
            )
        except RPCError:
            return agent, None
        return AgentStatus.model_validate_json(answer), _pulse(described)

    async def _without_worker(
        self, described: DescribeWorkflowExecutionResponse, before: Look | None, *, closed: bool
    ) -> Look:
        info = described.workflow_execution_info
        if before is not None and not closed:
            return Look(before.status, hint=WORKER_AWAY)
        status = before.status if before is not None else _known_to_server(self.task_id, described)
        if closed and info.status == _COMPLETED:
            ending = await self.ending()
            status = _with_result(status, ending.result) if ending.result else status
        if closed:
            return closed_look(status, info)
        return Look(status, hint=WAITS_UNKNOWN if status.state is TaskState.WAITING else SERVER_KNOWS)


def unanswered(error: RPCError) -> ServiceError:
    """What a person is told when the server does not do what it was asked."""
    return ServiceError(f"the Temporal server did not answer as expected: {error.message}; see: orchestrate up")


def closed_state(status: int) -> TaskState:
    """What a workflow that ended without a result of its own came to."""
    return TaskState.CANCELLED if status in {_CANCELED, _TERMINATED} else TaskState.FAILED


def closed_look(status: TaskStatus, info: WorkflowExecutionInfo) -> Look:
    """The last look. A workflow that was ended from outside could not say so itself, nor count the agents at work."""
    if info.status == _COMPLETED or status.state not in {TaskState.RUNNING, TaskState.WAITING}:
        return Look(status, closed=True)
    last = Look(status)
    counts = {"agents": last.agents, "usage": last.usage, "attention": (), "agents_at_work": ()}
    ended = {"state": closed_state(info.status), "closed_at": status.closed_at or _utc(info.close_time)}
    return Look(status.model_copy(update=ended | counts), closed=True, terminated=info.status == _TERMINATED)


def _known_to_server(task_id: str, described: DescribeWorkflowExecutionResponse) -> TaskStatus:
    info = described.workflow_execution_info
    attributes = {key: decoded(value) for key, value in info.search_attributes.indexed_fields.items()}
    memo = {key: decoded(value) for key, value in info.memo.fields.items()}
    waits = bool(_first(attributes.get(SEARCH_ATTENTION)))
    return TaskStatus(
        task_id=task_id,
        task=str(memo.get("task") or ""),
        repository=str(memo.get("repository") or ""),
        state=TaskState.WAITING if waits else TaskState.RUNNING,
        phase=str(_first(attributes.get(SEARCH_PHASE)) or "starting"),
        started_at=_utc(info.start_time),
        closed_at=_utc(info.close_time) if info.HasField("close_time") else None,
    )


def _with_result(status: TaskStatus, result: TaskResult) -> TaskStatus:
    shared = result.model_dump(include={"state", "summary", "ref", "base_commit", "artifacts", "agents", "handoffs"})
    return status.model_copy(
        update=shared | {"phase": str(result.state), "usage": result.usage, "attention": (), "agents_at_work": ()}
    )


def _pulse(described: DescribeWorkflowExecutionResponse) -> Pulse | None:
    for pending in described.pending_activities:
        for payload in pending.heartbeat_details.payloads:
            told = decoded(payload)
            if isinstance(told, dict):
                return Pulse(str(told.get("doing", "")), int(told.get("tokens", 0)))
    return None


def _ending(event: HistoryEvent) -> Ending:
    """How a task ended, from the event that closed it."""
    match event.event_type:
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
            payloads = event.workflow_execution_completed_event_attributes.result.payloads
            result = TaskResult.model_validate_json(payloads[0].data)
            return Ending(result.state, result)
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
            return _failed(event.workflow_execution_failed_event_attributes.failure)
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
            return _CANCELLED
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
            reason = event.workflow_execution_terminated_event_attributes.reason or "Workflow terminated"
            return Ending(TaskState.CANCELLED, fault=f"it was terminated: {reason}", terminated=reason)
        case _:
            return Ending(TaskState.FAILED, fault="Workflow timed out")


def _failed(failure: Failure) -> Ending:
    if failure.HasField("canceled_failure_info"):
        return _CANCELLED
    while failure.HasField("cause") and not _is_bad_input(failure):
        failure = failure.cause
    return Ending(TaskState.FAILED, fault=failure.message, bad_input=_is_bad_input(failure))


def _is_bad_input(failure: Failure) -> bool:
    return failure.application_failure_info.type == BAD_INPUT


def _utc(moment: Timestamp) -> datetime:
    return moment.ToDatetime(tzinfo=UTC)


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else value

"""A Temporal server as the command line needs it: the few requests it makes, and payloads in JSON.

The requests go through the SDK's raw service: its full client takes longer to import than a command may take. The
worker's pydantic converter reads and writes the same payloads. Every request raises RPCError when it fails.
"""

import json
import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from temporalio.api.common.v1 import Payload, Payloads, WorkflowExecution
from temporalio.api.enums.v1 import (
    HistoryEventFilterType,
    UpdateWorkflowExecutionLifecycleStage,
    WorkflowIdConflictPolicy,
    WorkflowIdReusePolicy,
)
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.update.v1 import Outcome
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionRequest,
    DescribeWorkflowExecutionResponse,
    GetWorkflowExecutionHistoryRequest,
    ListWorkflowExecutionsRequest,
    QueryWorkflowRequest,
    RequestCancelWorkflowExecutionRequest,
    SignalWorkflowExecutionRequest,
    StartWorkflowExecutionRequest,
    UpdateWorkflowExecutionRequest,
)
from temporalio.service import RPCError, RPCStatusCode, ServiceClient

from baton.names import ORCHESTRATION_WORKFLOW, TASK_QUEUE

READ_LIMIT = timedelta(seconds=3)
_LIST_LIMIT = timedelta(seconds=5)
_WRITE_LIMIT = timedelta(seconds=10)
_PAGE = 200


class Server:
    """One namespace of a server."""

    def __init__(self, service: ServiceClient, namespace: str) -> None:
        self.service = service
        self.namespace = namespace
        self._requests = service.workflow_service

    async def start(
        self, task_id: str, task_input: bytes, summary: str, memo: Mapping[str, str], *, again: bool = False
    ) -> None:
        """Start a task. RPCError ALREADY_EXISTS where the id was ever used, with `again` where it is in use now.

        `task_input`: a `TaskInput` as JSON.
        """
        reuse = WorkflowIdReusePolicy.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
        if again:
            reuse = WorkflowIdReusePolicy.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
        request = StartWorkflowExecutionRequest(
            namespace=self.namespace,
            workflow_id=task_id,
            identity=self.service.config.identity,
            request_id=str(uuid.uuid4()),
            workflow_id_reuse_policy=reuse,
            workflow_id_conflict_policy=WorkflowIdConflictPolicy.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
        )
        request.workflow_type.name = ORCHESTRATION_WORKFLOW
        request.task_queue.name = TASK_QUEUE
        request.input.payloads.append(_json(task_input))
        request.user_metadata.summary.CopyFrom(encoded(summary))
        for key, value in memo.items():
            request.memo.fields[key].CopyFrom(encoded(value))
        await self._requests.start_workflow_execution(request, retry=True)

    async def executions(self, query: str, *, everything: bool) -> list[WorkflowExecutionInfo]:
        """What visibility has for a query: the newest page, or `everything`."""
        found: list[WorkflowExecutionInfo] = []
        token = b""
        while True:
            request = ListWorkflowExecutionsRequest(
                namespace=self.namespace, query=query, page_size=_PAGE, next_page_token=token
            )
            page = await self._requests.list_workflow_executions(request, timeout=_LIST_LIMIT)
            found += page.executions
            token = page.next_page_token
            if not token or not everything:
                return found

    async def describe(self, workflow_id: str) -> DescribeWorkflowExecutionResponse:
        """What the server itself knows of a workflow."""
        request = DescribeWorkflowExecutionRequest(namespace=self.namespace, execution=_execution(workflow_id))
        return await self._requests.describe_workflow_execution(request, timeout=READ_LIMIT)

    async def query(
        self, workflow_id: str, name: str, limit: timedelta = READ_LIMIT, asked: Mapping[str, Any] | None = None
    ) -> bytes:
        """A workflow's answer to a query, as JSON. It takes a worker."""
        request = QueryWorkflowRequest(namespace=self.namespace, execution=_execution(workflow_id))
        request.query.query_type = name
        if asked is not None:
            request.query.query_args.payloads.append(encoded(asked))
        answer = await self._requests.query_workflow(request, retry=True, timeout=limit)
        return answer.query_result.payloads[0].data

    async def signal(self, workflow_id: str, name: str, payload: Mapping[str, Any]) -> None:
        """Send a signal; the server keeps it while no worker is there."""
        request = SignalWorkflowExecutionRequest(
            namespace=self.namespace,
            workflow_execution=_execution(workflow_id),
            signal_name=name,
            input=Payloads(payloads=[encoded(payload)]),
            identity=self.service.config.identity,
            request_id=str(uuid.uuid4()),
        )
        await self._requests.signal_workflow_execution(request, retry=True, timeout=_WRITE_LIMIT)

    async def update(self, workflow_id: str, name: str, payload: Mapping[str, Any], limit: timedelta) -> Outcome | None:
        """Make an update and wait for its outcome; None when no worker took it in time. It takes a worker."""
        request = UpdateWorkflowExecutionRequest(namespace=self.namespace, workflow_execution=_execution(workflow_id))
        completed = UpdateWorkflowExecutionLifecycleStage.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_COMPLETED
        request.wait_policy.lifecycle_stage = completed
        request.request.meta.update_id = str(uuid.uuid4())
        request.request.meta.identity = self.service.config.identity
        request.request.input.name = name
        request.request.input.args.payloads.append(encoded(payload))
        try:
            answer = await self._requests.update_workflow_execution(request, timeout=limit)
        except RPCError as error:
            if error.status in {RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED}:
                return None
            raise
        return answer.outcome if answer.HasField("outcome") else None

    async def cancel(self, workflow_id: str) -> None:
        """Ask a workflow to end."""
        request = RequestCancelWorkflowExecutionRequest(
            namespace=self.namespace,
            workflow_execution=_execution(workflow_id),
            identity=self.service.config.identity,
            request_id=str(uuid.uuid4()),
        )
        await self._requests.request_cancel_workflow_execution(request, retry=True, timeout=_WRITE_LIMIT)

    async def last_event(self, workflow_id: str) -> HistoryEvent:
        """The event that closed a workflow; waited for while it runs on, also as another run."""
        request = GetWorkflowExecutionHistoryRequest(
            namespace=self.namespace,
            execution=_execution(workflow_id),
            wait_new_event=True,
            history_event_filter_type=HistoryEventFilterType.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT,
            skip_archival=True,
        )
        while True:
            answer = await self._requests.get_workflow_execution_history(request, retry=True, timeout=_WRITE_LIMIT)
            request.next_page_token = answer.next_page_token
            for event in answer.history.events:
                if not (next_run := _next_run(event)):
                    return event
                request.execution.run_id, request.next_page_token = next_run, b""


def encoded(value: Any) -> Payload:
    """A value as a JSON payload."""
    return _json(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def decoded(payload: Payload | None) -> Any:
    """The value of a JSON payload; None where there is none or it is of another kind."""
    try:
        return json.loads(payload.data) if payload is not None and payload.data else None
    except ValueError:
        return None


def _json(data: bytes) -> Payload:
    return Payload(metadata={"encoding": b"json/plain"}, data=data)


def _execution(workflow_id: str) -> WorkflowExecution:
    return WorkflowExecution(workflow_id=workflow_id)


def _next_run(event: HistoryEvent) -> str:
    """The run that goes on where one ended with this event; empty where none does."""
    attributes = getattr(event, event.WhichOneof("attributes") or "", None)
    return str(getattr(attributes, "new_execution_run_id", ""))

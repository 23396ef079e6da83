"""OrchestrationWorkflow: one task from its first word to its report.

It orders and waits: open, plan, execute, integrate, report. Agents are children, files and git are activities,
decisions are pure functions of `baton`. A cancelled task still reports what was done.
"""

import asyncio
from typing import Any

from pydantic import ValidationError
from temporalio import workflow
from temporalio.exceptions import ApplicationError, FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.opening import Opening
    from baton import rows
    from baton.messages import (
        AgentEvent,
        Direction,
        OpenTask,
        TaskInput,
    )
    from baton.names import BAD_INPUT, ORCHESTRATION_WORKFLOW, task_id_fault, task_text_fault
    from baton.plan import Plan
    from baton.replan import remark
    from baton.sources import has_credentials
    from baton.status import TaskResult, TaskStatus
    from workflows import policies
    from workflows.closing import close, discard
    from workflows.execution import Execution
    from workflows.failures import reason_of, type_of
    from workflows.integration import Integration
    from workflows.planning import MAX_REPLANS, Planning
    from workflows.task_run import TaskRun, raise_if_cancelled


@workflow.defn(name=ORCHESTRATION_WORKFLOW, failure_exception_types=[ValidationError])
class OrchestrationWorkflow:
    """One task."""

    @workflow.init
    def __init__(self, task: TaskInput) -> None:
        self._run = TaskRun(task)
        self._planning = Planning(self._run)
        self._integration = Integration(self._run)

    # --- outside -------------------------------------------------------------------------------------------------

    @workflow.query
    def status(self) -> TaskStatus:
        """The whole status."""
        return self._run.status

    @workflow.query
    def plan(self, request: dict[str, Any] | None = None) -> dict[str, Any]:
        """The plan with item counts; with `{"step": 2, "offset": 0, "limit": 200}` the items of one step."""
        return rows.plan_rows(self._planning.plan, request or {})

    @workflow.query
    def ledger(self, request: dict[str, Any] | None = None) -> dict[str, Any]:
        """Counts by step; with a step the records of its items."""
        return rows.ledger_rows(self._run.status.steps, self._run.records, request or {})

    @workflow.query
    def manifests(self, request: dict[str, Any] | None = None) -> dict[str, Any]:
        """The number of handoffs; with a step or an offset a line for each, with the file that holds its manifest."""
        return rows.manifest_rows(self._run.handoffs, request or {})

    @workflow.query
    def knowledge(self, request: dict[str, Any] | None = None) -> dict[str, Any]:
        """Counts by kind; with an offset the entries."""
        return rows.knowledge_rows(self._run.knowledge, request or {})

    @workflow.signal
    def approve(self, request: Any = None) -> None:
        """Approve a phase: `{"phase": "planning", "comment": "…"}`."""
        self._answer_phase("approve", request)

    @workflow.signal
    def reject(self, request: Any = None) -> None:
        """Reject a phase, with a remark."""
        self._answer_phase("reject", request)

    @workflow.signal
    async def answer(self, request: Any = None) -> None:
        """Answer an attention item: `{"attention_id": "…", "choice": "…", "comment": "…"}`."""
        given, attention = self._given("answer", request), self._run.attention
        name, choice = str(given.get("attention_id", "")), str(given.get("choice", ""))
        item = attention.answer(name, choice, str(given.get("comment", "")))
        if item is not None and item.workflow_id:
            attention.take(name)
            await self._run.direct(item.workflow_id, Direction(kind="choice", text=choice))

    @workflow.signal
    async def pause(self, request: Any = None) -> None:
        """Have all agents hand off and wait."""
        await self._set_paused(True)

    @workflow.signal
    async def unpause(self, request: Any = None) -> None:
        """Go on after a pause."""
        await self._set_paused(False)

    @workflow.signal
    async def guide(self, request: Any = None) -> None:
        """A remark for the running agents, or for those of one step: `{"text": "…", "step": 2}`."""
        given = self._given("guide", request)
        text, step = str(given.get("text", "")).strip(), given.get("step")
        chosen = [a for a in self._run.status.agents_at_work if step is None or a.step == step]
        if not text or not chosen:
            self._run.attention.reject("guide: " + ("no such agent is at work" if text else "the remark has no text"))
        for agent in chosen if text else ():
            await self._run.direct(agent.workflow_id, Direction(kind="guidance", text=text))

    @workflow.signal
    async def agent_event(self, event: AgentEvent) -> None:
        """An agent tells how it stands."""
        await self._run.take_event(event)

    def _given(self, signal: str, request: Any) -> dict[str, Any]:
        """The payload of a signal, whatever a client sent; one that is no object is noted."""
        if request is not None and not isinstance(request, dict):
            self._run.attention.reject(f"{signal}: the payload must be a JSON object, not {type(request).__name__}")
        return request if isinstance(request, dict) else {}

    def _answer_phase(self, choice: str, request: Any) -> None:
        given = self._given(choice, request)
        phase, comment = str(given.get("phase", "planning")), str(given.get("comment", ""))
        self._run.attention.answer_phase(phase, choice, comment)

    async def _set_paused(self, paused: bool) -> None:
        run = self._run
        if run.status.paused == paused:
            run.attention.reject(f"{'pause' if paused else 'unpause'}: it is {'' if paused else 'not '}paused")
            return
        run.update(paused=paused)
        run.happened("paused: the agents hand off and wait" if paused else "goes on after the pause")
        for agent in run.status.agents_at_work:
            await run.direct(agent.workflow_id, Direction(kind="pause" if paused else "unpause"))

    # --- the flow ------------------------------------------------------------------------------------------------

    @workflow.run
    async def run(self, task: TaskInput) -> TaskResult:
        """Do the task."""
        _refuse_bad_input(task)
        clock: asyncio.Task[None] | None = None
        try:
            await self._open()
            clock = asyncio.create_task(self._run.end_in_time())
            self._run.enter("planning")
            if not task.plan_only:
                self._integration.start_baseline()
            plan = await self._planning.approved_plan([])
            raise_if_cancelled()
            if plan is not None and not task.plan_only:
                plan = await self._execute(plan)
                raise_if_cancelled()
                await self._integration.run(plan)
                raise_if_cancelled()
            return await self._close()
        except (asyncio.CancelledError, FailureError) as error:
            self._integration.give_up()
            if not self._run.is_open:
                raise
            if is_cancelled_exception(error):
                await asyncio.shield(self._close(cancelled=True))
                raise
            if type_of(error) == BAD_INPUT:
                await discard(self._run)
                raise
            return await self._close(failure=reason_of(error))
        finally:
            if clock is not None:
                clock.cancel()

    async def _execute(self, plan: Plan) -> Plan:
        """Execute the plan, and new plans for what is left as long as a person asks for one; returns the last."""
        for round_number in range(1, MAX_REPLANS + 1):
            self._run.enter("executing")
            await self._run.save()
            execution = Execution(self._run, plan)
            await execution.run()
            if not execution.replan_wanted or round_number == MAX_REPLANS:
                break
            self._run.enter("planning")
            run = self._run
            again = await self._planning.approved_plan([remark(plan, run.results, run.records)])
            if again is None:
                break
            plan = again
        return plan

    async def _open(self) -> None:
        run = self._run
        run.enter("opening")
        opened = await workflow.execute_activity_method(
            Opening.open_task,
            OpenTask(task_id=run.task_id, input=run.input, first_run_id=workflow.info().first_execution_run_id),
            summary="open the task",
            **policies.OPEN,
        )
        run.take_opened(opened)

    async def _close(self, *, cancelled: bool = False, failure: str = "") -> TaskResult:
        """The last thing of every task."""
        left = await self._integration.left(self._planning.plan, with_baseline=not (cancelled or failure))
        return await close(self._run, left, cancelled=cancelled, failure=failure)


def _refuse_bad_input(task: TaskInput) -> None:
    fault = task_id_fault(workflow.info().workflow_id)
    if fault is None:
        fault = task_text_fault(task.task)
    if fault is None and not task.repository.strip():
        fault = "no repository is given: name a path on the workers' host or a git URL"
    if fault is None and has_credentials(task.repository):
        fault = "the repository's URL holds credentials, which would be stored: use a credential helper or an SSH key"
    if fault is None and task.resume:
        fault = "resume is not available yet: start a new task"
    if fault is not None:
        raise ApplicationError(fault, type=BAD_INPUT, non_retryable=True)

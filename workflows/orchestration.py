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
    from activities.tasks import TaskWork
    from baton import rows
    from baton.assignments import integrator_assignment, planner_assignment
    from baton.findings import GateResult, GateVerdict, compare
    from baton.ledger import ItemRecord
    from baton.messages import (
        AgentEvent,
        AgentResult,
        Direction,
        OpenTask,
        SettlePlan,
        StepResult,
        TaskInput,
    )
    from baton.names import BAD_INPUT, ORCHESTRATION_WORKFLOW, task_id_fault, task_text_fault
    from baton.plan import Plan
    from baton.replan import remark, replanned
    from baton.settings import Phase
    from baton.sources import has_credentials
    from baton.states import AgentEnd
    from baton.status import TaskResult, TaskStatus
    from baton.status_changes import planned
    from baton.wording import counted
    from workflows import policies
    from workflows.attention import Answer
    from workflows.closing import Left, close, discard
    from workflows.execution import Execution, was_cancelled
    from workflows.failures import reason_of, type_of
    from workflows.task_run import TaskRun, raise_if_cancelled

MAX_REPLANS = 5


@workflow.defn(name=ORCHESTRATION_WORKFLOW, failure_exception_types=[ValidationError])
class OrchestrationWorkflow:
    """One task."""

    @workflow.init
    def __init__(self, task: TaskInput) -> None:
        self._run = TaskRun(task)
        self._plan: Plan | None = None
        self._baseline: asyncio.Task[tuple[GateResult, ...]] | None = None
        self._verdicts: tuple[GateVerdict, ...] = ()
        self._integration: AgentResult | None = None

    # --- outside -------------------------------------------------------------------------------------------------

    @workflow.query
    def status(self) -> TaskStatus:
        """The whole status."""
        return self._run.status

    @workflow.query
    def plan(self, request: dict[str, Any] | None = None) -> dict[str, Any]:
        """The plan with item counts; with `{"step": 2, "offset": 0, "limit": 200}` the items of one step."""
        return rows.plan_rows(self._plan, request or {})

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
            plan = await self._planning()
            raise_if_cancelled()
            if plan is not None and not task.plan_only:
                await self._execute(plan)
                raise_if_cancelled()
                await self._integrate()
                raise_if_cancelled()
            return await self._close()
        except (asyncio.CancelledError, FailureError) as error:
            if self._baseline is not None:
                self._baseline.cancel()
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

    async def _execute(self, plan: Plan) -> None:
        """Execute the plan, and new plans for what is left as long as a person asks for one."""
        for round_number in range(1, MAX_REPLANS + 1):
            self._run.enter("executing")
            execution = Execution(self._run, plan)
            await execution.run()
            if not execution.replan_wanted or round_number == MAX_REPLANS:
                return
            self._run.enter("planning")
            run = self._run
            again = await self._approved_plan([remark(plan, run.results, run.records)])
            if again is None:
                return
            plan = again

    async def _open(self) -> None:
        run = self._run
        run.enter("opening")
        opened = await workflow.execute_activity_method(
            TaskWork.open_task,
            OpenTask(task_id=run.task_id, input=run.input, first_run_id=workflow.info().first_execution_run_id),
            summary="open the task",
            **policies.OPEN,
        )
        run.take_opened(opened)

    async def _planning(self) -> Plan | None:
        """The approved plan; None when a person stopped the task. The baseline is taken beside all that follows."""
        run = self._run
        run.enter("planning")
        if not run.input.plan_only:
            self._baseline = asyncio.create_task(run.gates(run.opened.base_commit, "baseline"))
        return await self._approved_plan([])

    async def _approved_plan(self, remarks: list[str]) -> Plan | None:
        """A plan that nobody objects to, put after what is over of an earlier one; None when a person stopped it."""
        run = self._run
        before = (self._plan, dict(run.results), dict(run.records))
        for _ in range(MAX_REPLANS):
            plan = await self._one_plan(remarks)
            if plan is None:
                return None
            plan = await self._settle(plan, *before)
            answer = await self._approval("planning")
            if answer is None or answer.choice == "approve":
                return plan
            remarks.append(answer.comment or "The plan was rejected without a remark; propose a different one.")
        self._run.update(summary=f"no plan was approved in {MAX_REPLANS} attempts")
        return None

    async def _one_plan(self, remarks: list[str]) -> Plan | None:
        """A valid plan: the user's own, or the planner's. A planner that fails is a question to a person."""
        run = self._run
        if run.input.plan is not None and not remarks:
            return await workflow.execute_activity_method(
                TaskWork.expand_plan,
                OpenTask(task_id=run.task_id, input=run.input),
                summary="check the plan",
                task_queue=run.opened.host_queue,
                **policies.GIT,
            )
        while True:
            if (limit := run.limit_reached()) is not None:
                run.update(summary=f"no plan was made: {limit}")
                return None
            assignment = planner_assignment(run.task_id, run.input, run.opened, run.head, tuple(remarks))
            result = await run.agent(assignment, f"{run.task_id}/plan")
            if was_cancelled(result):
                raise asyncio.CancelledError
            if result.plan is not None:
                return result.plan
            if result.end is AgentEnd.STOPPED:
                run.update(summary=f"no plan was made: {result.detail}")
                return None
            answer = await run.attention.ask(
                "plan", f"The planner made no valid plan: {result.detail or 'it ended without one'}.", ("retry", "stop")
            )
            if answer.choice == "stop":
                run.update(summary="stopped by a person while planning")
                return None
            remarks += [answer.comment] if answer.comment else []

    async def _settle(
        self,
        plan: Plan,
        before: Plan | None,
        results: dict[int, StepResult],
        records: dict[int, tuple[ItemRecord, ...]],
    ) -> Plan:
        """Make the plan known to this host and to people; what is over of the plan before it stays."""
        run = self._run
        if run.input.handoff_strategy is not None:
            strategy = {"handoff_strategy": run.input.handoff_strategy}
            plan = plan.model_copy(update={"plan": tuple(step.model_copy(update=strategy) for step in plan.plan)})
        if before is not None and results:
            after = replanned(before, results, records, plan)
            plan, run.results, run.records = after.plan, after.results, after.records
        self._plan = plan
        await workflow.execute_activity_method(
            TaskWork.settle_plan,
            SettlePlan(task_id=run.task_id, plan=plan),
            task_queue=run.opened.host_queue,
            summary="settle the plan",
            **policies.GIT,
        )
        over = {step.step: step for step in run.status.steps if step.step in run.results}
        steps = tuple(over.get(step.step, step) for step in planned(plan.plan))
        run.update(steps=steps, warnings=(*run.opened.warnings, *plan.notes))
        items = sum(len(step.items) for step in plan.plan)
        run.happened(f"plan with {counted(len(plan.plan), 'step')} and {counted(items, 'item')}")
        return plan

    async def _approval(self, phase: Phase) -> Answer | None:
        settings = self._run.opened.settings
        if self._run.input.plan_only or not settings.require_approval or phase not in settings.approve_phases:
            return None
        return await self._run.attention.ask("approval", f"Approve {phase}?", ("approve", "reject"), phase=phase)

    async def _integrate(self) -> None:
        run, plan = self._run, self._plan
        if plan is None or run.head == run.opened.base_commit:
            return
        run.enter("integrating")
        answer = await self._approval("integration")
        if answer is not None and answer.choice == "reject":
            run.happened("integration was rejected; the result stays as it is")
            return
        await self._compare_gates("result")
        if not run.input.integration or run.limit_reached() or not run.books.count_agent(for_integrator=True):
            return
        start = run.head
        assignment = integrator_assignment(
            run.task_id, run.input, run.opened, plan, start, run.knowledge, tuple(run.results.values()), self._verdicts
        )
        self._integration = await run.agent(assignment, f"{run.task_id}/integrate")
        if was_cancelled(self._integration):
            raise asyncio.CancelledError
        run.knowledge = self._integration.knowledge
        merged = await run.merge((assignment.workspace,), None, "Integrate the steps")
        if merged.merged:
            await self._compare_gates("integrated")

    async def _compare_gates(self, workspace: str) -> None:
        now = await self._run.gates(self._run.head, workspace)
        self._verdicts = tuple(compare(await self._base_gates(), now))
        for verdict in self._verdicts:
            word = str(verdict.status).replace("_", " ")
            self._run.happened(f"gate {verdict.name}: {word}" + (f" ({verdict.detail})" if verdict.detail else ""))

    async def _base_gates(self) -> tuple[GateResult, ...]:
        """The gates on the base commit, once they are through."""
        return await self._baseline if self._baseline is not None else ()

    async def _close(self, *, cancelled: bool = False, failure: str = "") -> TaskResult:
        """The last thing of every task."""
        submission = self._integration.submission if self._integration else None
        left = Left(
            plan=self._plan,
            verdicts=self._verdicts,
            baseline=() if cancelled or failure else await self._base_gates(),
            integration=submission.input if submission else {},
        )
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

"""OrchestrationWorkflow: one task from its first word to its report.

It orders and waits: open, plan, execute step by step in dependency order, integrate, report. Agents are children,
files and git are activities, decisions are pure functions of `baton`. A cancelled task still reports what was done.
"""

import asyncio
from typing import Any

from pydantic import ValidationError
from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributeUpdate, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.tasks import TaskWork
    from baton import report, rows
    from baton.agent import exceeded, remaining
    from baton.assignments import executor_assignment, integrator_assignment, planner_assignment
    from baton.findings import GateResult, GateVerdict, compare
    from baton.knowledge import Knowledge
    from baton.ledger import ItemRecord
    from baton.messages import (
        BAD_INPUT,
        ORCHESTRATION_WORKFLOW,
        SEARCH_ATTENTION,
        SEARCH_PHASE,
        SEARCH_REPOSITORY,
        AgentEnd,
        AgentEvent,
        AgentResult,
        Assignment,
        Direction,
        GateResults,
        HandoffRow,
        MergedStep,
        MergeStep,
        OpenedTask,
        OpenTask,
        Publish,
        RunGates,
        StepResult,
        StepStatusWord,
        TaskInput,
        TaskResult,
        TaskState,
        TurnLimits,
        WriteArtifacts,
        task_id_fault,
    )
    from baton.plan import Plan, PlanStep, dependants, execution_order
    from baton.pricing import Usage
    from baton.report_facts import ReportFacts
    from baton.results import not_attempted, step_result, task_state
    from baton.settings import Phase
    from baton.status import TaskStatus, details_markdown, planned, with_event, with_happening, with_step
    from workflows import policies
    from workflows.agent import AgentWorkflow
    from workflows.attention import Attention

PHASE_KEY = SearchAttributeKey.for_keyword(SEARCH_PHASE)
REPOSITORY_KEY = SearchAttributeKey.for_keyword(SEARCH_REPOSITORY)
ATTENTION_KEY = SearchAttributeKey.for_keyword(SEARCH_ATTENTION)
MAX_REPLANS = 5


@workflow.defn(name=ORCHESTRATION_WORKFLOW, failure_exception_types=[ValidationError])
class OrchestrationWorkflow:
    """One task."""

    @workflow.init
    def __init__(self, task: TaskInput) -> None:
        self._input = task
        self._status = TaskStatus(
            task_id=workflow.info().workflow_id,
            task=task.task,
            repository=task.repository,
            started_at=workflow.info().start_time,
        )
        self._attention = Attention(self._show)
        self._opened: OpenedTask | None = None
        self._plan: Plan | None = None
        self._results: dict[int, StepResult] = {}
        self._records: dict[int, tuple[ItemRecord, ...]] = {}
        self._knowledge = Knowledge()
        self._handoffs: list[HandoffRow] = []
        self._baseline: tuple[GateResult, ...] = ()
        self._verdicts: tuple[GateVerdict, ...] = ()
        self._integration: AgentResult | None = None
        self._head = ""
        self._settled = Usage()
        self._counted_agents = 0

    # --- outside -------------------------------------------------------------------------------------------------

    @workflow.query
    def status(self) -> TaskStatus:
        """The whole status."""
        return self._status

    @workflow.query
    def plan(self, request: dict[str, Any] | None = None) -> dict[str, Any]:
        """The plan with item counts; with `{"step": 2, "offset": 0, "limit": 200}` the items of one step."""
        return rows.plan_rows(self._plan, request or {})

    @workflow.query
    def ledger(self, request: dict[str, Any] | None = None) -> dict[str, Any]:
        """Counts by step; with a step the records of its items."""
        return rows.ledger_rows(self._status.steps, self._records, request or {})

    @workflow.query
    def manifests(self, request: dict[str, Any] | None = None) -> dict[str, Any]:
        """The number of handoffs; with a step or an offset a line for each, with the file that holds its manifest."""
        return rows.manifest_rows(self._handoffs, request or {})

    @workflow.query
    def knowledge(self, request: dict[str, Any] | None = None) -> dict[str, Any]:
        """Counts by kind; with an offset the entries."""
        return rows.knowledge_rows(self._knowledge, request or {})

    @workflow.signal
    def approve(self, request: dict[str, Any] | None = None) -> None:
        """Approve a phase: `{"phase": "planning", "comment": "…"}`."""
        given = request or {}
        self._attention.answer_phase(str(given.get("phase", "planning")), "approve", str(given.get("comment", "")))

    @workflow.signal
    def reject(self, request: dict[str, Any] | None = None) -> None:
        """Reject a phase, with a remark."""
        given = request or {}
        self._attention.answer_phase(str(given.get("phase", "planning")), "reject", str(given.get("comment", "")))

    @workflow.signal
    async def answer(self, request: dict[str, Any] | None = None) -> None:
        """Answer an attention item: `{"attention_id": "…", "choice": "…", "comment": "…"}`."""
        given = request or {}
        name, choice = str(given.get("attention_id", "")), str(given.get("choice", ""))
        item = self._attention.answer(name, choice, str(given.get("comment", "")))
        if item is not None and item.workflow_id:
            self._attention.take(name)
            await self._direct(item.workflow_id, Direction(kind="choice", text=choice))

    @workflow.signal
    async def pause(self, request: dict[str, Any] | None = None) -> None:
        """Have all agents hand off and wait."""
        await self._set_paused(True)

    @workflow.signal
    async def unpause(self, request: dict[str, Any] | None = None) -> None:
        """Go on after a pause."""
        await self._set_paused(False)

    @workflow.signal
    async def guide(self, request: dict[str, Any] | None = None) -> None:
        """A remark for the running agents, or for those of one step: `{"text": "…", "step": 2}`."""
        given = request or {}
        text, step = str(given.get("text", "")).strip(), given.get("step")
        if not text:
            self._attention.reject("guide: the remark has no text")
            return
        for agent in self._status.agents_at_work:
            if step is None or agent.step == step:
                await self._direct(agent.workflow_id, Direction(kind="guidance", text=text))

    @workflow.signal
    def agent_event(self, event: AgentEvent) -> None:
        """An agent tells how it stands."""
        self._status = with_event(self._status, event, workflow.now())
        if event.kind == "attention":
            self._attention.put(
                event.attention, event.detail, event.choices, workflow_id=event.workflow_id, step=event.step
            )
        if event.handoff is not None:
            self._handoffs.append(event.handoff)
        self._show()

    # --- the flow ------------------------------------------------------------------------------------------------

    @workflow.run
    async def run(self, task: TaskInput) -> TaskResult:
        """Do the task."""
        self._refuse_bad_input(task)
        try:
            await self._open()
            plan = await self._planning()
            if plan is None or task.plan_only:
                return await self._finish(cancelled=False)
            await self._execute(plan)
            await self._integrate(plan)
            return await self._finish(cancelled=False)
        except (asyncio.CancelledError, FailureError) as error:
            if not is_cancelled_exception(error) or self._opened is None:
                raise
            await asyncio.shield(self._finish(cancelled=True))
            raise

    def _refuse_bad_input(self, task: TaskInput) -> None:
        fault = task_id_fault(workflow.info().workflow_id)
        if fault is None and not task.task.strip():
            fault = "the task is empty: say what to do"
        if fault is None and not task.repository.strip():
            fault = "no repository is given: name a path on the workers' host or a git URL"
        if fault is not None:
            raise ApplicationError(fault, type=BAD_INPUT, non_retryable=True)

    async def _open(self) -> None:
        self._enter("opening")
        opened = await workflow.execute_activity_method(
            TaskWork.open_task,
            OpenTask(task_id=self._status.task_id, input=self._input),
            summary="open the task",
            **policies.OPEN,
        )
        self._opened, self._head = opened, opened.base_commit
        self._status = self._status.model_copy(
            update={
                "repository": opened.source,
                "base_commit": opened.base_commit,
                "base_name": opened.base_name,
                "artifacts": opened.artifacts,
                "warnings": opened.warnings,
            }
        )

    async def _planning(self) -> Plan | None:
        """The approved plan, with the baseline taken beside it. None when a person stopped the task."""
        self._enter("planning")
        baseline = asyncio.create_task(self._gates(self._task.base_commit, "baseline"))
        try:
            plan = await self._approved_plan()
            self._baseline = await baseline
        finally:
            baseline.cancel()
        return plan

    async def _approved_plan(self) -> Plan | None:
        remarks: list[str] = []
        for _ in range(MAX_REPLANS):
            plan = await self._one_plan(remarks)
            if plan is None:
                return None
            await self._take_plan(plan)
            answer = await self._approval("planning")
            if answer is None or answer.choice == "approve":
                return plan
            remarks.append(answer.comment or "The plan was rejected without a remark; propose a different one.")
        return None

    async def _one_plan(self, remarks: list[str]) -> Plan | None:
        """A valid plan: the user's own, or the planner's. A planner that fails is a question to a person."""
        if self._input.plan is not None and not remarks:
            return await workflow.execute_activity_method(
                TaskWork.expand_plan,
                OpenTask(task_id=self._status.task_id, input=self._input),
                summary="check the plan",
                task_queue=self._task.host_queue,
                **policies.GIT,
            )
        while True:
            assignment = planner_assignment(self._status.task_id, self._input, self._task, tuple(remarks))
            result = await self._agent(assignment, f"{self._status.task_id}/plan")
            if result.plan is not None:
                return result.plan
            self._stop_when_cancelled(result)
            answer = await self._attention.ask(
                "plan", f"The planner made no valid plan: {result.detail or 'it ended without one'}.", ("retry", "stop")
            )
            if answer.choice == "stop":
                self._status = self._status.model_copy(update={"summary": "stopped by a person while planning"})
                return None
            remarks += [answer.comment] if answer.comment else []

    async def _take_plan(self, plan: Plan) -> None:
        self._plan = plan
        self._status = self._status.model_copy(
            update={"steps": planned(plan.plan), "warnings": (*self._task.warnings, *plan.notes)}
        )
        self._happened(f"plan with {len(plan.plan)} steps and {sum(len(step.items) for step in plan.plan)} items")
        await self._write(report.plan_artifacts(plan))

    async def _approval(self, phase: Phase) -> Any:
        settings = self._task.settings
        if self._input.plan_only or not settings.require_approval or phase not in settings.approve_phases:
            return None
        return await self._attention.ask("approval", f"Approve {phase}?", ("approve", "reject"))

    async def _execute(self, plan: Plan) -> None:
        self._enter("executing")
        for number in execution_order(plan):
            await workflow.wait_condition(lambda: not self._status.paused)
            step = plan.step(number)
            result = self._hindrance(plan, step) or await self._step(plan, step)
            self._results[number] = result
            self._status = with_step(self._status, number, state=str(result.status), items=result.items)
            self._happened(f"step {number} {result.status}: {result.items.done}/{result.items.total} items done")
            await self._write(report.step_artifacts(result, self._records, self._knowledge))

    async def _direct(self, workflow_id: str, direction: Direction) -> None:
        try:
            await workflow.get_external_workflow_handle(workflow_id).signal("direct", direction)
        except ApplicationError:
            self._attention.reject(f"{direction.kind}: {workflow_id} does not run any more")

    async def _set_paused(self, paused: bool) -> None:
        if self._status.paused == paused:
            self._attention.reject(f"{'pause' if paused else 'unpause'}: it is {'' if paused else 'not '}paused")
            return
        self._status = self._status.model_copy(update={"paused": paused})
        self._happened("paused: the agents hand off and wait" if paused else "goes on after the pause")
        for agent in self._status.agents_at_work:
            await self._direct(agent.workflow_id, Direction(kind="pause" if paused else "unpause"))

    def _hindrance(self, plan: Plan, step: PlanStep) -> StepResult | None:
        """Why a step cannot start, as its result; None when it can."""
        bad = {n for n, r in self._results.items() if r.status in {StepStatusWord.FAILED, StepStatusWord.BLOCKED}}
        if step.step in dependants(plan, bad):
            return not_attempted(step, "a step that it depends on failed")
        if self._agents_left() < 1:
            return not_attempted(step, f"no further agent is allowed (maxAgents is {self._task.settings.max_agents})")
        if (fault := exceeded(self._allowance(), Usage())) is not None:
            return not_attempted(step, fault)
        return None

    async def _step(self, plan: Plan, step: PlanStep) -> StepResult:
        task_id = self._status.task_id
        self._status = with_step(self._status, step.step, state="running")
        self._show()
        assignment = executor_assignment(
            task_id, self._input, self._task, plan, step, self._head, self._knowledge, self._finished_steps()
        ).model_copy(update={"successors_left": self._agents_left() - 1, "allowance": self._allowance()})
        start = self._head
        result = await self._agent(assignment, f"{task_id}/step-{step.step}")
        self._records[step.step] = result.items
        self._knowledge = result.knowledge
        merged = await self._merge(assignment.workspace, start, step.step, report.commit_subject(step))
        outcome = step_result(step, result, merged)
        if result.end is AgentEnd.CANCELLED:
            self._results[step.step] = outcome
            self._status = with_step(self._status, step.step, state="cancelled", items=outcome.items)
        self._stop_when_cancelled(result)
        return outcome

    async def _merge(self, workspace: str, start: str, step: int | None, subject: str) -> MergedStep:
        merged: MergedStep = await workflow.execute_activity_method(
            TaskWork.merge_step,
            MergeStep(
                task_id=self._status.task_id, workspace=workspace, step=step, subject=subject, start_commit=start
            ),
            task_queue=self._task.host_queue,
            summary=f"merge {workspace}",
            **policies.GIT,
        )
        self._head = merged.commit
        return merged

    async def _integrate(self, plan: Plan) -> None:
        if not plan.plan or self._head == self._task.base_commit:
            self._verdicts = ()
            return
        self._enter("integrating")
        answer = await self._approval("integration")
        if answer is not None and answer.choice == "reject":
            self._happened("integration was rejected; the result stays as it is")
            return
        await self._compare_gates("result")
        if not self._input.integration or self._agents_left(reserve=0) < 1 or exceeded(self._allowance(), Usage()):
            return
        start = self._head
        assignment = integrator_assignment(
            self._status.task_id,
            self._input,
            self._task,
            plan,
            start,
            self._knowledge,
            tuple(self._results.values()),
            self._verdicts,
        ).model_copy(update={"successors_left": self._agents_left(reserve=0) - 1, "allowance": self._allowance()})
        self._integration = await self._agent(assignment, f"{self._status.task_id}/integrate")
        self._knowledge = self._integration.knowledge
        self._stop_when_cancelled(self._integration)
        merged = await self._merge(assignment.workspace, start, None, "Integrate the steps")
        if merged.merged and merged.files_changed:
            await self._compare_gates("integrated")

    async def _compare_gates(self, workspace: str) -> None:
        now = await self._gates(self._head, workspace)
        self._verdicts = tuple(compare(self._baseline, now))
        for verdict in self._verdicts:
            self._happened(f"gate {verdict.name}: {verdict.status} {verdict.detail}".strip())

    async def _gates(self, commit: str, workspace: str) -> tuple[GateResult, ...]:
        gates = self._task.gates
        if not gates:
            return ()
        found: GateResults = await workflow.execute_activity_method(
            TaskWork.run_gates,
            RunGates(task_id=self._status.task_id, commit=commit, workspace=workspace, gates=gates),
            task_queue=self._task.host_queue,
            summary=f"gates on {workspace}",
            **policies.gates([gate.timeout for gate in gates]),
        )
        return found.results

    async def _finish(self, *, cancelled: bool) -> TaskResult:
        """Report and publish; the last thing of every task, also of a cancelled one."""
        self._enter("reporting")
        results = self._all_results(cancelled)
        state = task_state(results, self._verdicts, cancelled)
        if self._plan is None and not cancelled:
            state = TaskState.FAILED
        published = None
        if self._head != self._task.base_commit:
            published = await workflow.execute_activity_method(
                TaskWork.publish,
                Publish(task_id=self._status.task_id, commit=self._head),
                task_queue=self._task.host_queue,
                summary="publish the result",
                **policies.GIT,
            )
        self._status = self._status.model_copy(
            update={
                "state": state,
                "ref": published.ref if published else None,
                "closed_at": workflow.now(),
                "attention": (),
                "agents_at_work": (),
            }
        )
        facts = ReportFacts(
            status=self._status,
            results=results,
            verdicts=self._verdicts,
            baseline=self._baseline,
            integration=self._integration.submission.input
            if self._integration and self._integration.submission
            else {},
            knowledge=self._knowledge,
            head=self._head,
            private_repository=published.repository if published else "",
            plan_only=self._input.plan_only,
        )
        self._status = self._status.model_copy(update={"summary": report.summary_line(facts)})
        await self._write(report.report_artifacts(facts.model_copy(update={"status": self._status}), self._records))
        await workflow.execute_activity_method(
            TaskWork.close_task,
            Publish(task_id=self._status.task_id, commit=self._head),
            task_queue=self._task.host_queue,
            summary="put the workspaces away",
            **policies.GIT,
        )
        self._enter(str(state))
        await workflow.wait_condition(workflow.all_handlers_finished)
        return report.task_result(facts.model_copy(update={"status": self._status}))

    # --- parts ---------------------------------------------------------------------------------------------------

    async def _agent(self, assignment: Assignment, workflow_id: str) -> AgentResult:
        result = await workflow.execute_child_workflow(
            AgentWorkflow.run,
            assignment,
            id=workflow_id,
            id_reuse_policy=WorkflowIDReusePolicy.TERMINATE_IF_RUNNING,
            static_summary=f"{assignment.name}: {assignment.step.description if assignment.step else assignment.task}"[
                :200
            ],
        )
        self._settled += result.totals.usage
        if assignment.role != "planner":
            self._counted_agents += result.totals.agents
        self._status = self._status.model_copy(
            update={
                "usage": self._settled,
                "agents": self._status.agents + result.totals.agents,
                "agents_at_work": tuple(a for a in self._status.agents_at_work if a.workflow_id != workflow_id),
            }
        )
        self._show()
        return result

    async def _write(self, artifacts: tuple[Any, ...]) -> None:
        if artifacts:
            await workflow.execute_activity_method(
                TaskWork.write_artifacts,
                WriteArtifacts(task_id=self._status.task_id, artifacts=artifacts),
                task_queue=self._task.host_queue,
                summary="write " + ", ".join(artifact.name for artifact in artifacts[:3]),
                **policies.GIT,
            )

    def _stop_when_cancelled(self, result: AgentResult) -> None:
        """A cancelled child ends normally with what it did; the cancellation goes on here."""
        if result.end is AgentEnd.CANCELLED or workflow.cancellation_reason() is not None:
            raise asyncio.CancelledError

    def _all_results(self, cancelled: bool) -> tuple[StepResult, ...]:
        if self._plan is None or self._input.plan_only:
            return ()
        why = "the task was cancelled first" if cancelled else "it was not reached"
        return tuple(self._results.get(step.step) or not_attempted(step, why) for step in self._plan.plan)

    def _finished_steps(self) -> tuple[int, ...]:
        return tuple(number for number, result in self._results.items() if result.status is StepStatusWord.OK)

    def _agents_left(self, reserve: int = 1) -> int:
        """How many executors, resolvers and integrators may still start; one is kept for the integrator."""
        kept = reserve if self._input.integration else 0
        return self._task.settings.max_agents - self._counted_agents - kept

    def _allowance(self) -> TurnLimits:
        limits = self._task.settings.limits
        return remaining(
            TurnLimits(cost_usd=limits.cost_usd, output_tokens=limits.output_tokens, model_calls=limits.model_calls),
            self._settled,
        )

    @property
    def _task(self) -> OpenedTask:
        if self._opened is None:
            raise ApplicationError("the task was not opened", non_retryable=True)
        return self._opened

    def _enter(self, phase: str) -> None:
        self._status = self._status.model_copy(update={"phase": phase})
        self._make_searchable(PHASE_KEY.value_set(phase), REPOSITORY_KEY.value_set(self._status.repository))
        self._show()

    def _make_searchable(self, *updates: SearchAttributeUpdate[str]) -> None:
        """Set search attributes where the server has them; upserting an unknown one would wedge the workflow."""
        if self._opened is not None and self._opened.searchable:
            workflow.upsert_search_attributes(updates)

    def _happened(self, text: str) -> None:
        self._status = with_happening(self._status, workflow.now(), text)
        self._show()

    def _show(self) -> None:
        """Bring the views up to date: status, current details, search attribute of what is waited for."""
        items = self._attention.items
        if tuple(i.id for i in items) != tuple(i.id for i in self._status.attention):
            waiting = items[0].kind if items else ""
            self._make_searchable(ATTENTION_KEY.value_set(waiting))
        running = TaskState.WAITING if items else TaskState.RUNNING
        state = running if self._status.state in {TaskState.RUNNING, TaskState.WAITING} else self._status.state
        self._status = self._status.model_copy(
            update={"attention": items, "rejected_signals": tuple(self._attention.rejected), "state": state}
        )
        workflow.set_current_details(details_markdown(self._status, workflow.now()))

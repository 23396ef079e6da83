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
    from baton.given_secrets import given_secret_fault
    from baton.messages import (
        AgentEvent,
        OpenTask,
        TaskInput,
    )
    from baton.names import BAD_INPUT, ORCHESTRATION_WORKFLOW, task_id_fault, task_text_fault
    from baton.plan import Plan
    from baton.recovery import CHOICES, REPLAN, Recovery, question, recovery
    from baton.replan import remark
    from baton.sources import has_credentials
    from baton.status import TaskResult, TaskStatus
    from workflows import policies
    from workflows.attention import HeldBack
    from workflows.closing import close, discard
    from workflows.execution import Execution
    from workflows.failures import raise_if_cancelled, reason_of, type_of
    from workflows.integration import Integration
    from workflows.planning import Planning
    from workflows.renewal import renew, take_up
    from workflows.resuming import resume
    from workflows.surface import Surface
    from workflows.task_run import TaskRun
    from workflows.versions import RECOVERY


@workflow.defn(name=ORCHESTRATION_WORKFLOW, failure_exception_types=[ValidationError])
class OrchestrationWorkflow:
    """One task."""

    @workflow.init
    def __init__(self, task: TaskInput) -> None:
        self._run = TaskRun(task)
        self._begun = False
        self._planning = Planning(self._run)
        self._integration = Integration(self._run)
        self._surface = Surface(self._run, self._planning)

    # --- outside -------------------------------------------------------------------------------------------------

    @workflow.query
    def status(self) -> TaskStatus:
        """The whole status."""
        return self._run.status

    @workflow.query
    def plan(self, request: dict[str, Any] | None = None) -> dict[str, Any]:
        """The plan with item counts; with `{"step": 2, "offset": 0, "limit": 200}` the items of one step."""
        shown = rows.plan_rows(self._planning.plan, request or {})
        estimate = self._run.estimate() if "step" not in shown else None
        return shown | ({"estimate": estimate.model_dump(mode="json")} if estimate else {})

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
        self._surface.at_once("approve", request)

    @workflow.signal
    def reject(self, request: Any = None) -> None:
        """Reject a phase, with a remark."""
        self._surface.at_once("reject", request)

    @workflow.signal
    async def answer(self, request: Any = None) -> None:
        """Answer an attention item: `{"attention_id": "…", "choice": "…", "comment": "…"}`."""
        await self._surface.signal("answer", request)

    @workflow.signal
    async def pause(self, request: Any = None) -> None:
        """Have all agents hand off and wait."""
        await self._surface.signal("pause", request)

    @workflow.signal
    async def unpause(self, request: Any = None) -> None:
        """Go on after a pause."""
        await self._surface.signal("unpause", request)

    @workflow.signal
    async def guide(self, request: Any = None) -> None:
        """A remark for all agents, or for those of one step: `{"text": "…", "step": 2}`."""
        await self._surface.signal("guide", request)

    @workflow.signal
    async def set_limits(self, request: Any = None) -> None:
        """Raise or lower limits: `{"max_cost_usd": 40}`."""
        await self._surface.signal("set_limits", request)

    @workflow.signal
    async def revise_plan(self, request: Any = None) -> None:
        """Another plan in the place of the one that waits for approval; with `"approve": true` it is approved."""
        await self._surface.revise_by_signal(request)

    @workflow.update
    async def replace_plan(self, request: Any = None) -> str:
        """As the signal `revise_plan`; the faults of the plan come back."""
        return await self._surface.revise(request)

    @replace_plan.validator
    def _check_replace_plan(self, request: Any = None) -> None:
        self._surface.check_plan(request)

    @workflow.update
    async def approve_phase(self, request: Any = None) -> str:
        """As the signal `approve`; what makes no sense is refused at once."""
        return await self._surface.update("approve", request)

    @approve_phase.validator
    def _check_approve_phase(self, request: Any = None) -> None:
        self._surface.check("approve", request)

    @workflow.update
    async def reject_phase(self, request: Any = None) -> str:
        """As the signal `reject`; what makes no sense is refused at once."""
        return await self._surface.update("reject", request)

    @reject_phase.validator
    def _check_reject_phase(self, request: Any = None) -> None:
        self._surface.check("reject", request)

    @workflow.update
    async def answer_attention(self, request: Any = None) -> str:
        """As the signal `answer`; what makes no sense is refused at once."""
        return await self._surface.update("answer", request)

    @answer_attention.validator
    def _check_answer_attention(self, request: Any = None) -> None:
        self._surface.check("answer", request)

    @workflow.update
    async def pause_task(self, request: Any = None) -> str:
        """As the signal `pause`; what makes no sense is refused at once."""
        return await self._surface.update("pause", request)

    @pause_task.validator
    def _check_pause_task(self, request: Any = None) -> None:
        self._surface.check("pause", request)

    @workflow.update
    async def unpause_task(self, request: Any = None) -> str:
        """As the signal `unpause`; what makes no sense is refused at once."""
        return await self._surface.update("unpause", request)

    @unpause_task.validator
    def _check_unpause_task(self, request: Any = None) -> None:
        self._surface.check("unpause", request)

    @workflow.update
    async def give_guidance(self, request: Any = None) -> str:
        """As the signal `guide`; what makes no sense is refused at once."""
        return await self._surface.update("guide", request)

    @give_guidance.validator
    def _check_give_guidance(self, request: Any = None) -> None:
        self._surface.check("guide", request)

    @workflow.update
    async def change_limits(self, request: Any = None) -> str:
        """As the signal `set_limits`; what makes no sense is refused at once."""
        return await self._surface.update("set_limits", request)

    @change_limits.validator
    def _check_change_limits(self, request: Any = None) -> None:
        self._surface.check("set_limits", request)

    @workflow.signal
    async def agent_event(self, event: AgentEvent) -> None:
        """An agent tells how it stands."""
        await self._run.chains.take_event(event)

    # --- the flow ------------------------------------------------------------------------------------------------

    @workflow.run
    async def run(self, task: TaskInput) -> TaskResult:
        """Do the task."""
        _refuse_bad_input(task)
        try:
            await self._begin(task)
            self._begun = True
            self._run.time_limit.start()
            try:
                await self._work()
            except HeldBack:
                await self._integration.settle_baseline()
                await renew(self._run, task)
            return await self._close()
        except (asyncio.CancelledError, FailureError) as error:
            self._integration.give_up()
            if not self._begun:
                raise
            if is_cancelled_exception(error):
                await asyncio.shield(self._close(cancelled=True))
                raise
            if type_of(error) == BAD_INPUT and not task.resume and task.carried is None:
                await discard(self._run)
                raise
            return await self._close(failure=reason_of(error))
        finally:
            self._run.time_limit.stop()

    async def _begin(self, task: TaskInput) -> None:
        if task.carried is not None:
            await take_up(self._run, task.carried)
            return
        await self._open()
        if task.resume:
            await resume(self._run)

    async def _work(self) -> None:
        """Everything between the beginning and the report, from where the task stands. Raises `HeldBack`."""
        run = self._run
        if not run.approved:
            run.enter("planning")
        plan_only = run.input.plan_only
        if not plan_only and run.baseline is None:
            self._integration.start_baseline()
        plan = run.plan if run.approved else await self._planning.approved_plan(run.remarks)
        raise_if_cancelled()
        if plan is not None and not plan_only:
            plan = await self._execute(plan)
            raise_if_cancelled()
            await self._integration.run(plan)
            raise_if_cancelled()

    async def _execute(self, plan: Plan) -> Plan:
        """Execute the plan, and new plans for what is left as long as a person asks for one; returns the last."""
        run = self._run
        while not run.keeps_progress or any(step.step not in run.results for step in plan.plan):
            run.enter("executing")
            await run.write_aside()
            await Execution(run, plan).run()
            await self._recover()
            if not run.replan_wanted or not run.may_replan:
                break
            run.round += 1
            run.enter("planning")
            again = await self._planning.approved_plan([remark(plan, run.results, run.records)])
            if again is None:
                break
            plan = again
        return plan

    async def _recover(self) -> None:
        """Want a new plan where steps fell short in a way that it may mend; a person decides when two did not help."""
        run = self._run
        if run.replan_wanted or not run.keeps_progress:
            return
        results = tuple(run.results.values())
        word = recovery(
            results,
            plans=run.round,
            own_plan=run.input.plan is not None,
            at_a_limit=run.limits.reason() is not None or run.limits.over is not None,
            attended=run.opened.settings.on_limit == "ask",
        )
        if word is Recovery.NONE or not workflow.patched(RECOVERY):
            return
        # What is answered now is not asked again after the next plan.
        run.results = {n: result.model_copy(update={"persistent": False}) for n, result in run.results.items()}
        if word is Recovery.ATTENTION:
            answer = await run.attention.ask("failure", question(results), CHOICES, stays=True)
            run.replan_wanted = answer.choice == REPLAN
            return
        run.replan_wanted = True
        run.happened("what is left is planned anew: " + question(results).partition(". ")[2][:200])

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
    if fault is None and not task.resume:
        fault = task_text_fault(task.task)
    if fault is None:
        fault = given_secret_fault(task)
    if fault is None and not task.resume and not task.repository.strip():
        fault = "no repository is given: name a path on the workers' host or a git URL"
    if fault is None and has_credentials(task.repository):
        fault = "the repository's URL holds credentials, which would be stored: use a credential helper or an SSH key"
    if fault is not None:
        raise ApplicationError(fault, type=BAD_INPUT, non_retryable=True)

"""The planning of a task: a valid plan that nobody objects to, put after what is over of an earlier one."""

import asyncio

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from activities.routing import Routing
    from activities.short_calls import ANSWER_TOKENS
    from activities.tasks import TaskWork
    from baton.agent_types import with_general_types_noted
    from baton.assignments import planner_assignment
    from baton.bounds import PLANS
    from baton.findings import baseline_notes
    from baton.ledger import ItemRecord
    from baton.messages import OpenTask, SettlePlan, StepResult, TaskRef
    from baton.plan import Plan, PlanDraft
    from baton.progress import Answer
    from baton.replan import replanned
    from baton.roles import Role
    from baton.routing import Route, Routed, choices, chosen, unattended
    from baton.states import AgentEnd
    from baton.status import approval_of
    from baton.status_changes import planned
    from baton.wording import counted
    from workflows import policies
    from workflows.execution import was_cancelled
    from workflows.task_run import TaskRun
    from workflows.versions import LIMITS_FIRST, ROUTER

_SAYS = {"facts": "facts show", "model": "a small model says", "person": "a person chose", "default": "nobody was sure"}
REPLACED = "replaced"
"""The answer to an approval where a person put another plan in its place."""

NO_PLAN_WAITS = "revise_plan: no plan waits for approval now"


class Planning:
    """The plan of one task; `plan` is the one that runs, None before there is one."""

    def __init__(self, run: TaskRun) -> None:
        self._run = run
        self._replacement: tuple[Plan, bool] | None = None

    @property
    def plan(self) -> Plan | None:
        """The plan that runs."""
        return self._run.plan

    async def approved_plan(self, remarks: list[str]) -> Plan | None:
        """A plan that nobody objects to, put after what is over of an earlier one; None when a person stopped it."""
        run = self._run
        before = (None if run.proposed else self.plan, dict(run.results), dict(run.records))
        run.approved, run.remarks = False, remarks
        for _ in range(PLANS):
            plan = run.plan if run.proposed else await self._one_plan(remarks)
            if plan is None:
                return None
            if not run.proposed:
                plan = await self._settle(plan, *before)
            plan, answer = await self._decided(plan, *before)
            if answer is None or answer.choice == "approve":
                run.approved, run.replan_wanted = True, False
                return plan
            remarks.append(answer.comment or "The plan was rejected without a remark; propose a different one.")
        self._run.update(summary=f"no plan was approved in {PLANS} attempts")
        return None

    def waits(self) -> bool:
        """Whether a plan waits for its approval."""
        return approval_of(self._run.attention.items, "planning") is not None

    async def replace(self, draft: PlanDraft, *, approve: bool) -> None:
        """Put a person's plan in the place of the one that waits. ActivityError where it has faults, ValueError where
        none waits; the plan that waits stays then."""
        run = self._run
        plan = await self._expanded(draft)
        item = approval_of(run.attention.items, "planning")
        if item is None:
            raise ValueError(NO_PLAN_WAITS)
        self._replacement = (plan, approve)
        run.attention.end(item.id, REPLACED)

    async def _decided(
        self,
        plan: Plan,
        before: Plan | None,
        results: dict[int, StepResult],
        records: dict[int, tuple[ItemRecord, ...]],
    ) -> tuple[Plan, Answer | None]:
        """The plan and what a person says of it; another plan where a person put one in its place."""
        run = self._run
        while True:
            # With results, what the plan before left is needed again if this one is rejected: then this run goes on.
            run.proposed = not run.results
            answer = await run.approval("planning", stays=bool(run.results))
            run.proposed = False
            if answer is None or answer.choice != REPLACED or self._replacement is None:
                return plan, answer
            (replacement, approved), self._replacement = self._replacement, None
            plan = await self._settle(replacement, before, results, records)
            run.happened("the plan was replaced by a person" + (" and approved" if approved else ""))
            if approved:
                return plan, None

    async def _expanded(self, draft: PlanDraft | None) -> Plan:
        """A person's plan, checked against the repository."""
        run = self._run
        return await workflow.execute_activity_method(
            TaskWork.expand_plan,
            OpenTask(task_id=run.task_id, input=run.input.model_copy(update={"plan": draft})),
            summary="check the plan",
            task_queue=run.opened.host_queue,
            **policies.GIT,
        )

    async def _routed(self, remarks: list[str]) -> Route | None:
        """How the task is to be done, where that is open; a person chooses where nobody is sure."""
        run = self._run
        is_open = run.input.mode == "auto" and run.input.plan is None and not remarks and not run.results
        if not is_open or not workflow.patched(ROUTER):
            return None
        routed: Routed = await workflow.execute_activity_method(
            Routing.route,
            TaskRef(task_id=run.task_id),
            summary="choose the way",
            task_queue=run.opened.host_queue,
            **policies.turn(ANSWER_TOKENS),
        )
        run.books.settle(f"{run.task_id}/route", routed.usage)
        run.update(usage=run.books.settled)
        route = routed.route
        if route is None:
            return None
        if not route.is_sure and run.opened.settings.on_limit != "ask":
            route = unattended(route)
        elif not route.is_sure:
            asked = route.question or f"How is the task to be done? {route.reason}"
            answer = await run.attention.ask("question", asked, choices(route), stays=True, phase="planning")
            route, told = chosen(route, answer.choice)
            remarks += [text for text in (told, answer.comment) if text]
        run.happened(f"{route.mode}, as {_SAYS[route.by]}: {route.reason}"[:300])
        return route

    async def _one_plan(self, remarks: list[str]) -> Plan | None:
        """A valid plan: the user's own, or the planner's. A planner that fails is a question to a person."""
        run = self._run
        if run.input.plan is not None and not remarks:
            return await self._expanded(run.input.plan)
        if run.limits.reason(Role.PLANNER) is not None and workflow.patched(LIMITS_FIRST):
            run.hold_back_if_due()
            # The router would pay for a plan that nobody may make.
            if (limit := await run.limits.hindrance(Role.PLANNER)) is not None:
                run.update(summary=f"no plan was made: {limit}")
                return None
        route = await self._routed(remarks)
        while True:
            run.hold_back_if_due()
            if (limit := await run.limits.hindrance(Role.PLANNER)) is not None:
                run.update(summary=f"no plan was made: {limit}")
                return None
            assignment = planner_assignment(run.task_id, run.input, run.opened, run.head, tuple(remarks), route)
            result = await run.chains.run(assignment, f"{run.task_id}/plan")
            if was_cancelled(result):
                raise asyncio.CancelledError
            if result.plan is not None:
                return result.plan
            if result.end is AgentEnd.STOPPED:
                run.update(summary=f"no plan was made: {result.detail}")
                return None
            answer = await run.attention.ask(
                "plan",
                f"The planner made no valid plan: {result.detail or 'it ended without one'}.",
                ("retry", "stop"),
                stays=True,
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
        plan = with_general_types_noted(plan, run.opened.agent_types)
        run.plan = plan
        await workflow.execute_activity_method(
            TaskWork.settle_plan,
            SettlePlan(task_id=run.task_id, plan=plan),
            task_queue=run.opened.host_queue,
            summary="settle the plan",
            **policies.GIT,
        )
        over = {step.step: step for step in run.status.steps if step.step in run.results}
        steps = tuple(over.get(step.step, step) for step in planned(plan.plan))
        run.update(steps=steps, warnings=(*run.opened.warnings, *plan.notes, *baseline_notes(run.baseline or ())))
        items = sum(len(step.items) for step in plan.plan)
        run.happened(f"plan with {counted(len(plan.plan), 'step')} and {counted(items, 'item')}")
        return plan

"""The assignments of a task's agents: what each role gets to know and may use."""

from collections.abc import Sequence

from baton.findings import GateVerdict
from baton.knowledge import Knowledge
from baton.messages import Assignment, OpenedTask, StepResult, TaskInput
from baton.plan import Plan, PlanStep
from baton.roles import Role
from baton.schedule import Unit

PLANNER_SUCCESSORS = 3
"""Planners do not count against maxAgents; their chain has its own bound."""


def planner_assignment(
    task_id: str, task: TaskInput, opened: OpenedTask, head: str, remarks: tuple[str, ...]
) -> Assignment:
    """The planner's: survey and settings, and what a person said of earlier plans. It sees the result so far."""
    settings = opened.settings
    return Assignment(
        task_id=task_id,
        task=task.task,
        role=Role.PLANNER,
        name="planner",
        model=settings.models.of(Role.PLANNER),
        budget=settings.budget,
        context_tokens=opened.context_tokens.get(Role.PLANNER),
        most_output_tokens=opened.most_output_tokens.get(Role.PLANNER),
        successors_left=PLANNER_SUCCESSORS,
        host_queue=opened.host_queue,
        workspace=f"plan-{head[:12]}",
        start_commit=head,
        guidance=remarks,
        survey=opened.survey,
        shown_settings={
            "mode": task.mode,
            "max_agents": settings.max_agents,
            "parallel": settings.parallel_execution,
            "output_budget": settings.output_budget,
            "gates": [gate.command for gate in opened.gates],
        },
    )


def executor_assignment(
    task_id: str,
    task: TaskInput,
    opened: OpenedTask,
    plan: Plan,
    step: PlanStep,
    unit: Unit,
    head: str,
    knowledge: Knowledge,
    completed_steps: tuple[int, ...],
) -> Assignment:
    """The first executor's of a step or shard; its workspace starts at `head`, the result when the step began."""
    settings = opened.settings
    return Assignment(
        task_id=task_id,
        task=task.task,
        role=Role.EXECUTOR,
        name=f"executor-{unit.label}-{step.agent_type}",
        model=settings.models.of(Role.EXECUTOR),
        budget=settings.budget,
        context_tokens=opened.context_tokens.get(Role.EXECUTOR),
        most_output_tokens=opened.most_output_tokens.get(Role.EXECUTOR),
        host_queue=opened.host_queue,
        workspace=f"step-{unit.label}",
        start_commit=head,
        step=step.model_copy(update={"items": unit.items}),
        items=unit.items,
        plan=tuple(other.model_copy(update={"items": ()}) for other in plan.plan),
        completed_steps=completed_steps,
        knowledge=knowledge,
    )


def integrator_assignment(
    task_id: str,
    task: TaskInput,
    opened: OpenedTask,
    plan: Plan,
    head: str,
    knowledge: Knowledge,
    results: Sequence[StepResult],
    verdicts: Sequence[GateVerdict],
) -> Assignment:
    """The integrator's: what every step came to and what the gates say."""
    settings = opened.settings
    return Assignment(
        task_id=task_id,
        task=task.task,
        role=Role.INTEGRATOR,
        name=settings.default_integrator,
        model=settings.models.of(Role.INTEGRATOR),
        budget=settings.budget,
        context_tokens=opened.context_tokens.get(Role.INTEGRATOR),
        most_output_tokens=opened.most_output_tokens.get(Role.INTEGRATOR),
        host_queue=opened.host_queue,
        workspace="integrate",
        start_commit=head,
        plan=tuple(step.model_copy(update={"items": ()}) for step in plan.plan),
        completed_steps=tuple(result.step for result in results),
        knowledge=knowledge,
        results=tuple(results),
        gates=tuple(verdicts),
    )

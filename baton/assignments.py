"""The assignments of a task's agents: what each role gets to know and may use."""

from collections.abc import Mapping, Sequence
from typing import Any

from baton.agent_types import shown_types, type_named
from baton.findings import GateVerdict
from baton.knowledge import Knowledge
from baton.merging import Conflict
from baton.messages import Assignment, OpenedTask, StepResult, TaskInput
from baton.plan import Plan, PlanStep
from baton.reviews import Subject
from baton.roles import Role
from baton.routing import Route, planner_settings
from baton.schedule import Unit

REVIEWER_SUCCESSORS = 1
REVIEWER_TURNS = 40
"""Reviewers do not count against maxAgents either, and are to be short."""

PLANNER_SUCCESSORS = 3
"""Planners do not count against maxAgents; their chain has its own bound."""


def planner_assignment(
    task_id: str,
    task: TaskInput,
    opened: OpenedTask,
    head: str,
    remarks: tuple[str, ...],
    route: Route | None = None,
) -> Assignment:
    """The planner's: survey and settings, and what a person said of earlier plans. It sees the result so far."""
    settings = opened.settings
    return _assignment(
        Role.PLANNER,
        task_id,
        task,
        opened,
        name="planner",
        successors_left=PLANNER_SUCCESSORS,
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
        }
        | (planner_settings(route) if route is not None else {})
        | ({"agent_types": shown_types(opened.agent_types)} if opened.agent_types else {}),
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
    return _assignment(
        Role.EXECUTOR,
        task_id,
        task,
        opened,
        name=f"executor-{unit.label}-{step.agent_type}",
        workspace=f"step-{unit.label}",
        start_commit=head,
        step=step.model_copy(update={"items": unit.items}),
        items=unit.items,
        plan=tuple(other.model_copy(update={"items": ()}) for other in plan.plan),
        completed_steps=completed_steps,
        knowledge=knowledge,
        **_of_type(opened, step.agent_type),
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
    comparison: Mapping[str, Any] | None = None,
) -> Assignment:
    """The integrator's: what every step came to, what the gates say, and where agents chose alike or differently."""
    return _assignment(
        Role.INTEGRATOR,
        task_id,
        task,
        opened,
        name=opened.settings.default_integrator,
        workspace="integrate",
        start_commit=head,
        plan=tuple(step.model_copy(update={"items": ()}) for step in plan.plan),
        completed_steps=tuple(result.step for result in results),
        knowledge=knowledge,
        results=tuple(results),
        gates=tuple(verdicts),
        comparison=dict(comparison) if comparison is not None else None,
        **_of_type(opened, opened.settings.default_integrator),
    )


def reviewer_assignment(
    task_id: str,
    task: TaskInput,
    opened: OpenedTask,
    step: PlanStep,
    commit: str,
    subject: Subject,
    name: str,
    workspace: str,
) -> Assignment:
    """A reviewer's: the work as it stands at `commit`, in a throwaway workspace of its own."""
    return _assignment(
        Role.REVIEWER,
        task_id,
        task,
        opened,
        name=name,
        successors_left=REVIEWER_SUCCESSORS,
        max_turns=REVIEWER_TURNS,
        workspace=workspace,
        start_commit=commit,
        step=step.model_copy(update={"items": ()}),
        subject=subject,
    )


def resolver_assignment(
    task_id: str,
    task: TaskInput,
    opened: OpenedTask,
    plan: Plan,
    conflict: Conflict,
    workspace: str,
    commit: str,
    knowledge: Knowledge,
    guidance: tuple[str, ...],
) -> Assignment:
    """The resolver's of one conflict; `commit` lays it out in `workspace`, whose name is also the agent's."""
    return _assignment(
        Role.RESOLVER,
        task_id,
        task,
        opened,
        name=workspace.replace("resolve", "resolver"),
        workspace=workspace,
        start_commit=commit,
        plan=tuple(step.model_copy(update={"items": ()}) for step in plan.plan),
        knowledge=knowledge,
        guidance=guidance,
        conflict=conflict,
    )


def _assignment(role: Role, task_id: str, task: TaskInput, opened: OpenedTask, **own: Any) -> Assignment:
    """What every role's assignment says alike: the task, the model with its bounds, the host."""
    settings = opened.settings
    common = {
        "task_id": task_id,
        "task": task.task,
        "role": role,
        "model": settings.models.of(role),
        "budget": settings.budget,
        "context_tokens": opened.context_tokens.get(role),
        "most_output_tokens": opened.most_output_tokens.get(role),
        "host_queue": opened.host_queue,
    }
    return Assignment(**common | own)


def _of_type(opened: OpenedTask, name: str) -> dict[str, Any]:
    """What the agent type of this name asks for; nothing for a general agent."""
    row = type_named(opened.agent_types, name)
    if row is None:
        return {}
    asked: dict[str, Any] = {"agent_type": row.name, "effort": row.effort}
    if row.model is not None:
        asked |= {
            "model": row.model,
            "context_tokens": row.context_tokens,
            "most_output_tokens": row.most_output_tokens,
        }
    return asked | ({"max_turns": row.max_turns} if row.max_turns else {})

"""What changes a status: a plan, an agent's event, a happening. Each gives a new status; none grows without bound."""

from collections.abc import Sequence
from datetime import datetime

from baton.ledger import ItemCounts
from baton.messages import AgentEvent, StepResult
from baton.plan import PlanStep
from baton.pricing import Usage
from baton.roles import Role
from baton.states import StepStatusWord, TaskState
from baton.status import AgentStatus, Happening, StepStatus, TaskStatus

HAPPENINGS_KEPT = 40
DESCRIPTION_CHARACTERS = 160
"""The status stays small with the largest plan; the plan itself has the whole text."""


def planned(steps: tuple[PlanStep, ...]) -> tuple[StepStatus, ...]:
    """Steps before any of them started."""
    return tuple(
        StepStatus(
            step=step.step,
            agent_type=step.agent_type,
            description=step.description[:DESCRIPTION_CHARACTERS],
            depends_on=step.depends_on,
            items=ItemCounts(total=len(step.items), open=len(step.items)),
        )
        for step in steps
    )


def with_step(status: TaskStatus, number: int, **changes: object) -> TaskStatus:
    """The status with one step changed."""
    steps = tuple(step.model_copy(update=changes) if step.step == number else step for step in status.steps)
    return status.model_copy(update={"steps": steps})


def with_result(status: TaskStatus, result: StepResult, *, cancelled: bool) -> tuple[TaskStatus, str]:
    """The status after a step came to its result, and a line on it. One that a cancel of the task stopped has not
    failed, unless its work was done and does not merge."""
    stopped = cancelled and result.status is StepStatusWord.FAILED and not result.unmerged
    state = str(TaskState.CANCELLED if stopped else result.status)
    done = f": {result.items.done}/{result.items.total} items done" if result.items.total else ""
    changed = with_step(status, result.step, state=state, items=result.items)
    return changed, f"step {result.step} {state.replace('_', ' ')}{done}"


def with_happening(status: TaskStatus, at: datetime, text: str) -> TaskStatus:
    """The status with one more line of what happened; the oldest lines go."""
    lines = (*status.happenings, Happening(at=at, text=text))[-HAPPENINGS_KEPT:]
    return status.model_copy(update={"happenings": lines})


def with_event(status: TaskStatus, event: AgentEvent, running: Sequence[AgentEvent], at: datetime) -> TaskStatus:
    """The status after an agent's event. `running`: the newest event of every chain that runs, this one included."""
    others = tuple(agent for agent in status.agents_at_work if agent.workflow_id != event.workflow_id)
    at_work = AgentStatus(**event.model_dump(include=set(AgentStatus.model_fields)))
    changed = status.model_copy(update={"agents_at_work": others if event.kind == "ended" else (*others, at_work)})
    if event.step is not None and event.role is Role.EXECUTOR:
        changed = _with_chains(changed, event.step, [one for one in running if one.step == event.step])
    if event.handoff is not None:
        row = event.handoff
        changed = changed.model_copy(update={"handoffs": changed.handoffs + 1})
        changed = with_happening(changed, at, f"{row.agent_id} handed off to {row.successor_id} ({row.reason})")
    return changed


def _with_chains(status: TaskStatus, number: int, chains: Sequence[AgentEvent]) -> TaskStatus:
    """A step's figures from all its chains: each knows only its own shard."""
    step = next((step for step in status.steps if step.step == number), None)
    if step is None:
        return status
    done = sum((chain.items for chain in chains), ItemCounts())
    left = step.items.total - done.changed - done.unchanged - done.skipped - done.failed
    return with_step(
        status,
        number,
        items=done.model_copy(update={"total": step.items.total, "open": max(0, left)}),
        agents=sum(chain.agents for chain in chains),
        handoffs=sum(chain.agents - 1 for chain in chains),
        usage=sum((chain.usage for chain in chains), Usage()),
    )

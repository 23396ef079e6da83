"""How a task stands: the model behind every view, and its short form for Temporal's Web UI."""

from datetime import datetime

from baton.durations import format_duration
from baton.ledger import ItemCounts
from baton.messages import AgentEvent, StepStatusWord, TaskState
from baton.models import Stored
from baton.plan import PlanStep
from baton.pricing import Usage
from baton.roles import Role


class AgentStatus(Stored):
    """One agent at work, as far as its last event told."""

    agent_id: str
    role: Role
    workflow_id: str = ""
    step: int | None = None
    turn: int = 0
    used_tokens: int = 0
    budget_tokens: int = 0
    items: ItemCounts = ItemCounts()
    usage: Usage = Usage()
    doing: str = ""


class StepStatus(Stored):
    """One step of the plan."""

    step: int
    agent_type: str
    description: str
    depends_on: tuple[int, ...] = ()
    state: str = "pending"
    items: ItemCounts = ItemCounts()
    agents: int = 0
    handoffs: int = 0
    usage: Usage = Usage()


class AttentionItem(Stored):
    """Something only a person can answer."""

    id: str
    kind: str
    question: str
    choices: tuple[str, ...]
    since: datetime
    workflow_id: str = ""
    step: int | None = None


class Happening(Stored):
    """Something worth a line: a handoff, a merge, a gate."""

    at: datetime
    text: str


class TaskStatus(Stored):
    """The whole status of a task; small whatever its size."""

    task_id: str = ""
    task: str = ""
    repository: str = ""
    state: TaskState = TaskState.RUNNING
    phase: str = "starting"
    started_at: datetime | None = None
    closed_at: datetime | None = None
    base_name: str = ""
    base_commit: str = ""
    artifacts: str = ""
    steps: tuple[StepStatus, ...] = ()
    agents_at_work: tuple[AgentStatus, ...] = ()
    usage: Usage = Usage()
    agents: int = 0
    handoffs: int = 0
    attention: tuple[AttentionItem, ...] = ()
    happenings: tuple[Happening, ...] = ()
    warnings: tuple[str, ...] = ()
    rejected_signals: tuple[str, ...] = ()
    paused: bool = False
    ref: str | None = None
    summary: str = ""

    @property
    def items(self) -> ItemCounts:
        """Items of all steps."""
        return sum((step.items for step in self.steps), ItemCounts())


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


def with_happening(status: TaskStatus, at: datetime, text: str) -> TaskStatus:
    """The status with one more line of what happened; the oldest lines go."""
    lines = (*status.happenings, Happening(at=at, text=text))[-HAPPENINGS_KEPT:]
    return status.model_copy(update={"happenings": lines})


def with_event(status: TaskStatus, event: AgentEvent, at: datetime) -> TaskStatus:
    """The status after an agent's event."""
    others = tuple(agent for agent in status.agents_at_work if agent.workflow_id != event.workflow_id)
    at_work = AgentStatus(**event.model_dump(include=set(AgentStatus.model_fields)))
    changed = status.model_copy(update={"agents_at_work": others if event.kind == "ended" else (*others, at_work)})
    if event.step is not None and event.role is Role.EXECUTOR:
        changed = with_step(
            changed, event.step, items=event.items, agents=event.agents, usage=event.usage, handoffs=event.agents - 1
        )
    if event.handoff is not None:
        row = event.handoff
        changed = changed.model_copy(update={"handoffs": changed.handoffs + 1})
        changed = with_happening(changed, at, f"{row.agent_id} handed off to {row.successor_id} ({row.reason})")
    return changed


def step_mark(state: str) -> str:
    """A sign for a step's state."""
    marks = {"running": "▶", StepStatusWord.OK: "✓", StepStatusWord.PARTIAL: "◐", "pending": "·"}
    return marks.get(state, "✗")


def details_markdown(status: TaskStatus, now: datetime) -> str:
    """Current details for the Web UI."""
    lines = [f"**{status.task}**", "", f"Phase: **{status.phase}** · state: **{status.state}**"]
    if status.started_at is not None:
        lines[-1] += f" · {format_duration(now - status.started_at)}"
    for item in status.attention:
        lines += ["", f"> **Waiting for a person** ({item.id}): {item.question} Choices: {', '.join(item.choices)}"]
    if status.steps:
        lines += ["", "| step | agent | state | items | agents |", "|---|---|---|---|---|"]
        lines += [
            f"| {step.step} | {step.agent_type} | {step_mark(step.state)} {step.state} "
            f"| {step.items.done}/{step.items.total} | {step.agents} |"
            for step in status.steps
        ]
    usage = status.usage
    tokens = f"{usage.output_tokens} output tokens, {usage.total_input_tokens} input tokens"
    calls = f"{status.agents} agents, {status.handoffs} handoffs, {usage.model_calls} model calls"
    lines += ["", f"{calls}, {tokens}, {usage.cost_usd:.2f} USD"]
    lines += [f"- {happening.at:%H:%M:%S} {happening.text}" for happening in status.happenings[-8:]]
    return "\n".join(lines)

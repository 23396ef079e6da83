"""How a task stands and what it came to: the models behind every view, and the short form for Temporal's Web UI.

Whoever only looks loads no other payload: see `baton/messages.py` for those.
"""

from collections.abc import Iterable
from datetime import datetime

from pydantic import Field

from baton.durations import format_duration
from baton.ledger import ItemCounts
from baton.models import Stored
from baton.pricing import Usage
from baton.roles import Role
from baton.states import StepStatusWord, TaskState
from baton.wording import counted

TITLE_CHARACTERS = 200
OWN_WORDS = "other"
"""The choice of a question that is answered in a person's own words, in the comment."""


class AgentStatus(Stored):
    """One agent at work, as far as its last event told. `paused_until`: no model call leaves before, as the provider
    wants it."""

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
    paused_until: datetime | None = None


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
    phase: str | None = None


PAUSE = "pause"
"""The kind of a wait that a person asked for, where all others are questions."""


class Wait(Stored):
    """A time in which something waited for a person."""

    kind: str
    step: int | None = None
    phase: str | None = None
    since: datetime
    until: datetime


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
    waits: tuple[Wait, ...] = ()
    happenings: tuple[Happening, ...] = ()
    warnings: tuple[str, ...] = ()
    rejected_signals: tuple[str, ...] = ()
    paused: bool = False
    paused_since: datetime | None = None
    ref: str | None = None
    summary: str = ""

    @property
    def items(self) -> ItemCounts:
        """Items of all steps."""
        return sum((step.items for step in self.steps), ItemCounts())

    @property
    def paused_until(self) -> datetime | None:
        """When the provider's pause ends, while one holds the agents."""
        return max((agent.paused_until for agent in self.agents_at_work if agent.paused_until), default=None)


class TaskResult(Stored):
    """Result of `OrchestrationWorkflow`, small enough for every tool. `gates`: the word of each on the result."""

    task_id: str
    state: TaskState
    summary: str = ""
    ref: str | None = None
    base_commit: str = ""
    commit: str = ""
    artifacts: str = ""
    items: ItemCounts = ItemCounts()
    agents: int = 0
    handoffs: int = 0
    usage: Usage = Usage()
    ready: bool = True
    gates: dict[str, str] = Field(default_factory=dict)


def approval_of(items: Iterable[AttentionItem], phase: str) -> AttentionItem | None:
    """The approval of this phase that is waited for; None where none is."""
    return next((item for item in items if item.kind == "approval" and item.phase == phase), None)


def title_of(task: str) -> str:
    """The first line of a task, printable and short: how it is called wherever it is shown."""
    line = "".join(letter if letter.isprintable() else " " for letter in task.strip().partition("\n")[0]).strip()
    return line if len(line) <= TITLE_CHARACTERS else f"{line[: TITLE_CHARACTERS - 1]}…"


def step_mark(state: str) -> str:
    """A sign for a step's state."""
    marks = {"running": "▶", StepStatusWord.OK: "✓", StepStatusWord.PARTIAL: "◐", "pending": "·"}
    return marks.get(state, "✗")


def provider_pause(until: datetime) -> str:
    """The provider's pause in a line."""
    return f"paused by the provider until {until:%Y-%m-%d %H:%M} UTC; it goes on by itself then"


def details_markdown(status: TaskStatus, now: datetime) -> str:
    """Current details for the Web UI."""
    lines = [f"**{status.task}**", "", f"Phase: **{status.phase}** · state: **{status.state}**"]
    if status.started_at is not None:
        lines[-1] += f" · {format_duration(now - status.started_at)}"
    for item in status.attention:
        lines += ["", f"> **Waiting for a person** ({item.id}): {item.question} Choices: {', '.join(item.choices)}"]
    if status.paused_until is not None:
        lines += ["", f"> {provider_pause(status.paused_until)}"]
    if status.steps:
        lines += ["", *(_step_line(step) for step in status.steps)]
    usage = status.usage
    tokens = f"{usage.output_tokens} output tokens, {usage.total_input_tokens} input tokens"
    calls = ", ".join(
        (
            counted(status.agents, "agent"),
            counted(status.handoffs, "handoff"),
            counted(usage.model_calls, "model call"),
        )
    )
    lines += ["", f"{calls}, {tokens}, {usage.cost_usd:.2f} USD", ""]
    lines += [f"- {happening.at:%H:%M:%S} {happening.text}" for happening in status.happenings[-8:]]
    return "\n".join(lines)


def _step_line(step: StepStatus) -> str:
    """A step in a line; a table's columns run together in the Web UI."""
    items = f", {step.items.done}/{step.items.total} items" if step.items.total else ""
    agents = f", {counted(step.agents, 'agent')}" if step.agents else ""
    return f"- {step_mark(step.state)} step {step.step} {step.agent_type}: {step.state}{items}{agents}"

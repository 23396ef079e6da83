"""The progress of a task in lines: pure, from one look and the time. Live view, `status` and plain output share it."""

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from baton.durations import format_duration
from baton.ledger import ItemCounts
from baton.roles import Role
from baton.states import StepStatusWord, TaskState
from baton.status import OWN_WORDS, AgentStatus, AttentionItem, StepStatus, TaskStatus, provider_pause, step_mark
from baton.wording import counted, number
from cli.look import Look
from cli.terminal import Line, Tone, rows

HAPPENINGS_SHOWN = 6
STEPS_SHOWN = 12
"""Steps that are shown one by one; of more, those that ended well or have not begun are counted."""
AGENTS_IN_FULL = 4
"""Agents at work that get two lines each; more of them get one."""

_SUCCESSOR = re.compile(r"(\S+?)(~\d+)? handed off to \1(~\d+)")
_ORDER = ("starting", "opening", "planning", "executing", "integrating", "reporting")
_TREE = (("planning", Role.PLANNER), ("executing", Role.EXECUTOR), ("integrating", Role.INTEGRATOR))
_TITLES = {"planning": "planning", "executing": "execution", "integrating": "integration"}
_STOPPED = "stopped"
_TONES = {
    TaskState.DONE: Tone.GOOD,
    TaskState.FAILED: Tone.BAD,
    TaskState.CANCELLED: Tone.BAD,
    TaskState.PARTIAL: Tone.WAITS,
    TaskState.WAITING: Tone.WAITS,
}


def progress(look: Look, now: datetime, happenings: int = HAPPENINGS_SHOWN) -> list[Line]:
    """The whole picture: task, the three phases as a tree, what happened last, totals, what is waited for."""
    told = _happenings(look.status)[-happenings:] if happenings else []
    return [*_title(look, now), *_tree(look), *told, *_foot(look)]


def progress_within(look: Look, now: datetime, width: int, height: int) -> list[Line]:
    """The picture in at most `height` rows of this width: what happened gives way first, then the end of the tree, then
    notes. What is waited for is always there."""
    title, tree, foot = _title(look, now), _tree(look), _rows(_foot(look), width)
    if len(title) + len(foot) + len(tree) > height:
        foot = _rows(_foot(look, notes=False), width)
    room = height - len(title) - len(foot)
    if len(tree) > room:
        shown = max(0, room - 1)
        more = f"… {counted(len(tree) - shown, 'further line')}: orchestrate status {look.status.task_id}"
        tree = [*tree[:shown], Line(more, Tone.FAINT)]
    told = _happenings(look.status)
    free = min(HAPPENINGS_SHOWN, room - len(tree))
    return [*title, *tree, *(told[-free:] if free > 0 else []), *foot]


def _rows(lines: Sequence[Line], width: int) -> list[Line]:
    return [row for line in lines for row in rows(line, width)]


def _title(look: Look, now: datetime) -> list[Line]:
    status = look.status
    return [Line(status.task or status.task_id, Tone.STRONG), _state_line(look, now)]


def _tree(look: Look) -> list[Line]:
    return [line for phase, role in _TREE for line in _phase_lines(look, phase, role)]


def _happenings(status: TaskStatus) -> list[Line]:
    return [Line(_told(h.at, h.text), Tone.FAINT, indent=1) for h in status.happenings]


def _foot(look: Look, *, notes: bool = True) -> list[Line]:
    status = look.status
    lines = [totals(look)]
    lines += [Line(f"note: {warning}", Tone.FAINT, whole=True) for warning in status.warnings if notes]
    if status.paused_until is not None:
        lines.append(Line(provider_pause(status.paused_until), Tone.WAITS))
    lines += waiting(status)
    if look.hint:
        lines.append(Line(look.hint, Tone.WAITS, whole=True))
    return lines


def totals(look: Look) -> Line:
    """Agents, handoffs, calls, tokens and cost so far."""
    usage = look.usage
    return Line(
        f"{counted(look.agents, 'agent')}, {counted(look.status.handoffs, 'handoff')}, "
        f"{counted(usage.model_calls, 'model call')}, {number(usage.output_tokens)} output tokens, "
        f"{usage.cost_usd:.2f} USD"
    )


def waiting(status: TaskStatus) -> list[Line]:
    """What a person is asked, each with the exact command that answers it."""
    lines: list[Line] = []
    for item in status.attention:
        lines.append(Line(f"waiting for a person ({item.id}): {item.question}", Tone.WAITS, whole=True))
        lines += [Line(command, Tone.STRONG, indent=1) for command in answers(status.task_id, item)]
    return lines


def answers(task_id: str, item: AttentionItem) -> tuple[str, ...]:
    """The commands that answer a question, one per choice."""
    if item.kind == "approval":
        return (f"orchestrate approve {task_id}", f'orchestrate reject {task_id} --comment "…"')
    return tuple(f"orchestrate answer {task_id} {item.id} {_typed(item, choice)}" for choice in item.choices)


def _typed(item: AttentionItem, choice: str) -> str:
    """A choice for the shell, with a comment where it needs one."""
    needs_comment = (item.kind, choice) in {("limit", "raise"), ("question", OWN_WORDS)}
    return shlex.quote(choice) + (' --comment "…"' if needs_comment else "")


def news(before: Look | None, after: Look, now: datetime) -> Iterator[tuple[datetime, str]]:
    """What is new since the look before, with its time: phases, agents, happenings, questions, hints."""
    old, new = before.status if before else TaskStatus(), after.status
    known_agents = {agent.agent_id for agent in old.agents_at_work}
    found = [(happening.at, happening.text) for happening in new.happenings if happening not in old.happenings]
    found += [
        (now, f"{agent.agent_id} is at work") for agent in new.agents_at_work if agent.agent_id not in known_agents
    ]
    happened = {happening.text for happening in new.happenings}
    fresh = [text for text in new.warnings if text not in old.warnings and text not in happened]
    yield from sorted([*found, *((now, f"note: {text}") for text in fresh)])
    if (before is None or old.phase != new.phase) and new.phase != str(new.state):
        yield now, new.phase
    yield from (
        (now, f"waiting for a person ({item.id}): {item.question}")
        for item in new.attention
        if item.id not in {known.id for known in old.attention}
    )
    if new.paused_until is not None and new.paused_until != old.paused_until:
        yield now, provider_pause(new.paused_until)
    if after.hint and (before is None or before.hint != after.hint):
        yield now, after.hint


def news_line(at: datetime, text: str) -> Line:
    """One timestamped line."""
    return Line(_told(at, text))


def _state_line(look: Look, now: datetime) -> Line:
    status = look.status
    parts = [status.task_id, "terminated" if look.terminated else str(status.state)]
    if not _is_over(status):
        parts.append(status.phase)
    if status.started_at is not None:
        parts.append(format_duration((status.closed_at or now) - status.started_at))
    return Line(" · ".join(part for part in parts if part), _TONES.get(status.state, Tone.ACTIVE))


def _phase_lines(look: Look, phase: str, role: Role) -> list[Line]:
    status = look.status
    agents = [agent for agent in status.agents_at_work if _phase_of(agent) is role]
    state = _phase_state(status, phase)
    title = f"{step_mark(state)} {_TITLES[phase]}"
    lines = [Line(f"{title}{_phase_detail(status, phase)}", _mark_tone(state))]
    if phase == "executing":
        lines += _step_lines(look, agents)
        agents = [agent for agent in agents if agent.step not in {step.step for step in status.steps}]
    for agent in agents:
        lines += _agent_lines(look, agent, indent=1)
    return lines


def _phase_of(agent: AgentStatus) -> Role:
    return agent.role if agent.role in {Role.PLANNER, Role.INTEGRATOR} else Role.EXECUTOR


def _phase_state(status: TaskStatus, phase: str) -> str:
    if status.phase == phase:
        if _is_over(status):
            return _STOPPED
        return "running" if status.state is not TaskState.WAITING else StepStatusWord.PARTIAL
    if status.phase in _ORDER and _ORDER.index(status.phase) < _ORDER.index(phase):
        return "pending"
    if phase == "integrating" and status.state is TaskState.CANCELLED:
        return "pending"
    if phase == "executing" and any(step.state not in {"pending", StepStatusWord.OK} for step in status.steps):
        return StepStatusWord.PARTIAL
    reached = status.steps or status.state is TaskState.DONE
    return StepStatusWord.OK if reached else "pending"


def _is_over(status: TaskStatus) -> bool:
    return status.state not in {TaskState.RUNNING, TaskState.WAITING}


def _phase_detail(status: TaskStatus, phase: str) -> str:
    at_work = _by_step(status.agents_at_work)
    items = sum((_items(step, at_work[step.step]) for step in status.steps), ItemCounts())
    if phase == "planning" and status.steps:
        return f": {counted(len(status.steps), 'step')}, {counted(items.total, 'item')}"
    if phase == "executing" and items.total:
        return f": {items.done} of {counted(items.total, 'item')} done"
    return ""


def _by_step(agents: Sequence[AgentStatus]) -> Mapping[int, list[AgentStatus]]:
    """The agents of each step, by name: the shards of a step have one each."""
    found: dict[int, list[AgentStatus]] = defaultdict(list)
    for agent in sorted(agents, key=_in_order):
        if agent.step is not None:
            found[agent.step].append(agent)
    return found


def _in_order(agent: AgentStatus) -> list[tuple[int, str]]:
    """By name, with the numbers in it as numbers: shard 10 after shard 9."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", agent.agent_id)]


def _step_lines(look: Look, agents: Sequence[AgentStatus]) -> Iterator[Line]:
    steps = look.status.steps
    at_work = _by_step(agents)
    plenty = len(steps) > STEPS_SHOWN
    folded = {StepStatusWord.OK: 0, "pending": 0}
    for step in steps:
        if plenty and step.state in folded:
            folded[step.state] += 1
            continue
        # What was at work when the task ended could not say that it was stopped.
        stopped = step.state == "running" and _is_over(look.status)
        yield _step_line(step.model_copy(update={"state": _STOPPED}) if stopped else step, at_work[step.step])
        for agent in at_work[step.step]:
            yield from _agent_lines(look, agent, indent=2, short=len(agents) > AGENTS_IN_FULL)
    for state, count in folded.items():
        if count:
            yield Line(f"{step_mark(state)} {counted(count, 'further step')} {state}", Tone.FAINT, indent=1)


def _step_line(step: StepStatus, agents: Sequence[AgentStatus]) -> Line:
    items = _items(step, agents)
    text = f"{step_mark(step.state)} {step.step} {step.agent_type}"
    if items.total:
        text += f"  {items.done}/{items.total}"
    if step.agents:
        text += f"  {counted(step.agents, 'agent')}"
    if step.state not in {"pending", "running", StepStatusWord.OK}:
        text += f"  {step.state.replace('_', ' ')}"
    share = items.done / items.total if items.total and step.state == "running" else None
    return Line(text, _mark_tone(step.state), indent=1, share=share)


def _items(step: StepStatus, agents: Sequence[AgentStatus]) -> ItemCounts:
    """The agents at work know more than the status, which they tell at intervals; but each only of its own shard."""
    live = sum((agent.items for agent in agents), ItemCounts())
    return live if live.total >= step.items.total and live.done >= step.items.done else step.items


def _agent_lines(look: Look, agent: AgentStatus, indent: int, *, short: bool = False) -> list[Line]:
    """An agent in two lines; in one where there are many (`short`)."""
    pulse = look.pulses.get(agent.workflow_id)
    doing = (pulse.doing if pulse else "") or agent.doing or "begins"
    doing = "the model answers" if doing == "model" else doing
    used = agent.used_tokens + (pulse.tokens if pulse else 0)
    share = used / agent.budget_tokens if agent.budget_tokens else None
    working = f"{agent.agent_id} · turn {agent.turn + 1} · {doing}"
    if short:
        return [Line(working, indent=indent, share=share)]
    budget = f"{number(used)} of {number(agent.budget_tokens)} tokens, {agent.usage.cost_usd:.2f} USD"
    return [Line(working, indent=indent), Line(budget, Tone.FAINT, indent=indent + 1, share=share)]


def _mark_tone(state: str) -> Tone:
    tones = {"running": Tone.ACTIVE, StepStatusWord.OK: Tone.GOOD, StepStatusWord.PARTIAL: Tone.WAITS}
    return tones.get(state, Tone.FAINT if state == "pending" else Tone.BAD)


def _told(at: datetime, text: str) -> str:
    """A happening with its local time; the name of a successor is cut to what differs."""
    moment = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    short = _SUCCESSOR.sub(r"\1\2 handed off to \3", text)
    return f"{moment.astimezone():%H:%M:%S}  {short}"

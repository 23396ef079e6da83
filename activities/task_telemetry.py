"""The spans around the calls: agents, merges, gates, waits, and the task itself.

An agent's beginning is a file in the task's folder, which has another name once its span is told; agents that nobody
closed (their chain was terminated) are told at the end of the task. So no call is left without its parents once a task
has ended. What is told again has the same beginning, and is measured once.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from activities.store import write_atomically
from activities.task_folder import TaskFolder
from activities.telemetry import Place, count, is_first, measure, measure_wait, place_of, tell
from baton import telemetry_names as names
from baton.knowledge import Entry
from baton.ledger import ItemRecord
from baton.manifest import HandoffReason
from baton.models import Stored
from baton.pricing import Usage
from baton.progress import Progress
from baton.states import TaskState
from baton.status import PAUSE, Wait
from baton.telemetry import ROOT, Attributes, Event, Span, agent_key, known, usage_attributes
from baton.trace import LOST

PATHS_TOLD = 50
_LINES = {
    "merge": names.MERGE,
    "gate": names.GATE,
    "foreign": names.RESTORE,
    "command": names.COMMANDS,
    "wait": names.WAIT,
}
PERSON = "person"
_TOLD = ".told"


class AgentBeginning(Stored):
    """What is known of an agent when it begins."""

    agent: str
    role: str
    step: int | None
    model: str
    began: datetime


@dataclass(frozen=True)
class AgentEnding:
    """What is known of an agent when it ends. `successor`: who goes on; empty where nobody does. `run`: of its
    workflow; what another run did after a reset is done again."""

    agent: str
    role: str
    step: int | None
    model: str
    reason: HandoffReason
    successor: str
    turns: int
    usage: Usage
    records: tuple[ItemRecord, ...] = ()
    knowledge: tuple[Entry, ...] = ()
    run: str = ""


@dataclass(frozen=True)
class Closed:
    """How a task ended (`done`, `terminated` …), and when; None: now. `broken_off`: in the middle of its work."""

    how: str
    at: datetime | None = None
    broken_off: bool = False

    @property
    def fields(self) -> dict[str, str]:
        """What the trace says of the time."""
        return {"at": self.at.astimezone(UTC).isoformat(timespec="milliseconds")} if self.at else {}


def line_written(place: Place | None, line: Mapping[str, Any]) -> None:
    """A line of `trace.jsonl` that is no call of a model's: a merge, a gate, files of others that were restored,
    commands of a step without agents, a wait."""
    if place is None or line["kind"] not in _LINES:
        return
    ended, kind = datetime.fromisoformat(str(line["at"])), str(line["kind"])
    outcome = str(line.get("outcome", ""))
    paths = tuple(str(path) for path in line.get("paths", ()))[:PATHS_TOLD]
    agent, name = str(line.get("agent", "")), str(line.get("name", ""))
    attributes = known(TASK=place.task, OUTCOME=outcome, NAME=name, PATHS=paths, AGENT_NAME=agent)
    attributes |= known(STEP=line.get("step"), TURN=line.get("turn"), WORKSPACE=line.get("workspace"))
    attributes |= known(CALLS=line.get("calls"), WAIT_REASON=name if kind == "wait" else None)
    events: tuple[Event, ...] = ()
    failed = outcome in {"conflict", "failed"} or (kind == "gate" and outcome != "passed")
    if kind == "foreign":
        events = tuple(Event(names.REFUSAL_EVENT, ended, known(PATHS=(path,))) for path in paths)
    elif kind == "merge":
        event = names.CONFLICT_EVENT if failed else names.MERGED_EVENT
        events = (Event(event, ended, known(OUTCOME=outcome, STEP=line.get("step"), PATHS=paths)),)
    span = Span(
        f"{_LINES[kind]} {name}".strip(),
        (kind, line.get("activity") or line["at"], agent, name, line.get("step")),
        ended - timedelta(seconds=float(line["seconds"])),
        ended,
        attributes,
        events,
        outcome if failed else "",
    )
    # No agent runs the commands of a step, and none has begun while its chain waits for a slot.
    within = agent and kind != "command" and name != "slot"
    tell(place, agent_key(agent) if within else ROOT, span)


def agent_began(folder: TaskFolder, beginning: AgentBeginning) -> None:
    """Keep an agent's beginning until its end; the first of several attempts counts."""
    place = place_of(folder, beginning.agent)
    if place is None:
        return
    file = _file(folder, place)
    if not file.exists() and not _told(file).exists():
        write_atomically(file, beginning.model_dump_json().encode(), replace=True)


def agent_ended(folder: TaskFolder, end: AgentEnding) -> None:
    """An agent ended: what it did, decided and left."""
    place = place_of(folder, end.agent)
    if place is None:
        return
    file, ended = _file(folder, place), datetime.now(UTC)
    beginning = _read(file) or _read(_told(file))
    done = [record for record in end.records if record.status.finished]
    attributes = _agent(place, end.role, end.step, end.model) | usage_attributes(end.usage)
    attributes |= known(REASON=str(end.reason), SUCCESSOR=end.successor, TURNS=end.turns, ITEMS_DONE=len(done))
    failed = end.reason is HandoffReason.ERROR_RECOVERY and not end.successor
    span = Span(
        f"{names.INVOKE_AGENT} {end.role}",
        place.around,
        beginning.began if beginning else ended,
        ended,
        attributes,
        _events(place, end, ended),
        str(end.reason) if failed else "",
    )
    tell(place, ROOT, span)
    _is_told(file)
    if not is_first(folder, place, ("ended", end.agent, end.run)):
        return
    measure(span, names.INVOKE_AGENT, known(ROLE=end.role))
    _count_items(done)
    if end.successor:
        count(names.HANDOFF_COUNT, known(REASON=str(end.reason)))


def items_finished(folder: TaskFolder, records: Sequence[ItemRecord], by: str) -> None:
    """Commands of a step without agents finished these items; `by` says which, and is counted once."""
    place = place_of(folder)
    if place is not None and is_first(folder, place, ("items", by)):
        _count_items([record for record in records if record.status.finished])


def task_ended(
    folder: TaskFolder,
    progress: Progress | None,
    closed: Closed | None = None,
    lost: Mapping[str, datetime] | None = None,
) -> None:
    """The task ended: agents whose end nobody told, and its own span, which is the root of all.

    `progress`: what is known of the task, if anything; `closed`: how it ended, where it did not get to say so itself;
    `lost`: when agents that nobody closed were lost, as far as it is known.
    A task that is resumed ends again: its root is told again.
    """
    place = place_of(folder)
    if place is None:
        return
    ended = (closed and closed.at) or datetime.now(UTC)
    began = _tell_lost_agents(folder, place, ended, lost or {})
    attributes = known(OPERATION=names.INVOKE_WORKFLOW, WORKFLOW_NAME=names.SCOPE, TASK=place.task)
    events: list[Event] = []
    error = ""
    if progress is not None:
        status = progress.status
        began = status.started_at or began
        attributes |= usage_attributes(status.usage) | known(STATE=str(status.state), AGENTS=status.agents)
        attributes |= known(HANDOFFS=status.handoffs, ITEMS=status.items.total, ITEMS_DONE=status.items.done)
        error = str(status.state) if status.state is TaskState.FAILED else ""
        if closed is not None and status.closed_at is None:
            error = closed.how
        events += _questions(status.waits)
        if place.exporting.content:
            events += [Event(names.HAPPENING_EVENT, one.at, _text(place, one.text)) for one in status.happenings]
    if closed is not None:
        attributes |= known(STATE=closed.how)
    name = f"{names.INVOKE_WORKFLOW} {names.SCOPE}"
    span = Span(name, ROOT, began, ended, attributes, tuple(events), error)
    tell(place, None, span)
    if is_first(folder, place, ("ended", folder.record.run_id)):
        measure(span, names.INVOKE_WORKFLOW, {})


def _count_items(records: Sequence[ItemRecord]) -> None:
    for record in records:
        count(names.ITEMS_FINISHED, known(ITEM_STATUS=str(record.status)))


def _events(place: Place, end: AgentEnding, ended: datetime) -> tuple[Event, ...]:
    """Decisions it recorded, when it did; the handoff, or the limit that stopped it."""
    events = [
        Event(names.DECISION_EVENT, entry.at, _text(place, entry.text))
        for entry in end.knowledge
        if entry.kind == "decision" and entry.agent_id == end.agent
    ]
    told = known(REASON=str(end.reason), SUCCESSOR=end.successor)
    if end.successor:
        events.append(Event(names.HANDOFF_EVENT, ended, told))
    elif end.reason in {HandoffReason.OUTPUT_LIMIT, HandoffReason.CONTEXT_LIMIT}:
        events.append(Event(names.LIMIT_EVENT, ended, told))
    return tuple(events)


def person_waited(folder: TaskFolder, wait: Wait) -> None:
    """A person was waited for, or had paused the task."""
    place = place_of(folder)
    if place is None:
        return
    told = known(WAITED_FOR=wait.kind, STEP=wait.step, PHASE=wait.phase)
    key = ("wait", wait.kind, wait.step, wait.phase, wait.since.isoformat())
    attributes = {names.TASK: place.task} | known(WAIT_REASON=PERSON) | told
    span = Span(f"{names.WAIT} {wait.kind}", key, wait.since, wait.until, attributes)
    tell(place, ROOT, span)
    if is_first(folder, place, key):
        measure_wait(span.seconds, known(WAIT_REASON=PERSON, WAITED_FOR=wait.kind, PHASE=wait.phase))


def _questions(waits: Sequence[Wait]) -> list[Event]:
    """The questions that a task asked of a person, as events of it."""
    return [
        Event(
            names.LIMIT_EVENT if wait.kind == "limit" else names.ATTENTION_EVENT,
            wait.since,
            known(WAITED_FOR=wait.kind, STEP=wait.step, PHASE=wait.phase),
        )
        for wait in waits
        if wait.kind != PAUSE
    ]


def _tell_lost_agents(folder: TaskFolder, place: Place, ended: datetime, when: Mapping[str, datetime]) -> datetime:
    """Tell agents that were never closed, or that a reset had go on since; returns when the first of them began, else
    now."""
    files = set((folder.path / "telemetry").glob("*.json"))
    files |= {_told(_file(folder, replace(place, agent=agent))) for agent in when}
    earliest = ended
    for file in sorted(files):
        if (lost := _read(file)) is not None:
            attributes = _agent(place, lost.role, lost.step, lost.model, lost.agent) | known(REASON=LOST)
            name, end = f"{names.INVOKE_AGENT} {lost.role}", when.get(lost.agent, ended)
            span = Span(name, agent_key(lost.agent), lost.began, end, attributes, error=LOST)
            tell(place, ROOT, span)
            earliest = min(earliest, lost.began)
            if is_first(folder, place, (LOST, lost.agent)):
                measure(span, names.INVOKE_AGENT, known(ROLE=lost.role))
        if file.suffix != _TOLD:
            _is_told(file)
    return earliest


def _agent(place: Place, role: str, step: int | None, model: str, agent: str = "") -> Attributes:
    agent = agent or place.agent
    conversation = f"{place.task}/{agent}"
    told = known(OPERATION=names.INVOKE_AGENT, TASK=place.task, AGENT_NAME=agent, CONVERSATION=conversation)
    return told | known(PROVIDER_NAME=names.PROVIDER, REQUEST_MODEL=model, ROLE=role, STEP=step)


def _file(folder: TaskFolder, place: Place) -> Path:
    return folder.path / "telemetry" / f"{place.span_id(place.around):016x}.json"


def _told(file: Path) -> Path:
    return file.with_suffix(_TOLD)


def _is_told(file: Path) -> None:
    """A second telling finds the beginning still."""
    with suppress(FileNotFoundError):
        file.replace(_told(file))


def _read(file: Path) -> AgentBeginning | None:
    try:
        return AgentBeginning.model_validate_json(file.read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def _text(place: Place, text: str) -> Attributes:
    return known(TEXT=place.exporting.clean(text)) if place.exporting.content else {}

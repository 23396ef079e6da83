"""`trace.jsonl` read back: one line per model call, tool call, handoff, merge and gate of a task, without content.

A process that was killed may have begun a call twice and told of it twice; the last telling counts. A line cut in the
middle, or of a kind that is not known here, is left out and counted.
"""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property

from pydantic import Field

from baton.models import Stored

KILLED = "killed"
"""The outcome of a model call that was killed; the next attempt tells it, when it comes, with what it cost."""
CANCELLED = "cancelled"
"""The outcome of a model call that was under way when its activity was cancelled."""
KINDS = frozenset(
    ("model", "tool", "started", "ended", "merge", "gate", "foreign", "command", "gap", "wait", "attention", "closed")
)
NAME = "trace.jsonl"
OPEN = "open"
"""How a question ended that nobody had answered when its task was broken off."""
LOST = "lost"
"""How an agent ended whose end nobody told: its chain, or the whole task, was broken off."""


class TraceLine(Stored):
    """One line. `at` is its end; `seconds` how long it took; which other fields are set depends on `kind`.

    `started`, `ended`: an agent's beginning and end (`successor` names who goes on; an `outcome` of `lost`: nobody
    closed it). `model`, `tool`: calls of a turn; `name` names a model call beside the turns; `call` counts the tool
    calls of a turn from 1; `input` and `error` are fingerprints. `foreign`: a command had changed files of others
    (`paths`), which were restored. `merge`, `gate`: what the task does beside its agents. `activity` names the one that
    told: what its next attempt tells of the same step is the same. `command`: commands of a step without agents,
    `calls` in all. `gap`: from the beginning of the first attempt of an activity of this kind (`name`: merge, gate,
    command) to that of its `attempt`, which does again what the others came to no end with. `wait`:
    what waited for `name` (slot, merge_queue, quota). `attention`: a person was asked something of the kind `name`, or
    paused the task, when `asked` says, and had answered at the line's time; an `outcome` of `open`: nobody had when the
    task was broken off. `closed`: the task's end (`outcome`) of the run `name`.
    """

    kind: str
    at: datetime
    seconds: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    agent: str = ""
    role: str = ""
    step: int | None = None
    turn: int = 0
    call: int = 0
    calls: int = 0
    activity: str = ""
    attempt: int = 1
    outcome: str = ""
    model: str = ""
    response: str = ""
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal = Decimal(0)
    status: int | None = None
    tool: str = ""
    path: str = ""
    input: str = ""
    error: str = ""
    refused: bool = False
    answered: bool = False
    successor: str = ""
    name: str = ""
    workspace: str = ""
    phase: str = ""
    asked: datetime | None = None
    paths: tuple[str, ...] = ()

    @cached_property
    def began(self) -> datetime:
        """When it began."""
        return self.at - timedelta(seconds=self.seconds)


class Trace(Stored):
    """The lines of a task in order of time. `unreadable`: lines that could not be used."""

    lines: tuple[TraceLine, ...] = ()
    unreadable: int = 0

    def of(self, *kinds: str) -> tuple[TraceLine, ...]:
        """The lines of these kinds."""
        return tuple(line for line in self.lines if line.kind in kinds)

    def by_agent(self) -> dict[str, list[TraceLine]]:
        """The lines of each agent, in order of time."""
        agents: dict[str, list[TraceLine]] = {}
        for line in self.lines:
            if line.agent:
                agents.setdefault(line.agent, []).append(line)
        return agents


def parse(text: str) -> Trace:
    """The trace in the text of `trace.jsonl`."""
    told: dict[tuple[object, ...], TraceLine] = {}
    unreadable = 0
    for number, row in enumerate(text.split("\n")):
        if not row.strip():
            continue
        line = _line(row)
        if line is None:
            unreadable += 1
        else:
            key = _key(line, number)
            told.pop(key, None)
            told[key] = line
    return Trace(lines=tuple(sorted(told.values(), key=lambda line: line.at)), unreadable=unreadable)


def unended(text: str) -> tuple[TraceLine, ...]:
    """In the text of `trace.jsonl`, the last line of each agent that began and came to no end of its own.

    Of one that was found lost before it is the line that says so. Lines stand in the order in which they were told.
    """
    began: set[str] = set()
    last: dict[str, str] = {}
    for row in text.split("\n"):
        try:
            told = json.loads(row)
            kind, agent, outcome = told["kind"], str(told["agent"]), told.get("outcome")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
        if kind == "ended" and outcome != LOST:
            last.pop(agent, None)
        elif kind == "started" or (agent in began and kind != "wait"):
            # Also after its end: a reset has it go on.
            began.add(agent)
            last[agent] = row
    return tuple(line for line in map(_line, last.values()) if line is not None)


def _line(row: str) -> TraceLine | None:
    try:
        line = TraceLine.model_validate_json(row)
    except ValueError:
        return None
    if line.kind not in KINDS:
        return None
    # Without a zone nothing could be compared; ours always has one.
    return line if line.at.tzinfo else line.model_copy(update={"at": line.at.replace(tzinfo=UTC)})


def _key(line: TraceLine, number: int) -> tuple[object, ...]:
    """What a second telling of the same thing has in common with the first."""
    match line.kind:
        case "model" if line.response:
            return ("model", line.response)
        case "tool" if line.call:
            return ("tool", line.agent, line.turn, line.call)
        case "merge" | "gate" | "command" | "gap" if line.activity:
            return (line.kind, line.activity, line.name, line.step)
        case "foreign" if line.turn:
            return ("foreign", line.agent, line.turn)
        case "closed":
            return ("closed", line.name)
        case "wait":
            return ("wait", line.agent, line.step, line.name, line.at)
        case "attention":
            return ("attention", line.name, line.step, line.phase, line.asked)
        case "started" | "ended":
            return (line.kind, line.agent)
        case _:
            return (number,)

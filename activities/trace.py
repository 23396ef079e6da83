"""`trace.jsonl`: one line per model call, tool call, handoff, merge and gate of a task, without content.

Each line is also an event in the worker's log. Lines are appended whole, so several processes may share the file; a
call is told before the next begins, so that a killed process leaves no gap. What a later attempt does again is told
again; `baton/trace.py` reads the last telling.
"""

import hashlib
import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from temporalio import activity

from activities.errors import ModelFault
from activities.task_folder import TaskFolder, UnknownTaskError
from activities.task_telemetry import line_written, person_waited
from activities.telemetry import is_first, measure_wait, place_of
from baton.conversation import Response
from baton.messages import Waited
from baton.pricing import Usage
from baton.status import Wait
from baton.telemetry import known
from baton.trace import CANCELLED, KILLED, LOST, NAME, unended

ONCE_FOR_AN_ACTIVITY = frozenset(("merge", "gate", "command", "gap"))
"""What an activity's later attempt tells of these is the same thing once more."""
SHORTEST_WAIT_SECONDS = 0.05

logger = logging.getLogger("baton.trace")


class TaskTrace:
    """Writes the lines of a task; nothing where the task keeps no artifacts, or has no record (any more)."""

    def __init__(self, folder: TaskFolder) -> None:
        self._path: Path | None = None
        self._folder = folder
        self._place = place_of(folder)
        with suppress(UnknownTaskError):
            self._path = folder.artifacts / NAME if folder.record.opened.settings.persist_state else None
        self._started = time.monotonic()

    def begin(self) -> None:
        """The next call starts now."""
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return round(time.monotonic() - self._started, 3)

    def write(self, kind: str, **fields: object) -> None:
        """One line: when it ended, how long it took, and what it was."""
        line: dict[str, object] = {"at": _now(), "seconds": self.seconds, "kind": kind, **fields}
        if kind in ONCE_FOR_AN_ACTIVITY and activity.in_activity():
            info = activity.info()
            line["activity"] = f"{(info.workflow_run_id or '')[:13]}/{info.activity_id}"
        logger.info("%s", _sentence(line), extra={"event": {"task": self._folder.path.name, **line}})
        line_written(self._place, line)
        if self._path is None:
            return
        # A folder that somebody deleted costs earlier lines, never a turn.
        self._path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        descriptor = os.open(self._path, flags, 0o644)
        try:
            os.write(descriptor, _cut_off(descriptor) + json.dumps(line).encode() + b"\n")
        finally:
            os.close(descriptor)

    def goes_on(self, what: str, **where: object) -> None:
        """This attempt begins; of the time since the first one did, nobody else tells."""
        info = activity.info()
        if info.attempt > 1:
            seconds = (info.started_time - info.scheduled_time).total_seconds()
            at = info.started_time.astimezone(UTC).isoformat(timespec="milliseconds")
            self.write("gap", name=what, **where, at=at, seconds=round(max(seconds, 0.0), 3), attempt=info.attempt)

    def waited(self, waits: Sequence[Waited], **where: object) -> None:
        """What comes now had to wait before; told by each attempt, and measured once."""
        for wait in waits:
            seconds = (wait.until - wait.since).total_seconds()
            if seconds >= SHORTEST_WAIT_SECONDS:
                at = wait.until.astimezone(UTC).isoformat(timespec="milliseconds")
                # A call beside the turns has a name of its own; here it is told what was waited for.
                self.write("wait", **{**where, "name": wait.reason, "at": at, "seconds": round(seconds, 3)})
                what = ("waited", wait.reason, at, where.get("agent"), where.get("step"))
                if self._place is not None and is_first(self._folder, self._place, what):
                    measure_wait(seconds, known(WAIT_REASON=wait.reason))

    def attended(self, waits: Sequence[Wait], outcome: str = "") -> None:
        """A person was asked, or paused the task, and then answered; told again, it is the same."""
        for wait in waits:
            seconds = round((wait.until - wait.since).total_seconds(), 3)
            where = {"step": wait.step, "phase": wait.phase or "", "asked": wait.since.isoformat()}
            at = wait.until.astimezone(UTC).isoformat(timespec="milliseconds")
            self.write("attention", name=wait.kind, **where, at=at, seconds=seconds, outcome=outcome)
            person_waited(self._folder, wait)

    def lost_agents(self, at: datetime | None) -> dict[str, datetime]:
        """Tell the end of agents that nobody closed: then, or where None is given when they were last heard of.
        Returns by agent when it was lost; told again, it is the same."""
        text = self._text()
        found = {}
        for last in unended(text):
            found[last.agent] = last.at if at is None or last.kind == "ended" else max(at, last.at)
            if last.kind != "ended":
                when = found[last.agent].astimezone(UTC).isoformat(timespec="milliseconds")
                who = {"agent": last.agent, "role": last.role, "step": last.step, "turn": last.turn}
                self.write("ended", **who, at=when, seconds=0.0, outcome=LOST)
        return found

    def holds(self, name: str) -> bool:
        """Whether a line with this name in it is there."""
        return f'"{name}"' in self._text()

    def _text(self) -> str:
        if self._path is None:
            return ""
        try:
            return self._path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""


@dataclass(frozen=True)
class Teller:
    """Whose calls they are. `what`: names a call beside the turns, such as a question to a predecessor."""

    agent: str
    role: str
    turn: int
    what: str = ""

    def fields(self, attempt: int) -> Mapping[str, object]:
        """What each line says of it."""
        named = {"name": self.what} if self.what else {}
        return {"agent": self.agent, "role": self.role, "turn": self.turn, "attempt": attempt, **named}


class TurnTrace:
    """Writes the lines of one turn, or of a call beside the turns."""

    def __init__(self, folder: TaskFolder, teller: Teller, attempt: int = 1) -> None:
        self._trace = TaskTrace(folder)
        self.attempt = attempt
        self._where = teller.fields(attempt)
        self._calls = 0

    def begin(self) -> None:
        """The next call starts now."""
        self._trace.begin()

    @property
    def seconds(self) -> float:
        """Since the beginning of the call."""
        return self._trace.seconds

    def model_answered(self, response: Response, seconds: float, at: str, *, again: bool = False) -> None:
        """A model call ended with a response; told once, whichever attempt gets to it. `again`: it was found."""
        if (again or self.attempt != 1) and self._trace.holds(response.id):
            return
        usage = response.usage
        self._trace.write(
            "model",
            **self._where,
            at=at or _now(),
            seconds=seconds,
            model=response.model,
            response=response.id,
            outcome=response.stop_reason,
            **_used(usage),
        )

    def model_failed(self, model: str, fault: ModelFault, spent: Usage | None) -> None:
        """A model call ended without one; one that had to wait was never made. `spent`: what it cost all the same."""
        if fault.pause is not None and fault.status is None:
            return
        told = {"outcome": fault.type or "broken", "status": fault.status} | (_used(spent) if spent else {})
        self._trace.write("model", **self._where, model=model, **told)

    def model_cancelled(self, model: str, spent: Usage | None) -> None:
        """A model call was cancelled while it was under way; `spent`: what it cost all the same."""
        self._trace.write("model", **self._where, model=model, outcome=CANCELLED, **(_used(spent) if spent else {}))

    def model_killed(self, model: str, spent: Usage, attempt: int) -> None:
        """That attempt was killed while a model answered: what that cost, as far as it is known."""
        self._trace.begin()
        where = {**self._where, "attempt": attempt}
        self._trace.write("model", **where, model=model, outcome=KILLED, **_used(spent))

    def waited(self, *waits: Waited) -> None:
        """The call had to wait before it could be made."""
        self._trace.waited(waits, **self._where)

    def called(self, tool: str, arguments: object, *, error: str | None, **more: object) -> None:
        """A tool call ended. Of its input and its error only fingerprints are kept, and the path it names."""
        self._calls += 1
        given = arguments if isinstance(arguments, dict) else {}
        path = next((given[key] for key in ("file_path", "item", "path") if isinstance(given.get(key), str)), "")
        failed: dict[str, object] = {} if error is None else {"error": _fingerprint(error)}
        self._trace.write(
            "tool",
            **self._where,
            call=self._calls,
            tool=tool,
            path=path[:300],
            input=_fingerprint(json.dumps(arguments, sort_keys=True, default=str)),
            outcome="ok" if error is None else "error",
            **failed,
            **{name: value for name, value in more.items() if value},
        )

    def restored(self, paths: list[str]) -> None:
        """A command had changed files of others; they are as they were before."""
        self._trace.begin()
        self._trace.write("foreign", **self._where, paths=paths[:50], outcome="restored")


def _used(usage: Usage) -> dict[str, object]:
    return {
        "input_tokens": usage.total_input_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_5m_tokens + usage.cache_write_1h_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": str(usage.cost_usd),
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _fingerprint(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]


def _cut_off(descriptor: int) -> bytes:
    """A line end, where the last line was cut off by a full disk or a lost machine."""
    size = os.fstat(descriptor).st_size
    return b"\n" if size and os.pread(descriptor, 1, size - 1) != b"\n" else b""


def _sentence(line: dict[str, Any]) -> str:
    """The event in a few words, for a log."""
    what = [str(line[key]) for key in ("kind", "tool", "model", "name", "path", "outcome") if line.get(key)]
    tokens = f", {line['output_tokens']} tokens" if line.get("output_tokens") else ""
    return f"{' '.join(what)}, {line['seconds']} s{tokens}"

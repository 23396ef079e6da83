"""The lines of a task in the local worker's log: found, filtered and followed."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from cli.terminal import Line, Tone

MOST_OF_WORKER = 50
"""Lines of the worker itself that are shown between two of the task: the last ones."""
_POLL_SECONDS = 0.3
_GRAVE = frozenset(("WARNING", "ERROR", "CRITICAL"))
_TONES = {"WARNING": Tone.WAITS, "ERROR": Tone.BAD, "CRITICAL": Tone.BAD, "DEBUG": Tone.FAINT}


class TaskLog:
    """The events of one task in the local worker's log.

    `agent` names one agent or, without `~n`, a chain of them. `agents`: those of the task that were met so far.
    """

    def __init__(self, log: Path, task_id: str, agent: str | None = None) -> None:
        self._log, self._task_id, self._agent = log, task_id, agent
        self.agents: set[str] = set()

    def lines(self, *, follow: bool) -> Iterator[dict[str, Any]]:
        """Events in order, from the log and the older one beside it; `follow`: those to come as well.

        Warnings and errors of the worker itself, Temporal's core included, are among them where they stand between
        lines of the task. Lines that are no events are left out.
        """
        of_worker: list[dict[str, Any]] | None = None
        for row in _rows(self._log, follow=follow):
            event = _event(row)
            if event is None:
                continue
            if event.get("task") == self._task_id:
                if self._is_wanted(event):
                    yield from of_worker or ()
                    yield event
                of_worker = []
            elif of_worker is not None and self._agent is None and "task" not in event and _is_grave(event):
                of_worker = [*of_worker[1 - MOST_OF_WORKER :], event]

    def _is_wanted(self, event: dict[str, Any]) -> bool:
        named = str(event.get("agent", ""))
        if named:
            self.agents.add(named)
        return self._agent is None or self._agent in {named, named.partition("~")[0]}


def shown(event: dict[str, Any]) -> list[Line]:
    """An event for a person: `17:36:27 executor-2 turn 3: tool edit src/a.py ok, 0.1 s`."""
    where = [str(event["agent"])] if event.get("agent") else [] if event.get("task") else ["worker"]
    where += [f"turn {event['turn']}"] if event.get("turn") else []
    level = str(event.get("level", ""))
    grave = f" {level.lower()}" if _is_grave(event) else ""
    head = " ".join([str(event.get("time", ""))[11:19] + grave, *where])
    lines = [Line(f"{head}: {event.get('message', '')}", _TONES.get(level, Tone.PLAIN))]
    return lines + [Line(row, Tone.FAINT, indent=2) for row in str(event.get("error", "")).splitlines()]


def _event(row: str) -> dict[str, Any] | None:
    try:
        event = json.loads(row)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


def _is_grave(event: dict[str, Any]) -> bool:
    return event.get("level") in _GRAVE


def _rows(log: Path, *, follow: bool) -> Iterator[str]:
    """Whole lines of the older log, then of this one, over restarts of the worker and of the whole service."""
    older = log.with_name(f"{log.name}.1")
    if older.is_file():
        with older.open(encoding="utf-8", errors="replace") as file:
            yield from file
    reader, begun = _Reader(log, older), b""
    while True:
        *whole, begun = (begun + reader.new()).split(b"\n")
        for row in whole:
            yield row.decode("utf-8", "replace")
        if not follow:
            return
        time.sleep(_POLL_SECONDS)


class _Reader:
    """What is new in a log that is appended to, and now and then put aside or emptied: then what it had got since the
    last look stands in the older one."""

    def __init__(self, log: Path, older: Path) -> None:
        self._log, self._older = log, older
        self._place, self._file = 0, _identity(log)
        self._put_aside = _identity(older)

    def new(self) -> bytes:
        """The bytes since the last look."""
        found, rest = _identity(self._log), b""
        if self._file is None:
            self._file = found
        if found is not None and (found.inode != (self._file or found).inode or found.size < self._place):
            rest = self._left_behind()
            self._file, self._place = found, 0
        content = _from(self._log, self._place)
        self._place += len(content)
        self._put_aside = _identity(self._older)
        return rest + content

    def _left_behind(self) -> bytes:
        before, now = self._put_aside, _identity(self._older)
        return _from(self._older, self._place) if now is not None and now != before else b""


class _Identity(NamedTuple):
    """Which file it is, and in which state."""

    inode: int
    size: int
    changed: int


def _identity(path: Path) -> _Identity | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return _Identity(found.st_ino, found.st_size, found.st_mtime_ns)


def _from(log: Path, place: int) -> bytes:
    """What stands from a place on."""
    try:
        with log.open("rb") as file:
            file.seek(place)
            return file.read()
    except FileNotFoundError:
        return b""

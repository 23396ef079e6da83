"""The lines of a task in the local worker's log: found, filtered and followed."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cli.terminal import Line, Tone

_POLL_SECONDS = 0.3
_TONES = {"WARNING": Tone.WAITS, "ERROR": Tone.BAD, "CRITICAL": Tone.BAD, "DEBUG": Tone.FAINT}


def lines_of(log: Path, task_id: str, agent: str | None, *, follow: bool) -> Iterator[dict[str, Any]]:
    """Events of a task in order, from the log and the older one beside it; `follow`: those to come as well.

    `agent` names one agent or, without `~n`, a chain of them. Lines that are no events are left out.
    """
    for row in _rows(log, follow=follow):
        try:
            event = json.loads(row)
        except ValueError:
            continue
        if isinstance(event, dict) and event.get("task") == task_id and _is_of(event, agent):
            yield event


def shown(event: dict[str, Any]) -> list[Line]:
    """An event for a person: `17:36:27 executor-2 turn 3: tool edit src/a.py ok, 0.1 s`."""
    where = [str(event["agent"])] if event.get("agent") else []
    where += [f"turn {event['turn']}"] if event.get("turn") else []
    level = str(event.get("level", ""))
    grave = f" {level.lower()}" if level in ("WARNING", "ERROR", "CRITICAL") else ""
    head = " ".join([str(event.get("time", ""))[11:19] + grave, *where])
    lines = [Line(f"{head}: {event.get('message', '')}", _TONES.get(level, Tone.PLAIN))]
    return lines + [Line(row, Tone.FAINT, indent=2) for row in str(event.get("error", "")).splitlines()]


def _is_of(event: dict[str, Any], agent: str | None) -> bool:
    named = str(event.get("agent", ""))
    return agent is None or named == agent or named.partition("~")[0] == agent


def _rows(log: Path, *, follow: bool) -> Iterator[str]:
    """Whole lines of the older log, then of this one. A log that became shorter was emptied: it begins anew."""
    older = log.with_name(f"{log.name}.1")
    if older.is_file():
        with older.open(encoding="utf-8", errors="replace") as file:
            yield from file
    begun, place = b"", 0
    while True:
        content = _from(log, place)
        if content is None:
            begun, place, content = b"", 0, _from(log, 0) or b""
        place += len(content)
        *whole, begun = (begun + content).split(b"\n")
        for row in whole:
            yield row.decode("utf-8", "replace")
        if not follow:
            return
        time.sleep(_POLL_SECONDS)


def _from(log: Path, place: int) -> bytes | None:
    """What stands from a place on; None where the log is shorter than that."""
    try:
        with log.open("rb") as file:
            if file.seek(0, 2) < place:
                return None
            file.seek(place)
            return file.read()
    except FileNotFoundError:
        return b"" if place == 0 else None

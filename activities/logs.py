"""The worker's log: one JSON line per event, with the task, agent and turn that it belongs to, and no secret.

Fields: `time` (UTC), `level`, `logger`, `message`; `task`, `agent`, `turn` where they are known; `error` with the
traceback where there is one. Task and agent come from where the code runs, so that a line needs to say neither.
"""

import json
import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, TextIO

from temporalio import activity, workflow

from baton.printed_secrets import printed

LONGEST_CHARACTERS = 20_000
_turn: ContextVar[dict[str, Any] | None] = ContextVar("baton_turn", default=None)


@contextmanager
def lines_of_turn(task: str, agent: str, turn: int) -> Iterator[None]:
    """Every line that is logged inside belongs to this turn."""
    token = _turn.set({"task": task, "agent": agent, "turn": turn})
    try:
        yield
    finally:
        _turn.reset(token)


def log_to(stream: TextIO, secrets: Callable[[], Collection[str]]) -> None:
    """Send everything that is logged to the stream as JSON lines."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines(secrets))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("httpx2").setLevel(logging.WARNING)


class JsonLines(logging.Formatter):
    """Formats a record as one line. `secrets`: the values that hold now and may not be shown."""

    def __init__(self, secrets: Callable[[], Collection[str]]) -> None:
        super().__init__()
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            **_place(record),
            "message": self._clean(record.getMessage()),
        }
        if record.exc_info:
            line["error"] = self._clean(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False)

    def _clean(self, text: str) -> str:
        text = text.encode("utf-8", "backslashreplace").decode()
        return printed(text, self._known_secrets())[:LONGEST_CHARACTERS]

    def _known_secrets(self) -> Collection[str]:
        try:
            return self._secrets()
        except (OSError, ValueError):
            # A file of credentials that is being replaced must not cost a line.
            return ()


def _place(record: logging.LogRecord) -> dict[str, Any]:
    """What the record belongs to, as far as it is known."""
    event = getattr(record, "event", None)
    found: dict[str, Any] = dict(_turn.get() or {})
    if isinstance(event, dict):
        found |= {key: event[key] for key in ("task", "agent", "turn", "step") if event.get(key)}
    if "task" not in found and (owner := _workflow_id() or _workflow_of_core(record)):
        found["task"] = owner.partition("/")[0]
    return {key: found[key] for key in ("task", "agent", "turn", "step") if key in found}


def _workflow_of_core(record: logging.LogRecord) -> str:
    """The workflow that a line of Temporal's core names, which runs outside every activity and workflow."""
    fields = getattr(getattr(record, "temporal_log", None), "fields", None)
    return str(fields.get("workflow_id") or "") if isinstance(fields, dict) else ""


def _workflow_id() -> str:
    if activity.in_activity():
        return activity.info().workflow_id or ""
    return workflow.info().workflow_id if workflow.in_workflow() else ""

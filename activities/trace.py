"""`trace.jsonl`: one line per model and tool call of a task, without content."""

import json
import time
from datetime import UTC, datetime

from activities.errors import ModelFault
from activities.task_folder import TaskFolder
from baton.conversation import Response
from baton.messages import TurnRequest


class Trace:
    """Writes the lines of one turn. Lines are appended whole, so several processes may share the file."""

    def __init__(self, folder: TaskFolder, request: TurnRequest) -> None:
        self._path = folder.artifacts / "trace.jsonl"
        self._request = request
        self._started = 0.0

    def begin(self) -> None:
        """The next call starts now."""
        self._started = time.monotonic()

    def model_answered(self, response: Response) -> None:
        """A model call ended with a response."""
        usage = response.usage
        self._write(
            kind="model",
            model=response.model,
            outcome=response.stop_reason,
            input_tokens=usage.total_input_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            output_tokens=usage.output_tokens,
            cost_usd=str(usage.cost_usd),
        )

    def model_failed(self, model: str, fault: ModelFault) -> None:
        """A model call ended without one."""
        self._write(kind="model", model=model, outcome=fault.type or "broken", status=fault.status)

    def called(self, tool: str, *, is_error: bool) -> None:
        """A tool call ended."""
        self._write(kind="tool", tool=tool, outcome="error" if is_error else "ok")

    def _write(self, **fields: object) -> None:
        line = {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "agent": self._request.agent_id,
            "turn": self._request.turn,
            "seconds": round(time.monotonic() - self._started, 3),
            **fields,
        }
        # A folder that somebody deleted costs earlier lines, never a turn.
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

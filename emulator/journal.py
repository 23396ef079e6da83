"""What was asked and answered: one JSON line per request, complete or not.

Lines are appended and flushed one by one, so several runs of the emulator share a file and a kill loses at most
the request in hand. Bodies are kept in memory only, for tests that run the emulator in their own process.
"""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

from pydantic import BaseModel, ConfigDict


class Exchange(BaseModel):
    """One request and what became of it. `complete`: the whole answer was handed to the connection. `seconds`: from
    the arrival of the whole request to the end of its answer."""

    model_config = ConfigDict(frozen=True)

    at: datetime
    method: str
    path: str
    status: int
    request_id: str
    model: str | None = None
    user_id: str | None = None
    body_sha256: str | None = None
    messages: int = 0
    max_tokens: int | None = None
    usage: dict[str, Any] | None = None
    stop_reason: str | None = None
    complete: bool = False
    seconds: float = 0.0
    error: str | None = None


class Record:
    """The exchange in hand; filled while it is answered, written by `Journal.close`."""

    def __init__(self, method: str, path: str, request_id: str, raw: bytes = b"") -> None:
        self.fields: dict[str, Any] = {
            "at": datetime.now(UTC),
            "method": method,
            "path": path,
            "status": 0,
            "request_id": request_id,
            "body_sha256": hashlib.sha256(raw).hexdigest() if raw else None,
        }
        self.body: dict[str, Any] | None = None
        self._began = time.monotonic()

    def describe(self, body: object) -> None:
        """Take over what is known of a decoded body, valid or not."""
        if not isinstance(body, dict):
            return
        self.body = body
        messages, metadata = body.get("messages"), body.get("metadata")
        self.update(
            model=_text(body.get("model")),
            user_id=_text(metadata.get("user_id")) if isinstance(metadata, dict) else None,
            messages=len(messages) if isinstance(messages, list) else 0,
            max_tokens=body["max_tokens"] if isinstance(body.get("max_tokens"), int) else None,
        )

    def update(self, **fields: Any) -> None:
        self.fields.update(fields)

    def exchange(self) -> Exchange:
        """The exchange as it is now over."""
        return Exchange.model_validate(self.fields | {"seconds": round(time.monotonic() - self._began, 6)})


class Journal:
    """Appends to `file` when there is one; with `keep` also holds all exchanges, with their decoded bodies."""

    def __init__(self, file: Path | None = None, keep: bool = True) -> None:
        self._file = file
        self._keep = keep
        self._lock = Lock()
        self.exchanges: list[Exchange] = []
        self.bodies: list[dict[str, Any] | None] = []
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)

    def close(self, record: Record) -> None:
        """Write the line of a request that is over."""
        exchange = record.exchange()
        with self._lock:
            if self._keep:
                self.exchanges.append(exchange)
                self.bodies.append(record.body)
            if self._file is not None:
                with self._file.open("a", encoding="utf-8") as file:
                    file.write(exchange.model_dump_json() + "\n")


def read_journal(file: Path) -> list[Exchange]:
    """The exchanges of a journal file; a last line that a kill cut off is left out."""
    exchanges = []
    for line in file.read_text(encoding="utf-8").split("\n"):
        try:
            exchanges.append(Exchange.model_validate(json.loads(line)))
        except ValueError:
            continue
    return exchanges


def duplicate_turns(exchanges: Iterable[Exchange]) -> list[tuple[str, str]]:
    """Turns that were answered in full more than once and so paid twice: (user id, hash of the body)."""
    turns = Counter(
        (exchange.user_id or "", exchange.body_sha256 or "")
        for exchange in exchanges
        if exchange.path == "/v1/messages" and exchange.status == 200 and exchange.complete
    )
    return [turn for turn, times in turns.items() if times > 1]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None

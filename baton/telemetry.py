"""What the spans of a task are: their ids and their attributes.

Ids are made from what a span is about, never by chance. So every process and every attempt gives the same thing the
same id, children can be sent before their parent, and what is sent twice is one span. A trace is one task.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from baton import telemetry_names as names
from baton.conversation import Block, Response
from baton.pricing import Usage

LONGEST_CONTENT = 50_000
"""Characters of one message or result, where content is told at all."""

Value = str | int | float | bool | Sequence[str]
Attributes = dict[str, Value]
Key = tuple[object, ...]
Clean = Callable[[str], str]


@dataclass(frozen=True)
class Event:
    """Something that happened within a span."""

    name: str
    at: datetime
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True)
class Span:
    """A span that has ended. `key` says what it is about, uniquely within the task; `error`: its type, empty if it
    succeeded. `is_request`: it waited for another system."""

    name: str
    key: Key
    began: datetime
    ended: datetime
    attributes: Attributes = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    error: str = ""
    is_request: bool = False

    @property
    def seconds(self) -> float:
        """How long it took."""
        return max(0.0, (self.ended - self.began).total_seconds())


def trace_id(task_id: str, first_run: str) -> int:
    """128 bits; `first_run` tells tasks apart that had the same id one after the other."""
    return int.from_bytes(_digest("trace", task_id, first_run)[:16], "big") or 1


def span_id(trace: int, key: Key) -> int:
    """64 bits."""
    return int.from_bytes(_digest(f"{trace:032x}", *key)[:8], "big") or 1


ROOT: Key = ("task",)


def agent_key(agent: str) -> Key:
    """The key of an agent's span, which is the parent of its calls."""
    return ("agent", agent)


def known(**values: Any) -> Attributes:
    """Attributes by their names in `telemetry_names`; those without a value are left out."""
    return {getattr(names, name): value for name, value in values.items() if value not in (None, "", ())}


def usage_attributes(usage: Usage) -> Attributes:
    """Tokens and cost, of a call or of many."""
    return known(
        INPUT_TOKENS=usage.total_input_tokens,
        OUTPUT_TOKENS=usage.output_tokens,
        CACHE_READ_TOKENS=usage.cache_read_tokens,
        CACHE_CREATION_TOKENS=usage.cache_write_5m_tokens + usage.cache_write_1h_tokens,
        COST=float(usage.cost_usd),
        CACHE_SHARE=cache_share(usage),
    )


def cache_share(usage: Usage) -> float | None:
    """The share of the input that came from the cache, 0 to 1; None without input."""
    total = usage.total_input_tokens
    return round(usage.cache_read_tokens / total, 4) if total else None


def response_attributes(response: Response) -> Attributes:
    """What a response says of itself."""
    said = known(RESPONSE_ID=response.id, RESPONSE_MODEL=response.model, FINISH_REASONS=(response.stop_reason,))
    return said | usage_attributes(response.usage)


def input_content(messages: Sequence[Block], clean: Clean) -> str:
    """The newest message as the conventions write it; all before it are told by earlier spans."""
    return _json([{"role": message["role"], "parts": _parts(message["content"], clean)} for message in messages[-1:]])


def output_content(response: Response, clean: Clean) -> str:
    """The response as the conventions write it."""
    parts = _parts(response.content, clean)
    return _json([{"role": "assistant", "parts": parts, "finish_reason": response.stop_reason}])


def cut(text: str) -> str:
    """The beginning of a text that is too long."""
    return text if len(text) <= LONGEST_CONTENT else text[:LONGEST_CONTENT] + "…"


def clean_json(value: object, clean: Clean) -> str:
    """A value as JSON, every text in it cleaned."""
    return cut(_json(_cleaned(value, clean)))


def _parts(content: str | Sequence[Block], clean: Clean) -> list[Block]:
    if isinstance(content, str):
        return [{"type": "text", "content": cut(clean(content))}]
    return [part for block in content if (part := _part(block, clean)) is not None]


def _part(block: Block, clean: Clean) -> Block | None:
    match block.get("type"):
        case "text":
            return {"type": "text", "content": cut(clean(str(block["text"])))}
        case "tool_use":
            arguments = _cleaned(block.get("input"), clean)
            return {"type": "tool_call", "id": block.get("id"), "name": block.get("name"), "arguments": arguments}
        case "tool_result":
            response = _cleaned(block.get("content"), clean)
            return {"type": "tool_call_response", "id": block.get("tool_use_id"), "response": response}
    return None


def _cleaned(value: object, clean: Clean) -> object:
    match value:
        case str():
            return cut(clean(value))
        case dict():
            return {key: _cleaned(entry, clean) for key, entry in value.items()}
        case list() | tuple():
            return [_cleaned(entry, clean) for entry in value]
    return value


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _digest(*parts: object) -> bytes:
    return hashlib.sha256(json.dumps([str(part) for part in parts]).encode()).digest()

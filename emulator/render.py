"""From a model's reply to the API's events, cut at exactly the token where `max_tokens` (or the context) ends.

The invariant: a reply that is cut has used exactly its limit; one that is not cut has used its own length.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from emulator.cache import InputUsage
from emulator.prompt import Prompt
from emulator.reply import Block, Reply, ServerToolUse, Text, Thinking, ToolUse
from emulator.request import Request
from emulator.signatures import mint_call_id, sign_thinking
from emulator.tokens import JSON_BYTES, TEXT_BYTES, TOOL_USE_TOKENS, cut, dump, json_tokens, text_tokens

CHUNK_TOKENS = 24


@dataclass(frozen=True)
class Event:
    """One server-sent event; `tokens` were generated to make it."""

    data: Mapping[str, Any]
    tokens: int = 0

    def encode(self) -> bytes:
        """The event as it stands on the wire."""
        return f"event: {self.data['type']}\ndata: {json.dumps(self.data)}\n\n".encode()


@dataclass(frozen=True)
class Rendered:
    """The whole answer: as events for a stream, as a message for a plain request."""

    events: list[Event]
    message: dict[str, Any]
    stop_reason: str
    usage: dict[str, Any]


@dataclass
class _Writer:
    """Writes blocks until the limit is reached."""

    limit: int
    used: int = 0
    thinking: int = 0
    is_cut: bool = False
    events: list[Event] = field(default_factory=list)
    content: list[dict[str, Any]] = field(default_factory=list)

    def open(self, block: dict[str, Any], overhead: int) -> bool:
        """Begin a block; false when not even its beginning fits."""
        if self.is_cut or self.used + max(overhead, 1) > self.limit:
            self.is_cut = True
            return False
        self.used += overhead
        start = {"type": "content_block_start", "index": len(self.content), "content_block": dict(block)}
        self.events.append(Event(start, overhead))
        self.content.append(block)
        return True

    def stream(self, text: str, bytes_per_token: float, kind: str, key: str) -> str:
        """Write as much of `text` as fits, as deltas; what was written."""
        cost = text_tokens(text) if bytes_per_token == TEXT_BYTES else json_tokens(text)
        room = self.limit - self.used
        if cost > room:
            self.is_cut, text, cost = True, cut(text, room, bytes_per_token), room
        for chunk, tokens in _chunks(text, cost):
            self.delta({"type": kind, key: chunk}, tokens)
        self.used += cost
        return text

    def delta(self, delta: dict[str, Any], tokens: int = 0) -> None:
        data = {"type": "content_block_delta", "index": len(self.content) - 1, "delta": delta}
        self.events.append(Event(data, tokens))

    def close(self) -> None:
        self.events.append(Event({"type": "content_block_stop", "index": len(self.content) - 1}))


def render(reply: Reply, request: Request, prompt: Prompt, charged: InputUsage) -> Rendered:
    """The answer to `request`, whose prompt this is, with exact usage."""
    room = request.card.context_tokens - charged.uncached - charged.read
    room -= charged.written_5m + charged.written_1h
    writer = _Writer(limit=min(request.max_tokens, room))
    for index, block in enumerate(reply.blocks):
        _write(writer, block, request.model, prompt, index)
    if writer.is_cut:
        writer.used = writer.limit
        stop_reason = "max_tokens" if request.max_tokens <= room else "model_context_window_exceeded"
    else:
        writer.used = max(writer.used, 1)  # even an empty answer costs something
        calls = any(isinstance(block, ToolUse) for block in reply.blocks)
        stop_reason = reply.stop_reason or ("tool_use" if calls else "end_turn")
    output = {
        "output_tokens": writer.used,
        "output_tokens_details": {"thinking_tokens": writer.thinking},
    }
    usage = {**charged.usage(), **output, "service_tier": "standard"}
    message = {
        "id": "msg_" + mint_call_id(prompt, -1, "message")[6:],
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": writer.content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "stop_details": dict(reply.stop_details) if reply.stop_details else None,
        "usage": usage,
    }
    return Rendered([*_frame(message, writer.events, output)], message, stop_reason, usage)


def _frame(message: dict[str, Any], events: list[Event], output: Mapping[str, Any]) -> Iterator[Event]:
    usage = message["usage"]
    empty: dict[str, Any] = {"content": [], "stop_reason": None, "stop_details": None}
    started = {**usage, "output_tokens": min(usage["output_tokens"], 1)}
    del started["output_tokens_details"]
    yield Event({"type": "message_start", "message": {**message, **empty, "usage": started}})
    yield Event({"type": "ping"})
    yield from events
    delta = {key: message[key] for key in ("stop_reason", "stop_sequence", "stop_details")}
    totals = {key: usage[key] for key in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")}
    yield Event({"type": "message_delta", "delta": delta, "usage": {**totals, **output}})
    yield Event({"type": "message_stop"})


def _write(writer: _Writer, block: Block, model: str, prompt: Prompt, index: int) -> None:
    match block:
        case Text(text):
            if writer.open({"type": "text", "text": ""}, 0):
                writer.content[-1]["text"] = writer.stream(text, TEXT_BYTES, "text_delta", "text")
                writer.close()
        case Thinking(thinking, signed):
            _write_thinking(writer, thinking, sign_thinking(model, prompt, thinking) if signed else "")
        case ToolUse(name, value, call_id):
            call = {"type": "tool_use", "id": call_id or mint_call_id(prompt, index, name), "name": name}
            _write_call(writer, call, value if isinstance(value, str) else dump(dict(value)))
        case ServerToolUse(value, name):
            call_id = "srv" + mint_call_id(prompt, index, name)
            call = {"type": "server_tool_use", "id": call_id, "name": name}
            _write_call(writer, call, dump(dict(value)))


def _write_thinking(writer: _Writer, thinking: str, signature: str) -> None:
    if not writer.open({"type": "thinking", "thinking": "", "signature": ""}, 0):
        return
    before = writer.used
    writer.content[-1]["thinking"] = writer.stream(thinking, TEXT_BYTES, "thinking_delta", "thinking")
    writer.thinking += writer.used - before
    # Only a whole thought is signed: one that was cut off cannot be replayed.
    if not writer.is_cut:
        writer.content[-1]["signature"] = signature
        writer.delta({"type": "signature_delta", "signature": signature})
    writer.close()


def _write_call(writer: _Writer, call: dict[str, Any], text: str) -> None:
    if not writer.open({**call, "input": {}}, TOOL_USE_TOKENS):
        return
    writer.delta({"type": "input_json_delta", "partial_json": ""})
    written = writer.stream(text, JSON_BYTES, "input_json_delta", "partial_json")
    writer.close()
    try:
        value = json.loads(written)
    except ValueError:
        return
    if isinstance(value, dict):
        writer.content[-1]["input"] = value


def _chunks(text: str, tokens: int) -> Iterator[tuple[str, int]]:
    """`text` in about equal pieces of at most `CHUNK_TOKENS` tokens; the pieces' tokens add up to `tokens`."""
    pieces = max(1, -(-tokens // CHUNK_TOKENS))
    for number in range(pieces):
        begin, end = len(text) * number // pieces, len(text) * (number + 1) // pieces
        if end > begin:
            yield text[begin:end], tokens * (number + 1) // pieces - tokens * number // pieces

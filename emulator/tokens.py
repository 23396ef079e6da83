"""A deterministic token counter: the same bytes always cost the same, and a cut lands on the exact token.

A text costs one token per 3.5 bytes, JSON one per 3 bytes, rounded up, plus a fixed price per block and message.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

from emulator.canonical import content_blocks

TEXT_BYTES = 3.5
JSON_BYTES = 3.0
MESSAGE_TOKENS = 4
TOOL_USE_TOKENS = 20
TOOL_RESULT_TOKENS = 8
TOOL_SYSTEM_TOKENS = 150
MEDIA_TOKENS = 1_500


def text_tokens(text: str) -> int:
    """Tokens of prose, source code and tool results."""
    return math.ceil(len(_encode(text)) / TEXT_BYTES)


def json_tokens(text: str) -> int:
    """Tokens of JSON text: tool inputs and schemas."""
    return math.ceil(len(_encode(text)) / JSON_BYTES)


def cut(text: str, limit_tokens: int, bytes_per_token: float = TEXT_BYTES) -> str:
    """The longest beginning of `text` that costs at most `limit_tokens`; never half a character."""
    return _encode(text)[: int(max(limit_tokens, 0) * bytes_per_token)].decode("utf-8", "ignore")


def dump(value: object) -> str:
    """Tool input as the model would write it."""
    return json.dumps(value, ensure_ascii=False)


def block_tokens(block: Mapping[str, Any]) -> int:
    """Input tokens of one content block of a request."""
    match block.get("type"):
        case "text":
            return text_tokens(block["text"])
        case "thinking":
            return text_tokens(block["thinking"])
        case "tool_use" | "server_tool_use":
            return TOOL_USE_TOKENS + json_tokens(dump(block["input"]))
        case "tool_result":
            parts = content_blocks(block.get("content"))
            return TOOL_RESULT_TOKENS + sum(block_tokens(part) for part in parts)
        case "image" | "document":
            return MEDIA_TOKENS
        case _:
            return json_tokens(dump(dict(block)))


def tool_tokens(tool: Mapping[str, Any]) -> int:
    """Input tokens of one tool definition."""
    return json_tokens(dump({key: value for key, value in tool.items() if key != "cache_control"}))


def _encode(text: str) -> bytes:
    # JSON can carry half a surrogate pair; it costs what its replacement costs.
    return text.encode("utf-8", "replace")

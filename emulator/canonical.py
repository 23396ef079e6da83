"""One byte-exact form of a request's parts, without cache markers.

Two requests mean the same prefix exactly when these forms are equal: string content equals one text block, the
order of a block's own keys does not matter, the order of keys inside tool inputs and schemas does (as in the API).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]


def content_blocks(content: str | Sequence[Json] | None) -> list[Json]:
    """The blocks of a message, system prompt or tool result; a string is one text block."""
    if content is None:
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(content)


def canonical_block(block: Json) -> str:
    """A block or tool as JSON text with sorted keys and without `cache_control`."""
    plain: dict[str, Any] = {}
    for key in sorted(block):
        if key == "content" and block.get("type") == "tool_result":
            plain[key] = [canonical_block(part) for part in content_blocks(block[key])]
        elif key != "cache_control":
            plain[key] = block[key]
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))

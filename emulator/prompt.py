"""A prompt as a chain of its blocks, in the order of the cache: tools, system prompt, messages.

Each block's link says what stands up to its end, so two prompts have the same link exactly when they mean the same so
far, and a chain that is known can be gone on with from any message.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from emulator.canonical import Json, canonical_block, content_blocks
from emulator.tokens import MESSAGE_TOKENS, TOOL_SYSTEM_TOKENS, block_tokens, tool_tokens


@dataclass(frozen=True, slots=True)
class Link:
    """The prompt up to and including one block: its hash, its tokens, and the `ttl` of a cache marker on the block."""

    digest: str = ""
    tokens: int = 0
    ttl: str | None = None


class Prompt:
    """The links of tools and system prompt, then those of each message that was read."""

    def __init__(self, parts: Iterable[Sequence[Link]]) -> None:
        self._parts = list(parts)

    @property
    def links(self) -> list[Link]:
        """One for each block."""
        return list(chain.from_iterable(self._parts))

    @property
    def end(self) -> Link:
        """The last link; before the first block an empty one."""
        return next((part[-1] for part in reversed(self._parts) if part), Link())

    def read(self, message: Json) -> None:
        """Go on with one more message."""
        links: list[Link] = []
        last, overhead = self.end, MESSAGE_TOKENS
        # Only a first block names the role: where one message ends and the next begins is part of the prompt.
        label = message["role"]
        for block in content_blocks(message["content"]):
            last = _link(last, label, block, block_tokens(block) + overhead)
            links.append(last)
            label, overhead = "", 0
        self._parts.append(links)

    def before(self, number: int) -> "Prompt":
        """A copy that ends before the message of this number."""
        return Prompt(self._parts[: number + 1])


def head_of(body: Json) -> Prompt:
    """The prompt of a request before its first message."""
    last, links = Link(), list[Link]()
    for position, tool in enumerate(body.get("tools") or ()):
        last = _link(last, "tool", tool, tool_tokens(tool) + (TOOL_SYSTEM_TOKENS if position == 0 else 0))
        links.append(last)
    for block in content_blocks(body.get("system")):
        last = _link(last, "system", block, block_tokens(block))
        links.append(last)
    return Prompt([links])


def prompt_of(body: Json) -> Prompt:
    """The whole prompt of a request."""
    prompt = head_of(body)
    for message in body["messages"]:
        prompt.read(message)
    return prompt


def _link(last: Link, label: str, block: Json, tokens: int) -> Link:
    text = f"{last.digest}\0{label}:{canonical_block(block)}"
    mark = block.get("cache_control")
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    return Link(digest, last.tokens + tokens, mark.get("ttl", "5m") if mark else None)

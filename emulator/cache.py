"""The prompt cache, simulated: which part of a prompt is read, which is written, and for how long.

An entry is the hash of a prefix that ends at a breakpoint; it is looked for at up to 20 blocks before each
breakpoint, as in the API. Entries live in this process only, so a restart makes a cold cache, never a wrong one.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emulator.canonical import canonical_block
from emulator.catalogue import ModelCard
from emulator.tokens import dump, prompt_parts

LOOK_BACK_BLOCKS = 20
LIFETIME_SECONDS = {"5m": 300.0, "1h": 3600.0}


@dataclass(frozen=True)
class InputUsage:
    """Input tokens by kind; they add up to the whole prompt."""

    uncached: int
    read: int
    written_5m: int
    written_1h: int

    def usage(self) -> dict[str, Any]:
        """The input half of the API's `usage` object."""
        return {
            "input_tokens": self.uncached,
            "cache_read_input_tokens": self.read,
            "cache_creation_input_tokens": self.written_5m + self.written_1h,
            "cache_creation": {
                "ephemeral_5m_input_tokens": self.written_5m,
                "ephemeral_1h_input_tokens": self.written_1h,
            },
        }


@dataclass(frozen=True)
class _Prefix:
    """The prompt up to and including one block."""

    digest: str
    tokens: int
    ttl: str | None


class PromptCache:
    """Entries by prefix hash with the moment they expire; `clock` gives seconds that only grow."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._expires: dict[str, tuple[float, str]] = {}

    def charge(self, body: Mapping[str, Any], card: ModelCard) -> InputUsage:
        """What this prompt reads and writes; afterwards its breakpoints can be read by later requests."""
        prefixes = _prefixes(body)
        marks = [
            number
            for number, prefix in enumerate(prefixes)
            if prefix.ttl and prefix.tokens >= card.smallest_cache_tokens
        ]
        hit = self._longest_hit(prefixes, marks)
        read = prefixes[hit].tokens if hit is not None else 0
        written = {"5m": 0, "1h": 0}
        reached = read
        for number in marks:
            prefix = prefixes[number]
            if prefix.tokens > reached:
                written[prefix.ttl or "5m"] += prefix.tokens - reached
                reached = prefix.tokens
            self._keep(prefix.digest, prefix.ttl or "5m")
        if hit is not None:
            self._keep(prefixes[hit].digest, self._expires[prefixes[hit].digest][1])
        return InputUsage(prefixes[-1].tokens - reached, read, written["5m"], written["1h"])

    def _longest_hit(self, prefixes: Sequence[_Prefix], marks: Sequence[int]) -> int | None:
        now = self._clock()
        self._expires = {digest: entry for digest, entry in self._expires.items() if entry[0] > now}
        for mark in reversed(marks):
            for number in range(mark, max(mark - LOOK_BACK_BLOCKS, -1), -1):
                if prefixes[number].digest in self._expires:
                    return number
        return None

    def _keep(self, digest: str, ttl: str) -> None:
        # A read refreshes an entry for its own lifetime; it never shortens one.
        expires = self._clock() + LIFETIME_SECONDS[ttl]
        if expires > self._expires.get(digest, (0.0, ttl))[0]:
            self._expires[digest] = (expires, ttl)


def _prefixes(body: Mapping[str, Any]) -> list[_Prefix]:
    parts = prompt_parts(body)
    # A change of model, thinking, effort or tool choice makes another cache.
    seed = dump([body.get(key) for key in ("model", "thinking", "output_config", "tool_choice")])
    running = hashlib.sha256(seed.encode())
    total = 0
    prefixes: list[_Prefix] = []
    for number, (block, tokens) in enumerate(parts):
        running.update(canonical_block(block).encode("utf-8", "replace") + b"\0")
        total += tokens
        mark = block.get("cache_control")
        if number == len(parts) - 1:
            mark = mark or body.get("cache_control")
        prefixes.append(_Prefix(running.hexdigest(), total, mark.get("ttl", "5m") if mark else None))
    return prefixes

"""The prompt cache, simulated: which part of a prompt is read, which is written, and for how long.

An entry is the hash of a prefix that ends at a breakpoint; it is looked for at up to 20 blocks before each
breakpoint, as in the API. Entries live in this process only, so a restart makes a cold cache, never a wrong one.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from emulator.catalogue import ModelCard
from emulator.prompt import Link, Prompt
from emulator.tokens import dump

LOOK_BACK_BLOCKS = 20
LIFETIME_SECONDS = {"5m": 300.0, "1h": 3600.0}
SWEEP_SECONDS = 60.0


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


class PromptCache:
    """Entries by prefix hash with the moment they expire; `clock` gives seconds that only grow."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._expires: dict[str, tuple[float, str]] = {}
        self._swept = clock()

    def charge(self, body: Mapping[str, Any], prompt: Prompt, card: ModelCard) -> InputUsage:
        """What the prompt of a request reads and writes; then its breakpoints can be read by later requests."""
        self._sweep()
        links = _marked(body, prompt)
        marks = [number for number, link in enumerate(links) if link.ttl and link.tokens >= card.smallest_cache_tokens]
        variant = _variant(body)
        hit = self._longest_hit(variant, links, marks)
        read = links[hit].tokens if hit is not None else 0
        written = {"5m": 0, "1h": 0}
        reached = read
        for number in marks:
            link = links[number]
            ttl = link.ttl or "5m"
            if link.tokens > reached:
                written[ttl] += link.tokens - reached
                reached = link.tokens
            self._keep(variant + link.digest, ttl)
        if hit is not None:
            entry = variant + links[hit].digest
            self._keep(entry, self._expires[entry][1])
        return InputUsage(links[-1].tokens - reached, read, written["5m"], written["1h"])

    def _sweep(self) -> None:
        now = self._clock()
        if now - self._swept > SWEEP_SECONDS:
            self._swept = now
            self._expires = {key: entry for key, entry in self._expires.items() if entry[0] > now}

    def _longest_hit(self, variant: str, links: Sequence[Link], marks: Sequence[int]) -> int | None:
        now = self._clock()
        for mark in reversed(marks):
            for number in range(mark, max(mark - LOOK_BACK_BLOCKS, -1), -1):
                if self._expires.get(variant + links[number].digest, (now, ""))[0] > now:
                    return number
        return None

    def _keep(self, key: str, ttl: str) -> None:
        # A read refreshes an entry for its own lifetime; it never shortens one.
        expires = self._clock() + LIFETIME_SECONDS[ttl]
        if expires > self._expires.get(key, (0.0, ttl))[0]:
            self._expires[key] = (expires, ttl)


def _marked(body: Mapping[str, Any], prompt: Prompt) -> list[Link]:
    """The links of a prompt; a marker of the whole request stands on the last one."""
    links = prompt.links
    mark = body.get("cache_control")
    if mark and links[-1].ttl is None:
        links[-1] = replace(links[-1], ttl=mark.get("ttl", "5m"))
    return links


def _variant(body: Mapping[str, Any]) -> str:
    """A change of model, thinking, effort or tool choice makes another cache."""
    seed = dump([body.get(key) for key in ("model", "thinking", "output_config", "tool_choice")])
    return hashlib.sha256(seed.encode()).hexdigest()

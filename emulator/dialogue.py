"""What a request says so far: the assignment, the tool calls with their results, the notices.

The stand-in decides from this alone, so a restarted emulator goes on exactly where the last one was.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from emulator.request import Request

_NOTICE = re.compile(r'<notice kind="(\w+)">(.*?)</notice>', re.DOTALL)
_OPENING = "<assignment>"


class Call(NamedTuple):
    """One tool call; `turn` counts the assistant messages from 0. Without a result it was never run."""

    turn: int
    name: str
    input: Mapping[str, Any]
    result: str = ""
    failed: bool = False

    @property
    def path(self) -> str:
        """The file or item the call is about, without a leading `./`."""
        value = self.input.get("file_path") or self.input.get("item") or ""
        return str(value).removeprefix("./")


@dataclass(frozen=True)
class Notice:
    """A remark from the orchestrator; `turn` is that of the answer to it."""

    turn: int
    kind: str
    text: str


@dataclass(frozen=True)
class Dialogue:
    """The conversation as facts, in order."""

    assignment: Mapping[str, Any]
    calls: tuple[Call, ...]
    notices: tuple[Notice, ...]
    turn: int
    tools: frozenset[str]

    def done(self, name: str) -> tuple[Call, ...]:
        """The calls of one tool that succeeded."""
        return tuple(call for call in self.calls if call.name == name and not call.failed)

    def failures(self, name: str) -> int:
        """How often one tool answered with an error."""
        return sum(call.name == name and call.failed for call in self.calls)

    def told(self, kind: str) -> bool:
        """Whether a notice of this kind was ever given."""
        return any(notice.kind == kind for notice in self.notices)

    @property
    def fresh_notices(self) -> tuple[Notice, ...]:
        """The notices that came with the newest user message."""
        return tuple(notice for notice in self.notices if notice.turn == self.turn)


def read_dialogue(request: Request) -> Dialogue:
    """The facts of a request. The assignment is empty when the first message holds none."""
    calls: list[Call] = []
    notices: list[Notice] = []
    turn = 0
    results: dict[str, tuple[str, bool]] = {}
    for message in request.messages:
        results.update(message.results)
    for message in request.messages:
        if message.role == "user":
            notices += [Notice(turn, kind, text.strip()) for kind, text in _NOTICE.findall(message.text)]
            continue
        for block in message.calls:
            calls.append(Call(turn, block.name, block.input, *results.get(block.id, ("", True))))
        turn += 1
    return Dialogue(
        assignment=_assignment(request.messages[0].text),
        calls=tuple(calls),
        notices=tuple(notices),
        turn=turn,
        tools=frozenset(request.tool_names),
    )


def _assignment(text: str) -> Mapping[str, Any]:
    # Guidance files stand before the assignment and may speak of one: the last that holds JSON counts.
    position = text.rfind(_OPENING)
    while position >= 0:
        try:
            value, _ = json.JSONDecoder().raw_decode(text[position + len(_OPENING) :].lstrip())
        except ValueError:
            value = None
        if isinstance(value, dict):
            return value
        position = text.rfind(_OPENING, 0, position)
    return {}

"""What a request says so far: the assignment, the tool calls with their results, the notices.

The stand-in decides from this alone, so a restarted emulator goes on exactly where the last one was.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from emulator.request import Message, Request, TextBlock, ToolResultBlock, ToolUseBlock

_NOTICE = re.compile(r'<notice kind="(\w+)">(.*?)</notice>', re.DOTALL)
_OPENING = "<assignment>"


@dataclass(frozen=True)
class Call:
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
    results = dict(_results(request))
    for message in request.messages:
        if message.role == "user":
            notices += [Notice(turn, kind, text.strip()) for kind, text in _NOTICE.findall(_text(message))]
            continue
        for block in message.blocks:
            if isinstance(block, ToolUseBlock):
                result, failed = results.get(block.id, ("", True))
                calls.append(Call(turn, block.name, block.input, result, failed))
        turn += 1
    return Dialogue(
        assignment=_assignment(_text(request.messages[0])),
        calls=tuple(calls),
        notices=tuple(notices),
        turn=turn,
        tools=frozenset(request.tool_names),
    )


def _results(request: Request) -> Iterator[tuple[str, tuple[str, bool]]]:
    for message in request.messages:
        for block in message.blocks:
            if isinstance(block, ToolResultBlock):
                yield block.tool_use_id, (_result_text(block), bool(block.is_error))


def _result_text(block: ToolResultBlock) -> str:
    if block.content is None or isinstance(block.content, str):
        return block.content or ""
    return "\n".join(part.text for part in block.content if isinstance(part, TextBlock))


def _text(message: Message) -> str:
    return "\n".join(block.text for block in message.blocks if isinstance(block, TextBlock))


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

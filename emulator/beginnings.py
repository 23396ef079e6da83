"""What was found valid of each conversation: a request repeats it, and is checked only from where it goes on.

A beginning counts only for a request that repeats it byte for byte under the same model, tools and system prompt.
Every other request (another agent's, a changed or rewound history) is checked from its first message.
"""

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json

from emulator.pairing import calls_of
from emulator.prompt import Prompt
from emulator.request import Message, Request

MOST_CONVERSATIONS = 128


@dataclass(frozen=True)
class Beginning:
    """Messages that were found valid, up to an assistant's. None of them carries a cache marker, all `calls` have
    their results; `prompt` ends with them, and is None where nothing is known. `exact`: first the form of what stands
    before the messages, then that of each."""

    exact: tuple[bytes, ...] = ()
    messages: tuple[Message, ...] = ()
    calls: frozenset[str] = frozenset()
    prompt: Prompt | None = None


class Beginnings:
    """The beginning of each of the conversations that were last asked about, by `metadata.user_id`."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Beginning] = OrderedDict()

    def of(self, body: Mapping[str, Any]) -> Beginning:
        """What is known of a decoded request, which may be malformed; an empty beginning when it is nothing."""
        metadata, messages = body.get("metadata"), body.get("messages")
        user_id = metadata.get("user_id") if isinstance(metadata, dict) else None
        known = self._known.get(user_id) if isinstance(user_id, str) else None
        if known is None or not isinstance(messages, list):
            return Beginning()
        number = len(known.messages)
        # Another message of the user would still belong to the last turn, which was checked as a whole.
        answer = messages[number] if number < len(messages) else None
        if not isinstance(answer, dict) or answer.get("role") != "assistant":
            return Beginning()
        return known if known.exact == (_exact(_head(body)), *map(_exact, messages[:number])) else Beginning()

    def keep(self, known: Beginning, request: Request, body: Mapping[str, Any], prompt: Prompt) -> None:
        """Remember a request that was found valid; `known` is what was known of it before."""
        first = len(known.messages)
        number = _settled(request.messages, first)
        if request.user_id is None or number == 0:
            return
        if number > first:
            new = request.messages[first:number]
            known = Beginning(
                exact=(*(known.exact or (_exact(_head(body)),)), *map(_exact, body["messages"][first:number])),
                messages=(*known.messages, *new),
                calls=known.calls.union(*(calls_of(message.blocks) for message in new)),
                prompt=prompt.before(number),
            )
        self._known[request.user_id] = known
        self._known.move_to_end(request.user_id)
        if len(self._known) > MOST_CONVERSATIONS:
            self._known.popitem(last=False)


def _settled(messages: Sequence[Message], first: int) -> int:
    """How many messages are over and come again as they are. Markers move, so the first marked one does not."""
    settled = first
    for number, message in enumerate(messages[first:], first):
        if message.role == "assistant" and messages[number - 1].role == "user":
            settled = number
        if any(getattr(block, "cache_control", None) for block in message.blocks):
            break
    return settled


def _head(body: Mapping[str, Any]) -> list[Any]:
    """What the rules for messages look at beside the messages."""
    return [body.get(key) for key in ("model", "tools", "system")]


def _exact(value: object) -> bytes:
    """A form that two JSON values share only when they are the same, with the same order of keys."""
    try:
        return to_json(value, inf_nan_mode="constants")
    except ValueError:  # half a surrogate pair, or too deep
        return json.dumps(value).encode()

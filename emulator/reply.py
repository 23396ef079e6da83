"""What a model answers with, and what may go wrong on the way: the only interface between a model and the API."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Protocol

from emulator.request import Request


@dataclass(frozen=True)
class Text:
    """A text block."""

    text: str


@dataclass(frozen=True)
class Thinking:
    """A thinking block; signed by the emulator unless `signed` is false."""

    thinking: str
    signed: bool = True


@dataclass(frozen=True)
class ToolUse:
    """A tool call. `input` is a JSON object, or raw text that is streamed as it is (to send broken JSON)."""

    name: str
    input: Mapping[str, Any] | str
    id: str | None = None
    """Minted by the emulator when absent."""


@dataclass(frozen=True)
class ServerToolUse:
    """A call of one of the API's own tools: the last block of a `pause_turn`."""

    input: Mapping[str, Any] = field(default_factory=dict)
    name: str = "web_search"


Block = Text | Thinking | ToolUse | ServerToolUse


@dataclass(frozen=True)
class HttpError:
    """An error status instead of an answer, e.g. 529 `overloaded_error` with `{"retry-after": "3"}`."""

    status: int
    kind: str
    message: str = "A fault that the test asked for"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Cut:
    """The connection is closed: before the headers (`None`), or after that many events of the stream.

    A number beyond the last event closes after `message_stop`, but before the body's regular end.
    """

    after_events: int | None = None


@dataclass(frozen=True)
class Stall:
    """Nothing is sent for that long: before the headers (`None`), or after that many events; then it goes on.

    `pings`: the stream keeps alive meanwhile, as the API's does.
    """

    seconds: float
    after_events: int | None = None
    pings: bool = False


@dataclass(frozen=True)
class BadData:
    """After that many events comes one whose data is no JSON."""

    after_events: int


@dataclass(frozen=True)
class ErrorEvent:
    """After that many events an SSE `error` event ends a stream that began with status 200."""

    kind: str = "overloaded_error"
    message: str = "Overloaded"
    after_events: int = 2


@dataclass(frozen=True)
class NoMessageStop:
    """The body ends regularly without its last events: 1 leaves out `message_stop`, 2 `message_delta` too."""

    left_out: int = 1


Fault = HttpError | Cut | Stall | BadData | ErrorEvent | NoMessageStop


@dataclass(frozen=True)
class Reply:
    """One answer. Without a `stop_reason` it is `tool_use` when a tool is called, else `end_turn`."""

    blocks: Sequence[Block] = ()
    stop_reason: str | None = None
    fault: Fault | None = None
    stop_details: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0
    """Its tokens come evenly over so long; 0: at the server's pace."""


class Model(Protocol):
    """Answers requests that were found valid. Called in a worker thread."""

    def respond(self, request: Request) -> Reply: ...


class ScriptedModel:
    """Gives the replies of a list one after the other; a callable gets the request and makes its reply."""

    def __init__(self, replies: Sequence[Reply | Callable[[Request], Reply]]) -> None:
        self._replies = list(replies)
        self._next = 0
        self._lock = Lock()

    def respond(self, request: Request) -> Reply:
        """The next reply.

        Raises:
            LookupError: the script has ended; the emulator answers 500 and the test sees why.
        """
        with self._lock:
            if self._next >= len(self._replies):
                raise LookupError(f"the script of {len(self._replies)} replies has ended")
            reply = self._replies[self._next]
            self._next += 1
        return reply if isinstance(reply, Reply) else reply(request)

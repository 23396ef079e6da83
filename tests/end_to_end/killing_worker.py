"""The real worker, whose process ends itself with SIGKILL at a named point of the second turn, once.

`--kill-at POINT --marker FILE` come before the worker's own options; the marker says that it happened.
"""

import argparse
import asyncio
import functools
import itertools
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pygit2

import worker
from activities.model import Model, ModelRequest
from activities.repository import PrivateRepository
from activities.store import Store
from activities.tools import Tools
from baton.conversation import Turn

TURN = 2
WITHIN_COMMAND_SECONDS = 0.5

Due = Callable[..., bool]


class Killer:
    """Ends this process the first time it is called."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __call__(self) -> None:
        if not self._marker.exists():
            self._marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def before(self, owner: type, name: str, due: Due) -> None:
        """Kill when the method is called with arguments that are `due`."""
        original = getattr(owner, name)

        @functools.wraps(original)
        def wrapped(this: Any, *arguments: Any, **named: Any) -> Any:
            if due(*arguments, **named):
                self()
            return original(this, *arguments, **named)

        setattr(owner, name, wrapped)

    def after(self, owner: type, name: str, due: Due) -> None:
        """Kill when the method has done its work."""
        original = getattr(owner, name)

        @functools.wraps(original)
        def wrapped(this: Any, *arguments: Any, **named: Any) -> Any:
            result = original(this, *arguments, **named)
            if not due(*arguments, **named):
                return result
            return self._then(result) if asyncio.iscoroutine(result) else self()

        setattr(owner, name, wrapped)

    async def _then(self, work: Any) -> Any:
        result = await work
        self()
        return result

    def while_streaming(self) -> None:
        """Kill when a part of the response has arrived."""
        original = Model.respond

        async def wrapped(this: Model, request: ModelRequest, progress: Callable[[int], None], *rest: Any) -> Any:
            def watched(tokens: int) -> None:
                if tokens > 0 and _asks(request):
                    self()
                progress(tokens)

            return await original(this, request, watched, *rest)

        Model.respond = wrapped  # type: ignore[method-assign, assignment]

    def within_command(self) -> None:
        """Kill while a command runs."""
        original = Tools.call

        async def wrapped(this: Tools, name: str, raw_input: object) -> Any:
            if name == "bash":
                asyncio.get_running_loop().call_later(WITHIN_COMMAND_SECONDS, self)
            return await original(this, name, raw_input)

        Tools.call = wrapped  # type: ignore[method-assign, assignment]


def _asks(request: ModelRequest, *_: object) -> bool:
    """Whether the request is that of the turn: one answer stands in it already."""
    return [message["role"] for message in request.messages].count("assistant") == TURN - 1


def _entry(kind: str) -> Due:
    """Journal entries of the turn: `<run>/<turn>/<head>/<kind>`."""
    return lambda key, *_, **__: key.split("/")[1] == str(TURN) and key.endswith(f"/{kind}")


def _node(data: bytes) -> bool:
    """Whether these bytes are the turn's node."""
    try:
        return Turn.model_validate_json(data).turn == TURN
    except ValueError:
        return False


def _trailers(_workspace: object, _subject: str, trailers: Mapping[str, str], *_: object) -> bool:
    return trailers.get("Baton-Turn") == str(TURN)


_made = itertools.count(1)


POINTS: dict[str, Callable[[Killer], None]] = {
    "before-call": lambda killer: killer.before(Model, "respond", _asks),
    "streaming": Killer.while_streaming,
    "after-response": lambda killer: killer.after(Model, "respond", _asks),
    "after-journal": lambda killer: killer.after(Store, "enter", _entry("response")),
    "during-tool": Killer.within_command,
    "before-node": lambda killer: killer.before(Store, "put", _node),
    "before-checkpoint": lambda killer: killer.before(PrivateRepository, "checkpoint", _trailers),
    # The first commit is that of turn 1, the second of turn 2; the ref, which is the truth, would be next.
    "within-checkpoint": lambda killer: killer.after(
        pygit2.Repository, "create_commit", lambda *_: next(_made) == TURN
    ),
    "after-checkpoint": lambda killer: killer.after(PrivateRepository, "checkpoint", _trailers),
    "after-outcome": lambda killer: killer.after(Store, "enter", _entry("outcome")),
}


def main() -> None:
    """Prepare the kill and be the worker."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kill-at", choices=POINTS, required=True)
    parser.add_argument("--marker", type=Path, required=True)
    options, sys.argv[1:] = parser.parse_known_args()
    POINTS[options.kill_at](Killer(options.marker))
    worker.main()


if __name__ == "__main__":
    main()

"""Single keys from the terminal, while a view is drawn on it.

The terminal gives them without echo and without waiting for Enter; Ctrl-C stays what it is. However the block ends,
by an error, Ctrl-C or SIGTERM, the terminal is as it was before; after Ctrl-Z and `fg` the keys work again.
"""

import asyncio
import codecs
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_READ_BYTES = 1024
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[ -~])")
"""What an arrow or another special key sends, after ECMA-48: none of ours, and keys may follow in the same read."""
_TERMINATED = 128 + signal.SIGTERM


@contextmanager
def keys(pressed: Callable[[str], None]) -> Iterator[bool]:
    """Give every key to `pressed` in the block, from within the running event loop.

    Yields whether there are keys: not where standard input is no terminal, or the program runs in the background.
    """
    if not _is_ours():
        yield False
        return
    import termios
    import tty

    terminal, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(terminal)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read() -> None:
        data = os.read(terminal, _READ_BYTES)
        if not data:
            loop.remove_reader(terminal)
        for key in _SEQUENCE.sub("", decoder.decode(data)):
            pressed(key)

    def come_back(_signal: int, _frame: FrameType | None) -> None:
        if _is_ours():
            tty.setcbreak(terminal)

    handlers = {
        signal.SIGCONT: signal.signal(signal.SIGCONT, come_back),
        signal.SIGTERM: signal.signal(signal.SIGTERM, _leave),
    }
    try:
        tty.setcbreak(terminal)
        loop.add_reader(terminal, read)
        yield True
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _is_ours() -> bool:
    """Whether standard input is a terminal on which we are in the foreground; changing another's would stop us."""
    try:
        return sys.stdin.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
        return False


def _leave(_signal: int, _frame: FrameType | None) -> None:
    sys.exit(_TERMINATED)

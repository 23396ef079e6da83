"""Single keys on a real terminal: they arrive, Ctrl-C stays what it is, and the terminal is left as it was."""

import os
import pty
import select
import signal
import sys
import termios
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import asyncio, sys
from cli.keys import keys

async def main():
    got = asyncio.Queue()
    with keys(got.put_nowait) as there:
        print("ready", there, flush=True)
        while (key := await got.get()) != "q":
            print("got", ascii(key), flush=True)
            if key == "!":
                raise RuntimeError("broken")

try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


class Terminal:
    """The program on a terminal of its own."""

    def __init__(self) -> None:
        self.child, self.master = pty.fork()
        if self.child == 0:
            os.chdir(ROOT)
            os.execv(sys.executable, [sys.executable, "-c", PROGRAM])
        self.out = ""
        self.before = termios.tcgetattr(self.master)

    def until(self, text: str) -> None:
        """Read until the program has printed this."""
        end = time.monotonic() + 30
        while text not in self.out:
            assert time.monotonic() < end, self.out
            if select.select([self.master], [], [], 1)[0]:
                self.out += os.read(self.master, 4096).decode()

    def ended(self) -> int:
        """The exit code; the terminal's modes are compared while it is still there."""
        _, status = os.waitpid(self.child, 0)
        assert termios.tcgetattr(self.master) == self.before
        os.close(self.master)
        return os.waitstatus_to_exitcode(status)


@pytest.mark.parametrize(("end", "code"), [("q", 0), ("!", 1), ("\x03", 0)])
def test_the_terminal_is_left_as_it_was(end: str, code: int) -> None:
    terminal = Terminal()
    terminal.until("ready True")
    assert termios.tcgetattr(terminal.master) != terminal.before
    os.write(terminal.master, "aä\x1b[Ab".encode()[:3])
    terminal.until("got '\\xe4'")
    os.write(terminal.master, b"\x1b[A\x1bOB\x1b[1;5Cb")
    terminal.until("got 'b'")
    os.write(terminal.master, end.encode())
    if end == "\x03":
        terminal.until("interrupted")
    assert terminal.ended() == code
    for part in ("[A", "'A'", "'O'", "'C'", "x1b"):
        assert part not in terminal.out


def test_sigterm_leaves_it_as_it_was_too() -> None:
    terminal = Terminal()
    terminal.until("ready True")
    os.kill(terminal.child, signal.SIGTERM)
    assert terminal.ended() == 128 + signal.SIGTERM

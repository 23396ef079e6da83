"""A person's terminal: the program in the foreground of 80 columns, what it shows, and keys."""

import os
import pty
import select
import struct
import sys
import termios
import time
from fcntl import ioctl

from tests.end_to_end.desk import LIMIT_SECONDS, ROOT, Desk


class Terminal:
    """The program on a terminal of 80 columns."""

    def __init__(self, desk: Desk, *arguments: str) -> None:
        self.child, self.master = pty.fork()
        if self.child == 0:
            os.chdir(desk.repository)
            program = [sys.executable, str(ROOT / "starter.py"), *arguments]
            os.execve(sys.executable, program, desk.environment | {"TERM": "xterm-256color"})
        ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
        self.before = termios.tcgetattr(self.master)
        self.out = ""

    def until(self, text: str) -> None:
        """Wait until this is shown; what came before is not looked at again."""
        end = time.monotonic() + LIMIT_SECONDS
        while text not in self.out:
            assert time.monotonic() < end, self.out[-3000:]
            self._read(1)
        self.out = self.out.partition(text)[2]

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def _read(self, seconds: float) -> bool:
        """Read what is there; False when there is nothing, or nobody holds the terminal any more."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        try:
            self.out += os.read(self.master, 65536).decode("utf-8", "replace")
        except OSError:
            return False
        return True

    def ended(self) -> int:
        """The exit code; whatever is still printed is read, so that the program is not held up."""
        end = time.monotonic() + LIMIT_SECONDS
        while os.waitid(os.P_PID, self.child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            assert time.monotonic() < end, self.out[-3000:]
            self._read(0.2)
        while self._read(0):
            pass
        assert termios.tcgetattr(self.master) == self.before
        _, status = os.waitpid(self.child, 0)
        os.close(self.master)
        return os.waitstatus_to_exitcode(status)

"""How many processes a command may have at once and how much memory each of them, and the watch over their number.

The kernel bounds the memory (`RLIMIT_DATA`, which leaves mere reservations of address space alone). It does not bound
the processes of root, nor those of one command apart from a user's others, so they are counted.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

MOST_PROCESSES = 1_000
MEMORY_SHARE = 0.8
"""Of the host's memory, for each process."""
PROCESSES_VARIABLE, MEMORY_VARIABLE = "BATON_COMMAND_PROCESSES", "BATON_COMMAND_MEMORY_MB"
MARK_BYTES = 64 * 2**20
LOOK_SECONDS = 0.25
_LOAD = Path("/proc/loadavg")
_LIMITED = 'ulimit -d "$0" 2>/dev/null; ulimit -c 0 2>/dev/null; exec "$@"'
"""`$0` is in KiB. Where the limit is lower already, raising it fails, which is fine. No core files either."""


@dataclass(frozen=True)
class CommandLimits:
    """`processes`: of a command with all it started; `memory_bytes`: of each of its processes."""

    processes: int = MOST_PROCESSES
    memory_bytes: int | None = None

    @classmethod
    def of_host(cls, environment: Mapping[str, str]) -> "CommandLimits":
        """The worker's: as its environment says, else from the host's memory. ValueError for what is no number."""
        processes = int(environment.get(PROCESSES_VARIABLE) or MOST_PROCESSES)
        given = environment.get(MEMORY_VARIABLE)
        memory = int(given) * 2**20 if given else int(psutil.virtual_memory().total * MEMORY_SHARE)
        if processes < 1 or memory < 1:
            raise ValueError(f"{PROCESSES_VARIABLE} and {MEMORY_VARIABLE} must be above zero")
        return cls(processes, memory)

    def marked(self, tag: str) -> "CommandLimits":
        """A little less memory, by an amount that this command alone has: what it starts can be told by its limit."""
        if self.memory_bytes is None:
            return self
        steps = min(MARK_BYTES, self.memory_bytes // 8) // 1024
        return replace(self, memory_bytes=(self.memory_bytes // 1024 - int(tag, 16) % max(steps, 1)) * 1024)

    def argv(self, argv: Sequence[str]) -> list[str]:
        """The program under the limit of memory, set by the shell that every host has before it becomes the program."""
        if self.memory_bytes is None:
            return list(argv)
        return ["/bin/sh", "-c", _LIMITED, str(self.memory_bytes // 1024), *argv]

    async def overrun(self, leader: int) -> None:
        """Return once the leader has more descendants than allowed; else never."""
        before = _all_threads()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = _all_threads()
            # One small read tells whether there can be so many; only then they are counted.
            if now is None or before is None or now - before >= self.processes // 2:
                if await asyncio.to_thread(_processes_of, leader) > self.processes:
                    return
            else:
                before = min(before, now)


def _all_threads() -> int | None:
    """Threads of the whole host; None where it does not say."""
    with suppress(OSError, ValueError, IndexError):
        return int(_LOAD.read_text(encoding="ascii").split()[3].partition("/")[2])
    return None


def _processes_of(leader: int) -> int:
    """Its descendants, and those of its session, whose parents may be gone."""
    found: set[int] = set()
    with suppress(psutil.Error):
        found = {process.pid for process in psutil.Process(leader).children(recursive=True)}
    for pid in psutil.pids():
        with suppress(OSError):
            if os.getsid(pid) == leader:
                found.add(pid)
    return len(found)

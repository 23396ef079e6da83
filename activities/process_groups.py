"""Process groups of commands: how one is named so that it can be ended later, and the ending itself.

A group is named by its leader's id and start time, by a tag in the environment of everything it started, and by the
limit of memory that all of it has, which stays with a process that dropped its environment, session and files. So an
attempt that comes after a crash ends what the first one left behind, daemons included, and never a stranger that
got the same process id.
"""

import asyncio
import os
import resource
import signal
import sys
import time
from contextlib import suppress

import psutil

from baton.models import Stored

TAG_VARIABLE = "BATON_COMMAND"
"""Environment variable that all descendants of a command inherit."""
GRACE_SECONDS = 2.0
"""Between SIGTERM and SIGKILL."""
KILL_ROUNDS = 10


class ProcessGroup(Stored):
    """What to record of a command, so that any later process can end it with `end_group`. Before the start: id 0.

    `memory_bytes`: its own limit (`CommandLimits.marked`); 0: none.
    """

    group_id: int
    started_at: float
    tag: str
    memory_bytes: int = 0

    @classmethod
    def led_by(cls, process_id: int, tag: str, memory_bytes: int = 0) -> "ProcessGroup":
        """The group of a leader that was just started; `started_at` is 0.0 when it is gone already."""
        return cls(group_id=process_id, started_at=_start_time(process_id), tag=tag, memory_bytes=memory_bytes)


async def end_group(group: ProcessGroup, grace_seconds: float = GRACE_SECONDS) -> int:
    """End every process of `group`: SIGTERM, then SIGKILL after the grace. Returns how many there were.

    Idempotent. SIGKILL is sent even when the caller is cancelled during the grace.
    """
    members = await asyncio.to_thread(_members, group)
    if not members:
        return 0
    _send(members, signal.SIGTERM)
    try:
        deadline = time.monotonic() + grace_seconds
        while time.monotonic() < deadline and any(map(_alive, members)):  # noqa: ASYNC110 (no event exists)
            await asyncio.sleep(0.02)
    finally:
        # Looked up again and again: a member may fork while it is being ended.
        for _ in range(KILL_ROUNDS):
            rest = _members(group)
            if not rest:
                break
            _send(rest, signal.SIGKILL)
    return len(members)


def has_members(group_id: int) -> bool:
    """Whether any process, a zombie included, is in the group: one system call, no look through the host."""
    try:
        os.killpg(group_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _members(group: ProcessGroup) -> list[psutil.Process]:
    tagged, grouped = [], []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            if os.getpgid(process.pid) == group.group_id:
                grouped.append(process)
            tag = process.environ().get(TAG_VARIABLE)
            if tag == group.tag or (
                tag is None and group.memory_bytes and _memory_limit(process) == group.memory_bytes
            ):
                tagged.append(process)
    if not _is_ours(group, tagged):
        grouped = []
    return list({process.pid: process for process in [*tagged, *grouped]}.values())


def _is_ours(group: ProcessGroup, tagged: list[psutil.Process]) -> bool:
    """Whether the group id still means the recorded group: its leader lives, or a tagged process is in it."""
    if group.started_at and _start_time(group.group_id) == group.started_at:
        return True
    for process in tagged:
        with suppress(OSError):
            if os.getpgid(process.pid) == group.group_id:
                return True
    return False


def _memory_limit(process: psutil.Process) -> int:
    """Its hard limit, which every process inherits and none can raise; 0 where the system does not tell."""
    return int(process.rlimit(resource.RLIMIT_DATA)[1]) if sys.platform == "linux" else 0


def _start_time(process_id: int) -> float:
    try:
        return float(psutil.Process(process_id).create_time())
    except psutil.Error:
        return 0.0


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _send(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        # psutil compares the start time first, so a reused id is not hit.
        with suppress(psutil.Error):
            process.send_signal(number)

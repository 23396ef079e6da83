"""Processes of the service: how they are recognised, ended and started from a clean environment.

A process is only ever touched when number and start time are those that were recorded, so a number that the
system gave to somebody else is never taken for ours.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import psutil

from cli.service_record import ProcessMark

_POLL_SECONDS = 0.02
# /proc gives the boot time in whole seconds, and it moves by one when the clock is adjusted.
_CLOCK_TOLERANCE_SECONDS = 2.0
# `-P` and no PYTHONPATH keep a user's folder off the path; the folder this package was loaded from is put on it
# instead (a checkout that is not installed; for an installed Baton it is on the path already).
_BOOT = (
    "import runpy, sys; root = sys.argv.pop(1); root in sys.path or sys.path.insert(0, root); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def python_command(module: str) -> list[str]:
    """The command that runs one of our modules as `__main__`, the same code as the caller's; append arguments."""
    root = Path(__file__).resolve().parent.parent
    return [sys.executable, "-P", "-c", _BOOT, str(root), module]


def service_environment(
    environment: Mapping[str, str], *, keep_temporal: bool, keep_telemetry: bool = True
) -> dict[str, str]:
    """The caller's environment without PYTHONPATH, ANTHROPIC_* and a collector's headers (files are their one way).

    OTEL_* is for the worker; the embedded server would send traces of its own.

    TEMPORAL_* stays only where the server is not ours: it would lead clients of an embedded one elsewhere, and so
    would a profile, which is why the configuration file is then named as an empty one.
    """
    dropped = ("ANTHROPIC_",) if keep_temporal else ("ANTHROPIC_", "TEMPORAL_")
    dropped = dropped if keep_telemetry else (*dropped, "OTEL_")
    kept = {name: value for name, value in environment.items() if not name.startswith(dropped) and _may_stay(name)}
    return kept if keep_temporal else kept | {"TEMPORAL_CONFIG_FILE": os.devnull}


def _may_stay(name: str) -> bool:
    return name not in ("PYTHONPATH", "NOTIFY_SOCKET") and not (
        name.startswith("OTEL_EXPORTER_") and name.endswith("_HEADERS")
    )


def mark(pid: int) -> ProcessMark | None:
    """What identifies a process; None when it has ended already."""
    try:
        return ProcessMark(pid=pid, created=psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return None


def is_alive(recorded: ProcessMark | None) -> bool:
    """Whether the recorded process still runs. A zombie does not, unless threads of it are left: a process of many
    threads that was killed shows as a zombie before the last one has let go of files and locks."""
    process = _process(recorded)
    if process is None:
        return False
    try:
        return process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1
    except psutil.NoSuchProcess:
        return False


def listens(pid: int, port: int) -> bool:
    """Whether that very process accepts connections on `port`. "Something answers" would not say whose it is."""
    try:
        connections = psutil.Process(pid).net_connections("tcp")
    except psutil.Error:
        return False
    return any(c.status == psutil.CONN_LISTEN and c.laddr.port == port for c in connections)


def answers(address: str, limit: timedelta) -> bool:
    """Whether a TCP connection to `host:port` succeeds. Raises ValueError for another form of address."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"{address!r} is not of the form host:port")
    with suppress(OSError):
        socket.create_connection((host.strip("[]"), int(port)), timeout=limit.total_seconds()).close()
        return True
    return False


def end(recorded: ProcessMark | None, grace: timedelta) -> bool:
    """SIGTERM, and after `grace` SIGKILL to what is left of its process group. Returns whether it was alive."""
    was_alive = is_alive(recorded)
    if recorded is None:
        return False
    if was_alive:
        _send(recorded, signal.SIGTERM)
        wait_gone(recorded, grace)
    kill_group(recorded)
    if was_alive:
        wait_gone(recorded, timedelta(seconds=5))
    return was_alive


def kill(recorded: ProcessMark | None) -> None:
    """SIGKILL to the recorded process alone, and wait until it is gone."""
    if recorded is not None and is_alive(recorded):
        _send(recorded, signal.SIGKILL)
        wait_gone(recorded, timedelta(seconds=5))


def kill_group(recorded: ProcessMark) -> None:
    """SIGKILL to what is left of the process group that the recorded process leads or led.

    The system does not give out a number that is still the number of a group. So when another process has it
    now, our group is gone, and nothing is sent.
    """
    if not psutil.pid_exists(recorded.pid) or _process(recorded) is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(recorded.pid, signal.SIGKILL)


def wait_gone(recorded: ProcessMark, limit: timedelta) -> bool:
    """Wait until the process has ended, at most `limit`; returns whether it has."""
    deadline = time.monotonic() + limit.total_seconds()
    while is_alive(recorded):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def running_in(folder: Path, name: str, value: str) -> list[ProcessMark]:
    """Processes of this user that run in `folder` (an absolute path without links) and whose command line holds
    `name value`."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            arguments = process.cmdline()
            told = (name, value) in itertools.pairwise(arguments)
            if told and _is_ours(process) and process.cwd() == str(folder):
                found.append(ProcessMark(pid=process.pid, created=process.create_time()))
    return found


def _is_ours(process: psutil.Process) -> bool:
    return bool(process.uids().effective == os.geteuid())


def _process(recorded: ProcessMark | None) -> psutil.Process | None:
    if recorded is None:
        return None
    try:
        process = psutil.Process(recorded.pid)
        same = abs(process.create_time() - recorded.created) < _CLOCK_TOLERANCE_SECONDS
    except psutil.NoSuchProcess:
        return None
    return process if same else None


def _send(recorded: ProcessMark, number: signal.Signals) -> None:
    process = _process(recorded)
    if process is not None:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)

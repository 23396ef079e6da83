"""The stand-in model of the demo: the emulator as a background process that lives as long as the demo's service.

One per demo state directory. It ends when it is told to, or by itself when no supervisor has held the directory for
a while, so that nothing outlives a demo.
"""

import argparse
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from cli import processes
from cli.exits import Refused, ServiceError
from cli.service_record import (
    ProcessMark,
    ServiceFiles,
    is_locked,
    log_tail,
    open_log,
    private_directory,
    write_private,
)

ALONE_LIMIT = timedelta(seconds=45)
"""How long it waits for a service to come, or to come back."""
_GRACE = timedelta(seconds=3)
_NEEDED = ("starlette", "uvicorn", "pyupgrade", "flynt")


class Record(BaseModel):
    """`stand-in.json`: what runs, and where it serves."""

    model_config = ConfigDict(frozen=True)

    process: ProcessMark
    url: str
    tokens_per_second: float


def start(state: Path, tokens_per_second: float) -> str:
    """The base URL of the running stand-in, started where none of this pace runs.

    Raises `Refused` where the `demo` extra is not installed, ServiceError when the process does not come up.
    """
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise Refused(f"the demo needs the packages {', '.join(missing)}: pip install 'baton[demo]'")
    running = _read(state)
    if running is not None and running.tokens_per_second == tokens_per_second and processes.is_alive(running.process):
        return running.url
    stop(state)
    private_directory(state)
    log_path = state / "stand-in.log"
    command = [*processes.python_command("cli.stand_in"), "--state", str(state)]
    with open_log(log_path) as log:
        started = subprocess.run(
            [*command, "--tokens-per-second", str(tokens_per_second)],
            cwd=state,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            check=False,
        )
    record = _read(state)
    if started.returncode != 0 or record is None:
        raise ServiceError(f"the stand-in model does not start; the end of {log_path}:\n{log_tail(log_path)}")
    return record.url


def stop(state: Path) -> bool:
    """End the stand-in of this state directory; whether one ran."""
    record = _read(state)
    if record is None:
        return False
    ran = processes.end(record.process, _GRACE)
    _path(state).unlink(missing_ok=True)
    return ran


def until_alone(files: ServiceFiles, told: threading.Event) -> None:
    """Return when it is `told` to stop, or no supervisor has held the directory for `ALONE_LIMIT`."""
    seen = time.monotonic()
    while not told.wait(1):
        if is_locked(files.supervisor_lock):
            seen = time.monotonic()
        if time.monotonic() - seen > ALONE_LIMIT.total_seconds():
            return


def main() -> int:
    """`python -m cli.stand_in --state DIR`: go to the background, serve until SIGTERM or until there is no service."""
    from emulator.server import EmulatorServer
    from emulator.standin import StandIn

    parser = argparse.ArgumentParser(prog="cli.stand_in", description="The demo's stand-in model (no AI).")
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--tokens-per-second", type=float, default=0)
    options = parser.parse_args()
    server = EmulatorServer(
        StandIn(), journal=options.state / "stand-in.jsonl", tokens_per_second=options.tokens_per_second, keep=False
    )
    # It listens already: whoever reads the record after this process has ended can connect.
    child = os.fork()
    if child:
        process = processes.mark(child)
        if process is not None:
            record = Record(process=process, url=server.url, tokens_per_second=options.tokens_per_second)
            write_private(_path(options.state), record.model_dump_json())
        os._exit(0 if process else 1)
    os.setsid()
    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    with server:
        until_alone(ServiceFiles(options.state), told)
    return 0


def _read(state: Path) -> Record | None:
    try:
        return Record.model_validate_json(_path(state).read_bytes())
    except (OSError, ValidationError):
        return None


def _path(state: Path) -> Path:
    return state / "stand-in.json"


if __name__ == "__main__":
    sys.exit(main())

"""Owns the folder `<state>/service`: its file names, locks and `service.json`, the record of what runs.

Everything in it is private to the user (0700, 0600), and a file is only ever replaced as a whole, so a reader
never sees half of one and nothing is written through a link that somebody else put there.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

from pydantic import BaseModel, ConfigDict, ValidationError

from cli.exits import ServiceError

LOG_LIMIT_BYTES = 5_000_000
WORKER_GRACE = timedelta(seconds=15)
"""From SIGTERM to SIGKILL; a step may end, and its result be reported."""
SERVER_GRACE = timedelta(seconds=5)
_LOCK_POLL_SECONDS = 0.05


class ProcessMark(BaseModel):
    """A process that cannot be mistaken for a later one with the same number."""

    model_config = ConfigDict(frozen=True)

    pid: int
    created: float
    """Seconds since the epoch, as psutil's `create_time` gives it."""


class Service(BaseModel):
    """What runs for one state directory; the content of `service.json`.

    `ready` means that the server answered and the worker said that it polls. Restart counts are those of the
    current supervisor.
    """

    model_config = ConfigDict(frozen=True)

    address: str
    namespace: str = "default"
    ui_url: str | None = None
    """None with a server that is not ours."""
    embedded: bool = True
    ready: bool = False
    directory: Path
    supervisor: ProcessMark | None = None
    server: ProcessMark | None = None
    worker: ProcessMark | None = None
    server_version: str | None = None
    server_restarts: int = 0
    worker_restarts: int = 0
    supervisor_code: str | None = None
    """Fingerprint of the code that the supervisor was started on; likewise of the worker."""
    worker_code: str | None = None
    draining: tuple[ProcessMark, ...] = ()
    """Workers beside the one: on older code, they take nothing new and finish what they do; on newer, they start."""
    troubles: tuple[str, ...] = ()
    """What does not stay up, or does not start, for a person."""

    @property
    def supervisor_pid(self) -> int | None:
        return self.supervisor.pid if self.supervisor else None

    @property
    def server_pid(self) -> int | None:
        return self.server.pid if self.server else None

    @property
    def worker_pid(self) -> int | None:
        return self.worker.pid if self.worker else None

    @property
    def supervisor_log(self) -> Path:
        return self.directory / "supervisor.log"

    @property
    def server_log(self) -> Path:
        return self.directory / "server.log"

    @property
    def worker_log(self) -> Path:
        return worker_log(self.directory.parent)


@dataclass(frozen=True)
class ServiceFiles:
    """The files of the service of one state directory. Making one touches no disk."""

    state: Path

    @property
    def directory(self) -> Path:
        return self.state / "service"

    @property
    def record(self) -> Path:
        return self.directory / "service.json"

    @property
    def credentials(self) -> Path:
        return self.directory / "credentials.json"

    @property
    def telemetry(self) -> Path:
        """The collector's credentials."""
        return self.directory / "telemetry.json"

    @property
    def worker_ready(self) -> Path:
        return self.directory / "worker-ready"

    @property
    def start_lock(self) -> Path:
        """Held while the service is started or stopped."""
        return self.directory / "start.lock"

    @property
    def supervisor_lock(self) -> Path:
        """Held as long as a supervisor lives."""
        return self.directory / "supervisor.lock"

    @property
    def database(self) -> Path:
        return self.directory / "temporal.db"

    @property
    def database_facts(self) -> Path:
        return self.directory / "temporal.json"

    @property
    def database_lock(self) -> Path:
        """Held as long as a server lives, by the server itself."""
        return self.directory / "temporal.lock"

    def create(self) -> None:
        """Make the folders, private to the user. Raises ServiceError where the folder is somebody else's."""
        private_directory(self.state)
        private_directory(self.directory)
        facts = self.directory.lstat()
        if self.directory.is_symlink() or facts.st_uid != os.geteuid():
            raise ServiceError(
                f"{self.directory} is a link or belongs to another user; remove it or set BATON_STATE_DIR"
            )
        if facts.st_mode & 0o077:
            self.directory.chmod(0o700)

    def read(self) -> Service | None:
        """The last record, or None where there is none that can be read."""
        try:
            return Service.model_validate_json(self.record.read_bytes())
        except (OSError, ValidationError):
            return None

    def write(self, service: Service) -> None:
        write_private(self.record, service.model_dump_json(indent=1))


def private_directory(path: Path) -> None:
    """Make `path` with mode 0700; one that exists stays as it is. Raises ServiceError where that fails."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ServiceError(
            f"cannot make the folder {path} ({error.strerror}); set BATON_STATE_DIR to one that can be written"
        ) from error


def write_private(path: Path, text: str) -> None:
    """Replace `path` as a whole with a file of mode 0600. A link in its place is replaced, not followed."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(6)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def open_log(path: Path) -> BinaryIO:
    """Open a log for appending; one over LOG_LIMIT_BYTES becomes `<name>.1` first (one old file is kept)."""
    if path.exists() and path.stat().st_size > LOG_LIMIT_BYTES:
        path.replace(path.with_name(f"{path.name}.1"))
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")


def rotate_log(path: Path) -> None:
    """Empty a log over LOG_LIMIT_BYTES that processes append to; what it held becomes `<name>.1`."""
    try:
        if path.stat().st_size > LOG_LIMIT_BYTES:
            older = path.with_name(f"{path.name}.1")
            older.unlink(missing_ok=True)
            shutil.copy2(path, older)
            os.truncate(path, 0)
    except OSError:
        # A full disk or a log that is not there must not end those who write it.
        return


def worker_log(state: Path) -> Path:
    """The log of the worker of a state directory."""
    return state / "service" / "worker.log"


def log_tail(path: Path, lines: int = 8) -> str:
    """The last lines of a log, for an error message; empty where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 8_000))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


def try_lock(path: Path) -> int | None:
    """Take the lock and return its descriptor (not inherited by children), or None where somebody holds it.

    The lock belongs to the open file: it ends when the last process that has the descriptor closes it or dies.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def is_locked(path: Path) -> bool:
    """Whether a living process holds the lock."""
    if not path.exists():
        return False
    descriptor = try_lock(path)
    if descriptor is None:
        return True
    os.close(descriptor)
    return False


@contextmanager
def exclusive(path: Path, limit: timedelta) -> Iterator[None]:
    """Hold the lock for the block. Raises ServiceError when it is not free within `limit`."""
    deadline = time.monotonic() + limit.total_seconds()
    while (descriptor := try_lock(path)) is None:
        if time.monotonic() > deadline:
            raise ServiceError(
                f"another command has been starting or stopping the service for {limit.total_seconds():.0f} s "
                f"(it holds {path}); end that command and try again"
            )
        time.sleep(_LOCK_POLL_SECONDS)
    try:
        yield
    finally:
        os.close(descriptor)

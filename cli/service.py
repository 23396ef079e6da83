"""The local service of one state directory: started when needed, looked at, stopped.

Starting and stopping hold one lock, so two commands at once start one service. Importing this module imports
neither temporalio nor anthropic: looking at the service takes milliseconds.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from cli import dev_server, processes
from cli.connection import configured, connect, unreachable
from cli.credentials import remove_credentials, save_credentials
from cli.dev_server import Ports
from cli.exits import ServiceError
from cli.processes import python_command
from cli.service_record import (
    SERVER_GRACE,
    WORKER_GRACE,
    Service,
    ServiceFiles,
    exclusive,
    is_locked,
    log_tail,
    open_log,
)

if TYPE_CHECKING:
    from temporalio.envconfig import ClientConnectConfig

__all__ = [
    "SUPERVISOR_GONE",
    "Ports",
    "Service",
    "configured",
    "connect",
    "ensure",
    "foreground_command",
    "inspect",
    "last_ports",
    "normalised",
    "save_credentials",
    "serving",
    "stop",
]

START_LIMIT = timedelta(seconds=30)
_LOCK_LIMIT = timedelta(seconds=60)
_PROBE_LIMIT = timedelta(seconds=1)
_REMOTE_PROBE_LIMIT = timedelta(seconds=5)
_POLL_SECONDS = 0.05
_HOPELESS_RESTARTS = 4
SUPERVISOR_GONE = (
    "the supervisor is gone: running tasks go on, but no worker or server would be started again; "
    "`orchestrate up` brings it back"
)
_DETACH = "--detach"


def inspect(state: Path) -> Service | None:
    """The service that runs now: its supervisor and server live and the server's port answers. Else None, also
    during the moment in which a server that died is started again. `ready` tells of the worker."""
    service = serving(state)
    return service if service is not None and SUPERVISOR_GONE not in service.troubles else None


def serving(state: Path) -> Service | None:
    """What can be read from: the service that runs now, or what a killed supervisor left while its server (with one
    that is not ours, its worker) lives. `troubles` then says SUPERVISOR_GONE."""
    service = ServiceFiles(state.resolve()).read()
    if service is None:
        return None
    gone = not processes.is_alive(service.supervisor)
    if (service.embedded or gone) and not processes.is_alive(service.server if service.embedded else service.worker):
        return None
    if not processes.answers(service.address, _PROBE_LIMIT):
        return None
    # A worker that has just died may not be in the record yet.
    now = {"ready": service.ready and processes.is_alive(service.worker)}
    return service.model_copy(update=now | ({"troubles": (SUPERVISOR_GONE,)} if gone else {}))


def ensure(
    state: Path,
    worker_command: Sequence[str] | None = None,
    *,
    ports: Ports | None = None,
    exit_after: timedelta | None = None,
    embedded_only: bool = False,
) -> Service:
    """The running service, started where it does not run; returns when the server answers and the worker polls.

    `worker_command` gets `--state --address --namespace --ready-file` appended; the default is our worker. It
    must write its pid to the ready file when it polls. `ports` are wanted ones, by default those of the last
    start. After `exit_after` a service started here ends itself. With `embedded_only` a configured Temporal is
    ignored. This blocks: inside an event loop, call it in a thread.

    Raises ServiceError: configured address silent, server missing, or what the logs say when it does not come up.
    """
    files = ServiceFiles(state.resolve())
    external = None if embedded_only else configured()
    if external is not None:
        _check_reachable(external["target_host"])
    running = inspect(state)
    if running is not None and running.ready:
        return _matching(running, external)
    files.create()
    with exclusive(files.start_lock, _LOCK_LIMIT):
        if is_locked(files.supervisor_lock) and (running := _await_ready(files)) is not None:
            return _matching(running, external)
        command = _supervisor_command(files, worker_command, ports, exit_after, external)
        try:
            _start(files, command, keep_temporal=external is not None)
            started = _await_ready(files)
            if started is None:
                raise ServiceError(_failure(files))
        except ServiceError:
            _stop(files)  # nothing is left behind
            remove_credentials(files.state)
            raise
        return started


def stop(state: Path, *, keep_credentials: bool = False) -> bool:
    """End the service and everything it started, also what a killed supervisor left; remove the credentials.

    Running tasks go on when it is started again. Returns whether anything ran.
    """
    files = ServiceFiles(state.resolve())
    if not files.directory.is_dir():
        return False
    with exclusive(files.start_lock, _LOCK_LIMIT):
        ran = _stop(files)
        if not keep_credentials:
            remove_credentials(files.state)
        return ran


def foreground_command(state: Path) -> list[str]:
    """The command that runs the supervisor until it is told to stop, for the server that is configured now."""
    files = ServiceFiles(state.resolve())
    files.create()
    command = _supervisor_command(files, None, None, None, configured())
    return [word for word in command if word != _DETACH]


def _stop(files: ServiceFiles) -> bool:
    service = files.read()
    ran = False
    if service is not None:
        limit = WORKER_GRACE + SERVER_GRACE + timedelta(seconds=5)
        ran = processes.end(service.supervisor, limit)
        # Read again: the supervisor may have started something between our look and its end.
        service = files.read() or service
        for worker in (*service.draining, service.worker):
            ran |= processes.end(worker, WORKER_GRACE)
        ran |= processes.end(service.server, SERVER_GRACE)
        down = {"supervisor": None, "server": None, "worker": None, "draining": (), "troubles": (), "ready": False}
        files.write(service.model_copy(update=down))
    for orphan in dev_server.servers_of(files):
        ran |= processes.end(orphan, SERVER_GRACE)
    files.worker_ready.unlink(missing_ok=True)
    return ran


def _check_reachable(address: str) -> None:
    try:
        answered = processes.answers(address, _REMOTE_PROBE_LIMIT)
    except ValueError as error:
        raise ServiceError(f"the Temporal address {error}; correct TEMPORAL_ADDRESS or the profile") from error
    if not answered:
        raise ServiceError(unreachable(address, embedded=False))


def _matching(service: Service, external: ClientConnectConfig | None) -> Service:
    """The service, if it is for the server that is wanted now. Raises ServiceError where it is not: tasks may be
    running on the other one, so it is not replaced silently."""
    if external is None:
        if service.embedded:
            return service
        wanted = "the embedded server"
    else:
        wanted = f"{external['target_host']}, namespace {external['namespace']}"
        same_host = normalised(external["target_host"]) == normalised(service.address)
        if same_host and external["namespace"] == service.namespace:
            return service
    raise ServiceError(
        f"the running service uses Temporal at {service.address}, namespace {service.namespace}, but {wanted} is "
        "wanted now; run `orchestrate down` first, or set the Temporal configuration back"
    )


def normalised(address: str) -> str:
    """An address for comparing: one host has one name."""
    return address.replace("localhost:", f"{dev_server.HOST}:")


def _supervisor_command(
    files: ServiceFiles,
    worker_command: Sequence[str] | None,
    ports: Ports | None,
    exit_after: timedelta | None,
    external: ClientConnectConfig | None,
) -> list[str]:
    command = [*python_command("cli.supervisor"), _DETACH, "--state", str(files.state)]
    if external is None:
        # Before anything is started, so that the reason is in the message and not in a log.
        dev_server.server_binary()
        dev_server.server_version()
        ports = ports or last_ports(files)
        command += ["--port", str(ports.frontend), "--ui-port", str(ports.ui)]
    else:
        command += ["--external", external["target_host"], "--namespace", external["namespace"]]
    if exit_after is not None:
        command += ["--exit-after", str(exit_after.total_seconds())]
    return [*command, "--", *(worker_command or python_command("worker"))]


def last_ports(files: ServiceFiles) -> Ports:
    """The ports of the last start, so that an open browser and other clients find the server again."""
    service = files.read()
    if service is None or not service.embedded or service.ui_url is None:
        return Ports()
    return Ports(frontend=int(service.address.rpartition(":")[2]), ui=int(service.ui_url.rpartition(":")[2]))


def _start(files: ServiceFiles, command: Sequence[str], *, keep_temporal: bool) -> None:
    log_path = files.directory / "supervisor.log"
    with open_log(log_path) as log:
        done = subprocess.run(
            command,
            cwd=files.state,
            env=processes.service_environment(os.environ, keep_temporal=keep_temporal),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            check=False,
        )
    if done.returncode != 0:
        raise ServiceError(f"the supervisor cannot be started; the end of {log_path}:\n{log_tail(log_path)}")


def _await_ready(files: ServiceFiles) -> Service | None:
    """Wait until the service is ready; None when its supervisor ends meanwhile. Raises ServiceError with the end of
    the log that tells why it does not become ready."""
    deadline = time.monotonic() + START_LIMIT.total_seconds()
    before = _restarts(files)
    while is_locked(files.supervisor_lock):
        service = inspect(files.state)
        if service is not None and service.ready:
            return service
        if time.monotonic() > deadline or _restarts(files) - before >= _HOPELESS_RESTARTS:
            raise ServiceError(_failure(files))
        time.sleep(_POLL_SECONDS)
    return None


def _restarts(files: ServiceFiles) -> int:
    """How often the supervisor that lives now had to start something again."""
    service = files.read()
    if service is None or not processes.is_alive(service.supervisor):
        return 0  # no record, or that of an earlier supervisor
    return max(service.server_restarts, service.worker_restarts)


def _failure(files: ServiceFiles) -> str:
    service = files.read()
    if service is not None and service.worker_restarts:
        what, log = "the worker does not stay up", service.worker_log
    elif service is not None and service.server_restarts:
        what, log = "the Temporal server does not stay up", service.server_log
    elif service is not None and service.worker is not None:
        what, log = "the worker has not said that it polls", service.worker_log
    else:
        what, log = "the service does not come up", files.directory / "supervisor.log"
    return f"{what}; the end of {log}:\n{log_tail(log)}"

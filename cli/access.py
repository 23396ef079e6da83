"""The way to Temporal: for reading what runs already, for running a task whatever is needed is started.

A configured Temporal that cannot be used is bad input; an embedded service that does not come up is a failure.
"""

import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from baton.environment import MODEL_CREDENTIALS
from cli import processes
from cli.checks import workers_elsewhere
from cli.connection import unreachable
from cli.exits import Refused, ServiceError
from cli.service import Service, configured, ensure, save_credentials, serving
from cli.service_record import ServiceFiles
from cli.terminal import remark

if TYPE_CHECKING:
    from temporalio.envconfig import ClientConnectConfig

_REMOTE_LIMIT = timedelta(seconds=5)
_NOTHING_RUNS = "no Baton service runs here; start it with: orchestrate up (tasks that were running go on then)"


def reading(state: Path) -> Service | None:
    """The service to read from, as `found` finds it. What does not stay up in it is remarked, once in a command."""
    service = found(state)
    if service is not None and service.troubles:
        remark(f"{'; '.join(service.troubles)}; what is wrong: orchestrate doctor", once=True)
    return service


def found(state: Path) -> Service | None:
    """The service that can be read from: the configured server, else the embedded one where it runs (also without its
    supervisor). Starts nothing."""
    running = serving(state)
    try:
        server = configured()
    except ServiceError as error:
        raise Refused(str(error)) from error
    if server is None:
        return running
    if running is not None and not running.embedded and running.address == server["target_host"]:
        return running
    return _configured_service(server, state)


def why_none(state: Path) -> str:
    """Why `reading` found no service, and what to do."""
    record = ServiceFiles(state).read()
    if record is None or not processes.is_alive(record.supervisor):
        return _NOTHING_RUNS
    told = "; ".join(record.troubles) or "the Temporal server is being started again"
    return f"{told}; what is wrong: orchestrate doctor"


def working(state: Path) -> Service:
    """The running service, started where it is not, with the caller's credentials for its worker.

    Raises `Refused` where a configured server cannot be used, ServiceError where ours does not come up.
    """
    try:
        server = configured()
        # Before the credentials are written: a wrong address leaves nothing behind.
        answered = server is None or processes.answers(server["target_host"], _REMOTE_LIMIT)
    except (ServiceError, ValueError) as error:
        raise Refused(f"the Temporal configuration cannot be used: {error}") from error
    if server is not None and not answered:
        raise Refused(unreachable(server["target_host"], embedded=False))
    if server is not None and workers_elsewhere(os.environ):
        return _configured_service(server, state)
    if not any(os.environ.get(name) for name in MODEL_CREDENTIALS) and ServiceFiles(state).credentials.is_file():
        remark("No API key here: the one that the service keeps since an earlier command is used (down forgets it).")
    save_credentials(state, os.environ)
    return ensure(state)


def configured_elsewhere(stopped: Service | None) -> str | None:
    """What `down` says of a configured server, which it never stops; None where there is none."""
    try:
        server = configured()
    except ServiceError:
        return None
    if server is None or (stopped is not None and stopped.embedded and stopped.address == server["target_host"]):
        return None
    return f"The Temporal server at {server['target_host']} is not ours and goes on."


def page(service: Service, task_id: str) -> str | None:
    """The address of a task in the Web UI; None with a server that is not ours."""
    if service.ui_url is None:
        return None
    return f"{service.ui_url}/namespaces/{service.namespace}/workflows/{task_id}"


def _configured_service(server: "ClientConnectConfig", state: Path) -> Service:
    """A configured server without a service of this host."""
    return Service(
        address=server["target_host"], namespace=server["namespace"], embedded=False, directory=state / "service"
    )

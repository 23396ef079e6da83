"""What `doctor` looks at in the service: server, ports, worker, the code they run, restarts. Starts nothing."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from cli import dev_server, processes
from cli.access import found
from cli.code_version import fingerprint
from cli.exits import Refused, ServiceError
from cli.finding import Finding, fault, note, ok
from cli.service import SUPERVISOR_GONE, last_ports, normalised, serving
from cli.service_record import Service, ServiceFiles, log_tail

if TYPE_CHECKING:
    from temporalio.api.taskqueue.v1 import PollerInfo

_FRESH = timedelta(minutes=2)
"""A worker polls at least once a minute."""
_AGAIN = "orchestrate down && orchestrate up (running tasks go on)"


def service_findings(state: Path) -> list[Finding]:
    """Everything about the service of a state directory, and about a server that is configured instead."""
    files = ServiceFiles(state)
    try:
        service = found(state)
    except Refused as refused:
        return [fault("server", str(refused), "correct the configuration, or unset it to use the embedded server")]
    if service is None:
        return [_at_rest(files), _ports(files)]
    findings = asyncio.run(_of_server(service))
    running = serving(state)
    if running is None:
        return findings
    if normalised(running.address) != normalised(service.address):
        return [*findings, _other_server(running, service)]
    return [*findings, _worker(running), *_code(running), *_restarts(running)]


def _at_rest(files: ServiceFiles) -> Finding:
    record = files.read()
    if record is not None and processes.is_alive(record.supervisor):
        tail = log_tail(record.server_log if record.embedded else record.supervisor_log, lines=1).strip()
        told = "; ".join(record.troubles) or f"the server is down, started again {record.server_restarts} times"
        return fault(
            "server",
            f"{told}. {tail}".strip(),
            f"read {record.server_log} and {record.supervisor_log}; then {_AGAIN}",
        )
    return ok("server", "the service does not run; it starts with the first task, or with: orchestrate up")


def _ports(files: ServiceFiles) -> Finding:
    wanted = last_ports(files)
    chosen = dev_server.choose_ports(wanted)
    text = f"{chosen.frontend} for Temporal, {chosen.ui} for its Web UI"
    if chosen == wanted:
        return ok("ports", f"{text} are free")
    pairs = ((wanted.frontend, chosen.frontend), (wanted.ui, chosen.ui))
    busy = [str(port) for port, instead in pairs if port != instead]
    return note(
        "ports",
        f"another program has {', '.join(busy)}; {text} would be taken instead",
        "nothing needs to be done; end that program to have the usual ports",
    )


async def _of_server(service: Service) -> list[Finding]:
    from temporalio.api.enums.v1 import TaskQueueType
    from temporalio.api.taskqueue.v1 import TaskQueue
    from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, DescribeTaskQueueRequest
    from temporalio.service import RPCError, RPCStatusCode

    from baton.names import TASK_QUEUE
    from cli.connection import connect

    where = f"{service.address}, namespace {service.namespace}"
    if not service.embedded:
        where += " (not ours)"
    limit = timedelta(seconds=5)
    try:
        requests = (await connect(service)).service.workflow_service
        await requests.describe_namespace(DescribeNamespaceRequest(namespace=service.namespace), timeout=limit)
        asked = DescribeTaskQueueRequest(
            namespace=service.namespace,
            task_queue=TaskQueue(name=TASK_QUEUE),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
        described = await requests.describe_task_queue(asked, timeout=limit)
    except ServiceError as error:
        return [fault("server", str(error), _AGAIN if service.embedded else "start it, or correct TEMPORAL_ADDRESS")]
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            remedy = f"temporal operator namespace create -n {service.namespace} --retention 8760h"
            return [fault("server", f"{where}: there is no such namespace", remedy)]
        return [fault("server", f"{where}: {error.message}", "check TEMPORAL_API_KEY and TLS of the Temporal profile")]
    page = f", Web UI {service.ui_url}" if service.ui_url else ""
    return [ok("server", f"{where} answers{page}"), _pollers(list(described.pollers))]


def _pollers(pollers: "list[PollerInfo]") -> Finding:
    from datetime import UTC, datetime

    oldest = datetime.now(UTC) - _FRESH
    fresh = sorted({p.identity for p in pollers if p.last_access_time.ToDatetime(tzinfo=UTC) > oldest})
    if not fresh:
        return note("workers", "no worker asks the server for work", "orchestrate up")
    return ok("workers", f"{len(fresh)} ask for work: {', '.join(fresh)}")


def _other_server(running: Service, wanted: Service) -> Finding:
    return fault(
        "configuration",
        f"the worker here works for {running.address}, the configuration names {wanted.address}",
        "orchestrate down, then start again; or set the Temporal configuration back",
    )


def _worker(service: Service) -> Finding:
    if service.ready:
        return ok("worker", f"the worker here runs (process {service.worker_pid})")
    if processes.is_alive(service.worker):
        return note("worker", "the worker here is starting", f"if it stays so, read {service.worker_log}")
    tail = log_tail(service.worker_log, lines=1).strip()
    return fault("worker", f"the worker here does not run. {tail}".strip(), f"read {service.worker_log}; then {_AGAIN}")


def _code(service: Service) -> list[Finding]:
    now = fingerprint()
    if service.draining:
        text = f"{len(service.draining)} workers on older code finish what they do"
        return [ok("code", f"the worker runs on {service.worker_code}; {text}")]
    if service.worker_code not in (None, now):
        return [note("code", f"the worker runs on older code ({service.worker_code}, installed is {now})", _AGAIN)]
    if service.supervisor_code not in (None, now):
        text = f"the supervisor runs on older code ({service.supervisor_code}, installed is {now})"
        return [note("code", text, _AGAIN)]
    return [ok("code", f"the service runs on the installed code ({now})")] if service.worker_code else []


def _restarts(service: Service) -> list[Finding]:
    if SUPERVISOR_GONE in service.troubles:
        return [fault("supervisor", SUPERVISOR_GONE, "orchestrate up (running tasks go on)")]
    troubles = [fault("restarts", told, f"read {service.supervisor_log}; then {_AGAIN}") for told in service.troubles]
    counts = {"server": service.server_restarts, "worker": service.worker_restarts}
    told = [f"the {what} {count} times" for what, count in counts.items() if count]
    if troubles or not told:
        return troubles
    text = f"the supervisor had to start again {' and '.join(told)}"
    return [note("restarts", text, f"see {service.supervisor_log}, {service.server_log} and {service.worker_log}")]

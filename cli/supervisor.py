"""The supervisor: a background process that keeps the embedded server and the worker running for one state
directory, and writes every change to `service.json`.

There is one per state directory (it holds `supervisor.lock` while it lives). Whatever an earlier one left behind is
ended before anything is started. It does not import temporalio, whose interpreter shutdown can abort.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from cli import dev_server, processes
from cli.code_version import fingerprint
from cli.code_watch import CodeWatch
from cli.dev_server import Ports
from cli.exits import ServiceError
from cli.service_manager import notify_ready
from cli.service_record import (
    SERVER_GRACE,
    WORKER_GRACE,
    ProcessMark,
    Service,
    ServiceFiles,
    open_log,
    rotate_log,
    try_lock,
)

ALREADY_RUNNING = 3
"""Exit code when another supervisor holds the state directory."""

_ORPHAN_GRACE = timedelta(seconds=5)
_FIRST_DELAY_SECONDS = 0.1
_LAST_DELAY_SECONDS = 10.0
_SETTLED_SECONDS = 10.0
_LOOP = 3
"""So many ends in a row, each soon after the start, are told as trouble."""
_DRAIN_LIMIT = timedelta(hours=1)
_RENEWAL_SECONDS = 60.0
_SERVER_START_SECONDS = 30.0
_READY_POLL_SECONDS = 0.05
_FOLDER_POLL_SECONDS = 2.0

logger = logging.getLogger("baton.supervisor")


class Role(StrEnum):
    """What is supervised; also the fields of `Service`."""

    SERVER = "server"
    WORKER = "worker"


@dataclass(frozen=True)
class Order:
    """What a supervisor is to keep running."""

    worker_command: tuple[str, ...]
    """`--state`, `--address`, `--namespace` and `--ready-file` are appended."""
    ports: Ports = field(default_factory=Ports)
    """Wanted ports; others are taken where these are busy."""
    external: str | None = None
    """Address of a server that is not ours; only the worker is supervised then."""
    namespace: str = dev_server.NAMESPACE
    exit_after: timedelta | None = None


class Supervisor:
    """Keeps the processes of one state directory running until it is told to stop."""

    def __init__(self, files: ServiceFiles, order: Order) -> None:
        self._files = files
        self._order = order
        self._service = Service(
            address=order.external or f"{dev_server.HOST}:{order.ports.frontend}",
            namespace=order.namespace,
            embedded=order.external is None,
            directory=files.directory,
            supervisor_code=fingerprint(),
        )
        self._ports = order.ports
        self._running: dict[Role, asyncio.subprocess.Process] = {}
        self._up: set[Role] = set()
        self._server_was_up = asyncio.Event()
        self._keepers: dict[Role, asyncio.Task[None]] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._renewal: asyncio.Task[None] | None = None
        self._began: dict[Role, float] = {}
        self._failures = dict.fromkeys(Role, 0)
        self._watch = CodeWatch()

    async def run(self) -> None:
        """Take over, start, restart what dies; return when stopped by a signal, the time limit or the removal of
        the state directory, with nothing left running."""
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await asyncio.to_thread(self._take_over)
        roles = [Role.WORKER] if self._order.external else [Role.WORKER, Role.SERVER]
        if self._order.external:
            self._server_was_up.set()
        self._keepers = {role: asyncio.create_task(self._keep(role)) for role in roles}
        await self._until_stopped(stop)
        tasks = [*self._keepers.values(), *self._background]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        draining = [asyncio.to_thread(processes.end, old, WORKER_GRACE) for old in self._service.draining]
        await asyncio.gather(self._end(Role.WORKER, WORKER_GRACE), *draining)
        await self._end(Role.SERVER, SERVER_GRACE)
        self._record(supervisor=None, server=None, worker=None, draining=(), troubles=(), ready=False)

    def _take_over(self) -> None:
        """End what a killed supervisor left; its marks stay in the record until that is done."""
        old = self._files.read()
        me = processes.mark(os.getpid())
        if old is None:
            self._record(supervisor=me)
            return
        self._record(supervisor=me, server=old.server, worker=old.worker, draining=old.draining)
        for orphan in (*old.draining, old.worker, old.server):
            if processes.end(orphan, _ORPHAN_GRACE):
                logger.warning("ended process %s of a supervisor that was killed", orphan.pid if orphan else "")
        self._record(server=None, worker=None, draining=())

    async def _keep(self, role: Role, process: asyncio.subprocess.Process | None = None) -> None:
        """Start, wait for the end, start again, ever more slowly. `process` runs already."""
        start = self._start_server if role is Role.SERVER else self._start_worker
        while True:
            self._began[role] = time.monotonic()
            try:
                code = await (process or await start()).wait()
                why = f"the {role} ended with code {code}"
            except (ServiceError, OSError) as error:
                why = f"the {role} cannot be started: {error}"
            process = None
            if time.monotonic() - self._began[role] > _SETTLED_SECONDS:
                self._failures[role] = 0
            delay = min(_FIRST_DELAY_SECONDS * 2 ** min(self._failures[role], 10), _LAST_DELAY_SECONDS)
            self._failures[role] += 1
            logger.warning("%s; started again in %.1f s", why, delay)
            self._went_down(role)
            if self._failures[role] >= _LOOP:
                self._tell(role, f"{why}, {self._failures[role]} times in a row; it is tried again every {delay:.1f} s")
            await asyncio.sleep(delay)

    def _tell(self, role: Role, trouble: str | None) -> None:
        """Set or take back the trouble of a role; the role is its first words."""
        others = tuple(told for told in self._service.troubles if not told.startswith(f"the {role} "))
        troubles = (*others, trouble) if trouble else others
        if troubles != self._service.troubles:
            self._record(troubles=troubles)

    def _settle(self) -> None:
        """Forget the failures of what has now been up for a while."""
        for role in [role for role in self._up if self._failures[role]]:
            if time.monotonic() - self._began[role] > _SETTLED_SECONDS:
                self._failures[role] = 0
                self._tell(role, None)

    async def _renew_worker(self, code: str) -> None:
        """Start a worker on new code; when it polls, the old one takes nothing new and finishes what it does. Where
        it does not come up, the old one stays."""
        old = self._running.get(Role.WORKER)
        if code == self._service.worker_code or old is None or Role.WORKER not in self._up:
            return  # a worker that is started now or later gets the new code anyway
        logger.info("the installed code has changed to %s; a new worker is started", code)
        try:
            process = await self._launch_worker()
        except OSError as error:
            self._tell(Role.WORKER, f"the worker cannot be started on the new code {code}: {error}")
            return
        mark = processes.mark(process.pid)
        self._beside(mark, there=True)
        polls = False
        try:
            with suppress(TimeoutError):
                polls = await asyncio.wait_for(self._polls(process), _RENEWAL_SECONDS)
            if polls and self._running.get(Role.WORKER) is old and old.returncode is None:
                self._hand_over(old, process, code)
            elif not polls:
                self._tell(Role.WORKER, f"the worker does not start on the new code {code}; the one before goes on")
        finally:
            if self._running.get(Role.WORKER) is not process and process.returncode is None:
                process.kill()
            self._beside(mark, there=False)

    def _hand_over(self, old: asyncio.subprocess.Process, new: asyncio.subprocess.Process, code: str) -> None:
        before = self._service.worker
        self._keepers[Role.WORKER].cancel()
        self._running[Role.WORKER] = new
        self._failures[Role.WORKER] = 0
        self._keepers[Role.WORKER] = asyncio.create_task(self._keep(Role.WORKER, new))
        mark = processes.mark(new.pid)
        others = [other for other in (*self._service.draining, before) if other is not None and other != mark]
        # First, so that nobody sees the new worker beside the trouble of one that did not start.
        self._tell(Role.WORKER, None)
        self._record(worker=mark, worker_code=code, draining=tuple(others))
        self._in_background(self._drain(old, before))

    def _beside(self, mark: ProcessMark | None, *, there: bool) -> None:
        others = tuple(other for other in self._service.draining if other != mark)
        self._record(draining=(*others, mark) if there and mark else others)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def _drain(self, old: asyncio.subprocess.Process, mark: ProcessMark | None) -> None:
        with suppress(ProcessLookupError):
            old.send_signal(signal.SIGUSR1)
        with suppress(TimeoutError):
            await asyncio.wait_for(old.wait(), _DRAIN_LIMIT.total_seconds())
        if mark is not None:
            await asyncio.to_thread(processes.end, mark, WORKER_GRACE)
        logger.info("the worker on older code has ended")
        self._beside(mark, there=False)

    def _went_down(self, role: Role) -> None:
        mark = self._service.server if role is Role.SERVER else self._service.worker
        if mark is not None:
            processes.kill_group(mark)
        self._up.discard(role)
        restarts = f"{role}_restarts"
        self._record(**{role: None, restarts: getattr(self._service, restarts) + 1, "ready": False})

    async def _start_server(self) -> asyncio.subprocess.Process:
        binary, version = dev_server.server_binary(), dev_server.server_version()
        descriptor = await asyncio.to_thread(dev_server.lock_database, self._files)
        try:
            dev_server.prepare_database(self._files, version)
            self._ports = dev_server.choose_ports(self._ports)
            command = dev_server.server_command(binary, self._ports, self._files)
            process = await self._spawn(Role.SERVER, command, pass_descriptor=descriptor)
            self._running[Role.SERVER] = process
            self._record(server=processes.mark(process.pid))
        finally:
            os.close(descriptor)  # from here on the lock is the server's alone
        await self._server_up(process, binary, version)
        return process

    async def _server_up(self, process: asyncio.subprocess.Process, binary: Path, version: str) -> None:
        """Return when this very process serves, or has ended. One that does neither is killed."""
        address = f"{dev_server.HOST}:{self._ports.frontend}"
        deadline = time.monotonic() + _SERVER_START_SECONDS
        while process.returncode is None:
            if processes.listens(process.pid, self._ports.frontend) and await self._serves(binary, address):
                break
            if time.monotonic() > deadline:
                logger.error("the server does not answer at %s; it is killed", address)
                process.kill()
                return
            await asyncio.sleep(_READY_POLL_SECONDS)
        else:
            return
        moved = self._service.address != address
        self._up.add(Role.SERVER)
        ui_url = f"http://{dev_server.HOST}:{self._ports.ui}"
        self._record(address=address, ui_url=ui_url, server_version=version)
        self._record_ready()
        self._server_was_up.set()
        worker = self._running.get(Role.WORKER)
        if moved and worker is not None and worker.returncode is None:
            logger.warning("the server moved to %s; the worker is started again", address)
            worker.terminate()

    async def _serves(self, binary: Path, address: str) -> bool:
        """Ask the server something; the first time, that is to keep finished tasks for a year."""
        facts = dev_server.read_facts(self._files)
        raise_retention = facts is not None and facts.retention != dev_server.RETENTION
        build = dev_server.retention_command if raise_retention else dev_server.health_command
        with open_log(self._service.supervisor_log) as log:
            asked = await asyncio.create_subprocess_exec(
                *build(binary, address),
                env=processes.service_environment(os.environ, keep_temporal=False),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=log,
            )
        succeeded = await asked.wait() == 0
        if succeeded and raise_retention and facts is not None:
            retained = facts.model_copy(update={"retention": dev_server.RETENTION})
            dev_server.write_facts(self._files, retained)
        return succeeded

    async def _start_worker(self) -> asyncio.subprocess.Process:
        await self._server_was_up.wait()
        code = await asyncio.to_thread(fingerprint)
        process = await self._launch_worker()
        self._running[Role.WORKER] = process
        self._record(worker=processes.mark(process.pid), worker_code=code)
        if await self._polls(process):
            self._up.add(Role.WORKER)
            self._record_ready()
        return process

    async def _launch_worker(self) -> asyncio.subprocess.Process:
        ready_file = self._files.worker_ready
        ready_file.unlink(missing_ok=True)
        command = [*self._order.worker_command, "--state", str(self._files.state)]
        command += ["--address", self._service.address, "--namespace", self._service.namespace]
        return await self._spawn(Role.WORKER, [*command, "--ready-file", str(ready_file)])

    async def _polls(self, process: asyncio.subprocess.Process) -> bool:
        """Wait until the worker says that it polls (True), or has ended."""
        ready_file = self._files.worker_ready
        while process.returncode is None:
            if ready_file.exists() and ready_file.read_text(errors="replace").strip() == str(process.pid):
                return True
            await asyncio.sleep(_READY_POLL_SECONDS)
        return False

    async def _spawn(
        self, role: Role, command: Sequence[str], *, pass_descriptor: int | None = None
    ) -> asyncio.subprocess.Process:
        external_worker = role is Role.WORKER and not self._service.embedded
        log_path = self._service.server_log if role is Role.SERVER else self._service.worker_log
        with open_log(log_path) as log:
            return await asyncio.create_subprocess_exec(
                *command,
                cwd=self._files.directory if role is Role.SERVER else self._files.state,
                env=processes.service_environment(
                    os.environ, keep_temporal=external_worker, keep_telemetry=role is Role.WORKER
                ),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=() if pass_descriptor is None else (pass_descriptor,),
            )

    async def _end(self, role: Role, grace: timedelta) -> None:
        process = self._running.get(role)
        if process is None:
            return
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.terminate()
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), grace.total_seconds())
        mark = self._service.server if role is Role.SERVER else self._service.worker
        if mark is not None:
            processes.kill_group(mark)
        await process.wait()

    async def _until_stopped(self, stop: asyncio.Event) -> None:
        limit = self._order.exit_after
        deadline = time.monotonic() + limit.total_seconds() if limit else float("inf")
        # A state directory that is deleted takes its service with it.
        while self._files.supervisor_lock.exists() and (left := deadline - time.monotonic()) > 0:
            for log in (self._service.worker_log, self._service.server_log):
                await asyncio.to_thread(rotate_log, log)
            self._settle()
            await self._look_at_code()
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), min(left, _FOLDER_POLL_SECONDS))
                return

    async def _look_at_code(self) -> None:
        if self._renewal is not None and not self._renewal.done():
            return
        if (code := await asyncio.to_thread(self._watch.changed)) is not None:
            self._renewal = self._in_background(self._renew_worker(code))

    def _record_ready(self) -> None:
        ready = Role.WORKER in self._up and (Role.SERVER in self._up or not self._service.embedded)
        self._record(ready=ready)
        if ready:
            notify_ready()

    def _record(self, **changes: object) -> None:
        self._service = self._service.model_copy(update=changes)
        try:
            self._files.write(self._service)
        except OSError as error:
            # A full disk must not end the processes that do the work.
            logger.error("cannot write %s: %s", self._files.record, error)  # noqa: TRY400


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m cli.supervisor --state DIR [options] -- WORKER COMMAND`; with `--detach` in the background."""
    options = _parser().parse_args(arguments)
    files = ServiceFiles(options.state.resolve())
    files.create()
    os.chdir(files.state)
    lock = try_lock(files.supervisor_lock)
    if lock is None:
        sys.stderr.write(f"a supervisor runs already for {files.state}\n")
        return ALREADY_RUNNING
    if options.detach:
        # The lock is taken first and passes to the child, so there is no moment without it.
        if os.fork():
            os._exit(0)
        os.setsid()
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    order = Order(
        worker_command=tuple(options.worker_command),
        ports=Ports(frontend=options.port, ui=options.ui_port),
        external=options.external,
        namespace=options.namespace,
        exit_after=timedelta(seconds=options.exit_after) if options.exit_after is not None else None,
    )
    asyncio.run(Supervisor(files, order).run())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cli.supervisor", description="Keeps Temporal and the worker running.")
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--port", type=int, default=Ports().frontend)
    parser.add_argument("--ui-port", type=int, default=Ports().ui)
    parser.add_argument("--external", metavar="HOST:PORT", help="use this server, start none")
    parser.add_argument("--namespace", default=dev_server.NAMESPACE)
    parser.add_argument("--exit-after", type=float, metavar="SECONDS")
    parser.add_argument("--detach", action="store_true")
    parser.add_argument("worker_command", nargs="+")
    return parser


if __name__ == "__main__":
    sys.exit(main())

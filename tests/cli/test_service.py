"""The local service, with real processes and the real server: it starts once, comes back, and leaves nothing."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from temporalio.api.enums.v1 import WorkflowExecutionStatus
from temporalio.client import Client

from cli import access, dev_server, processes
from cli.credentials import remove_credentials
from cli.exits import ServiceError
from cli.finding import State
from cli.places import state_path
from cli.service import (
    SUPERVISOR_GONE,
    Ports,
    Service,
    configured,
    connect,
    ensure,
    inspect,
    save_credentials,
    serving,
    stop,
)
from cli.service_checks import service_findings
from cli.service_record import (
    LOG_LIMIT_BYTES,
    ProcessMark,
    ServiceFiles,
    is_locked,
    open_log,
    rotate_log,
    try_lock,
    write_private,
)

ROOT = Path(__file__).resolve().parents[2]
# Stands in for worker.py: says that it polls, and shows what environment a worker gets.
WORKER = """
import argparse, json, os, pathlib, signal
parser = argparse.ArgumentParser()
for name in ("state", "address", "namespace", "ready-file"):
    parser.add_argument("--" + name, required=True)
options = parser.parse_args()
seen = {"environment": dict(os.environ), "options": vars(options), "cwd": os.getcwd()}
pathlib.Path(options.state, "seen.json").write_text(json.dumps(seen))
pathlib.Path(options.ready_file).write_text(str(os.getpid()))
signal.pause()
"""


@pytest.fixture(autouse=True)
def no_configured_temporal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("TEMPORAL_", "ANTHROPIC_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", os.devnull)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """A state directory with an awkward path (the server reads `?`, `#`, `%` as parts of a URI); whatever runs for
    it ends with the test."""
    folder = tmp_path / "state dir's ?#%20é"
    yield folder
    stop(folder)


@pytest.fixture
def worker(tmp_path: Path) -> list[str]:
    script = tmp_path / "stand_in_worker.py"
    script.write_text(WORKER)
    return [sys.executable, str(script)]


def free_ports() -> Ports:
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return Ports(frontend=first.getsockname()[1], ui=second.getsockname()[1])


def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.02)


def ready_again(state: Path) -> Service:
    found: list[Service] = []

    def is_ready() -> bool:
        service = inspect(state)
        found[:] = [service] if service is not None and service.ready else []
        return bool(found)

    eventually(is_ready)
    return found[0]


def kill(pid: int | None) -> None:
    """SIGKILL; returns when the system no longer runs it, before which nobody could notice."""
    assert pid is not None
    mark = processes.mark(pid)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not processes.is_alive(mark))


def living(*pids: int | None) -> list[int]:
    marks = [processes.mark(pid) for pid in pids if pid is not None]
    return [mark.pid for mark in marks if mark is not None and processes.is_alive(mark)]


async def retention_and_attributes(service: Service) -> tuple[float, set[str]]:
    from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
    from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest

    requests = (await connect(service)).service
    described = await requests.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace="default"))
    hours = described.config.workflow_execution_retention_ttl.seconds / 3600
    listed = await requests.operator_service.list_search_attributes(ListSearchAttributesRequest(namespace="default"))
    return hours, {name for name in listed.custom_attributes if name.startswith("Baton")}


async def start_workflow(service: Service) -> None:
    client = await Client.connect(service.address, namespace=service.namespace)
    await client.start_workflow("Nothing", id="kept", task_queue="nobody")


async def describe_workflow(service: Service) -> str:
    described = await (await connect(service)).describe("kept")
    return WorkflowExecutionStatus.Name(described.workflow_execution_info.status).removeprefix(
        "WORKFLOW_EXECUTION_STATUS_"
    )


# --- without processes -------------------------------------------------------------------------------------------


def test_import_loads_neither_temporalio_nor_anthropic() -> None:
    check = "import sys, cli.service; sys.exit(any(name in sys.modules for name in ('temporalio', 'anthropic')))"
    assert subprocess.run([sys.executable, "-c", check], cwd=ROOT).returncode == 0


def test_our_modules_are_not_shadowed_by_the_folder_of_a_user(tmp_path: Path) -> None:
    for folder in (tmp_path / "cli", tmp_path / "elsewhere" / "cli"):
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("raise SystemExit('shadowed')")
    environment = processes.service_environment(
        os.environ | {"PYTHONPATH": str(tmp_path / "elsewhere")}, keep_temporal=False
    )
    command = [*processes.python_command("cli.supervisor"), "--help"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "worker_command" in done.stdout


def test_state_directory_comes_from_the_environment_and_is_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATON_STATE_DIR", str(tmp_path / "a" / "b"))
    assert state_path() == tmp_path / "a" / "b"
    ServiceFiles(state_path()).create()
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BATON_STATE_DIR", str(tmp_path / "file"))
    with pytest.raises(ServiceError, match="BATON_STATE_DIR"):
        ServiceFiles(state_path()).create()


def test_credentials_are_private_and_replace_a_link(tmp_path: Path) -> None:
    files = ServiceFiles(tmp_path)
    files.create()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("untouched")
    files.credentials.symlink_to(elsewhere)
    before = os.umask(0)
    try:
        save_credentials(tmp_path, {"ANTHROPIC_API_KEY": "key", "ANTHROPIC_BASE_URL": "", "HOME": "x"})
    finally:
        os.umask(before)
    assert elsewhere.read_text() == "untouched"
    assert not files.credentials.is_symlink()
    assert stat.S_IMODE(files.credentials.stat().st_mode) == 0o600
    assert json.loads(files.credentials.read_text()) == {"ANTHROPIC_API_KEY": "key"}
    save_credentials(tmp_path, {"HOME": "x"})
    assert json.loads(files.credentials.read_text()) == {"ANTHROPIC_API_KEY": "key"}
    save_credentials(tmp_path, {"ANTHROPIC_AUTH_TOKEN": "token"})
    assert json.loads(files.credentials.read_text()) == {"ANTHROPIC_AUTH_TOKEN": "token"}
    remove_credentials(tmp_path)
    assert not files.credentials.exists()


def test_a_service_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "service").symlink_to(tmp_path / "other")
    with pytest.raises(ServiceError, match="is a link"):
        save_credentials(tmp_path, {"ANTHROPIC_API_KEY": "key"})


def test_a_reused_process_number_is_not_ours() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    try:
        real = processes.mark(child.pid)
        assert real is not None
        impostor = ProcessMark(pid=child.pid, created=real.created - 100)
        assert not processes.is_alive(impostor)
        assert not processes.end(impostor, timedelta(seconds=1))
        processes.kill(impostor)
        assert child.poll() is None
        assert processes.end(real, timedelta(seconds=5))
    finally:
        child.kill()
        child.wait()


def test_busy_ports_are_replaced() -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        chosen = dev_server.choose_ports(Ports(frontend=port, ui=port))
    assert port not in (chosen.frontend, chosen.ui)
    assert chosen.frontend != chosen.ui


def test_a_database_of_another_version_is_kept_and_a_new_one_started(tmp_path: Path) -> None:
    files = ServiceFiles(tmp_path)
    files.create()
    dev_server.prepare_database(files, "1.0.0")
    for number, version in enumerate(("1.1.0", "1.0.0", "1.1.0")):
        files.database.write_text(f"data {number}")
        files.database.with_name("temporal.db-wal").write_text(f"log {number}")
        assert dev_server.prepare_database(files, version).version == version
        assert not files.database.exists()
    kept = {path.name: path.read_text() for path in files.directory.glob("temporal-*")}
    assert kept["temporal-1.0.0.db"] == "data 0"
    assert kept["temporal-1.0.0.db-wal"] == "log 0"
    assert kept["temporal-1.1.0.db"] == "data 1"
    assert kept["temporal-1.0.0-2.db"] == "data 2"
    files.database.write_text("same version")
    dev_server.prepare_database(files, "1.1.0")
    assert files.database.read_text() == "same version"


def test_a_database_that_a_stranger_holds_is_not_shared(tmp_path: Path) -> None:
    files = ServiceFiles(tmp_path)
    files.create()
    lock = try_lock(files.database_lock)
    assert lock is not None
    try:
        with pytest.raises(ServiceError, match="in use"):
            dev_server.lock_database(files, limit=timedelta(seconds=0.2))
    finally:
        os.close(lock)
    os.close(dev_server.lock_database(files))


def test_logs_keep_one_old_file(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_bytes(b"x" * 5_000_001)
    with open_log(log) as file:
        file.write(b"new")
    assert log.read_bytes() == b"new"
    assert (tmp_path / "x.log.1").stat().st_size == 5_000_001


def test_a_broken_or_stale_record_is_no_service(tmp_path: Path) -> None:
    files = ServiceFiles(tmp_path)
    assert inspect(tmp_path) is None
    assert stop(tmp_path) is False
    files.create()
    write_private(files.record, '{"address": ')
    assert inspect(tmp_path) is None
    gone = ProcessMark(pid=os.getpid(), created=1.0)
    files.write(Service(address="127.0.0.1:1", directory=files.directory, supervisor=gone, server=gone))
    assert inspect(tmp_path) is None
    assert serving(tmp_path) is None


def test_a_server_that_is_not_ours_is_left_by_a_killed_supervisor_while_the_worker_lives(tmp_path: Path) -> None:
    files = ServiceFiles(tmp_path)
    files.create()
    gone = ProcessMark(pid=os.getpid(), created=1.0)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        record = Service(address=address, embedded=False, directory=files.directory, supervisor=gone, worker=gone)
        files.write(record)
        assert serving(tmp_path) is None
        files.write(record.model_copy(update={"worker": processes.mark(os.getpid())}))
        left = serving(tmp_path)
        assert left is not None
        assert left.troubles == (SUPERVISOR_GONE,)
        assert inspect(tmp_path) is None


def test_without_configuration_the_embedded_server_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert configured() is None
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "mine")
    assert configured() is None


def test_address_and_profile_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profiles = tmp_path / "temporal.toml"
    profiles.write_text('[profile.default]\nnamespace = "mine"\n[profile.far]\naddress = "far:7233"\n')
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(profiles))
    assert configured() == {"target_host": "localhost:7233", "namespace": "mine"}
    monkeypatch.setenv("TEMPORAL_PROFILE", "far")
    assert configured() == {"target_host": "far:7233", "namespace": "default"}
    monkeypatch.setenv("TEMPORAL_ADDRESS", "near:1")
    assert configured() == {"target_host": "near:1", "namespace": "default"}
    monkeypatch.setenv("TEMPORAL_PROFILE", "absent")
    with pytest.raises(ServiceError, match="absent"):
        configured()


def test_configured_address_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"127.0.0.1:{free_ports().frontend}"
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)
    with pytest.raises(ServiceError, match=f"{address} does not answer.*TEMPORAL_ADDRESS"):
        ensure(tmp_path / "state")
    monkeypatch.setenv("TEMPORAL_ADDRESS", "nonsense")
    with pytest.raises(ServiceError, match="'nonsense' is not of the form host:port"):
        ensure(tmp_path / "state")
    assert not (tmp_path / "state").exists()


async def test_connecting_to_nothing_names_the_address(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_ports().frontend}"
    with pytest.raises(ServiceError, match=address):
        await connect(Service(address=address, directory=tmp_path))


# --- with processes ----------------------------------------------------------------------------------------------


@pytest.mark.end_to_end
def test_two_at_once_start_one_service_and_stop_leaves_nothing(state: Path, worker: list[str]) -> None:
    ports = free_ports()
    script = (
        "import json, sys; from pathlib import Path; from cli.service import Ports, ensure; "
        "state, worker, ports = json.loads(sys.argv[1]); "
        "print(ensure(Path(state), worker, ports=Ports(**ports)).model_dump_json())"
    )
    argument = json.dumps([str(state), worker, ports.model_dump()])
    environment = os.environ | {"ANTHROPIC_API_KEY": "secret", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", script, argument]
    commands = [
        subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True, cwd=state.parent)
        for _ in range(2)
    ]
    outputs = [command.communicate(timeout=40)[0] for command in commands]
    first, second = (Service.model_validate_json(output) for output in outputs)
    assert first == second
    assert first.address == f"127.0.0.1:{ports.frontend}"
    assert first.ui_url == f"http://127.0.0.1:{ports.ui}"
    assert first.server_version == dev_server.server_version()
    files = ServiceFiles(state)
    assert [mark.pid for mark in dev_server.servers_of(files)] == [first.server_pid]
    assert files.database.exists()

    seen = json.loads((state / "seen.json").read_text())
    assert seen["cwd"] == str(state)
    assert seen["options"]["address"] == first.address
    assert seen["options"]["namespace"] == "default"
    for pid in (first.supervisor_pid, first.server_pid, first.worker_pid):
        inherited = psutil.Process(pid).environ()
        assert "secret" not in inherited.values()
        assert "PYTHONPATH" not in inherited
    listening = psutil.Process(first.server_pid).net_connections("tcp")
    assert {c.laddr.ip for c in listening if c.status == psutil.CONN_LISTEN} == {"127.0.0.1"}

    assert asyncio.run(retention_and_attributes(first)) == (
        8760,
        {"BatonPhase", "BatonRepository", "BatonAttention"},
    )
    save_credentials(state, {"ANTHROPIC_API_KEY": "secret"})
    assert stop(state)
    assert living(first.supervisor_pid, first.server_pid, first.worker_pid) == []
    assert not any(is_locked(lock) for lock in (files.database_lock, files.supervisor_lock, files.start_lock))
    assert not files.credentials.exists()
    assert inspect(state) is None
    assert not stop(state)
    # The next start uses the same ports and the same data, and has nothing to raise again.
    again = ensure(state, worker)
    assert (again.address, again.ui_url) == (first.address, first.ui_url)
    assert asyncio.run(retention_and_attributes(again))[0] == 8760
    assert files.read() == again


@pytest.mark.end_to_end
def test_server_and_worker_come_back_after_sigkill(state: Path, worker: list[str]) -> None:
    first = ensure(state, worker, ports=free_ports())
    asyncio.run(start_workflow(first))
    kill(first.server_pid)
    second = ready_again(state)
    assert second.address == first.address
    assert second.server_pid != first.server_pid
    assert second.worker_pid == first.worker_pid
    assert (second.server_restarts, second.worker_restarts) == (1, 0)
    assert asyncio.run(describe_workflow(second)) == "RUNNING"
    now = serving(state)
    assert now is not None
    assert now.troubles == ()

    kill(second.worker_pid)
    third = ready_again(state)
    assert third.worker_pid not in (None, second.worker_pid)
    assert third.server_pid == second.server_pid
    assert (third.server_restarts, third.worker_restarts) == (1, 1)
    assert ensure(state, worker) == third


@pytest.mark.end_to_end
def test_a_killed_supervisor_is_replaced_and_one_server_uses_the_database(state: Path, worker: list[str]) -> None:
    files = ServiceFiles(state)
    first = ensure(state, worker, ports=free_ports())
    asyncio.run(start_workflow(first))
    kill(first.supervisor_pid)
    assert inspect(state) is None
    left = serving(state)
    assert left is not None
    assert (left.address, left.ready, left.troubles) == (first.address, True, (SUPERVISOR_GONE,))
    assert asyncio.run(describe_workflow(left)) == "RUNNING"
    assert living(first.server_pid, first.worker_pid) == [first.server_pid, first.worker_pid]
    assert is_locked(files.database_lock)
    assert not is_locked(files.supervisor_lock)
    second = ensure(state, worker)
    assert living(first.server_pid, first.worker_pid) == []
    assert [mark.pid for mark in dev_server.servers_of(files)] == [second.server_pid]
    assert second.address == first.address
    assert asyncio.run(describe_workflow(second)) == "RUNNING"

    # Killed again, this time with its record gone: the server is still found, by its database file.
    kill(second.supervisor_pid)
    kill(second.worker_pid)
    files.record.unlink()
    assert stop(state)
    assert living(second.server_pid) == []
    assert not is_locked(files.database_lock)


@pytest.mark.end_to_end
def test_a_port_that_is_taken_while_the_server_is_down_is_replaced(state: Path, worker: list[str]) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        first = ensure(state, worker, ports=Ports(frontend=port, ui=free_ports().ui))
    assert first.address != f"127.0.0.1:{port}"
    # Stopped, so that the port can be taken before the supervisor sees the server's end.
    assert first.supervisor_pid is not None
    os.kill(first.supervisor_pid, signal.SIGSTOP)
    os.kill(first.server_pid or 0, signal.SIGKILL)
    host, _, taken = first.address.rpartition(":")
    with socket.socket() as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        eventually(lambda: not processes.answers(first.address, timedelta(seconds=1)))
        thief.bind((host, int(taken)))
        thief.listen()
        os.kill(first.supervisor_pid, signal.SIGCONT)
        eventually(lambda: (now := inspect(state)) is not None and now.address != first.address)
        eventually(lambda: json.loads((state / "seen.json").read_text())["options"]["address"] != first.address)
        second = ready_again(state)
        assert second.address != first.address
        assert json.loads((state / "seen.json").read_text())["options"]["address"] == second.address


@pytest.mark.end_to_end
def test_a_worker_that_cannot_start_is_told_with_its_log_and_nothing_is_left(state: Path) -> None:
    broken = [sys.executable, "-c", "raise SystemExit('no such module: worker')"]
    with pytest.raises(ServiceError, match=r"(?s)worker does not stay up.*no such module: worker"):
        ensure(state, broken, ports=free_ports())
    assert dev_server.servers_of(ServiceFiles(state)) == []
    assert not is_locked(ServiceFiles(state).supervisor_lock)


@pytest.mark.end_to_end
def test_what_does_not_stay_up_is_told_and_forgotten_when_it_does(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    ensure(state, [sys.executable, str(script)], ports=free_ports())
    script.write_text("raise SystemExit('a broken installation')")
    service = inspect(state)
    assert service is not None
    kill(service.worker_pid)
    eventually(lambda: bool((inspect(state) or service).troubles))
    told = inspect(state)
    assert told is not None
    assert not told.ready
    assert re.search(r"the worker ended with code 1, \d+ times in a row; it is tried again every", told.troubles[0])
    assert access.reading(state) is not None
    assert "orchestrate doctor" in capsys.readouterr().err
    found = {finding.state for finding in service_findings(state) if finding.name in ("restarts", "worker")}
    assert found == {State.FAULT}
    script.write_text(WORKER)
    eventually(lambda: not (inspect(state) or told).troubles, seconds=40)


@pytest.mark.end_to_end
def test_new_code_gets_a_new_worker_and_the_old_one_finishes(state: Path, tmp_path: Path) -> None:
    """An installation of its own, so that its code can be changed."""
    installed = tmp_path / "installed"
    for room in ("baton", "cli"):
        shutil.copytree(ROOT / room, installed / room, ignore=shutil.ignore_patterns("__pycache__"))
    busy = tmp_path / "busy"
    finishing = WORKER.replace(
        "signal.pause()",
        "def drain(*_):\n    while pathlib.Path(BUSY).exists():\n        time.sleep(0.05)\n    sys.exit(0)\n"
        "signal.signal(signal.SIGUSR1, drain)\nsignal.pause()",
    )
    (installed / "worker.py").write_text(f"import sys, time\nBUSY = {str(busy)!r}\n{finishing}")
    busy.write_text("")
    start = "import sys; from pathlib import Path; from cli.service import Ports, ensure; "
    start += f"ensure(Path(sys.argv[1]), ports=Ports(**{free_ports().model_dump()}))"
    subprocess.run([sys.executable, "-c", start, str(state)], cwd=installed, check=True, timeout=60)
    first = ready_again(state)

    def now() -> Service:
        return inspect(state) or first

    # Code that does not start changes nothing.
    (installed / "worker.py").write_text("raise SystemExit('half installed')")
    eventually(lambda: bool(now().troubles), seconds=30)
    assert "does not start on the new code" in now().troubles[0]
    assert now().worker == first.worker
    assert living(first.worker_pid) == [first.worker_pid]

    (installed / "worker.py").write_text(f"import sys, time\nBUSY = {str(busy)!r}\n{finishing}\n# newer\n")
    eventually(lambda: now().worker_pid not in (None, first.worker_pid), seconds=30)
    second = now()
    assert second.ready
    assert not second.troubles
    assert second.worker_code != first.worker_code
    assert (second.server_pid, second.worker_restarts) == (first.server_pid, 0)
    assert [mark.pid for mark in second.draining] == [first.worker_pid]
    assert living(first.worker_pid) == [first.worker_pid]
    busy.unlink()
    eventually(lambda: not now().draining)
    assert living(first.worker_pid) == []
    # The new one is looked after as the old one was.
    kill(second.worker_pid)
    eventually(lambda: now().worker_pid not in (None, second.worker_pid) and now().ready)
    assert now().worker_code == second.worker_code


@pytest.mark.end_to_end
def test_a_configured_server_gets_only_a_worker(
    state: Path, tmp_path: Path, worker: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded = ensure(state, worker, ports=free_ports())
    # The embedded server's own address is no other server.
    monkeypatch.setenv("TEMPORAL_ADDRESS", embedded.address.replace("127.0.0.1", "localhost"))
    assert ensure(state, worker) == embedded
    other = tmp_path / "other"
    try:
        external = ensure(other, worker)
        assert not external.embedded
        assert (external.server_pid, external.ui_url) == (None, None)
        assert external.worker_pid != embedded.worker_pid
        seen = json.loads((other / "seen.json").read_text())
        assert seen["environment"]["TEMPORAL_ADDRESS"] == external.address
        assert asyncio.run(retention_and_attributes(external))[0] == 8760
        monkeypatch.delenv("TEMPORAL_ADDRESS")
        with pytest.raises(ServiceError, match="orchestrate down"):
            ensure(other, worker)
    finally:
        stop(other)
    assert living(external.supervisor_pid, external.worker_pid) == []
    assert inspect(state) == embedded


@pytest.mark.end_to_end
def test_a_service_ends_at_its_time(state: Path, worker: list[str]) -> None:
    service = ensure(state, worker, ports=free_ports(), exit_after=timedelta(seconds=6))
    eventually(lambda: not living(service.supervisor_pid, service.server_pid, service.worker_pid), seconds=30)
    assert not is_locked(ServiceFiles(state).database_lock)


def test_a_log_that_is_too_large_is_emptied_while_it_is_written_to(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    with open_log(log) as file:
        file.write(b"old\n" * (LOG_LIMIT_BYTES // 4 + 1))
        file.flush()
        rotate_log(log)
        file.write(b"new\n")
    assert log.read_bytes() == b"new\n"
    assert log.with_name("worker.log.1").stat().st_size > LOG_LIMIT_BYTES
    rotate_log(log)
    assert log.read_bytes() == b"new\n"
    rotate_log(tmp_path / "missing.log")

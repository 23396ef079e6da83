"""`orchestrate doctor` on machines that lack something: what is wrong is named with its remedy, nothing is changed."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli import processes
from cli.application import build
from cli.code_version import fingerprint, stamp
from cli.service import Ports, ensure, stop
from cli.service_record import Service, ServiceFiles, write_private

KEY = "sk-test-0123456789abcdef"


@pytest.fixture
def home(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that we are in."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.chdir(home)
    return home


@pytest.fixture
def model() -> Iterator[str]:
    """A server of the models' list: the path of the base URL is the status that it answers a good key with."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status = int(self.path.split("/")[1])
            given = self.headers["x-api-key"] == KEY
            self.send_response(status if given else 401)
            self.send_header("location", "http://127.0.0.1:9/elsewhere")
            self.end_headers()

        def log_message(self, *_arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def examined() -> tuple[int, dict[str, dict[str, str]], str]:
    """The exit code, the findings by name, and all that was shown."""
    result = CliRunner().invoke(build(), ["doctor", "--json"])
    document = json.loads(result.stdout)
    assert document["ok"] == (result.exit_code == 0)
    return result.exit_code, {finding["name"]: finding for finding in document["findings"]}, result.output


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_without_a_key_the_ways_to_one_are_named_and_nothing_is_made(home: Path, tmp_path: Path) -> None:
    code, found, _ = examined()
    assert code == 1
    assert [name for name, finding in found.items() if finding["state"] == "fault"] == ["key"]
    assert "ANTHROPIC_API_KEY" in found["key"]["remedy"]
    assert "does not run" in found["server"]["text"]
    assert not (tmp_path / "state").exists()
    shown = CliRunner().invoke(build(), ["doctor"])
    assert shown.exit_code == 1
    assert "-> export ANTHROPIC_API_KEY" in shown.output
    assert "1 of " in shown.output


@pytest.mark.parametrize(
    ("key", "status", "state", "words"),
    [
        (KEY, 200, "ok", "takes the credentials"),
        ("sk-wrong-0123456789", 200, "fault", "HTTP 401"),
        (KEY, 404, "ok", "not checked"),
        (KEY, 302, "fault", "HTTP 302"),
        (KEY, 529, "note", "busy"),
        (f"{KEY}\nx", 200, "fault", "characters that no key has"),
    ],
)
def test_the_model_is_asked_and_the_key_never_shown(
    home: Path, model: str, monkeypatch: pytest.MonkeyPatch, key: str, status: int, state: str, words: str
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", f"{model}/{status}")
    code, found, shown = examined()
    assert found["model"]["state"] == state
    assert words in found["model"]["text"]
    assert code == (1 if state == "fault" else 0)
    assert key.partition("\n")[0] not in shown


def test_a_model_that_is_not_there_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{probe.getsockname()[1]}"
    monkeypatch.setenv("ANTHROPIC_BASE_URL", address)
    assert examined()[1]["model"]["text"].startswith(f"{address} cannot be reached")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://user:pass-word-1@localhost")
    code, found, shown = examined()
    assert (code, found["model"]["state"]) == (1, "fault")
    assert "pass-word-1" not in shown


def test_the_key_that_the_service_keeps_counts_and_its_file_must_be_private(home: Path, tmp_path: Path) -> None:
    files = ServiceFiles(tmp_path / "state")
    files.create()
    write_private(files.credentials, json.dumps({"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}))
    _, found, shown = examined()
    assert "kept by the service" in found["key"]["text"]
    assert KEY not in shown
    assert found["state directory"]["state"] == "ok"
    files.credentials.chmod(0o644)
    _, found, _ = examined()
    assert found["state directory"]["state"] == "note"
    assert found["state directory"]["remedy"] == f"chmod go= {files.credentials}"


def test_a_sandbox_that_is_there_but_does_not_work(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin", "bwrap", "echo 'bwrap: No permissions to create a new namespace' >&2; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    _, found, _ = examined()
    assert found["sandbox"]["state"] == "note"
    assert "No permissions" in found["sandbox"]["text"]
    assert "user namespaces" in found["sandbox"]["remedy"]
    (home / ".claude").mkdir()
    (home / ".claude/settings.json").write_text('{"orchestration": {"sandbox": "on"}}')
    assert examined()[1]["sandbox"]["state"] == "fault"
    (home / ".claude/settings.json").write_text('{"orchestration": {"sandbox": "perhaps"}}')
    _, found, _ = examined()
    assert found["settings"]["state"] == "fault"
    assert "sandbox" in found["settings"]["text"]


def test_an_old_git_and_a_busy_port(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.which("git")
    program(tmp_path / "bin", "git", f'[ "$1" = --version ] && echo git version 2.30.2 || exec {real} "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    files = ServiceFiles(tmp_path / "state")
    files.create()
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        last = Service(address=f"127.0.0.1:{port}", ui_url="http://127.0.0.1:8233", directory=files.directory)
        files.write(last)
        _, found, _ = examined()
    assert found["git"]["state"] == "fault"
    assert "2.30.2 is too old" in found["git"]["text"]
    assert found["ports"]["state"] == "note"
    assert str(port) in found["ports"]["text"]


def test_a_state_directory_that_cannot_be_made(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BATON_STATE_DIR", str(tmp_path / "file" / "state"))
    _, found, _ = examined()
    assert found["state directory"]["state"] == "fault"
    assert "BATON_STATE_DIR" in found["state directory"]["remedy"]


def test_a_configured_server_that_does_not_answer(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)
    _, found, _ = examined()
    assert found["server"]["state"] == "fault"
    assert address in found["server"]["text"]


def test_the_fingerprint_follows_the_code_and_not_its_place(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "baton").mkdir(parents=True)
        (tmp_path / name / "baton" / "a.py").write_text("a = 1\n")
        (tmp_path / name / "baton" / "a.pyc").write_text(name)
    one, two = tmp_path / "one", tmp_path / "two"
    assert fingerprint(one) == fingerprint(two)
    before = stamp(two)
    (two / "baton" / "a.py").write_text("a = 22\n")
    assert fingerprint(one) != fingerprint(two)
    assert stamp(two) != before


def running_task(project: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A task in a repository, in whose folder we are then, that has not ended as far as its files say."""
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    artifacts = project / ".claude/orchestration/a-task"
    artifacts.mkdir(parents=True)
    line = {"kind": "merge", "step": 1, "outcome": "merged", "at": "2026-11-30T08:00:00Z"}
    (artifacts / "trace.jsonl").write_text(json.dumps(line) + "\n")
    monkeypatch.chdir(project)
    return artifacts.name


@pytest.mark.end_to_end
def test_a_running_service_is_looked_at(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "worker.py"
    script.write_text(
        "import os, pathlib, signal, sys\n"
        "pathlib.Path(sys.argv[sys.argv.index('--ready-file') + 1]).write_text(str(os.getpid()))\n"
        "signal.pause()\n"
    )
    state = tmp_path / "state"
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        ports = Ports(frontend=first.getsockname()[1], ui=second.getsockname()[1])
    worker = [sys.executable, str(script)]
    try:
        service = ensure(state, worker, ports=ports)
        _, found, _ = examined()
        assert found["server"]["state"] == "ok"
        assert service.address in found["server"]["text"]
        assert found["worker"]["state"] == "ok"
        assert found["code"]["state"] == "ok"
        # The stand-in says that it is ready and asks for nothing: the server knows better.
        assert found["workers"]["state"] == "note"
        ServiceFiles(state).write(service.model_copy(update={"worker_code": "0123456789ab", "worker_restarts": 3}))
        _, found, _ = examined()
        assert "older code (0123456789ab" in found["code"]["text"]
        assert "the worker 3 times" in found["restarts"]["text"]
        monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:9")
        assert examined()[1]["server"]["state"] == "fault"
        monkeypatch.delenv("TEMPORAL_ADDRESS")
        processes.kill(service.supervisor)
        left = [service.server, service.worker]
        _, found, _ = examined()
        assert found["server"]["state"] == found["worker"]["state"] == "ok"
        assert found["supervisor"]["state"] == "fault"
        assert "orchestrate up" in found["supervisor"]["remedy"]
        assert "ports" not in found
        unended = running_task(tmp_path / "project", monkeypatch)
        for command in (["status"], ["list"], ["timeline", unended], ["diagnose", unended], ["cleanup"]):
            listed = CliRunner().invoke(build(), command)
            assert listed.exit_code == 0, listed.output
            assert listed.stderr.count("the supervisor is gone") == 1, command
            assert "the supervisor is gone" not in listed.stdout
            assert "no Baton service" not in listed.output
        assert all(map(processes.is_alive, left)), "looking ends nothing"
        again = ensure(state, worker)
        assert not any(map(processes.is_alive, left))
        assert "supervisor" not in examined()[1]
        processes.kill(again.supervisor)
        assert stop(state)
        assert not any(map(processes.is_alive, (again.server, again.worker)))
    finally:
        stop(state)

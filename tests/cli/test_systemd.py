"""The systemd unit: its text as systemd reads it, what is never overwritten, and what `up` and `down` do with it."""

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli import processes
from cli.application import build
from cli.exits import Refused
from cli.service_record import Service, ServiceFiles
from cli.systemd_unit import make_unit, unit_path, write_unit

Orchestrate = Callable[..., Result]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("TEMPORAL_", "ANTHROPIC_", "BATON_", "XDG_"))]:
        monkeypatch.delenv(name)
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("BATON_STATE_DIR", str(tmp_path / "a state %h $HOME"))
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", os.devnull)
    return folder


@pytest.fixture
def orchestrate(home: Path) -> Orchestrate:
    return lambda *arguments: CliRunner().invoke(build(), list(arguments))


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `systemctl` that notes how it is called and starts and stops nothing; the note."""
    note, folder = tmp_path / "called", tmp_path / "bin"
    folder.mkdir()
    script = f'#!/bin/sh\necho "$@" >> {note}\n[ "$2" = is-active ] && exit 3\n[ "$2" = enable ] && exit 1\nexit 0\n'
    (folder / "systemctl").write_text(script)
    (folder / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return note


def written(home: Path) -> Path:
    [path] = (home / ".config" / "systemd" / "user").glob("*.service")
    return path


def test_the_unit_is_written_once_and_an_edited_one_is_kept(orchestrate: Orchestrate, home: Path) -> None:
    first = orchestrate("up", "--systemd")
    assert first.exit_code == 0, first.output
    path = written(home)
    assert f"Wrote {path}" in first.output
    assert f"systemctl --user enable --now {path.name}" in first.output
    text = path.read_text()
    assert "Unchanged" in orchestrate("up", "--systemd").output
    path.write_text(text.replace("RestartSec=5", "RestartSec=50"))
    refused = orchestrate("up", "--systemd")
    assert refused.exit_code == 2
    assert "--force" in refused.output
    assert "RestartSec=50" in path.read_text()
    assert orchestrate("up", "--systemd", "--force").exit_code == 0
    assert path.read_text() == text
    assert orchestrate("up", "--force").exit_code == 2


def test_systemd_itself_finds_nothing_wrong_with_it(
    orchestrate: Orchestrate, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze here")
    (tmp_path / "run").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    assert "objects" not in orchestrate("up", "--systemd").output
    path = written(home)
    done = subprocess.run(["systemd-analyze", "--user", "verify", str(path)], capture_output=True, text=True)
    assert path.name not in done.stderr
    path.write_text(path.read_text().replace("Type=notify", "Type=whenever"))
    done = subprocess.run(["systemd-analyze", "--user", "verify", str(path)], capture_output=True, text=True)
    assert path.name in done.stderr, "the check must be able to fail"


def test_words_of_a_command_stay_what_they_are(tmp_path: Path) -> None:
    words = ["/usr/bin/env", 'a "quoted" one', "100%", "$HOME", "back\\slash", "it's; two"]
    unit = make_unit(tmp_path / "x.service", words, tmp_path / "log 5%", {"PATH": "/bin:/a b", "LANG": ""})
    lines = dict(line.split("=", 1) for line in unit.text.splitlines() if "=" in line)
    assert shlex.split(lines["ExecStart"].replace("%%", "%").replace("$$", "$")) == words
    assert lines["StandardError"] == f"append:{tmp_path}/log 5%%"
    assert lines["Environment"] == '"PATH=/bin:/a b"'
    with pytest.raises(Refused, match="line end"):
        make_unit(tmp_path / "x.service", ["a\nExecStartPre=/bin/evil"], tmp_path / "log", {})
    with pytest.raises(Refused, match="TEMPORAL_API_KEY"):
        make_unit(tmp_path / "x.service", words, tmp_path / "log", {"TEMPORAL_API_KEY": "secret"})


def test_each_state_directory_has_a_unit_of_its_own(tmp_path: Path) -> None:
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}
    usual, other = Path("/state"), Path("/other")
    assert unit_path(usual, usual, environment) == tmp_path / "systemd/user/baton.service"
    named = {unit_path(state, usual, environment).name for state in (usual, other, Path("/third"))}
    assert len(named) == 3
    stranger = tmp_path / "systemd/user/baton.service"
    stranger.parent.mkdir(parents=True)
    stranger.write_text("[Service]\nExecStart=/bin/true\n")
    unit = make_unit(stranger, ["/bin/true"], tmp_path / "log", {})
    with pytest.raises(Refused, match="not from here"):
        write_unit(unit, force=False)


def test_what_systemctl_says_is_told(orchestrate: Orchestrate, home: Path, systemctl: Path) -> None:
    refused = orchestrate("up", "--systemd", "--yes")
    assert refused.exit_code == 1
    assert f"enable --now {written(home).name} failed" in refused.output
    called = systemctl.read_text().splitlines()
    assert called[0] == "--user daemon-reload"
    assert called[-1] == f"--user enable --now {written(home).name}"
    # The stand-in says that it is enabled: down tells that it will come back.
    assert f"systemctl --user disable {written(home).name}" in orchestrate("down").output


def test_down_says_what_it_stopped_and_what_it_did_not(
    orchestrate: Orchestrate, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = Path(os.environ["BATON_STATE_DIR"])
    files = ServiceFiles(state)
    files.create()
    command = [sys.executable, "-c", "import signal; signal.pause()"]
    supervisor = subprocess.Popen(command, start_new_session=True)
    try:
        mark = processes.mark(supervisor.pid)
        files.write(Service(address="127.0.0.1:7999", directory=files.directory, supervisor=mark))
        monkeypatch.setenv("TEMPORAL_ADDRESS", "temporal.example:7233")
        shown = orchestrate("down")
        assert shown.exit_code == 0
        assert "Stopped the service (its Temporal was 127.0.0.1:7999)" in shown.output
        assert "temporal.example:7233 is not ours and goes on" in shown.output
        assert supervisor.wait(10) == -signal.SIGTERM
        monkeypatch.setenv("TEMPORAL_PROFILE", "absent")
        assert orchestrate("down").exit_code == 0
    finally:
        supervisor.kill()
        supervisor.wait()


def test_the_service_manager_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cli.service_manager import notify_ready

    notify_ready()  # nobody asked
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        notify_ready()
        assert manager.recv(100) == b"READY=1"
        assert "NOTIFY_SOCKET" not in os.environ

"""`orchestrate logs` as typed: filtered, followed over an emptied log, and never a line of another task."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.application import build
from cli.logs import lines_of

ROOT = Path(__file__).resolve().parents[2]


def event(message: str, **more: object) -> str:
    known = {"time": "2026-11-30T08:00:00.000+00:00", "level": "INFO", "logger": "baton", "task": "a-task"}
    return json.dumps(known | {"message": message} | more) + "\n"


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BATON_STATE_DIR", str(tmp_path / "state"))
    path = tmp_path / "state/service/worker.log"
    path.parent.mkdir(parents=True)
    return path


def logs(*arguments: str) -> Result:
    return CliRunner().invoke(build(), ["logs", *arguments])


def test_only_lines_of_the_task_are_shown_older_ones_first(log: Path) -> None:
    log.with_name("worker.log.1").write_text(event("older"))
    log.write_text("Traceback of something\n" + event("of another", task="other") + event("newer", agent="a", turn=3))
    shown = logs("a-task")
    assert shown.exit_code == 0
    assert shown.output.splitlines() == ["08:00:00: older", "08:00:00 a turn 3: newer"]


def test_an_agent_or_its_chain(log: Path) -> None:
    log.write_text(event("1", agent="a") + event("2", agent="a~2") + event("3", agent="ab") + event("4"))
    told = [json.loads(line)["message"] for line in logs("a-task", "--agent", "a", "--json").stdout.splitlines()]
    assert told == ["1", "2"]
    assert logs("a-task", "--agent", "a~2").output.count("\n") == 1


def test_errors_come_with_their_trace_and_control_characters_do_not(log: Path) -> None:
    log.write_text(event("bad \x1b[31m", level="ERROR", error="Traceback\n  in x"))
    assert logs("a-task").output.splitlines() == ["08:00:00 error: bad  [31m", "    Traceback", "      in x"]


def test_nothing_to_show_is_said(log: Path) -> None:
    assert logs("a-task").exit_code == 2
    log.write_text(event("x", task="other"))
    done = logs("a-task")
    assert done.exit_code == 0
    assert "nothing of a-task is in" in done.output
    assert logs("../x").exit_code == 2


def test_a_log_that_is_emptied_is_followed_from_its_beginning(log: Path) -> None:
    log.write_text(event("1") + event("2")[:20])
    lines = lines_of(log, "a-task", None, follow=True)
    assert next(lines)["message"] == "1"
    with log.open("a") as file:
        file.write(event("2")[20:])
    assert next(lines)["message"] == "2"
    log.write_text(event("3"))
    assert next(lines)["message"] == "3"


def test_follow_goes_on_until_it_is_interrupted(log: Path) -> None:
    log.write_text(event("1"))
    command = [sys.executable, "-c", "import sys, starter; sys.exit(starter.main())", "logs", "a-task", "--follow"]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline().rstrip() == "08:00:00: 1"
        with log.open("a") as file:
            file.write(event("2"))
        assert process.stdout.readline().rstrip() == "08:00:00: 2"
        process.send_signal(2)
        assert process.wait(30) == 130
    finally:
        process.kill()
        process.wait()
        process.stdout.close()

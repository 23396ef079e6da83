"""`orchestrate logs` as typed: filtered, followed over an emptied log, and never a line of another task."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.application import build
from cli.logs import TaskLog

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
    lines = TaskLog(log, "a-task").lines(follow=True)
    assert next(lines)["message"] == "1"
    with log.open("a") as file:
        file.write(event("2")[20:])
    assert next(lines)["message"] == "2"
    log.write_text(event("3"))
    assert next(lines)["message"] == "3"


def test_an_unknown_agent_is_an_error_that_names_the_known_ones(log: Path) -> None:
    log.write_text(event("1", agent="a") + event("2", agent="a~2") + event("3", agent="b") + event("4"))
    done = logs("a-task", "--agent", "c")
    assert done.exit_code == 2
    assert "no agent 'c'" in done.output
    assert done.output.rstrip().endswith("there are a, b")
    log.write_text("".join(event("x", agent=f"e-{number:02}") for number in range(40)))
    assert "e-39 and 10 more" in logs("a-task", "--agent", "c").output


def test_the_workers_own_troubles_stand_between_the_lines_of_a_task(log: Path) -> None:
    core = {"task": None, "level": "WARNING", "logger": "temporal.core"}

    def of_worker(message: str, **more: object) -> str:
        told = json.loads(event(message, **core | more))
        del told["task"]
        return json.dumps(told) + "\n"

    log.write_text(
        of_worker("before")
        + event("1")
        + of_worker("server away")
        + of_worker("polled", level="INFO")
        + event("of another", task="other", level="ERROR")
        + event("2", agent="a")
        + of_worker("much later")
    )
    told = ["08:00:00: 1", "08:00:00 warning worker: server away", "08:00:00 a: 2"]
    assert logs("a-task").output.splitlines() == told
    assert logs("a-task", "--agent", "a").output.splitlines() == told[2:]


@pytest.mark.parametrize("copied", [True, False], ids=["emptied", "replaced"])
def test_nothing_is_lost_when_the_log_is_put_aside(log: Path, copied: bool) -> None:
    """A restarted service replaces the log, a running one copies and empties it; both between two looks."""
    older = log.with_name("worker.log.1")
    older.write_text(event("long ago"))
    log.write_text(event("1", error="a long one\n" * 100))
    lines = TaskLog(log, "a-task").lines(follow=True)
    assert [next(lines)["message"] for _ in range(2)] == ["long ago", "1"]
    with log.open("a") as file:
        file.write(event("2"))
    if copied:
        older.write_bytes(log.read_bytes())
        log.write_text("")
        log.write_text(event("3"))
    else:
        log.replace(older)
        log.write_text("".join(event(str(number)) for number in range(3, 9)))
    assert [next(lines)["message"] for _ in range(2)] == ["2", "3"]


def test_a_reader_that_goes_away_is_no_failure(log: Path) -> None:
    log.write_text("".join(event(f"line {number} " + "x" * 200) for number in range(3_000)))
    command = f"{sys.executable} -c 'import sys, starter; sys.exit(starter.main())' logs a-task | head -n 1"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("08:00:00: line 0 ")
    assert done.stderr == ""


def test_follow_goes_on_until_it_is_interrupted(log: Path) -> None:
    log.write_text(event("1"))
    command = [sys.executable, "-c", "import sys, starter; sys.exit(starter.main())", "logs", "a-task", "--follow"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
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

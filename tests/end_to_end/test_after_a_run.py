"""What a person does after a run: report, review, a follow-up, apply, cleanup; with real processes and real runs."""

import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.end_to_end.desk import GATE, LEGACY, LIMIT_SECONDS, ROOT, TASK, Desk, running_desk, task_of

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with running_desk(tmp_path_factory.mktemp("desk")) as desk:
        desk.git("config", "user.name", "Ada")
        desk.git("config", "user.email", "ada@example.org")
        yield desk


def state_of(desk: Desk) -> Path:
    return Path(desk.environment["BATON_STATE_DIR"])


def places(desk: Desk, task_id: str) -> tuple[Path, Path]:
    """The task's folder and its artifacts."""
    return state_of(desk) / "tasks" / task_id, desk.repository / ".claude/orchestration" / task_id


def ran(desk: Desk, task_id: str, *arguments: str) -> None:
    """A task on files that are old-fashioned again."""
    for name in ("bolt", "washer"):
        (desk.repository / f"{name}.py").write_text(LEGACY.replace("SUBJECT", f"{name} of {task_id}"))
    desk.git("commit", "-q", "-a", "-m", f"before {task_id}")
    done = desk.run(TASK, "--task-id", task_id, "--gate", GATE, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr


def answer(done: subprocess.CompletedProcess[str]) -> dict[str, list[dict[str, object]]]:
    told: dict[str, list[dict[str, object]]] = json.loads(done.stdout)
    return told


def test_a_result_is_reported_applied_and_cleaned_up(desk: Desk) -> None:
    ran(desk, "first")
    folder, artifacts = places(desk, "first")
    page = desk.run("report", "first", "--open", "--json")
    assert Path(json.loads(page.stdout)["page"]).read_text().startswith("<!doctype html>")

    kept = desk.run("cleanup", "--task-id", "first", "--json")
    assert kept.returncode == 3, kept.stderr
    [told] = answer(kept)["kept"]
    assert "--abandon first" in str(told["reason"])
    unmerged = desk.git("log", "--format=%h %s", "main..baton/first").splitlines()
    assert sorted(map(str, told["unmerged"])) == sorted(unmerged)  # type: ignore[call-overload]
    assert folder.is_dir()
    assert artifacts.is_dir()

    applied = desk.run("apply", "first", "--squash")
    assert applied.returncode == 0, applied.stderr
    assert "%s" not in (desk.repository / "bolt.py").read_text()
    assert desk.git("log", "-1", "--format=%an") == "Ada"
    assert "already holds" in desk.run("apply", "first").stdout

    young = desk.run("cleanup", "--older-than", "1d", "--json")
    assert (young.returncode, answer(young)["removed"]) == (0, [])
    dry = desk.run("cleanup", "--dry-run", "--json")
    assert [task["task_id"] for task in answer(dry)["removed"]] == ["first"]
    assert folder.is_dir()
    cleaned = desk.run("cleanup")
    assert cleaned.returncode == 0, cleaned.stderr
    assert "removed  first" in cleaned.stdout
    assert "branch baton/first" in cleaned.stdout
    assert "B." in cleaned.stdout.splitlines()[-1]
    assert not folder.exists()
    assert not artifacts.exists()
    assert "baton/first" not in desk.git("branch", "--list")
    assert desk.run("status", "first").returncode == 0
    gone = desk.run("report", "first")
    assert (gone.returncode, "cleaned up" in gone.stderr, "yet" in gone.stderr) == (2, True, False), gone.stderr
    assert "Nothing was removed" in desk.run("cleanup").stdout


def test_an_issue_handed_on_becomes_a_task_on_the_result(desk: Desk) -> None:
    ran(desk, "second")
    _, artifacts = places(desk, "second")
    issue = {"id": "issue-1", "severity": "high", "issue": TASK, "files": ["rivet.py"], "decision": "new_step"}
    (artifacts / "issues.json").write_text(json.dumps([issue]))
    assert "issue-1 [high]" in desk.run("review", "second").stdout
    started = desk.run("review", "second", "--start")
    assert started.returncode == 0, started.stderr
    follow_up = task_of(started.stdout)
    assert follow_up == "second-follow-up-1"
    assert json.loads((artifacts / "issues.json").read_text())[0]["follow_up"] == follow_up
    watched = desk.run("watch", follow_up)
    assert watched.returncode == 0, watched.stdout + watched.stderr
    assert desk.run("review", "second", "--start").returncode == 2
    report = json.loads(desk.run("report", follow_up, "--json").stdout)
    assert report["base_commit"] == desk.git("rev-parse", "baton/second")


def test_a_running_task_is_never_touched_and_an_abandoned_one_goes(desk: Desk) -> None:
    waiting = desk.run(TASK, "--task-id", "third", "--approve-phases", "--gate", GATE)
    assert waiting.returncode == 4, waiting.stderr
    folder, _ = places(desk, "third")
    for arguments in (("--abandon", "third"), ("--task-id", "third")):
        kept = desk.run("cleanup", *arguments)
        assert kept.returncode == 3
        assert "it runs" in kept.stdout
    assert (folder / "repository.git").is_dir()
    assert desk.run("cancel", "third").returncode == 0

    ran(desk, "fourth")
    shutil.rmtree(places(desk, "fourth")[0])
    tip = desk.git("rev-parse", "baton/fourth")
    gone = desk.run("cleanup", "--abandon", "fourth", "--abandon", "third")
    assert gone.returncode == 0, gone.stdout + gone.stderr
    assert f"branch baton/fourth {tip}" in gone.stderr
    assert "baton/fourth" not in desk.git("branch", "--list")
    for task_id in ("third", "fourth"):
        assert not any(place.exists() for place in places(desk, task_id))
    assert desk.run("cleanup", "--task-id", "no-such-task").returncode == 2


def test_a_task_that_temporal_does_not_know_is_cleaned_where_it_has_a_report(desk: Desk) -> None:
    ran(desk, "fifth")
    assert desk.run("apply", "fifth").returncode == 0
    folder, artifacts = places(desk, "fifth")
    stranger, its_files = places(desk, "unknown-to-temporal")
    shutil.copytree(folder, stranger)
    record = json.loads((stranger / "task.json").read_text())
    record["opened"]["artifacts"] = str(its_files)
    (stranger / "task.json").write_text(json.dumps(record))
    kept = desk.run("cleanup", "--task-id", "unknown-to-temporal")
    assert kept.returncode == 3
    assert "it has no report" in kept.stdout
    shutil.copytree(artifacts, its_files)
    assert desk.run("cleanup", "--task-id", "unknown-to-temporal").returncode == 0
    assert not stranger.exists()
    assert not its_files.exists()
    assert folder.is_dir()


def test_a_branch_that_is_checked_out_stays(desk: Desk) -> None:
    ran(desk, "sixth")
    assert desk.run("apply", "sixth").returncode == 0
    desk.git("switch", "-q", "baton/sixth")
    kept = desk.run("cleanup", "--task-id", "sixth")
    assert kept.returncode == 3
    assert "is checked out at" in kept.stdout
    desk.git("switch", "-q", "main")
    assert desk.run("cleanup", "--task-id", "sixth").returncode == 0


def on_a_terminal(desk: Desk, typed: str, *arguments: str) -> tuple[int, str]:
    """The exit code of the program on a terminal where somebody types this, and what it showed."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "starter.py"), *arguments],
        cwd=desk.repository,
        env=desk.environment | {"TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    os.write(ours, typed.encode())
    shown = b""
    with suppress(OSError):  # the terminal is closed with its last writer
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    return process.wait(timeout=LIMIT_SECONDS), shown.decode()


def test_on_a_terminal_a_person_is_asked_before_work_is_lost(desk: Desk) -> None:
    ran(desk, "seventh")
    code, shown = on_a_terminal(desk, "n\n", "cleanup", "--task-id", "seventh")
    assert code == 3
    assert "Remove it all the same?" in shown
    assert desk.git("rev-parse", "--short", "baton/seventh") in shown
    assert places(desk, "seventh")[0].is_dir()
    assert on_a_terminal(desk, "y\n", "cleanup", "--task-id", "seventh")[0] == 0
    assert not places(desk, "seventh")[0].exists()


def test_artifacts_in_a_folder_of_the_users_choice_are_found_and_go(desk: Desk) -> None:
    settings = desk.repository / ".claude/settings.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(json.dumps({"orchestration": {"stateDirectory": "build/tasks"}}))
    try:
        ran(desk, "eighth")
    finally:
        settings.unlink()
    assert (desk.repository / "build/tasks/eighth/report.md").is_file()
    assert json.loads(desk.run("report", "eighth", "--json").stdout)["task_id"] == "eighth"
    assert desk.run("apply", "eighth").returncode == 0
    assert desk.run("cleanup", "--task-id", "eighth").returncode == 0
    assert not (desk.repository / "build").exists()

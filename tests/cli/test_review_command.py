"""`review`: decisions are kept as they are made, and what is handed on becomes the text of a task."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ISSUES = [
    {"id": f"issue-{number}", "severity": "high", "issue": f"problem {number}", "files": ["a.py"], "evidence": "",
     "suggested_action": "mend it"}
    for number in (1, 2, 3)
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    repository = tmp_path / "repository"
    found = repository / ".claude/orchestration/some-task"
    found.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    (found / "report.md").write_text("# Done\n")
    report = {
        "task_id": "some-task", "state": "done", "base_commit": "b",
        "result": {"ref": "baton/some-task", "commit": "c"},
    }  # fmt: skip
    (found / "integration-report.json").write_text(json.dumps(report))
    (found / "issues.json").write_text(json.dumps(ISSUES))
    return found


def environment(folder: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "BATON_STATE_DIR": str(folder / "state"), "TERM": "xterm"}


def piped(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "starter.py"), "review", *arguments]
    return subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, text=True)


def on_a_terminal(folder: Path, typed: str, *arguments: str) -> str:
    """The command on a terminal where somebody types this; what it showed."""
    ours, theirs = pty.openpty()
    command = [sys.executable, str(ROOT / "starter.py"), "review", *arguments]
    process = subprocess.Popen(
        command, cwd=folder, env=environment(folder), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    os.write(ours, typed.encode())
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:  # the terminal is closed with its last writer
        pass
    finally:
        os.close(ours)
    assert process.wait(timeout=60) == 0, shown.decode()
    return shown.decode()


def decisions(folder: Path) -> list[tuple[str | None, str | None]]:
    issues = json.loads((folder / "issues.json").read_text())
    return [(issue.get("decision"), issue.get("comment")) for issue in issues]


def test_a_review_is_left_and_goes_on_with_what_is_open(folder: Path) -> None:
    shown = on_a_terminal(folder, "a\nfine so\nq\n", "some-task")
    assert "problem 1" in shown
    assert "Issue 2 of 3" in shown
    assert "2 left to decide" in shown
    assert decisions(folder) == [("accept", "fine so"), (None, None), (None, None)]
    assert "decided_at" in json.loads((folder / "issues.json").read_text())[0]
    shown = on_a_terminal(folder, "d\n\nn\nrename it instead\n", "some-task")
    assert "problem 1" not in shown
    assert decisions(folder) == [("accept", "fine so"), ("dismiss", ""), ("new_step", "rename it instead")]
    assert "--base baton/some-task" in shown.replace("\r\n", "")
    task = (folder / "follow-up.md").read_text()
    assert "Mend 1 issue of some-task" in task
    assert "problem 3" in task
    assert "Wanted: rename it instead" in task
    assert "problem 1" not in task


def test_piped_the_issues_are_listed_and_nothing_is_asked(folder: Path) -> None:
    before = (folder / "issues.json").read_bytes()
    listed = piped(folder, "some-task")
    assert listed.returncode == 0, listed.stderr
    assert "issue-1 [high] problem 1" in listed.stdout
    told = json.loads(piped(folder, str(folder / "issues.json"), "--json").stdout)
    assert (told["open"], len(told["issues"])) == (3, 3)
    assert (folder / "issues.json").read_bytes() == before


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("{", (), "cannot be read"),
        ('{"a": 1}', (), "holds no issues"),
        ('[{"issue": "x"}]', (), "each with an id"),
        (json.dumps(ISSUES), ("--start",), "no issue in"),
        (json.dumps(ISSUES), ("--start", "--json"), "do not go together"),
    ],
)
def test_what_cannot_be_reviewed_is_refused(folder: Path, text: str, arguments: tuple[str, ...], message: str) -> None:
    (folder / "issues.json").write_text(text)
    refused = piped(folder, str(folder / "issues.json"), *arguments)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert message in refused.stderr


def test_a_file_that_is_not_there_is_named(folder: Path) -> None:
    refused = piped(folder, "no/such/issues.json")
    assert refused.returncode == 2
    assert "no/such/issues.json" in refused.stderr

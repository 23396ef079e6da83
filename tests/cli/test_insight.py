"""`timeline` and `diagnose` as typed, on the artifacts of a task in a repository, without any service."""

import json
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.application import build

TRACE = [
    {"kind": "model", "agent": "executor-1", "turn": 1, "model": "m", "response": "msg_1", "outcome": "tool_use"},
    {"kind": "merge", "step": 1, "outcome": "conflict", "paths": ["a.py"]},
]


@pytest.fixture
def artifacts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The artifacts of `a-task` in a repository, and a state directory that is not there."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    folder = tmp_path / ".claude/orchestration/a-task"
    folder.mkdir(parents=True)
    lines = (json.dumps(line | {"at": f"2026-11-30T08:00:0{n}Z"}) for n, line in enumerate(TRACE))
    (folder / "trace.jsonl").write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BATON_STATE_DIR", str(tmp_path / "state"))
    return folder


def orchestrate(*arguments: object) -> Result:
    return CliRunner().invoke(build(), [str(argument) for argument in arguments])


def test_a_timeline_is_written_and_its_place_is_told(artifacts: Path) -> None:
    done = orchestrate("timeline", "a-task")
    assert done.exit_code == 0
    assert done.output.strip() == str(artifacts / "timeline.html")
    assert "a.py" in (artifacts / "timeline.html").read_text()


def test_a_timeline_goes_where_it_is_wanted(artifacts: Path, tmp_path: Path) -> None:
    assert orchestrate("timeline", "a-task", "-o", tmp_path / "run.html").exit_code == 0
    assert (tmp_path / "run.html").is_file()
    assert not (artifacts / "timeline.html").exists()
    refused = orchestrate("timeline", "a-task", "-o", tmp_path / "no/run.html")
    assert refused.exit_code == 2
    assert "name another file with -o" in refused.output


def test_a_diagnosis_names_evidence_and_remedy(artifacts: Path) -> None:
    done = orchestrate("diagnose", "a-task")
    assert done.exit_code == 0
    assert "high merge-conflicts" in done.output
    assert "step 1: a.py" in done.output
    assert "remedy: " in done.output


def test_a_diagnosis_as_json_names_what_could_not_be_read(artifacts: Path) -> None:
    (artifacts / "state.json").write_text("{")
    told = json.loads(orchestrate("diagnose", "a-task", "--json").stdout)
    assert [finding["id"] for finding in told["findings"]] == ["merge-conflicts"]
    assert told["unreadable"] == ["state.json"]
    assert told["ended"] is False


@pytest.mark.parametrize("command", ["timeline", "diagnose"])
def test_a_configuration_that_cannot_be_used_is_told_and_the_files_are_enough(
    artifacts: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    broken = artifacts / "temporal.toml"
    broken.write_text("no table = [")
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(broken))
    done = orchestrate(command, "a-task")
    assert done.exit_code == 0, done.output
    assert done.stderr.count("warning: ") == 1


@pytest.mark.parametrize("command", ["timeline", "diagnose"])
def test_a_malformed_id_is_refused_and_an_unknown_one_needs_a_service(artifacts: Path, command: str) -> None:
    assert orchestrate(command, "../x").exit_code == 2
    assert orchestrate(command, "another-task").exit_code == 1
    (artifacts / "trace.jsonl").unlink()
    assert orchestrate(command, "a-task").exit_code == 2

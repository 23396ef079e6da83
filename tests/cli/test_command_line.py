"""The command line as typed: which command is meant, what is refused with which words, and that nothing is left."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.application import build

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = (
    "run", "status", "watch", "list", "report", "cancel", "approve", "reject", "answer", "demo", "up", "down", "lint",
    "settings", "review", "apply", "cleanup", "timeline", "diagnose", "logs", "pause", "unpause", "guide", "limits",
    "doctor",
)  # fmt: skip

Orchestrate = Callable[..., Result]


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.invalid", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


@pytest.fixture
def home(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a key."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    return home


@pytest.fixture
def repository(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.py").write_text("a = 1\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def orchestrate(home: Path) -> Orchestrate:
    def run(*arguments: str, given: str | None = None) -> Result:
        return CliRunner().invoke(build(), list(arguments), input=given)

    return run


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(orchestrate: Orchestrate, command: str) -> None:
    shown = orchestrate(command, "--help")
    assert shown.exit_code == 0
    assert f"orchestrate {command}" in shown.output.partition("Example")[2] or command == "run"
    assert "╭" not in shown.output


def test_without_arguments_the_help_is_shown(orchestrate: Orchestrate) -> None:
    shown = orchestrate()
    assert "orchestrate demo" in shown.output
    assert all(command in shown.output for command in COMMANDS)


def test_the_version_is_told(orchestrate: Orchestrate) -> None:
    shown = orchestrate("--version")
    assert shown.exit_code == 0
    assert shown.output.startswith("orchestrate ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["statsu"], "Did you mean `orchestrate status`?"),
        (["statsu", "--json"], "Did you mean `orchestrate status`?"),
        (["statsu", "--repo", "/somewhere"], "Did you mean `orchestrate status`?"),
        (["statuss", "some-task-1"], "Did you mean `orchestrate status`?"),
        (["modernise"], "Commands are:"),
        (["--repo", "/nowhere", "modernise"], "Commands are:"),
        (["status", "--nonsense"], "No such option"),
        (["-fix the bug"], "orchestrate run -- '-fix the bug'"),
        (["run", "--help is wrong"], "orchestrate run -- '--help is wrong'"),
        ([""], "the task is empty"),
        (["  "], "the task is empty"),
        (["run", ""], "the task is empty"),
        (["@/no/such/file"], "the task cannot be read from /no/such/file"),
        (["do it", "--repo", "/no/such/folder"], "there is no such folder"),
        (["do it", "--task-id", "Not_An_Id"], "the task id 'Not_An_Id' is malformed"),
        (["do it", "--task-id", "x" * 64], "is malformed"),
        (["do it", "--gate", "pytest"], "--gate 'pytest' is not of the form NAME=COMMAND"),
        (["do it", "--model", "planner="], "--model 'planner=' is not of the form ROLE=ID"),
        (["do it", "--model", "painter=opus"], "orchestration.models.painter is no setting"),
        (["do it", "--max-cost", "much"], "orchestration.limits.costUsd"),
        (["do it", "--max-duration", "soon"], "'soon' is no duration; write for example 90s"),
        (["do it", "--output-budget", "100"], "orchestration.outputBudget"),
        (["do it", "--max-parallel", "0"], "orchestration.maxParallelAgents"),
        (["do it", "--mode", "both"], "--mode"),
        (["do it", "--base", "no-such-ref"], "the base 'no-such-ref' names no commit here"),
        (["do it", "--base", "--help"], "the base '--help' names no commit here"),
        (["do it", "--repo", "https://user:secret@example.invalid/r.git"], "holds a credential"),
        (["do it", "--plan", "missing.yaml"], "the plan cannot be read"),
        (["status", "Not_An_Id"], "is malformed"),
        (["watch", "../x"], "is malformed"),
        (["cancel", "x/y"], "is malformed"),
    ],
)
def test_bad_input_is_named_and_leaves_nothing(
    orchestrate: Orchestrate, repository: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    before = files(tmp_path)
    refused = orchestrate(*arguments)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert message in " ".join(refused.stderr.split())
    assert files(tmp_path) == before
    assert not (tmp_path / "state").exists()


def test_a_folder_that_is_no_repository_is_refused(
    orchestrate: Orchestrate, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    refused = orchestrate("do it")
    assert refused.exit_code == 2
    assert f"{home} is not in a git repository" in refused.stderr
    assert files(home) == {}


@pytest.mark.parametrize("flags", [["--bare"], []])
def test_a_repository_without_a_checkout_or_a_commit_is_refused(
    orchestrate: Orchestrate, tmp_path: Path, flags: list[str]
) -> None:
    folder = tmp_path / "other"
    git(tmp_path, "init", "-q", *flags, str(folder))
    before = files(folder)
    refused = orchestrate("do it", "--repo", str(folder))
    assert refused.exit_code == 2
    assert ("is a bare repository" if flags else "has no commits") in refused.stderr
    assert files(folder) == before


def test_a_branch_named_baton_is_refused(orchestrate: Orchestrate, repository: Path) -> None:
    git(repository, "branch", "baton")
    refused = orchestrate("do it")
    assert refused.exit_code == 2
    assert "git branch -m baton" in refused.stderr


def test_no_key_is_refused_with_the_ways_out(
    orchestrate: Orchestrate, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    refused = orchestrate("do it")
    assert refused.exit_code == 2
    assert "ANTHROPIC_API_KEY" in refused.stderr
    assert "orchestrate demo" in refused.stderr


def test_workers_elsewhere_need_a_configured_server(
    orchestrate: Orchestrate, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.setenv("BATON_LOCAL_WORKER", "off")
    assert "no API key" in orchestrate("Modernise it").output
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:9")
    refused = orchestrate("Modernise it")
    assert refused.exit_code == 2
    assert "127.0.0.1:9 does not answer" in refused.output
    monkeypatch.setenv("BATON_LOCAL_WORKER", "maybe")
    assert "only 'on' and 'off'" in orchestrate("Modernise it").output


def test_every_fault_of_a_plan_is_named(orchestrate: Orchestrate, repository: Path) -> None:
    steps = [
        {"step": 1, "agent_type": "a", "description": "d", "items": ["missing.py"], "depends_on": [9]},
        {"step": 1, "agent_type": "a", "description": "d", "items": ["../out"]},
    ]
    (repository / "plan.json").write_text(json.dumps({"plan": steps}))
    refused = orchestrate("do it", "--plan", "plan.json")
    assert refused.exit_code == 2
    for fault in ("step 1 is there 2 times", "depends on step 9", "'missing.py' does not exist", "leads outside"):
        assert fault in refused.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("plan: [", "is neither YAML nor JSON"),
        ("- 1", "a plan is an object with the key 'plan'"),
        ("plan: [{step: x, agent: y}]", "plan[0].agent_type: Field required"),
        ("plan: [{step: x, agent: y}]", "plan[0].agent: Extra inputs are not permitted"),
        ("steps: []", "plan: Field required"),
    ],
)
def test_a_plan_of_another_form_is_refused(orchestrate: Orchestrate, repository: Path, text: str, message: str) -> None:
    (repository / "plan.yaml").write_text(text)
    refused = orchestrate("do it", "--plan", "plan.yaml")
    assert refused.exit_code == 2
    assert message in refused.stderr


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("{", "not valid JSON"),
        ('{"orchestration": {"maxAgent": 3}}', "orchestration.maxAgent is no setting; allowed are:"),
        ('{"orchestration": {"enabled": false}}', "orchestration is switched off (enabled: false in"),
    ],
)
def test_a_faulty_settings_file_is_named(
    orchestrate: Orchestrate, repository: Path, settings: str, message: str
) -> None:
    path = repository / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text(settings)
    refused = orchestrate("do it")
    assert refused.exit_code == 2
    assert message in refused.stderr
    assert str(path) in refused.stderr


def test_a_temporal_that_does_not_answer_is_named(
    orchestrate: Orchestrate, repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:9")
    refused = orchestrate("do it")
    assert refused.exit_code == 2
    assert "127.0.0.1:9" in refused.stderr
    assert "TEMPORAL_ADDRESS" in refused.stderr
    assert not (repository / ".claude").exists()
    assert not (tmp_path / "state").exists()
    monkeypatch.setenv("TEMPORAL_ADDRESS", "nonsense")
    assert "'nonsense' is not of the form host:port" in orchestrate("do it").stderr


def test_reading_starts_nothing(orchestrate: Orchestrate, tmp_path: Path) -> None:
    for arguments, code in ((["list"], 0), (["status"], 0), (["status", "some-task"], 1), (["watch", "some-task"], 1)):
        told = orchestrate(*arguments)
        assert told.exit_code == code, arguments
        assert "orchestrate up" in told.stderr
    assert json.loads(orchestrate("list", "--json").stdout) == []
    assert not (tmp_path / "state").exists()


def test_down_without_a_service_says_so(orchestrate: Orchestrate) -> None:
    for arguments, folder in ((), "state"), (("--demo",), "state-demo"):
        told = " ".join(orchestrate("down", *arguments).stdout.split())
        assert "Nothing to stop" in told
        assert f"{folder})" in told  # which BATON_STATE_DIR chose


def test_a_report_in_this_repository_needs_no_service(orchestrate: Orchestrate, repository: Path) -> None:
    folder = repository / ".claude/orchestration/some-task"
    folder.mkdir(parents=True)
    (folder / "report.md").write_text("# Done: it\n")
    (folder / "integration-report.json").write_text('{"state": "done"}\n')
    assert orchestrate("report", "some-task").stdout == "# Done: it\n"
    assert json.loads(orchestrate("report", "some-task", "--json").stdout) == {"state": "done"}


@pytest.mark.parametrize("browser", [True, False])
def test_a_report_opens_as_a_page_that_runs_nothing(home: Path, repository: Path, browser: bool) -> None:
    folder = repository / ".claude/orchestration/some-task"
    folder.mkdir(parents=True)
    (folder / "report.md").write_text("# Done: a <b>\n\n| a |\n|---|\n| 1 |\n\n<script>x()</script>\n")
    opener = home / "opener"
    opener.write_text(f'#!/bin/sh\necho "$1" > {home}/opened\n')
    opener.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name not in {"DISPLAY", "WAYLAND_DISPLAY"}}
    environment |= {"BROWSER": str(opener)} if browser else {"BROWSER": str(home / "none"), "PATH": ""}
    command = [sys.executable, ROOT / "starter.py", "report", "some-task", "--open"]
    if not browser:
        (home / "bin").mkdir()
        (home / "bin/git").symlink_to(shutil.which("git") or "")
        environment["PATH"] = str(home / "bin")
    done = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    page = folder / "report.html"
    assert str(page) in done.stdout
    assert ("No browser" in done.stdout) is not browser
    if browser:
        assert (home / "opened").read_text().strip() == page.as_uri()
    shown = page.read_text()
    assert "<td>1</td>" in shown
    assert "&lt;script&gt;" in shown
    assert "<script>" not in shown
    assert "<title>Done: a &lt;b&gt;</title>" in shown


def test_settings_show_where_each_value_comes_from(orchestrate: Orchestrate, home: Path, repository: Path) -> None:
    for folder, settings in (
        (home, {"orchestration": {"maxAgents": 4, "limits": {"costUsd": 3, "duration": "2h"}}}),
        (repository, {"orchestration": {"limits": {"costUsd": 5}, "parallelExecution": False, "maxParallelAgents": 2}}),
    ):
        (folder / ".claude").mkdir()
        (folder / ".claude/settings.json").write_text(json.dumps(settings))
    user, project = str(home / ".claude/settings.json"), str(repository / ".claude/settings.json")
    told = json.loads(orchestrate("settings", "--json").stdout)
    shown = told["settings"]
    assert shown["maxAgents"] == {"value": 4, "source": user}
    assert shown["limits.costUsd"] == {"value": "5", "source": project}
    assert shown["limits.duration"] == {"value": 7200, "source": user}
    assert shown["outputBudget"] == {"value": 32_000, "source": "default"}
    assert told["warnings"] == [f"{project}: maxParallelAgents has no effect: parallelExecution is false"]
    plain = orchestrate("settings")
    assert re.search(rf"^maxAgents +4  \({re.escape(user)}\)$", plain.stdout, re.MULTILINE)
    assert "warning: " in plain.stderr
    schema = json.loads(orchestrate("settings", "--schema").stdout)
    assert "maxAgents" in schema["properties"]["orchestration"]["properties"]


def test_all_faults_of_all_settings_files_are_named(orchestrate: Orchestrate, home: Path, repository: Path) -> None:
    for folder, text in ((home, '{"orchestration": {"maxAgent": 1, "sandbox": "maybe"}}'), (repository, "{")):
        (folder / ".claude").mkdir()
        (folder / ".claude/settings.json").write_text(text)
    refused = orchestrate("settings")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "not valid JSON" in refused.stderr
    (repository / ".claude/settings.json").unlink()
    refused = orchestrate("settings")
    assert f"{home}/.claude/settings.json: orchestration.maxAgent is no setting; allowed are: app" in refused.stderr
    assert "'auto', 'on' or 'off'" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--state", "finished"], "--state 'finished' is no state; allowed are: running"),
        (["--newer-than", "yesterday"], "--newer-than: 'yesterday' is no duration"),
        (["--repo", "/no/such/folder"], "there is no such folder"),
    ],
)
def test_a_list_that_cannot_be_narrowed_so_is_refused(
    orchestrate: Orchestrate, arguments: list[str], message: str
) -> None:
    refused = orchestrate("list", *arguments)
    assert refused.exit_code == 2
    assert message in " ".join(refused.stderr.split())


def test_a_task_comes_from_a_file_or_standard_input(
    orchestrate: Orchestrate, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both get past the check of the task: what is refused then is the missing key."""
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    (repository / "task.md").write_text("Do it\n")
    assert "no API key" in orchestrate("@task.md").stderr
    assert "no API key" in orchestrate("-", given="Do it\n").stderr
    assert "the task is empty" in orchestrate("-", given="\n").stderr
    assert "no API key" in orchestrate("run", "status").stderr
    assert "no API key" in orchestrate("fix", "the", "tests").stderr
    assert "no API key" in orchestrate("--plan-only", "fix the tests").stderr


def loaded(code: str, *names: str) -> list[str]:
    """Which of the modules a fresh interpreter has loaded after `code`."""
    told = f"import sys; {code}; print(*(name for name in {names!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", told], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_command_line_loads_nothing_heavy() -> None:
    """`import anthropic` takes over a second, the others a part of one: commands load what they need."""
    heavy = ("anthropic", "temporalio", "pydantic", "rich", "yaml", "psutil", "baton.messages")
    assert loaded("import starter, cli.application; cli.application.build()", *heavy) == []


def test_looking_at_tasks_loads_neither_the_full_client_nor_the_payloads() -> None:
    """Together they would take as long to import as everything else that `list` and `status` load."""
    code = "import cli.access, cli.connection, cli.listing, cli.outcome, cli.progress, cli.tasks"
    assert loaded(code, "anthropic", "temporalio.client", "baton.messages", "baton.plan", "rich", "yaml") == []


def test_the_program_ends_with_the_exit_code_of_the_command(home: Path) -> None:
    done = subprocess.run([sys.executable, ROOT / "starter.py", "statsu"], cwd=home, capture_output=True, text=True)
    assert done.returncode == 2
    assert "orchestrate status" in done.stderr
    listed = subprocess.run([sys.executable, ROOT / "starter.py", "list", "--json"], cwd=home, capture_output=True)
    assert (listed.returncode, listed.stdout) == (0, b"[]\n")

"""The main job on real input: a published package with its own test suite, over real processes, with the stand-in.

The suite passes before and after, every item is done by exactly one agent, every handoff is one continue-as-new, no
turn is asked for twice, and the original repository keeps every byte but for the one branch.
"""

import asyncio
import hashlib
import json
import os
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path

import pytest
from temporalio.client import Client

from cli.service import inspect, stop
from emulator.journal import Exchange
from emulator.server import EmulatorServer
from emulator.standin import StandIn

pytestmark = pytest.mark.end_to_end

ROOT = Path(__file__).parent.parent.parent
SDISTS = ROOT / ".venv" / "sdists"
TASK_ID = "modernise-boltons"


def git(repository: Path, *arguments: str) -> str:
    """The output of git in the user's repository."""
    command = ["git", "-C", str(repository), "-c", "user.name=Ada", "-c", "user.email=ada@example.org", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def unpacked(folder: Path) -> Path:
    """The package as a fresh repository with one commit, a stash, and something not committed."""
    archive = next(SDISTS.glob("boltons-*.tar.gz"))
    with tarfile.open(archive) as sdist:
        sdist.extractall(folder, filter="data")
    repository = next(folder.glob("boltons-*"))
    git(repository, "init", "-q", "-b", "main")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "boltons as published")
    (repository / "README.md").write_text("a remark of my own\n", encoding="utf-8")
    git(repository, "stash")
    (repository / "notes.txt").write_text("not committed\n", encoding="utf-8")
    return repository


def fingerprint(repository: Path, without: tuple[str, ...]) -> dict[str, str]:
    """Every file of the repository, `.git` included, by content and time; new objects do not count."""
    found = {}
    for path in sorted(repository.rglob("*")):
        name = str(path.relative_to(repository))
        if path.is_file() and not name.startswith((".git/objects/", *without)):
            found[name] = f"{hashlib.sha256(path.read_bytes()).hexdigest()} {path.stat().st_mtime_ns}"
    return found


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder for PATH with a `python3` that has pytest, as a developer's own environment would."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("python3", "python"):
        wrapper = folder / name
        wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
        wrapper.chmod(0o755)
    return folder


def suite(repository: Path) -> str:
    """The last line of the package's own test run."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout[-2000:]
    return done.stdout.strip().splitlines()[-1]


async def runs_by_status(state: Path) -> tuple[Counter[str], dict[str, object]]:
    """How many workflow runs ended how, and the task's result."""
    service = inspect(state)
    assert service is not None
    client = await Client.connect(service.address, namespace=service.namespace)
    statuses: Counter[str] = Counter()
    async for execution in client.list_workflows("WorkflowType = 'AgentWorkflow'"):
        assert execution.status is not None
        statuses[execution.status.name] += 1
    result: dict[str, object] = await client.get_workflow_handle(TASK_ID).result()
    return statuses, result


def test_modernise_a_published_package(tmp_path: Path, tools: Path) -> None:
    state = tmp_path / "state"
    repository = unpacked(tmp_path)
    passed_before = suite(repository)
    keeps_its_bytes = (".claude/", f".git/refs/heads/baton/{TASK_ID}", f".git/logs/refs/heads/baton/{TASK_ID}")
    before = fingerprint(repository, keeps_its_bytes)
    with EmulatorServer(StandIn(), keep=True) as emulator:
        environment = {
            "HOME": str(tmp_path),
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "BATON_STATE_DIR": str(state),
            "ANTHROPIC_API_KEY": "stand-in",
            "ANTHROPIC_BASE_URL": emulator.url,
        }
        command = [sys.executable, str(ROOT / "starter.py"), "run", "Modernise the string formatting"]
        command += ["--repo", str(repository), "--task-id", TASK_ID, "--output-budget", "6000", "--max-agents", "80"]
        # The test's own `python3` is a script that leads into another folder, which a sandbox would hide.
        command += ["--sandbox", "off"]
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
            assert done.returncode == 0, done.stdout + done.stderr
            statuses, result = asyncio.run(runs_by_status(state))
        finally:
            stop(state)
        exchanges = list(emulator.requests)

    assert fingerprint(repository, keeps_its_bytes) == before
    artifacts = repository / ".claude" / "orchestration" / TASK_ID
    report = json.loads((artifacts / "integration-report.json").read_text(encoding="utf-8"))
    assert report["state"] == "done"
    assert [gate["status"] for gate in report["quality_gates"]] == ["passed"]

    ledger = json.loads((artifacts / "ledger.json").read_text(encoding="utf-8"))
    assert all(count == 1 for count in Counter(row["item"] for row in ledger).values())
    assert all(row["agent_id"] and row["status"] in {"changed", "unchanged"} for row in ledger)
    changed = git(repository, "diff", "--name-only", "-z", "main", f"baton/{TASK_ID}").split("\0")[:-1]
    assert set(changed) == {row["item"] for row in ledger if row["status"] == "changed"}
    assert changed

    handoffs = list(artifacts.glob("agent-*-handoff.json"))
    assert statuses["CONTINUED_AS_NEW"] == len(handoffs) == result["handoffs"]
    assert len(handoffs) >= 3

    check_exchanges(exchanges)

    git(repository, "checkout", "-q", f"baton/{TASK_ID}")
    assert suite(repository).split(" in ")[0] == passed_before.split(" in ")[0]


def check_exchanges(exchanges: list[Exchange]) -> None:
    """The API refused nothing, and no turn was asked for twice."""
    posts = [exchange for exchange in exchanges if exchange.path == "/v1/messages"]
    assert posts
    assert {exchange.status for exchange in posts} == {200}
    asked = Counter((exchange.user_id, exchange.body_sha256) for exchange in posts)
    assert max(asked.values()) == 1

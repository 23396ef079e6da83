"""The main job on real input: a published package with its own test suite, over real processes, with the stand-in.

The suite passes before and after, every item is done by exactly one agent, every handoff is one continue-as-new, no
turn is asked for twice, and the original repository keeps every byte but for the one branch.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from temporalio.client import Client

from cli.service import inspect, stop
from emulator.journal import Exchange
from emulator.server import EmulatorServer
from emulator.standin import StandIn
from tests.end_to_end.bench import git
from tests.end_to_end.published import ROOT, all_but_the_result, developed, suite, unpacked

pytestmark = pytest.mark.end_to_end

TASK_ID = "modernise-boltons"


def with_unfinished_work(repository: Path) -> None:
    """A stash, and something not committed."""
    (repository / "README.md").write_text("a remark of my own\n", encoding="utf-8")
    git(repository, "stash")
    (repository / "notes.txt").write_text("not committed\n", encoding="utf-8")


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


def test_modernise_a_published_package(tmp_path: Path) -> None:
    state = tmp_path / "state"
    repository = unpacked("boltons", tmp_path)
    developed(repository)
    with_unfinished_work(repository)
    outside = suite(repository, tmp_path / "before.xml")
    assert outside.failed == ()
    before = all_but_the_result(repository, TASK_ID)
    with EmulatorServer(StandIn(), keep=True) as emulator:
        environment = {
            "HOME": str(tmp_path),
            "PATH": os.environ["PATH"],
            "BATON_STATE_DIR": str(state),
            "ANTHROPIC_API_KEY": "stand-in",
            "ANTHROPIC_BASE_URL": emulator.url,
        }
        command = [sys.executable, str(ROOT / "starter.py"), "run", "Modernise the string formatting"]
        command += ["--repo", str(repository), "--task-id", TASK_ID, "--output-budget", "6000", "--max-agents", "80"]
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
            assert done.returncode == 0, done.stdout + done.stderr
            statuses, result = asyncio.run(runs_by_status(state))
        finally:
            stop(state)
        exchanges = list(emulator.requests)

    assert all_but_the_result(repository, TASK_ID) == before
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
    assert suite(repository, tmp_path / "after.xml") == outside


def check_exchanges(exchanges: list[Exchange]) -> None:
    """The API refused nothing, and no turn was asked for twice."""
    posts = [exchange for exchange in exchanges if exchange.path == "/v1/messages"]
    assert posts
    assert {exchange.status for exchange in posts} == {200}
    asked = Counter((exchange.user_id, exchange.body_sha256) for exchange in posts)
    assert max(asked.values()) == 1

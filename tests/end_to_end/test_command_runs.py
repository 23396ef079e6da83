"""Commands as a person types them: real processes, the real service, the stand-in model behind it."""

import json
import signal
import subprocess
from collections.abc import Iterator

import pytest

from cli.dev_server import server_binary
from tests.end_to_end.desk import GATE, LIMIT_SECONDS, TASK, Desk, running_desk, task_of

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with running_desk(tmp_path_factory.mktemp("desk")) as desk:
        yield desk


def test_a_task_runs_to_its_end_and_can_be_read(desk: Desk) -> None:
    done = desk.run(TASK, "--gate", GATE)
    assert done.returncode == 0, done.stdout + done.stderr
    task_id = task_of(done.stdout)
    assert "Done: 3 of 3 items done" in done.stdout
    assert f"branch      baton/{task_id}" in done.stdout
    assert "\x1b" not in done.stdout
    assert "gate syntax: passed" in done.stdout
    assert "%s" not in desk.git("show", f"baton/{task_id}:bolt.py")
    assert desk.git("status", "--porcelain") == ""

    status = json.loads(desk.run("status", task_id, "--json").stdout)
    assert (status["state"], status["phase"]) == ("done", "done")
    [row] = [row for row in json.loads(desk.run("list", "--json").stdout) if row["task_id"] == task_id]
    assert (row["state"], row["repository"]) == ("done", str(desk.repository))
    assert "3 of 3 items done" in row["summary"]
    assert desk.run("report", task_id).stdout.startswith("# Done:")
    assert json.loads(desk.run("report", task_id, "--json").stdout)["ready"] is True
    assert desk.run("watch", task_id).returncode == 0
    for refused in (desk.run("cancel", task_id), desk.run("approve", task_id), desk.run(TASK, "--task-id", task_id)):
        assert refused.returncode == 2
        assert task_id in refused.stderr


def test_a_task_waits_for_approval_and_goes_on(desk: Desk) -> None:
    waiting = desk.run(TASK, "--approve-phases", "--gate", GATE)
    assert waiting.returncode == 4, waiting.stdout + waiting.stderr
    task_id = task_of(waiting.stdout)
    assert f"  orchestrate approve {task_id}\n" in waiting.stdout
    assert "waiting" in desk.run("status", task_id).stdout
    wrong_phase = desk.run("approve", task_id, "--phase", "integration")
    assert (wrong_phase.returncode, wrong_phase.stdout) == (2, "")
    assert f"orchestrate approve {task_id}" in wrong_phase.stderr
    wrong_choice = desk.run("answer", task_id, "approval-1", "maybe")
    assert wrong_choice.returncode == 2
    assert "approve, reject" in wrong_choice.stderr
    assert desk.run("answer", task_id, "approval-7", "approve").returncode == 2
    assert "planning: approve was taken" in desk.run("approve", task_id).stdout
    assert desk.run("watch", task_id).returncode == 4
    assert "integration: approve" in desk.run("approve", task_id).stdout
    assert desk.run("watch", task_id).returncode == 0


def test_a_task_is_steered(desk: Desk) -> None:
    task_id = task_of(desk.run(TASK, "--approve-phases", "--gate", GATE).stdout)
    assert "the agents hand off and wait" in desk.run("pause", task_id).stdout
    again = desk.run("pause", task_id)
    assert (again.returncode, again.stdout) == (2, "")
    assert "it is paused" in again.stderr
    assert "every agent that starts later" in desk.run("guide", task_id, "Keep the names").stdout
    assert "there is no step 9" in desk.run("guide", task_id, "x", "--step", "9").stderr
    assert (
        "max cost 40 USD, max agents 12" in desk.run("limits", task_id, "--max-cost", "40", "--max-agents", "12").stdout
    )
    assert "no duration" in desk.run("limits", task_id, "--max-duration", "soon").stderr
    assert json.loads(desk.run("status", task_id, "--json").stdout)["paused"] is True
    assert "the task goes on" in desk.run("unpause", task_id).stdout
    desk.run("approve", task_id)
    assert desk.run("watch", task_id).returncode == 4
    desk.run("approve", task_id)
    assert "guidance was given" in desk.run("status", task_id, "--json").stdout
    assert desk.run("watch", task_id).returncode == 0


def test_a_plan_is_edited_before_it_runs(desk: Desk) -> None:
    task_id = task_of(desk.run(TASK, "--approve-phases", "--gate", GATE).stdout)
    one_item = Desk({**desk.environment, "GIT_EDITOR": "sed -i -e '/washer.py/d' -e '/rivet.py/d'"}, desk.repository)
    edited = one_item.run("approve", task_id, "--edit")
    assert "the plan was replaced and approved" in edited.stdout, edited.stdout + edited.stderr
    assert desk.run("watch", task_id).returncode == 4
    desk.run("approve", task_id)
    assert "1 of 1 items done" in desk.run("watch", task_id).stdout


def test_a_task_at_its_limit_waits_until_it_is_raised(desk: Desk) -> None:
    waiting = desk.run(TASK, "--gate", GATE, "--max-cost", "0")
    assert waiting.returncode == 4, waiting.stdout + waiting.stderr
    task_id = task_of(waiting.stdout)
    assert f"orchestrate answer {task_id} limit-1 integrate" in waiting.stdout
    too_little = desk.run("answer", task_id, "limit-1", "raise", "--comment", "0")
    assert (too_little.returncode, "leaves nothing" in too_little.stderr) == (2, True)
    assert "raise was taken" in desk.run("answer", task_id, "limit-1", "raise", "--comment", "40").stdout
    assert desk.run("watch", task_id).returncode == 0
    assert desk.run(TASK, "--max-cost", "0", "--on-limit", "stop").returncode == 1


def test_the_stock_tool_starts_signals_asks_cancels_and_terminates(desk: Desk) -> None:
    address = json.loads(desk.run("up", "--json").stdout)["address"]

    def temporal(*arguments: str) -> str:
        done = subprocess.run(
            [server_binary(), "workflow", *arguments, "--address", address, "-o", "json"],
            env=desk.environment | {"TEMPORAL_ADDRESS": address},
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(task_id: str) -> None:
        given = {"task": TASK, "repository": str(desk.repository), "settings": {"requireApproval": True}}
        names = ("--type", "OrchestrationWorkflow", "--task-queue", "baton")
        temporal("start", *names, "--workflow-id", task_id, "--input", json.dumps(given))
        assert desk.run("watch", task_id).returncode == 4

    start("stock-one")
    temporal("signal", "-w", "stock-one", "--name", "approve", "--input", '{"phase": "nowhere"}')
    assert "'nowhere'" in temporal("query", "-w", "stock-one", "--type", "status")
    temporal("signal", "-w", "stock-one", "--name", "set_limits", "--input", '{"max_cost_usd": 40}')
    temporal("signal", "-w", "stock-one", "--name", "guide", "--input", '{"text": "Keep the names"}')
    temporal("signal", "-w", "stock-one", "--name", "approve", "--input", '{"phase": "planning"}')
    assert desk.run("watch", "stock-one").returncode == 4
    updated = ("update", "execute", "-w", "stock-one", "--name", "approve_phase", "--input", '{"phase": "integration"}')
    assert "integration: approve was taken" in temporal(*updated)
    assert desk.run("watch", "stock-one").returncode == 0
    for way in ("cancel", "terminate"):
        start(f"stock-{way}")
        temporal(way, "-w", f"stock-{way}")
        assert desk.run("watch", f"stock-{way}").returncode == 1
        assert json.loads(desk.run("status", f"stock-{way}", "--json").stdout)["state"] == "cancelled"


def test_a_waiting_task_is_cancelled(desk: Desk) -> None:
    task_id = task_of(desk.run(TASK, "--approve-phases").stdout)
    cancelled = desk.run("cancel", task_id)
    assert cancelled.returncode == 0, cancelled.stdout + cancelled.stderr
    assert "Cancelled" in cancelled.stdout
    assert json.loads(desk.run("status", task_id, "--json").stdout)["state"] == "cancelled"
    assert desk.run("watch", task_id).returncode == 1


def test_a_plan_only_is_shown_and_changes_nothing(desk: Desk) -> None:
    before = desk.git("for-each-ref")
    planned = desk.run(TASK, "--plan-only", "--json", "--gate", GATE)
    assert planned.returncode == 0, planned.stdout + planned.stderr
    result = json.loads(planned.stdout)
    assert result["state"] == "done"
    assert sum(step["items"] for step in result["plan"]["plan"]) == 3
    assert desk.git("for-each-ref") == before


def test_what_only_the_worker_can_see_is_bad_input_too(desk: Desk) -> None:
    before = desk.git("for-each-ref")
    for arguments in ((TASK, "--model", "executor=no-such-model"), (TASK, "--model", "planner=nobody", "--detach")):
        refused = desk.run(*arguments)
        assert refused.returncode == 2, refused.stdout + refused.stderr
        assert "is unknown to the API" in refused.stderr
    assert desk.git("for-each-ref") == before


def test_the_list_leaves_refused_tasks_out_and_can_be_narrowed(desk: Desk) -> None:
    refused = desk.run(TASK, "--model", "executor=no-such-model", "--task-id", "refused-one")
    assert refused.returncode == 2

    def listed(*arguments: str) -> dict[str, str]:
        return {row["task_id"]: row["state"] for row in json.loads(desk.run("list", "--json", *arguments).stdout)}

    task_id = task_of(desk.run(TASK, "--plan-only").stdout)
    assert listed()[task_id] == "done"
    assert "refused-one" not in listed()
    assert listed("--all")["refused-one"] == "refused"
    refused_here = listed("--state", "refused", "--repo", ".")
    assert (refused_here["refused-one"], set(refused_here.values())) == ("refused", {"refused"})
    assert set(listed("--state", "done").values()) == {"done"}
    assert listed("--state", "done", "--older-than", "1d") == {}
    assert task_id in listed("--newer-than", "1h", "--repo", str(desk.repository))
    assert "No such task" in desk.run("list", "--newer-than", "0s").stdout


def test_ctrl_c_ends_the_following_and_not_the_task(desk: Desk) -> None:
    process = desk.start(TASK, "--gate", GATE)
    assert process.stdout is not None
    task_id = task_of(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == 130
    assert f"orchestrate watch {task_id}" in err
    assert f"orchestrate cancel {task_id}" in err
    watched = desk.run("watch", task_id)
    assert watched.returncode == 0
    assert "Done:" in watched.stdout


def test_a_detached_task_is_started_and_found(desk: Desk) -> None:
    detached = desk.run(TASK, "--detach", "--json", "--task-id", "detached-one", "--gate", GATE)
    assert detached.returncode == 0, detached.stderr
    started = json.loads(detached.stdout)
    assert (started["task_id"], started["state"]) == ("detached-one", "running")
    assert started["ui_url"].endswith("/namespaces/default/workflows/detached-one")
    assert desk.run("watch", "detached-one").returncode == 0


def test_up_and_down(desk: Desk) -> None:
    service = json.loads(desk.run("up", "--json").stdout)
    assert service["ready"] is True
    told = desk.run("up").stdout
    assert service["address"] in told
    assert service["ui_url"] in told
    assert "Stopped the service" in desk.run("down").stdout
    assert "orchestrate up" in desk.run("list").stderr


def test_a_stopped_task_is_resumed_with_higher_limits(desk: Desk) -> None:
    stopped = desk.run(TASK, "--max-agents", "1", "--gate", GATE)
    task_id = task_of(stopped.stdout)
    running = desk.run("resume", task_id)
    assert (running.returncode, "is still running" in running.stderr) == (2, True), running.stderr
    assert desk.run("cancel", task_id).returncode == 0
    done = desk.run("resume", "--task-id", task_id, "--max-agents", "9")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 of 3 items done" in done.stdout
    assert "%s" not in desk.git("show", f"baton/{task_id}:bolt.py")
    refused = desk.run("resume", task_id)
    assert (refused.returncode, "is done: there is nothing to resume" in refused.stderr) == (2, True), refused.stderr
    unknown = desk.run("resume", "never-heard-of-it")
    assert (unknown.returncode, "nothing is known of a task" in unknown.stderr) == (2, True), unknown.stderr

"""Steps with `run` through a whole task: the command's work, its failures given to a model, cancelling."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from temporalio.client import WorkflowFailureError

from baton.messages import TaskInput
from baton.plan import DraftStep, PlanDraft
from baton.states import TaskState
from emulator.dialogue import Dialogue
from emulator.reply import Block, ToolUse
from emulator.standin import StandIn
from tests.end_to_end.bench import Rules, commands_below, git, task
from tests.workflows.rig import Rig, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

OLD = "def hello(name):\n    return 'hello %s' % (name,)\n"
NEW = "def hello(name):\n    return f'hello {name}'\n"


def nobody(_: object) -> list[object]:
    raise AssertionError("a step with run asks no model")


async def test_a_command_does_what_it_can_and_a_model_the_rest(rig: Rig) -> None:
    """The planner of the stand-in plans the command; its executor gets what failed."""
    source = rig.repository(a=OLD, b=OLD, c=OLD)
    command = "test {item} != b.py && sed -i 's/%s/{name}/;s/ % (name,)//' {item}".replace("{name}", "-")
    given = task(source).model_copy(
        update={"plan": None, "task": f"Run `{command}` on every module that needs it", "integration": True}
    )
    with rig.api(StandIn()):
        result = await rig.run(given)
    assert (result.state, result.items.changed, result.items.failed) == (TaskState.DONE, 3, 0)
    assert git(source, "show", f"{result.ref}:b.py") == NEW
    assert git(source, "show", f"{result.ref}:a.py") == "def hello(name):\n    return 'hello -'\n"
    ledger = json.loads((Path(result.artifacts) / "ledger.json").read_text())
    assert {row["item"]: row["step"] for row in ledger} == {"a.py": 1, "c.py": 1, "b.py": 2}
    assert "1 item failed and went to step 2" in (Path(result.artifacts) / "integration-report.json").read_text()
    subjects = git(source, "log", "--format=%s", f"main..{result.ref}").splitlines()
    assert len(subjects) == 2


async def test_failures_that_nobody_takes_are_issues(rig: Rig) -> None:
    source = rig.repository(a="x\n", b="y\n")
    with rig.api(Rules(nobody)):  # type: ignore[arg-type]
        result = await rig.run(planned(source, "echo broke; grep -q x {item}"))
    assert (result.state, result.items.unchanged, result.items.failed) == (TaskState.PARTIAL, 1, 1)
    issues = json.loads((Path(result.artifacts) / "issues.json").read_text())
    assert [issue["files"] for issue in issues if "exit code 1: broke" in issue["issue"]] == [["b.py"]]


async def test_what_an_agents_command_did_to_others_files_is_an_issue(rig: Rig) -> None:
    """The step is done by what it may change, and a person gets to know what its agent lost."""
    source = rig.repository(a="x\n", b="y\n")

    def removing(dialogue: Dialogue) -> Sequence[Block]:
        if not dialogue.calls:
            edits = [ToolUse("bash", {"command": f"echo {n} >> a.py; rm b.py"}) for n in range(2)]
            return [*edits, ToolUse("complete_item", {"item": "a.py"})]
        return [ToolUse("finish_step", {"status": "ok", "summary": "done"})]

    with rig.api(Rules(removing)):
        result = await rig.run(task(source, "a.py"))
    assert result.state is TaskState.DONE
    assert git(source, "show", f"{result.ref}:b.py") == "y\n"
    issues = json.loads((Path(result.artifacts) / "issues.json").read_text())
    told = [(issue["severity"], issue["issue"], issue["files"]) for issue in issues]
    assert told == [("medium", "step 1: changes to files of others were taken back: b.py", ["b.py"])]


async def test_a_cancelled_command_ends_and_what_was_done_stays(rig: Rig) -> None:
    source = rig.repository(a="x\n", b="y\n")
    with rig.api(Rules(nobody)):  # type: ignore[arg-type]
        handle = await rig.start(
            planned(source, "echo more >> {item}; sleep $(test {item} = a.py && echo 1.1 || echo 300)")
        )
        await until(handle, lambda now: bool(now.steps) and now.steps[0].state == "running")
        workspaces = rig.folder_of(handle.id).path / "workspaces"
        while not any("sleep 300" in line for line in commands_below(workspaces)):
            await asyncio.sleep(0.05)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
    assert not commands_below(workspaces)
    ledger = json.loads((source / ".claude/orchestration" / handle.id / "ledger.json").read_text())
    assert {row["item"]: row["status"] for row in ledger} == {"a.py": "changed", "b.py": "pending"}
    assert git(source, "diff", "--numstat", "main", f"baton/{handle.id}").split() == ["1", "0", "a.py"]


def planned(source: Path, command: str) -> TaskInput:
    step = DraftStep(step=1, agent_type="x", description="Run it", items=("a.py", "b.py"), run=command)
    return task(source).model_copy(update={"plan": PlanDraft(plan=(step,))})

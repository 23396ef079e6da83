"""`temporal workflow reset` of a task to an earlier point: the workspace and the result go back there, children are
replaced, and nothing of the branch that was left is taken for the new one's."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from baton.plan import DraftStep, PlanDraft
from baton.states import TaskState
from emulator.dialogue import Dialogue
from emulator.reply import Block, ToolUse
from tests.end_to_end.bench import Handle, Rules, git, paid_turns, task
from tests.workflows.rig import Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")


def answer(dialogue: Dialogue) -> Sequence[Block]:
    """Says in the file who changed it, so that the work of two agents cannot be told for one's."""
    if dialogue.turn:
        return [ToolUse("finish_step", {"status": "ok", "summary": "done"})]
    item, agent = dialogue.assignment["items"][0], dialogue.assignment["agent_id"]
    return [ToolUse("bash", {"command": f"echo {agent} >> {item}"}), ToolUse("complete_item", {"item": item})]


async def temporal(address: str, *arguments: str) -> str:
    """The stock command line."""
    program = Path(sys.executable).parent / "temporal"
    process = await asyncio.create_subprocess_exec(
        program, *arguments, "--address", address, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


async def before_child(handle: Handle, workflow_id: str) -> int:
    """The workflow task that decided to start this child."""
    for event in (await handle.fetch_history()).events:
        started = event.start_child_workflow_execution_initiated_event_attributes
        if started.workflow_id == workflow_id:
            return started.workflow_task_completed_event_id
    raise AssertionError(f"{workflow_id} was never started")


async def test_a_reset_task_does_its_later_steps_again(rig: Rig, temporal_address: str) -> None:
    source = rig.repository(a="start\n", b="start\n")
    steps = (
        DraftStep(step=1, agent_type="editor", description="Edit a", items=("a.py",)),
        DraftStep(step=2, agent_type="editor", description="Edit b", items=("b.py",), depends_on=(1,)),
    )
    with rig.api(Rules(answer)) as api:
        handle = await rig.start(task(source).model_copy(update={"plan": PlanDraft(plan=steps)}))
        first = await handle.result()
        paid_before = len(paid_turns(api, handle.id))
        event = await before_child(handle, f"{handle.id}/step-2")
        where = ("--workflow-id", handle.id, "--event-id", str(event), "--reason", "a bad decision")
        await temporal(temporal_address, "workflow", "reset", *where)
        newest = rig.client.get_workflow_handle(handle.id, result_type=type(first))
        second = await newest.result()
        assert len(paid_turns(api, handle.id)) == paid_before + 2
        assert max(paid_turns(api, handle.id).values()) == 1
    assert (first.state, second.state, second.items.done) == (TaskState.DONE, TaskState.DONE, 2)
    assert second.commit != first.commit
    assert git(source, "show", f"{second.ref}:a.py") == "start\nexecutor-1-editor\n"
    assert git(source, "show", f"{second.ref}:b.py") == "start\nexecutor-2-editor~2\n"
    trailers = git(source, "log", "--format=%(trailers:key=Baton-Step,valueonly,separator=%x2C)", f"main..{second.ref}")
    assert trailers.split() == ["2", "1"]
    assert second.ref == first.ref == f"baton/{handle.id}"
    aside = git(rig.folder_of(handle.id).repository.path, "for-each-ref", "--format=%(refname)", "refs/baton/aside")
    assert any("/result-" in name for name in aside.split())
    assert any("/step-2-" in name for name in aside.split())

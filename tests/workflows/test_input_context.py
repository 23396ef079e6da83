"""A file from one step to another, outside the repository, through a whole task."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from baton.plan import DraftStep, PlanDraft
from baton.states import TaskState
from emulator.dialogue import Dialogue
from emulator.reply import Block, ToolUse
from tests.end_to_end.bench import Rules, git, task, tree
from tests.workflows.rig import Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")

FINISH = ToolUse("finish_step", {"status": "ok", "summary": "done"})


def working(dialogue: Dialogue) -> Sequence[Block]:
    assignment = dialogue.assignment
    if assignment["step"]["step"] == 1:
        assert assignment["outputs_expected"] == ["@outputs/1/order.txt"]
        if dialogue.failures("finish_step") and not dialogue.done("write"):
            assert "later steps need @outputs/1/order.txt" in dialogue.calls[-1].result
            return [ToolUse("write", {"file_path": "@outputs/1/order.txt", "content": "a before b\n"})]
        return [FINISH]
    context = assignment["input_context"]
    assert context["path"] == "@outputs/1/order.txt"
    if dialogue.calls:
        return [FINISH]
    change = ToolUse("append", {"file_path": "a.py", "at_line": 1, "content": context["content"]})
    return [change, ToolUse("complete_item", {"item": "a.py"})]


async def test_what_a_step_writes_reaches_the_step_that_needs_it(rig: Rig) -> None:
    source = rig.repository(a="# a\n")
    first = DraftStep(step=1, agent_type="x", description="Find the order")
    second = DraftStep(
        step=2, agent_type="x", description="Use it", items=("a.py",), depends_on=(1,), input_context="order.txt"
    )
    given = task(source, review="never").model_copy(update={"plan": PlanDraft(plan=(first, second))})
    with rig.api(Rules(working)):
        result = await rig.run(given)
    assert result.state is TaskState.DONE
    assert git(source, "show", f"{result.ref}:a.py") == "# a\na before b\n"
    assert (Path(result.artifacts) / "outputs" / "1" / "order.txt").read_text() == "a before b\n"
    assert list(tree(source, str(result.ref))) == ["a.py"]

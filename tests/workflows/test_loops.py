"""Agents that go round in circles, through the real workflows: a partial result that says why, and nothing lost."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from baton.plan import DraftStep, PlanDraft
from baton.states import TaskState
from baton.status import TaskResult
from emulator.dialogue import Dialogue
from emulator.reply import Block, ToolUse
from tests.end_to_end.bench import Rules, generation, git, task
from tests.workflows.rig import Rig, manifests

pytestmark = pytest.mark.asyncio(loop_scope="module")

FINISH = ToolUse("finish_step", {"status": "ok", "summary": "all edited"})
AGAIN = ToolUse("read", {"file_path": "b.py"})


def edited(item: str, old: str = "old", new: str = "new") -> list[Block]:
    edit = {"file_path": item, "old_string": old, "new_string": new}
    return [ToolUse("edit", edit), ToolUse("complete_item", {"item": item})]


def step_file(result: TaskResult, step: int) -> dict[str, Any]:
    text = (Path(result.artifacts) / "results" / f"{step}.yaml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text))


async def test_a_loop_is_told_then_handed_on_then_ended_and_what_was_done_stays(rig: Rig) -> None:
    told: list[str] = []

    def looping(dialogue: Dialogue) -> Sequence[Block]:
        told.extend(f"{generation(dialogue)} {n.text}" for n in dialogue.fresh_notices if n.kind == "nudge")
        return edited("a.py") if generation(dialogue) == 1 and dialogue.turn == 0 else [AGAIN]

    source = rig.repository(a="old = 1\n", b="old = 2\n")
    with rig.api(Rules(looping)):
        result = await rig.run(task(source, "a.py", "b.py"))
    assert result.state is TaskState.PARTIAL
    assert git(source, "show", f"{result.ref}:a.py") == "new = 1\n"
    assert [line[0] for line in told] == ["1", "2"]
    assert "the same calls with the same results 4 times" in told[0]
    first, _ = manifests(result)
    assert (first["reason"], first["trip"]["kind"]) == ("error_recovery", "loop_detected")
    written = step_file(result, 1)
    assert (written["status"], written["trip"]["kind"]) == ("partial", "loop_detected")
    assert "read b.py" in written["trip"]["evidence"]
    assert (written["items"]["changed"], written["items"]["open"]) == (1, 1)


async def test_an_agent_that_asks_the_same_between_its_changes_is_left_alone(rig: Rig) -> None:
    names = "abcdef"

    def careful(dialogue: Dialogue) -> Sequence[Block]:
        done = len(dialogue.done("complete_item"))
        if dialogue.turn % 3:
            return [AGAIN]
        return edited(f"{names[done]}.py") if done < len(names) else [FINISH]

    source = rig.repository(**dict.fromkeys(names, "old = 1\n"))
    with rig.api(Rules(careful)):
        result = await rig.run(task(source, *(f"{name}.py" for name in names)))
    assert (result.state, result.handoffs) == (TaskState.DONE, 0)


async def test_a_step_that_takes_back_what_another_did(rig: Rig) -> None:
    def back_and_forth(dialogue: Dialogue) -> Sequence[Block]:
        if dialogue.done("complete_item"):
            return [FINISH]
        step = dialogue.assignment["step"]["step"]
        return edited("a.py", *{1: ("old", "new"), 2: ("new", "old"), 3: ("old", "third")}[step])

    source = rig.repository(a="old = 1\n")
    given = task(source, "a.py")
    steps = [
        DraftStep(step=number, agent_type="editor", description="Edit", items=("a.py",), depends_on=before)
        for number, before in ((1, ()), (2, (1,)), (3, (2,)))
    ]
    with rig.api(Rules(back_and_forth)):
        result = await rig.run(given.model_copy(update={"plan": PlanDraft(plan=tuple(steps))}))
    assert result.state is TaskState.PARTIAL
    assert [step_file(result, number)["status"] for number in (1, 2, 3)] == ["ok", "partial", "ok"]
    assert step_file(result, 2)["trip"]["evidence"] == "this step took back what step 1 did to a.py"

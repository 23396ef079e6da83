"""A hub file through a whole task: refused to those that need it, changed once by its owner."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from baton.plan import DraftStep, PlanDraft
from baton.states import TaskState
from emulator.dialogue import Dialogue
from emulator.reply import Block, ToolUse
from tests.end_to_end.bench import Rules, git, task
from tests.workflows.rig import Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")

FINISH = ToolUse("finish_step", {"status": "ok", "summary": "done"})


def working(dialogue: Dialogue) -> Sequence[Block]:
    """Adds a line to its item and wants one in the hub; records what it is refused; its owner does what is needed."""
    assignment = dialogue.assignment
    item = assignment["items"][0]
    text = "".join(f"{need['need']}\n" for need in assignment["needs"]) or "new\n"
    line = ToolUse("append", {"file_path": item, "at_line": 1, "content": text})
    match dialogue.turn:
        case 0 if item == "hub.py":
            return [line, ToolUse("complete_item", {"item": item})]
        case 0:
            wanted = ToolUse("append", {"file_path": "hub.py", "at_line": 1, "content": f"import {item[0]}\n"})
            return [line, ToolUse("complete_item", {"item": item}), wanted]
        case 1 if dialogue.failures("append"):
            refusal = next(call.result for call in dialogue.calls if call.failed)
            assert "record with needs" in refusal, refusal
            return [ToolUse("record", {"needs": [{"file": "hub.py", "need": f"import {item[0]}"}]})]
    return [FINISH]


def planned(source: Path, *items: str) -> PlanDraft:
    steps = tuple(
        DraftStep(step=n, agent_type="x", description=f"Do {item}", items=(item,), owns=("hub.py",))
        for n, item in enumerate(items, 1)
    )
    return PlanDraft(plan=steps, execution_strategy="parallel")


async def test_the_owner_of_a_hub_gets_what_the_others_need(rig: Rig) -> None:
    source = rig.repository(a="a\n", b="b\n", hub="# hub\n")
    given = task(source, review="never").model_copy(update={"plan": planned(source, "a.py", "b.py")})
    with rig.api(Rules(working)):
        result = await rig.run(given)
    assert (result.state, result.agents) == (TaskState.DONE, 3)
    assert sorted(git(source, "show", f"{result.ref}:hub.py").splitlines()) == ["# hub", "import a", "import b"]
    plan = json.loads((Path(result.artifacts) / "plan.json").read_text())
    assert plan["notes"] == ["only step 3 changes hub.py: steps 1 and 2 record what they need there"]
    known = json.loads((Path(result.artifacts) / "knowledge.json").read_text())
    assert sorted((entry["agent_id"], entry["text"]) for entry in known if entry["kind"] == "need") == [
        ("executor-1-x", "import a"),
        ("executor-2-x", "import b"),
    ]


async def test_an_owner_with_nothing_to_do_asks_no_model(rig: Rig) -> None:
    source = rig.repository(a="a\n", b="b\n", hub="# hub\n")
    given = task(source, review="never").model_copy(update={"plan": planned(source, "a.py", "b.py")})

    def modest(dialogue: Dialogue) -> Sequence[Block]:
        item = dialogue.assignment["items"][0]
        line = ToolUse("append", {"file_path": item, "at_line": 1, "content": "new\n"})
        return [FINISH] if dialogue.calls else [line, ToolUse("complete_item", {"item": item})]

    with rig.api(Rules(modest)):
        result = await rig.run(given)
    assert (result.state, result.agents, result.items.total) == (TaskState.DONE, 2, 2)

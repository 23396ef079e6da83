"""Reviews through the real workflows: approval, retries in the same workspace, a person's decision, several lenses."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from baton.states import TaskState
from baton.status import TaskResult
from emulator.dialogue import Dialogue
from emulator.reply import Block, ToolUse
from tests.end_to_end.bench import Rules, generation, git, task
from tests.workflows.rig import Rig, answer, attention

pytestmark = pytest.mark.asyncio(loop_scope="module")

FINISH = ToolUse("finish_step", {"status": "ok", "summary": "all edited"})


def verdict(approved: bool, retry: bool = False, **fields: Any) -> list[Block]:
    given = {"approved": approved, "retry": retry, "feedback": "" if approved else "a.py must say third", **fields}
    return [ToolUse("submit_review", given)]


def editor(dialogue: Dialogue) -> Sequence[Block]:
    """Edits its open items; the second time to what the review wants."""
    if left := [i for i in dialogue.assignment["items"] if i not in {c.path for c in dialogue.done("complete_item")}]:
        old, new = ("old", "new") if generation(dialogue) == 1 else ("new", "third")
        edit = {"file_path": left[0], "old_string": old, "new_string": new}
        return [ToolUse("edit", edit), ToolUse("complete_item", {"item": left[0]})]
    return [FINISH]


class Reviewing:
    """An editor, and reviewers by a rule; `seen` keeps what each reviewer was given."""

    def __init__(self, rule: Any) -> None:
        self.rule, self.seen = rule, []

    def __call__(self, dialogue: Dialogue) -> Sequence[Block]:
        given = dialogue.assignment
        if given["role"] != "reviewer":
            return editor(dialogue)
        self.seen.append(given)
        return list(self.rule(given))


def step_file(result: TaskResult) -> dict[str, Any]:
    return dict(yaml.safe_load((Path(result.artifacts) / "results" / "1.yaml").read_text(encoding="utf-8")))


async def test_a_step_is_sent_back_and_mended_in_its_own_workspace(rig: Rig) -> None:
    def wants_third(given: Any) -> Sequence[Block]:
        return verdict(True) if "+third" in given["diff"] else verdict(False, True, reopen=["a.py"])

    model, source = Reviewing(wants_third), rig.repository(a="old = 1\n", b="old = 2\n")
    with rig.api(Rules(model)):
        result = await rig.run(task(source, "a.py", "b.py", review="always"))
    assert result.state is TaskState.DONE
    assert git(source, "show", f"{result.ref}:a.py") == "third = 1\n"
    assert git(source, "show", f"{result.ref}:b.py") == "new = 2\n"
    assert [given["agent_id"] for given in model.seen] == ["reviewer-1", "reviewer-1-2"]
    assert model.seen[0]["result"]["summary"] == "all edited"
    assert model.seen[1]["feedback_before"] == ["a.py must say third"]
    assert [review["decision"] for review in step_file(result)["reviews"]] == ["retry", "approved"]


@pytest.mark.parametrize(
    ("choice", "state", "text"), [("approve", TaskState.DONE, "third"), ("fail", TaskState.FAILED, "")]
)
async def test_after_two_retries_a_person_decides(rig: Rig, choice: str, state: TaskState, text: str) -> None:
    model, source = Reviewing(lambda _: verdict(False, True)), rig.repository(a="old = 1\n")

    with rig.api(Rules(model)):
        handle = await rig.start(task(source, "a.py", review="always"))
        item = await attention(handle)
        assert (item.kind, item.choices, item.step) == ("review", ("approve", "retry", "fail"), 1)
        assert "a.py must say third" in item.question
        await answer(handle, item, choice)
        result = await handle.result()
    assert len(model.seen) == 3
    assert result.state is state
    if choice == "approve":
        assert git(source, "show", f"{result.ref}:a.py") == "new = 1\n"
    else:
        assert result.items.failed == 1
        assert "failed in review" in step_file(result)["blockers"][0]


async def test_lenses_look_side_by_side_and_their_findings_are_put_together(rig: Rig) -> None:
    def by_lens(given: Any) -> Sequence[Block]:
        grave = {"finding": "Input reaches a shell", "files": ["a.py"], "severity": "high"}
        return verdict(True, findings=[grave] if given["lens"] == "security" else [])

    model, source = Reviewing(by_lens), rig.repository(a="old = 1\n")
    with rig.api(Rules(model)):
        lenses = ["security", "Is the wording kind?"]
        result = await rig.run(task(source, "a.py", review="always", reviewLenses=lenses))
    assert result.state is TaskState.DONE
    assert sorted(given["lens"] for given in model.seen) == ["Is the wording kind?", "security"]
    written = step_file(result)
    assert written["findings"][0]["lenses"] == ["security"]
    assert written["reviews"][0]["score"] == 75


async def test_a_reviewer_without_a_verdict_approves_nothing_and_blocks_nothing(rig: Rig) -> None:
    model, source = Reviewing(lambda _: []), rig.repository(a="old = 1\n")
    with rig.api(Rules(model)):
        result = await rig.run(task(source, "a.py", review="always"))
    assert result.state is TaskState.DONE
    assert step_file(result)["verification_gaps"] == ["not reviewed: the review gave no verdict"]


async def test_plain_work_is_not_reviewed_by_itself(rig: Rig) -> None:
    model, source = Reviewing(lambda _: verdict(False, True)), rig.repository(a="old = 1\n")
    with rig.api(Rules(model)):
        result = await rig.run(task(source, "a.py"))
    assert (result.state, model.seen) == (TaskState.DONE, [])

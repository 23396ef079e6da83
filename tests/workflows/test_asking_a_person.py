"""A question of the planner: it waits for a person, and the answer is the result of its call."""

import asyncio
import logging
from collections.abc import Sequence

import pytest
from temporalio.client import WorkflowUpdateFailedError

from baton.messages import TaskInput
from baton.states import TaskState
from emulator.dialogue import Dialogue
from emulator.reply import Block, ToolUse
from tests.end_to_end.bench import Rules, statuses, task
from tests.workflows.rig import Rig, attention, until
from tests.workflows.test_agent_workflow import editing

pytestmark = pytest.mark.asyncio(loop_scope="module")

PLAN = {"plan": [{"step": 1, "agent_type": "editor", "description": "edit", "items": ["a.py"]}]}
ALIASES = {"question": "Keep the old names?", "options": ["as aliases", "remove them"]}
STYLE = {"question": "Which style?"}


class Asking:
    """A planner that asks twice before it plans, and an executor that edits. It keeps what it was told."""

    def __init__(self) -> None:
        self.answers: list[str] = []
        self.guidance: list[str] = []

    def __call__(self, dialogue: Dialogue) -> Sequence[Block]:
        if dialogue.assignment["role"] != "planner":
            return editing(dialogue)
        self.guidance = dialogue.assignment["guidance"]
        asked = dialogue.done("ask_user")
        if not asked and not self.guidance:
            return [ToolUse("glob", {"pattern": "*.py"}), ToolUse("ask_user", ALIASES), ToolUse("ask_user", STYLE)]
        self.answers = [str(call.result) for call in asked]
        return [ToolUse("submit_plan", PLAN)]


def unplanned(rig: Rig) -> TaskInput:
    source = rig.repository(a="old = 1\n")
    return task(source, "a.py").model_copy(update={"plan": None})


async def test_the_answer_is_the_result_of_the_call(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "baton.task")
    model = Asking()
    with rig.api(Rules(model)) as api:
        handle = await rig.start(unplanned(rig))
        item = await attention(handle)
        assert (item.kind, item.question) == ("question", "Keep the old names?")
        assert item.choices == ("as aliases", "remove them", "other")
        given = {"attention_id": item.id, "choice": "2", "comment": "but say so in the docs"}
        await handle.execute_update("answer_attention", given)
        found = await until(handle, lambda now: any(i.id != item.id for i in now.attention))
        (second,) = found.attention
        own = {"attention_id": second.id, "choice": "other"}
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await handle.execute_update("answer_attention", own)
        assert "needs your own words" in str(refused.value.cause)
        await handle.execute_update("answer_attention", own | {"comment": "Plain."})
        result = await handle.result()
        assert statuses(api).keys() == {200}
    assert result.state is TaskState.DONE
    assert model.answers == ["remove them. but say so in the docs", "Plain."]
    lines = [record.getMessage() for record in caplog.records if record.name == "baton.task"]
    assert "waits for a person: question-1: Keep the old names?" in lines
    assert "a person answered question-1: remove them" in lines
    assert "plan with 1 step and 1 item" in lines
    assert len(lines) == len(set(lines))


async def test_a_pause_while_it_asks_takes_the_answer_along(rig: Rig) -> None:
    model = Asking()
    with rig.api(Rules(model)):
        handle = await rig.start(unplanned(rig))
        for _ in range(2):
            item = await attention(handle)
            if item.question == "Which style?":
                await handle.signal("pause")
                await until(handle, lambda now: now.paused)
            given = {"attention_id": item.id, "choice": "other", "comment": f"to {item.question} yes"}
            await handle.execute_update("answer_attention", given)
            await until(handle, lambda now, name=item.id: name not in {i.id for i in now.attention})
        await until(handle, lambda now: now.handoffs == 1)
        await asyncio.sleep(0.2)
        await handle.signal("unpause")
        result = await handle.result()
    assert result.state is TaskState.DONE
    assert model.answers == []
    assert model.guidance == ["Keep the old names?\nto Keep the old names? yes", "Which style?\nto Which style? yes"]

"""Agent files of a project through a whole task: what the planner sees and what reaches the model's API."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError

from baton.messages import TaskInput
from baton.plan import DraftStep, PlanDraft
from baton.states import TaskState
from emulator.dialogue import Dialogue
from emulator.reply import Block, ToolUse
from emulator.server import EmulatorServer
from tests.end_to_end import bench
from tests.end_to_end.bench import Rules, git, task
from tests.workflows.rig import Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONVERTER = """---
name: converter
description: Converts old modules: all of them
tools: Read, Edit, Bash(echo *), mcp__tracker__find
disallowedTools: Bash(echo secret*)
model: haiku
effort: low
maxTurns: 1
---
Always greet first.
"""
FINISH = ToolUse("finish_step", {"status": "ok", "summary": "done"})


def repository(rig: Rig, **agents: str) -> Path:
    files = {f".claude/agents/{name}.md": text for name, text in agents.items()}
    files |= {"CLAUDE.md": "Our rules: @docs/rules.md\n", "docs/rules.md": "Be brief.\n"}
    return bench.repository(rig.folder / f"project-{next(rig.numbers)}", {"a.py": "old\n", "b.py": "old\n", **files})


def bodies(api: EmulatorServer, agent: str) -> list[dict[str, Any]]:
    """The requests of an agent and its successors."""
    named = [body for body in api.bodies if body and "metadata" in body]
    return [body for body in named if body["metadata"]["user_id"].split("/")[1].partition("~")[0] == agent]


def converting(dialogue: Dialogue) -> Sequence[Block]:
    if dialogue.assignment["role"] == "planner":
        steps = [
            {"step": 1, "agent_type": "converter", "description": "Convert", "items": ["a.py"]},
            {"step": 2, "agent_type": "poet", "description": "Write", "items": ["b.py"], "depends_on": [1]},
        ]
        return [ToolUse("submit_plan", {"plan": steps})]
    items = dialogue.assignment["items"]
    if not items:
        return [FINISH]
    if not dialogue.calls:
        return [
            ToolUse("edit", {"file_path": items[0], "old_string": "old", "new_string": "new"}),
            ToolUse("complete_item", {"item": items[0]}),
            ToolUse("bash", {"command": "echo fine"}),
            ToolUse("bash", {"command": "echo secrets"}),
            ToolUse("bash", {"command": "ls"}),
        ]
    return [FINISH]


async def test_a_step_is_done_by_the_type_that_the_plan_names(rig: Rig) -> None:
    source = repository(rig, converter=CONVERTER, broken="no header")
    settings = {"gates": [], "sandbox": "off"}
    with rig.api(Rules(converting)) as api:
        handle = await rig.start(
            TaskInput(task="Convert", repository=str(source), integration=False, settings=settings)
        )
        result = await handle.result()
        now = await handle.query("status")
    assert result.state is TaskState.DONE
    assert git(source, "show", f"{result.ref}:a.py") == "new\n"

    planner = next(message for message in bodies(api, "planner")[0]["messages"])["content"][-1]["text"]
    assert '"name": "converter"' in planner
    assert '"description": "Converts old modules: all of them"' in planner
    assert '"name": "general"' in planner

    ours, others = bodies(api, "executor-1-converter"), bodies(api, "executor-2-poet")
    assert {body["model"] for body in ours} == {"claude-haiku-5-5"}
    assert {body["output_config"]["effort"] for body in ours} == {"low"}
    assert "Always greet first." in ours[0]["system"][0]["text"]
    assert "Our rules: @docs/rules.md" in ours[0]["messages"][0]["content"][0]["text"]
    assert '<project_guidance file="docs/rules.md">\nBe brief.\n' in ours[0]["messages"][0]["content"][0]["text"]
    assert {tool["name"] for tool in ours[0]["tools"]} == {
        *("read", "edit", "bash", "complete_item", "record", "hand_off", "finish_step")
    }
    users = {body["metadata"]["user_id"] for body in ours}
    assert {user.split("/")[1] for user in users} == {"executor-1-converter", "executor-1-converter~2"}, "maxTurns: 1"
    assert {body["model"] for body in others} == {"claude-sonnet-5-5"}
    assert "write" in {tool["name"] for tool in others[0]["tools"]}
    assert "output_config" not in others[0]

    warnings = "\n".join(now["warnings"])
    assert "the agent file is not used: .claude/agents/broken.md: there is no header" in warnings
    assert "'mcp__tracker__find' names a tool that Baton does not have" in warnings
    assert "step 2 is done by a general executor: there is no agent type 'poet'" in warnings


async def test_scoped_tools_bind_the_commands_of_the_type(rig: Rig) -> None:
    source = repository(rig, converter=CONVERTER.replace("maxTurns: 1\n", ""))
    step = DraftStep(step=1, agent_type="converter", description="Convert", items=("a.py",))
    given = task(source, "a.py").model_copy(update={"plan": PlanDraft(plan=(step,))})
    with rig.api(Rules(converting)) as api:
        result = await rig.run(given)
    assert result.state is TaskState.DONE
    sent = bodies(api, "executor-1-converter")[-1]["messages"]
    results = [block for message in sent for block in message["content"] if block["type"] == "tool_result"]
    fine, refused, other = results[2:5]
    assert "is_error" not in fine
    assert "The permission rule Bash(echo secret*) (deny)" in refused["content"]
    assert "may use bash only as Bash(echo *)" in other["content"]


@pytest.mark.parametrize(
    ("model", "settings", "told"),
    [
        ("claude-nonsense-1", {}, "the model 'claude-nonsense-1' of the agent type 'converter' (.claude/agents/c.md)"),
        ("claude-opus-4-5", {"outputBudget": 100_000}, "claude-opus-4-5 (the agent type 'converter'"),
    ],
)
async def test_a_model_that_cannot_serve_is_bad_input(
    rig: Rig, model: str, settings: dict[str, Any], told: str
) -> None:
    source = repository(rig, c=CONVERTER.replace("haiku", model))
    with rig.api(Rules(converting)), pytest.raises(WorkflowFailureError) as raised:
        await rig.run(task(source, "a.py", **settings))
    assert told in str(raised.value.cause.__cause__ if raised.value.cause else "")

"""What each role may call, and what a wrong input is answered with."""

import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from baton.tool_inputs import Edit, Read, SubmitPlan
from baton.tool_schemas import INPUTS, ROLE_TOOLS, ToolFault, names_for, parse, schema, tools_for


def test_names_and_fields_of_the_file_tools_are_those_of_the_sdk() -> None:
    from anthropic.lib.tools import agent_toolset as sdk

    context = sdk.AgentToolContext(workdir="/nowhere")
    for tool in sdk.beta_agent_toolset_20260401(context):
        declared = tool.to_dict()
        theirs: dict[str, Any] = declared["input_schema"]  # type: ignore[assignment]
        ours = schema(INPUTS[str(declared["name"])])
        # Our shell keeps no state, so there is nothing to restart.
        assert set(ours["properties"]) == set(theirs["properties"]) - {"restart"}
        optional_here = {"command"} if declared["name"] == "bash" else set()
        assert set(ours["required"]) == set(theirs.get("required", ())) | optional_here


@pytest.mark.parametrize("role", ROLE_TOOLS)
def test_schemas_are_closed_and_plain(role: str) -> None:
    for tool in tools_for(role, has_predecessor=True):
        text = json.dumps(tool)
        assert "$ref" not in text
        assert '"title"' not in text
        assert '"null"' not in text
        assert tool["description"]
        assert len(tool["description"]) < 300
        assert tool["input_schema"]["type"] == "object"
        assert all(node.get("additionalProperties") is False for node in _objects(tool["input_schema"]))


def _objects(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, list):
        return [found for entry in node for found in _objects(entry)]
    if not isinstance(node, dict):
        return []
    here = [node] if node.get("type") == "object" else []
    return here + [found for entry in node.values() for found in _objects(entry)]


def test_schemas_are_the_same_bytes_in_every_process() -> None:
    program = "import json; from baton.tool_schemas import tools_for; print(json.dumps(tools_for('executor')))"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    }
    assert outputs == {json.dumps(tools_for("executor")).encode() + b"\n"}


def test_only_successors_may_ask_a_predecessor() -> None:
    assert "ask_predecessor" not in names_for("executor")
    assert "ask_predecessor" in names_for("executor", has_predecessor=True)


@pytest.mark.parametrize(
    ("agent_tools", "disallowed", "expected"),
    [
        (None, (), "read write append edit glob grep bash"),
        (("Read", "Grep"), (), "read grep"),
        (("Read", "Edit"), (), "read edit"),
        (("Read", "Write", "Bash(npm run *)"), (), "read write append bash"),
        (None, ("Edit",), "read glob grep bash"),
        (None, ("Bash", "WebFetch"), "read write append edit glob grep"),
        (None, ("Bash(rm *)",), "read write append edit glob grep bash"),
        (("WebFetch",), (), ""),
    ],
)
def test_agent_files_narrow_the_workspace_tools_only(
    agent_tools: tuple[str, ...] | None, disallowed: tuple[str, ...], expected: str
) -> None:
    names = names_for("executor", agent_tools=agent_tools, disallowed=disallowed)
    assert names == (*expected.split(), "complete_item", "record", "hand_off", "finish_step")


def test_a_right_input_is_a_model() -> None:
    assert parse("read", {"file_path": "a", "view_range": None}) == Read(file_path="a")
    edit = parse("edit", {"file_path": "a", "old_string": "x", "new_string": ""})
    assert isinstance(edit, Edit)
    plan = parse("submit_plan", {"plan": [{"step": 1, "agent_type": "x", "description": "y"}]})
    assert isinstance(plan, SubmitPlan)


@pytest.mark.parametrize(
    ("name", "raw", "says"),
    [
        ("raed", {}, ["no tool 'raed'", "Did you mean read?"]),
        ("x" * 10_000, {}, ["no tool"]),
        ("read", {}, ["`file_path` is missing", "{file_path: string, view_range?: [integer]}"]),
        ("read", {"file_path": None}, ["`file_path` is null"]),
        ("read", {"file_path": 7}, ["`file_path` is a number"]),
        ("read", {"file_path": "a", "view_range": [1]}, ["`view_range` is an array"]),
        ("read", {"file_path": "a", "view_range": "1-5"}, ["`view_range` is a string"]),
        ("read", {"path": "a"}, ["`file_path` is missing", "`path` is not a field (did you mean `file_path`?)"]),
        ("write", {"file_path": "a", "content": "\ud800"}, ["surrogate"]),
        ("write", {"file_path": "a", "content": "x" * 5_000_000}, ["5000", "append"]),
        ("bash", {"command": "x" * 40_000}, ["at most 30000"]),
        ("bash", {"restart": True}, ["nothing to restart"]),
        ("bash", {"command": "x", "timeout_ms": 9_000_000}, ["600000"]),
        ("finish_step", {"status": "done", "summary": "x"}, ["`status`", '"ok" | "partial" | "blocked" | "failed"']),
        ("submit_plan", {"plan": [{"step": 1}]}, ["`plan.0.agent_type` is missing"]),
        ("record", {"decisions": ["x"]}, ["`decisions.0`"]),
        ("read", None, ["must be an object, not null"]),
        ("read", [1], ["not an array"]),
        ("read", "{}", ["not a string"]),
    ],
)
def test_a_wrong_input_is_told_what_is_wrong_and_what_is_expected(name: str, raw: object, says: list[str]) -> None:
    fault = parse(name, raw)
    assert isinstance(fault, ToolFault)
    assert all(part in fault.message for part in says), fault.message
    assert len(fault.message) < 3_000
    fault.message.encode()


def test_a_tool_that_the_agent_does_not_have_is_unknown() -> None:
    fault = parse("bash", {"command": "ls"}, names_for("planner"))
    assert isinstance(fault, ToolFault)
    assert "submit_plan" in fault.message


def test_every_tool_of_every_role_has_an_input() -> None:
    assert {name for names in ROLE_TOOLS.values() for name in names} == set(INPUTS)
    documented: list[Callable[..., Any]] = list(INPUTS.values())
    assert all(inspect.getdoc(model) for model in documented)

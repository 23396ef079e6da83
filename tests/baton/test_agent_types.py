"""Agent types: every field of a file, every fault named, and what a plan says of types that do not exist."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.agent_types import (
    GENERAL,
    AgentFileFault,
    AgentType,
    TypeRow,
    agent_type,
    registry,
    shown_types,
    split_header,
    with_general_types_noted,
)
from baton.permissions import Denied, Permissions
from baton.plan import Plan, PlanStep


def parsed(**header: Any) -> AgentType:
    return agent_type("a.md", {"name": "a", "description": "d", **header}, "Do it well.\n")


def test_every_field_is_read() -> None:
    header = {
        "name": "test-writer",
        "description": "Writes tests",
        "tools": "Read, Edit, Bash(npm test *, pytest *)",
        "disallowedTools": ["Grep"],
        "model": "haiku",
        "effort": "low",
        "maxTurns": "12",
        "color": "blue",
    }
    found = agent_type("t.md", header, "\nWrite tests.\n")
    assert found == AgentType(
        name="test-writer",
        description="Writes tests",
        source="t.md",
        prompt="Write tests.",
        tools=("Read", "Edit", "Bash(npm test *, pytest *)"),
        disallowed_tools=("Grep",),
        model="claude-haiku-5-5",
        effort="low",
        max_turns=12,
    )


@pytest.mark.parametrize("model", [None, "", "inherit"])
def test_a_type_without_a_model_inherits_it(model: str | None) -> None:
    assert parsed(model=model).model is None


@pytest.mark.parametrize("tools", ["", "*", [], ["*"]])
def test_no_tools_named_means_all(tools: object) -> None:
    assert parsed(tools=tools).tools is None


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ({"name": None}, "name"),
        ({"name": "a/../b"}, "name"),
        ({"description": ""}, "description"),
        ({"tools": {"Read": True}}, "tools"),
        ({"effort": "lots"}, "'low', 'medium', 'high', 'xhigh' or 'max'"),
        ({"maxTurns": "0"}, "maxTurns"),
        ({"maxTurns": "many"}, "found 'many'"),
    ],
)
def test_a_fault_names_file_and_field(header: dict[str, Any], told: str) -> None:
    with pytest.raises(AgentFileFault, match=r"^a\.md: ") as raised:
        parsed(**header)
    assert told in str(raised.value)


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(AgentFileFault, match=r"name is missing; description is missing"):
        agent_type("a.md", {}, "")


def test_tools_that_do_not_exist_are_warned_about() -> None:
    told = parsed(tools="Read, mcp__github__search, WebFetch").warnings()
    assert [line.split(" names")[0] for line in told] == ["a.md: 'mcp__github__search'", "a.md: 'WebFetch'"]
    assert parsed(tools="Read, Write, Edit, MultiEdit, Bash(ls), Glob, Grep").warnings() == []


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("---\na: 1\n---\nbody\n---\n", ("a: 1\n", "body\n---\n")),
        ("---\r\na: 1\r\n---\r\nbody", ("a: 1\r\n", "body")),
        ("\ufeff---\na: 1\n---", ("a: 1\n", "")),
        ("# Title\n---\na: 1\n---\n", None),
        ("---\na: 1\n", None),
        ("", None),
    ],
)
def test_the_header_stands_between_two_lines(text: str, parts: tuple[str, str] | None) -> None:
    assert split_header(text) == parts


@given(st.text(st.characters(exclude_characters="-\r\ufeff")), st.text())
def test_a_header_is_found_whatever_it_holds(header: str, body: str) -> None:
    assert split_header(f"---\n{header}\n---\n{body}") == (f"{header}\n", body)


def test_the_first_of_a_name_is_taken() -> None:
    types, warnings = registry([parsed(), agent_type("b.md", {"name": "a", "description": "other"}, "")])
    assert [one.source for one in types] == ["a.md"]
    assert warnings == ["b.md: the agent type 'a' is taken from a.md"]


def test_a_scoped_grant_binds_and_a_wider_one_lifts_it() -> None:
    narrow = parsed(tools="Read, Bash(npm test *), Edit(src/**)", disallowedTools="Bash(npm test --update*), Grep")
    rules = Permissions(only=narrow.scoped_grants, deny=narrow.scoped_refusals)

    def may(tool: str, argument: str) -> bool:
        return not isinstance(rules.decide(tool, argument), Denied)

    assert may("bash", "npm test -- a")
    assert not may("bash", "npm test -- a && rm -rf x")
    assert not may("bash", "npm test > src/a.js")
    assert not may("bash", "npm test --update")
    assert (may("edit", "src/a.js"), may("edit", "docs/a.md"), may("read", "docs/a.md")) == (True, False, True)
    assert parsed(tools="Bash(ls), Bash").scoped_grants == ()


def test_a_plan_says_which_steps_are_general() -> None:
    steps = tuple(PlanStep(step=n, agent_type=name, description="d") for n, name in enumerate(["known", GENERAL, "x"]))
    plan = Plan(task_id="t", plan=steps, notes=("earlier",))
    noted = with_general_types_noted(plan, [TypeRow(name="known")])
    assert noted.notes == ("earlier", "step 2 is done by a general executor: there is no agent type 'x'")
    assert with_general_types_noted(noted, [TypeRow(name="known")]) == noted
    assert with_general_types_noted(plan, []) == plan, "without a registry any word will do"


def test_the_planner_sees_the_general_type_beside_the_others() -> None:
    assert shown_types([]) == []
    assert [row["name"] for row in shown_types([TypeRow(name="a", description="d")])] == ["a", GENERAL]
    assert [row["name"] for row in shown_types([TypeRow(name=GENERAL, description="own")])] == [GENERAL]

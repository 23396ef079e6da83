"""What a project's settings may bring about, and what of it needs a person's word."""

import json
from typing import Any

import pytest

from baton.settings import Layer, parse_layer, permissions_of, resolve
from baton.settings_view import without_effect
from baton.trust import (
    ProjectCommand,
    confirmation_record,
    confirmed_in,
    listing,
    project_commands,
    refusal,
    without_rules,
)

GATES = [{"name": "tests", "command": "make test"}]


def layer(source: str, *, project: bool = False, allow: tuple[str, ...] = (), **orchestration: Any) -> Layer:
    text = json.dumps({"orchestration": orchestration, "permissions": {"allow": allow}})
    return parse_layer(source, text, project=project)


def test_only_commands_of_the_project_need_a_word() -> None:
    layers = [
        layer("user", setup=["mine"], notify="mine"),
        layer("project", project=True, gates=GATES, setup=["npm ci"], notify="beep"),
        layer("local", project=True, notify="desktop"),
    ]
    assert project_commands(layers) == (
        ProjectCommand("gate", "make test", "project"),
        ProjectCommand("set-up", "npm ci", "project"),
    )
    assert project_commands([*layers, layer("the command line", gates=GATES, setup=[])]) == ()
    assert project_commands([layer("project", project=True, gates=None)]) == ()


def test_a_changed_command_is_a_new_one_and_a_moved_one_is_not() -> None:
    first = ProjectCommand("gate", "make test", "a")
    assert first.fingerprint == first._replace(source="b").fingerprint
    assert first.fingerprint != first._replace(text="make test ").fingerprint
    assert first.fingerprint != first._replace(kind="set-up").fingerprint


def test_rules_of_the_project_that_allow_commands_count_once_confirmed() -> None:
    layers = [
        layer("user", allow=("Bash(ls)", "Bash(make *)")),
        layer("project", project=True, allow=("Bash(curl *)", "Read(src/**)")),
    ]
    commands = project_commands(layers)
    assert [(command.text, command.runs) for command in commands] == [("Bash(curl *)", False)]
    assert permissions_of(without_rules(layers, commands)).allow == ("Bash(ls)", "Bash(make *)", "Read(src/**)")
    assert permissions_of(without_rules(layers, ())).allow == permissions_of(layers).allow


@pytest.mark.parametrize(("asked", "holds"), [("off", "on"), ("auto", "on"), ("on", "on")])
def test_a_project_never_weakens_the_sandbox(asked: str, holds: str) -> None:
    assert resolve([layer("user", sandbox="on"), layer("project", project=True, sandbox=asked)]).sandbox == holds
    assert resolve([layer("project", project=True, sandbox=asked)]).sandbox == ("on" if asked == "on" else "auto")
    assert resolve([layer("user", sandbox=asked)]).sandbox == asked


def test_a_sandbox_that_does_not_count_is_told() -> None:
    layers = [layer("project", project=True, sandbox="off")]
    told = "project: sandbox: off counts only in the user's own settings or as --sandbox off"
    assert without_effect(layers, resolve(layers)) == [told]


def test_a_record_gives_its_fingerprints_back_and_a_broken_one_none() -> None:
    assert confirmed_in(confirmation_record("/repo", {"b", "a"})) == {"a", "b"}
    for broken in ("", "{", "[]", '{"confirmed": 1}', '{"confirmed": [1]}'):
        assert confirmed_in(broken) == frozenset()


def test_what_is_shown_cannot_hide_anything() -> None:
    command = ProjectCommand("gate", "true\r\x1b[2K rm -rf ~", "s.json")
    assert listing([command]) == ["  gate    true??[2K rm -rf ~  (s.json)"]
    assert "--trust-project-commands" in refusal([command])

"""Agent files: the project's before the user's, broken ones told, YAML as people write it."""

from pathlib import Path

import pytest

from activities.agent_type_files import FILE_LIMIT_BYTES, agent_types_at
from baton.agent_types import AgentType

GOOD = "---\nname: converter\ndescription: Converts\n---\nConvert.\n"


async def found(
    home: Path, project: dict[str, bytes | str] | None = None, user: dict[str, str] | None = None
) -> tuple[tuple[AgentType, ...], list[str]]:
    files = {path: text.encode() if isinstance(text, str) else text for path, text in (project or {}).items()}
    for name, text in (user or {}).items():
        path = home / ".claude/agents" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    async def read(path: str) -> bytes:
        return files[path]

    return await agent_types_at(sorted(files), read, home)


async def test_the_project_comes_before_the_user(tmp_path: Path) -> None:
    project = {".claude/agents/deep/er/converter.md": GOOD, "docs/.claude/agents/no.md": GOOD, "README.md": "x"}
    user = {"mine.md": GOOD.replace("Convert.", "Other."), "more/tests.md": GOOD.replace("converter", "tester")}
    types, warnings = await found(tmp_path, project, user)
    assert [(one.name, one.prompt) for one in types] == [("converter", "Convert."), ("tester", "Convert.")]
    taken = "the agent type 'converter' is taken from .claude/agents/deep/er/converter.md"
    assert warnings == [f"{tmp_path}/.claude/agents/mine.md: {taken}"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("# Only prose\n", "there is no header"),
        ("---\nname: a\n---\n", "description is missing"),
        ("---\nname: [a\ndescription: d\n---\n", "not valid YAML"),
        ("---\n- a\n---\n", "must hold fields"),
        ("---\nname: &x a\ndescription: *x\n---\n", "not valid YAML: aliases"),
        ("---\nname: a\ndescription: " + "[" * 5_000 + "\n---\n", "not valid YAML"),
        ("---\nname: a\ndescription: d\n---\n" + "x" * 50_000, "the prompt has 50000 characters"),
        (b"---\nname: \xff\n---\n", "not UTF-8"),
        (b"x" * (FILE_LIMIT_BYTES + 1), "more than"),
    ],
)
async def test_a_broken_file_is_told_and_the_others_serve(tmp_path: Path, text: bytes | str, told: str) -> None:
    types, warnings = await found(tmp_path, {".claude/agents/a.md": text, ".claude/agents/b.md": GOOD})
    assert [one.name for one in types] == ["converter"]
    assert len(warnings) == 1
    assert warnings[0].startswith("the agent file is not used: .claude/agents/a.md: ")
    assert told in warnings[0]


async def test_text_with_colons_is_read_as_people_write_it(tmp_path: Path) -> None:
    header = "name: reviewer\ndescription: Use it when: tests fail. It's for <example>Context: x</example>\nmaxTurns: 3"
    types, warnings = await found(tmp_path, {".claude/agents/a.md": f"---\n{header}\n---\nbody"})
    assert warnings == []
    assert types[0].description == "Use it when: tests fail. It's for <example>Context: x</example>"
    assert types[0].max_turns == 3


async def test_fields_without_effect_are_named(tmp_path: Path) -> None:
    header = "name: a\ndescription: d\nhooks:\n  Stop: []\npermissionMode: acceptEdits\ncolor: red"
    _, warnings = await found(tmp_path, {".claude/agents/a.md": f"---\n{header}\n---\n"})
    assert warnings == [".claude/agents/a.md: hooks, permissionMode: without effect here"]

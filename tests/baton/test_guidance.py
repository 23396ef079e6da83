"""Guidance: what counts as an import, where it leads, and the bound of what agents see."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.guidance import LIMIT_CHARACTERS, NESTED_SHOWN, Section, imports, located, shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@docs/a.md", ["docs/a.md"]),
        ("See @docs/a.md, and @b.md.\n- @../c.md", ["docs/a.md", "b.md", "../c.md"]),
        ("@a.md @a.md", ["a.md"]),
        (r"@my\ notes.md", ["my notes.md"]),
        ("(@a.md)", []),
        ("mail me at ada@example.org", []),
        ("`@a.md` and ``x ` @b.md`` and @c.md", ["c.md"]),
        ("```\n@a.md\n```\n@b.md", ["b.md"]),
        ("~~~md\n@a.md\n~~~~\n@b.md", ["b.md"]),
        ("```\n@a.md", []),
        ("<!-- @a.md -->@b.md", ["b.md"]),
        ("@", []),
    ],
)
def test_what_is_an_import(text: str, expected: list[str]) -> None:
    assert imports(text) == expected


@pytest.mark.parametrize(
    ("importer", "named", "path"),
    [
        ("CLAUDE.md", "docs/a.md", "docs/a.md"),
        ("docs/a.md", "b.md", "docs/b.md"),
        ("docs/a.md", "../b.md", "b.md"),
        (".claude/CLAUDE.md", "./x/../b.md", ".claude/b.md"),
        ("CLAUDE.md", "../b.md", None),
        ("CLAUDE.md", "/etc/passwd", None),
        ("CLAUDE.md", "~/.ssh/id_rsa", None),
        ("CLAUDE.md", ".git/config", None),
        ("CLAUDE.md", "a/.GIT/config", None),
        ("CLAUDE.md", ".", None),
    ],
)
def test_where_an_import_leads(importer: str, named: str, path: str | None) -> None:
    assert located(importer, named) == path


@given(st.text(alphabet="./a~", max_size=12))
def test_no_import_leads_outside(named: str) -> None:
    path = located("docs/deep/a.md", named)
    assert path is None or not (path.startswith(("/", "..")) or ".." in path.split("/"))


def test_what_is_cut_says_so() -> None:
    sections = [Section(whose="project", file=name, text="x" * 30_000) for name in ("a.md", "b.md", "c.md")]
    text, left_out = shown(sections)
    assert left_out == 90_000 - LIMIT_CHARACTERS
    assert "[cut here: 20000 more characters; read b.md for the rest]" in text
    assert '<project_guidance file="c.md">\n\n[cut here: 30000 more' in text
    assert len(text) < LIMIT_CHARACTERS + 1_000


def test_guidance_of_folders_is_named() -> None:
    text, _ = shown([], [f"src/{number}/CLAUDE.md" for number in range(NESTED_SHOWN + 3)])
    assert "src/0/CLAUDE.md, " in text
    assert text.endswith(", and 3 more.")
    assert shown([]) == ("", 0)

"""Guidance files on disk and at the base commit: whose come first, what is followed, what is never read."""

from pathlib import Path

from activities.guidance_files import guidance_for


async def guidance(home: Path, files: dict[str, str], top_level: Path | None = None) -> tuple[str, tuple[str, ...]]:
    async def read(path: str) -> bytes:
        return files[path].encode()

    return await guidance_for(sorted(files), read, home, top_level)


def order(text: str, *words: str) -> None:
    places = [text.index(word) for word in words]
    assert places == sorted(places), text


async def test_the_user_s_come_first_then_the_project_s_then_the_local_ones(tmp_path: Path) -> None:
    home, top = tmp_path / "home", tmp_path / "top"
    for path, text in {
        home / ".claude/CLAUDE.md": "user rules\n@~/.claude/more.md @/etc/passwd\n",
        home / ".claude/more.md": "more user rules\n@CLAUDE.md",
        top / "CLAUDE.local.md": "local rules @docs/local.md",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    files = {
        "CLAUDE.md": "project rules @docs/a.md",
        ".claude/CLAUDE.md": "second rules",
        "docs/a.md": "imported @b.md",
        "docs/b.md": "deeper @a.md @../CLAUDE.md",
        "docs/local.md": "for the local ones",
        "AGENTS.md": "not these",
        "src/CLAUDE.md": "nested",
    }
    text, warnings = await guidance(home, files, top)
    order(
        text, "user rules", "more user", "project rules", "imported", "deeper", "second rules", "local rules", "for the"
    )
    assert "not these" not in text
    assert "nested" not in text
    assert "to be read before working there: src/CLAUDE.md." in text
    assert warnings == ("~/.claude/CLAUDE.md: @/etc/passwd is not read, because it is outside ~/.claude",)


async def test_agents_md_serves_where_there_is_no_claude_md(tmp_path: Path) -> None:
    text, warnings = await guidance(tmp_path, {"AGENTS.md": "rules @a.md", "a.md": "never"})
    assert text == '<project_guidance file="AGENTS.md">\nrules @a.md\n</project_guidance>'
    assert warnings == ()
    assert await guidance(tmp_path, {"a.py": ""}) == ("", ())


async def test_a_link_to_agents_md_is_followed_once(tmp_path: Path) -> None:
    text, _ = await guidance(tmp_path, {"CLAUDE.md": "AGENTS.md", "AGENTS.md": "the rules"})
    assert "the rules" in text
    text, _ = await guidance(tmp_path, {"CLAUDE.md": "CLAUDE.md"})
    assert text.count("CLAUDE.md") == 2


async def test_what_is_not_read_is_told(tmp_path: Path) -> None:
    chain = {f"{number}.md": f"level {number} @{number + 1}.md" for number in range(9)}
    text, warnings = await guidance(
        tmp_path, {"CLAUDE.md": "@0.md @missing.md @someone @types/node @../out.md\n`@code.md`", **chain}
    )
    assert "level 4" in text
    assert "level 5" not in text
    assert warnings == (
        "4.md: @5.md is not read: it is more than 5 imports deep",
        "CLAUDE.md: @missing.md is not read: the base commit has no file missing.md",
        "CLAUDE.md: @../out.md is not read, because it is outside the repository",
    )


async def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    home, top = tmp_path / "home", tmp_path / "top"
    (home / ".claude").mkdir(parents=True)
    top.mkdir()
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    (home / ".claude/CLAUDE.md").write_text("@link.md", encoding="utf-8")
    (home / ".claude/link.md").symlink_to(tmp_path / "secret")
    (top / "CLAUDE.local.md").symlink_to(tmp_path / "secret")
    text, _ = await guidance(home, {}, top)
    assert "secret" not in text


async def test_too_much_is_cut_and_told(tmp_path: Path) -> None:
    text, warnings = await guidance(tmp_path, {"CLAUDE.md": "x" * 50_000})
    assert "[cut here: 10000 more characters; read CLAUDE.md for the rest]" in text
    assert warnings == ("the guidance files have 10000 characters more than agents get (40000)",)

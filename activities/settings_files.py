"""Settings and guidance files where Claude Code keeps them, read for a task."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from baton.layout import settings_files
from baton.settings import Layer, parse_layer

GUIDANCE_FILES = ("CLAUDE.md", ".claude/CLAUDE.md", "AGENTS.md")
GUIDANCE_LIMIT_CHARACTERS = 40_000


def layers_for(home: Path, top_level: Path | None) -> list[Layer]:
    """The settings layers of a repository in rising precedence. Raises `SettingsFaults` for a file that is no JSON."""
    paths = [path for path in settings_files(home, top_level) if path.is_file()]
    return [parse_layer(str(path), path.read_text(encoding="utf-8")) for path in paths]


async def guidance_at(files: Sequence[str], read: Callable[[str], Awaitable[bytes]]) -> str:
    """The project's guidance file at the base commit: CLAUDE.md, else AGENTS.md; empty when there is none."""
    for name in GUIDANCE_FILES:
        if name in files:
            text = (await read(name)).decode("utf-8", "replace")
            return f'<project_guidance file="{name}">\n{text[:GUIDANCE_LIMIT_CHARACTERS]}\n</project_guidance>'
    return ""

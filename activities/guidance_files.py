"""The guidance a task works by: the user's own, the project's CLAUDE.md with its imports, else its AGENTS.md.

A project's files are those of the base commit; `CLAUDE.local.md`, which git does not keep, is read where the user's
checkout has it. Everything is bounded, and what is left out is told.
"""

import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from baton.guidance import IMPORT_HOPS, LIMIT_CHARACTERS, Section, imports, located, shown

PROJECT_FILES = ("CLAUDE.md", ".claude/CLAUDE.md")
ELSE_FILE = "AGENTS.md"
LOCAL_FILE = "CLAUDE.local.md"
FILE_LIMIT_BYTES = 4 * LIMIT_CHARACTERS
_NAMES = frozenset({"CLAUDE.md", "AGENTS.md"})

Read = Callable[[str], Awaitable[bytes]]


async def guidance_for(
    files: Sequence[str], read: Read, home: Path, top_level: Path | None
) -> tuple[str, tuple[str, ...]]:
    """The text that every agent gets before its assignment, and warnings. `files` and `read`: the base commit."""
    known = frozenset(files)
    sections, warnings = _user_sections(home)
    project = [name for name in PROJECT_FILES if name in known]
    for name in project or ([ELSE_FILE] if ELSE_FILE in known else []):
        text = await _project_text(name, known, read)
        followed = imports(text) if name != ELSE_FILE else []
        sections.append(Section(whose="project", file=name, text=text))
        await _follow(name, followed, known, read, sections, warnings)
    local = _local(top_level)
    if local is not None:
        sections.append(Section(whose="local", file=LOCAL_FILE, text=local))
        await _follow(LOCAL_FILE, imports(local), known, read, sections, warnings)
    seen = {section.file for section in sections}
    nested = [path for path in files if "/" in path and PurePosixPath(path).name in _NAMES and path not in seen]
    text, left_out = shown(sections, [path for path in nested if not path.startswith(".claude/")])
    if left_out:
        warnings.append(f"the guidance files have {left_out} characters more than agents get ({LIMIT_CHARACTERS})")
    return text, tuple(warnings)


async def _follow(
    importer: str,
    named: Sequence[str],
    known: frozenset[str],
    read: Read,
    sections: list[Section],
    warnings: list[str],
    hops: int = 1,
) -> None:
    """Add what a file imports, and what that imports."""
    for name in named:
        path = located(importer, name)
        if path is None:
            warnings.append(f"{importer}: @{name} is not read, because it is outside the repository")
        elif path not in known:
            if name.endswith(".md"):
                warnings.append(f"{importer}: @{name} is not read: the base commit has no file {path}")
        elif hops > IMPORT_HOPS:
            warnings.append(f"{importer}: @{name} is not read: it is more than {IMPORT_HOPS} imports deep")
        elif path not in {section.file for section in sections}:
            text = await _project_text(path, known, read)
            sections.append(Section(whose="project", file=path, text=text))
            await _follow(path, imports(text), known, read, sections, warnings, hops + 1)


async def _project_text(path: str, known: frozenset[str], read: Read) -> str:
    """A file's text; git keeps a link as the path it leads to, which is followed once."""
    text = _text(await read(path))
    target = located(path, text) if text and text == text.strip() and "\n" not in text else None
    return _text(await read(target)) if target is not None and target in known else text


def _user_sections(home: Path) -> tuple[list[Section], list[str]]:
    """`~/.claude/CLAUDE.md` and what it imports from that folder."""
    folder = home / ".claude"
    sections: list[Section] = []
    warnings: list[str] = []
    waiting = [("CLAUDE.md", 0)]
    while waiting:
        path, hops = waiting.pop(0)
        text = _file(folder / path, folder)
        shown_name = f"~/.claude/{path}"
        if text is None or shown_name in {section.file for section in sections}:
            continue
        sections.append(Section(whose="user", file=shown_name, text=text))
        for name in imports(text) if hops < IMPORT_HOPS else []:
            inside = located(path, name.removeprefix("~/.claude/"))
            if inside is None:
                warnings.append(f"{shown_name}: @{name} is not read, because it is outside ~/.claude")
            else:
                waiting.append((inside, hops + 1))
    return sections, warnings


def _local(top_level: Path | None) -> str | None:
    return _file(top_level / LOCAL_FILE, top_level) if top_level is not None else None


def _file(path: Path, folder: Path) -> str | None:
    """The text of a file that really lies in the folder, None where there is none."""
    with suppress(OSError):
        if path.is_file() and path.resolve().is_relative_to(folder.resolve()):
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                return _text(file.read(FILE_LIMIT_BYTES))
    return None


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")

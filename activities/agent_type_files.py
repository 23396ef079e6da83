"""Agent files where Claude Code keeps them: the project's at the base commit, then those of the user's home.

A file that cannot be used is told, never skipped in silence.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from baton.agent_types import WITHOUT_EFFECT, AgentFileFault, AgentType, agent_type, registry, split_header
from baton.redaction import redacted

FOLDER = ".claude/agents"
FILES_AT_MOST = 200
FILE_LIMIT_BYTES = 200_000
_PLAIN_FIELD = re.compile(r"^(?P<key>[A-Za-z]\w*):[ \t]+(?P<value>[^\s'\"\[{|>&*!#].*?)[ \t\r]*$", re.MULTILINE)


class _Plain(yaml.BaseLoader):
    """YAML whose scalars are all text, without aliases, which could make a small file large."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Refuse aliases."""
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not allowed here")
        return super().compose_node(parent, index)


async def agent_types_at(
    files: Sequence[str], read: Callable[[str], Awaitable[bytes]], home: Path
) -> tuple[tuple[AgentType, ...], list[str]]:
    """The registry of a task, and warnings: broken files with their fault, entries and files without effect."""
    found: list[AgentType] = []
    warnings: list[str] = []
    project = [path for path in files if path.startswith(f"{FOLDER}/") and path.endswith(".md")]
    own = home / FOLDER
    users = sorted(path for path in own.rglob("*.md") if path.is_file()) if own.is_dir() else []
    if len(project) + len(users) > FILES_AT_MOST:
        warnings.append(f"there are {len(project) + len(users)} agent files; only the first {FILES_AT_MOST} are used")
    for path in project[:FILES_AT_MOST]:
        _take(path, await read(path), found, warnings)
    for place in users[: FILES_AT_MOST - len(project[:FILES_AT_MOST])]:
        try:
            data = place.read_bytes()[: FILE_LIMIT_BYTES + 1]
        except OSError as error:
            warnings.append(f"{place}: the agent file cannot be read: {error.strerror}")
        else:
            _take(str(place), data, found, warnings)
    types, taken = registry(found)
    return types, [*warnings, *taken]


def _take(source: str, data: bytes, found: list[AgentType], warnings: list[str]) -> None:
    try:
        parsed, unused = _parse(source, data)
    except AgentFileFault as fault:
        warnings.append(f"the agent file is not used: {fault}")
        return
    found.append(parsed)
    warnings += parsed.warnings()
    if unused:
        warnings.append(f"{source}: {', '.join(unused)}: without effect here")


def _parse(source: str, data: bytes) -> tuple[AgentType, list[str]]:
    if len(data) > FILE_LIMIT_BYTES:
        raise AgentFileFault(f"{source}: it has more than {FILE_LIMIT_BYTES} bytes")
    try:
        parts = split_header(redacted(data.decode("utf-8")))
    except UnicodeDecodeError as error:
        raise AgentFileFault(f"{source}: it is not UTF-8 text") from error
    if parts is None:
        raise AgentFileFault(f"{source}: there is no header with name and description between two lines of ---")
    header = _fields(source, parts[0])
    return agent_type(source, header, parts[1]), [field for field in WITHOUT_EFFECT if field in header]


def _fields(source: str, header: str) -> dict[str, Any]:
    """The header's fields. Plain text with a colon in it, which YAML does not take, is read as Claude Code does."""
    try:
        found = _yaml(header)
    except (yaml.YAMLError, RecursionError) as error:
        try:
            found = _yaml(_PLAIN_FIELD.sub(_quoted, header))
        except (yaml.YAMLError, RecursionError):
            raise AgentFileFault(f"{source}: the header is not valid YAML: {_reason(error)}") from error
    if not isinstance(found, dict):
        raise AgentFileFault(f"{source}: the header must hold fields such as name: code-reviewer")
    return {str(key): value for key, value in found.items()}


def _yaml(header: str) -> Any:
    return yaml.load(header, Loader=_Plain)  # noqa: S506 - a base loader makes nothing but text, lists and mappings


def _quoted(field: re.Match[str]) -> str:
    return f"{field['key']}: '{field['value'].replace(chr(39), chr(39) * 2)}'"


def _reason(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    place = f" (line {mark.line + 2})" if mark is not None else ""
    return f"{getattr(error, 'problem', None) or error or 'nested too deeply'}{place}"

"""`orchestrate settings`: every effective value and where it comes from, for people, programs and editors."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.exits import Refused
from cli.terminal import Line, Tone, remark, show, show_json

DEFAULT = "default"

_SETTINGS = """\b
Examples:
  orchestrate settings
  orchestrate settings --json
  orchestrate settings --schema > ~/.claude/orchestration.schema.json

Files, later ones win: ~/.claude/settings.json, .claude/settings.json, .claude/settings.local.json; then options of
`orchestrate run`. Exit code 2 where a file has faults: all of them are named.
"""


def register(application: typer.Typer) -> None:
    """Add the command."""
    application.command("settings", help="Every setting, and where it comes from.", epilog=_SETTINGS)(settings)


def settings(
    repo: Annotated[str, typer.Option(metavar="PATH", help="The repository; default: the current one.")] = ".",
    schema: Annotated[bool, typer.Option("--schema", help="A JSON schema of a settings file, for editors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Show the settings that a task started now would have."""
    from baton.layout import settings_files
    from baton.settings_view import file_schema, flattened, origins, without_effect
    from cli.checks import read_layers, resolved

    if schema:
        show_json(file_schema())
        return
    top_level = _top_level(repo)
    layers = read_layers(Path.home(), top_level)
    effective = resolved(layers)
    set_by = origins(layers)
    values = flattened(json.loads(effective.model_dump_json()))
    rows = [(key, value, set_by.get(key) or _section_source(key, set_by)) for key, value in values.items()]
    warnings = without_effect(layers, effective)
    if as_json:
        shown = {key: {"value": value, "source": source or DEFAULT} for key, value, source in rows}
        files = [{"path": str(path), "exists": path.is_file()} for path in settings_files(Path.home(), top_level)]
        show_json({"settings": shown, "files": files, "warnings": warnings})
        return
    show(_table(rows))
    for path in settings_files(Path.home(), top_level):
        show([Line(f"{path}" if path.is_file() else f"{path} (not there)", Tone.FAINT)])
    for warning in warnings:
        remark(f"warning: {warning}")


def _table(rows: list[tuple[str, Any, str]]) -> list[Line]:
    width = max(len(key) for key, _, _ in rows)
    lines = []
    for key, value, source in rows:
        text = f"{key:<{width}}  {json.dumps(value, ensure_ascii=False)}"
        lines.append(Line(f"{text}  ({source or DEFAULT})", Tone.PLAIN if source else Tone.FAINT))
    return lines


def _section_source(key: str, set_by: dict[str, str]) -> str:
    """The source of a value that is told apart further, or less far, than it was set: `limits: {}`, a model's price."""
    return next((source for name, source in set_by.items() if name.startswith(f"{key}.")), "")


def _top_level(repo: str) -> Path | None:
    """The repository's folder; None for the current folder where that is in none, so that the user's own are shown."""
    from cli.checks import check_folder

    try:
        return check_folder(repo)
    except Refused:
        if repo != ".":
            raise
        return None

"""Commands that look closer: `lint` at other people's agent code."""

from pathlib import Path
from typing import Annotated

import typer

from baton.severity import Severity, at_least
from cli.exits import ExitCode
from cli.reading_commands import Json
from cli.terminal import Line, Tone, remark, show, show_json

_LINT = """\b
Examples:
  orchestrate lint src
  orchestrate lint agents/router.ts --fail-on medium
  orchestrate lint . --json

Reviews .ts, .tsx, .js, .jsx, .mjs, .cjs and .py files by the ten rules for code of several agents. Files that git
ignores, node_modules and virtual environments are left out. Exit code 1: findings at or above --fail-on.
"""


def register(application: typer.Typer) -> None:
    """Add the commands."""
    application.command("lint", help="Review agent code by ten rules.", epilog=_LINT)(lint)


def lint(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A file, or a folder with all below it.")],
    fail_on: Annotated[
        Severity, typer.Option("--fail-on", help="Exit 1 on findings of this severity or a graver one.")
    ] = Severity.HIGH,
    as_json: Json = False,
) -> None:
    """Review files."""
    from cli.linting import review_path

    reviewed = review_path(path)
    if as_json:
        found = [finding.model_dump(mode="json") for finding in reviewed.findings]
        show_json({"files": reviewed.files, "findings": found, "warnings": list(reviewed.warnings)})
    else:
        for finding in reviewed.findings:
            grave = at_least(finding.severity, fail_on)
            place = f"{finding.file}:{finding.line}:{finding.column}"
            head = f"{place}: {finding.severity} {finding.rule}: {finding.message}"
            show([Line(head, Tone.BAD if grave else Tone.WAITS), Line(f"fix: {finding.fix}", Tone.FAINT, indent=2)])
        show([Line(_counted(reviewed.files, len(reviewed.findings)))])
    for warning in reviewed.warnings:
        remark(f"warning: {warning}")
    if any(at_least(finding.severity, fail_on) for finding in reviewed.findings):
        raise typer.Exit(ExitCode.FAILED)


def _counted(files: int, findings: int) -> str:
    from baton.wording import counted

    return f"{counted(files, 'file')} reviewed, {counted(findings, 'finding')}"

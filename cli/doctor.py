"""`orchestrate doctor`: everything that must be well for a task, each with its remedy; works when nothing runs."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.exits import ExitCode
from cli.terminal import Line, Tone, show, show_json

if TYPE_CHECKING:
    from cli.finding import Finding

_DOCTOR = """\b
Examples:
  orchestrate doctor
  orchestrate doctor --json

Looks at versions, git, settings, sandbox, disk, state directory, key, model, server, ports and workers. It changes and
starts nothing, and never shows the key. Exit code 1: something that prevents work is wrong.
"""


def register(application: typer.Typer) -> None:
    """Add the command."""
    application.command("doctor", help="What is wrong here, and what to do about it.", epilog=_DOCTOR)(doctor)


def doctor(as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False) -> None:
    """Look at everything and say what is wrong."""
    from cli.finding import State
    from cli.places import state_path

    findings = examine(state_path())
    healthy = all(finding.state is not State.FAULT for finding in findings)
    if as_json:
        show_json({"ok": healthy, "findings": [finding.model_dump(mode="json") for finding in findings]})
    else:
        show([line for finding in findings for line in _lines(finding)])
        show([_closing(findings)])
    raise typer.Exit(ExitCode.DONE if healthy else ExitCode.FAILED)


def examine(state: Path) -> "list[Finding]":
    """All findings for a state directory. What a check itself cannot cope with is a finding, too."""
    from cli import host_checks
    from cli.model_check import key_and_model
    from cli.service_checks import service_findings
    from cli.service_record import ServiceFiles

    checks: list[tuple[str, Callable[[], Finding | list[Finding]]]] = [
        ("versions", host_checks.versions),
        ("server program", host_checks.server_program),
        ("git", host_checks.git),
        ("settings", host_checks.settings),
        ("sandbox", host_checks.sandbox),
        ("disk", lambda: host_checks.disk(state)),
        ("state directory", lambda: host_checks.state_directory(state)),
        ("key", lambda: key_and_model(ServiceFiles(state), os.environ)),
        ("server", lambda: service_findings(state)),
    ]
    found: list[Finding] = []
    for name, check in checks:
        result = _safely(name, check)
        found += result if isinstance(result, list) else [result]
    return found


def _safely(name: str, check: "Callable[[], Finding | list[Finding]]") -> "Finding | list[Finding]":
    from cli.exits import Refused, ServiceError
    from cli.finding import fault

    try:
        return check()
    except (OSError, Refused, ServiceError) as error:
        return fault(name, f"this cannot be looked at: {error}", "mend that, then run orchestrate doctor again")


def _lines(finding: "Finding") -> list[Line]:
    tone = {"ok": Tone.GOOD, "note": Tone.WAITS, "fault": Tone.BAD}[finding.state.value]
    lines = [Line(f"{finding.state.value:<5}  {finding.name:<15}  {finding.text}", tone)]
    if finding.remedy:
        lines.append(Line(f"{'':<24}-> {finding.remedy}"))
    return lines


def _closing(findings: "list[Finding]") -> Line:
    counts = {state: sum(finding.state.value == state for finding in findings) for state in ("fault", "note")}
    if counts["fault"]:
        return Line(f"{counts['fault']} of {len(findings)} prevent work: see the lines marked fault.", Tone.BAD)
    return Line(f"Nothing prevents work ({counts['note']} notes).", Tone.GOOD)

"""Commands that look closer: `timeline`, `diagnose` and `logs` at a run, `lint` at other people's agent code."""

import asyncio
import json
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from baton.severity import Severity, at_least
from cli.exits import ExitCode, Refused
from cli.reading_commands import Json, TaskId
from cli.terminal import Line, Tone, remark, show, show_json

_LINT = """\b
Examples:
  orchestrate lint src
  orchestrate lint agents/router.ts --fail-on medium
  orchestrate lint . --json

Reviews .ts, .tsx, .js, .jsx, .mjs, .cjs and .py files by the ten rules for code of several agents. Files that git
ignores, node_modules and virtual environments are left out. Exit code 1: findings at or above --fail-on.
"""
_TIMELINE = """\b
Examples:
  orchestrate timeline migrate-typescript-2026-11-30
  orchestrate timeline migrate-typescript-2026-11-30 --open
  orchestrate timeline migrate-typescript-2026-11-30 -o run.html

One HTML file that needs no network: agents as rows, turns as blocks, with handoffs, merges, gates and waits.
It can be drawn while the task runs. In the page, / finds agents, files and tools, + and - zoom, arrows go along.
"""
_DIAGNOSE = """\b
Examples:
  orchestrate diagnose migrate-typescript-2026-11-30
  orchestrate diagnose migrate-typescript-2026-11-30 --json

Names, with evidence and a remedy each: cost explosion, loops, lost context, state conflicts, stragglers, cache misses
and gates that never ran. It reads the artifacts of the task and asks no model; a running task can be diagnosed too.
"""

MOST_AGENTS_NAMED = 30

_LOGS = """\b
Examples:
  orchestrate logs migrate-typescript-2026-11-30
  orchestrate logs migrate-typescript-2026-11-30 --agent executor-2-typescript-converter --follow
  orchestrate logs migrate-typescript-2026-11-30 --json

What the local worker logged of a task, with its own warnings in between. --agent takes one agent, or the first of a
chain for all of it. With --json each line is one event with time, level, logger, task, agent, turn and message.
--follow goes on over restarts of the worker; Ctrl-C ends it.
"""


def register(application: typer.Typer) -> None:
    """Add the commands."""
    application.command("timeline", help="Draw the run of a task as a page.", epilog=_TIMELINE)(timeline)
    application.command("diagnose", help="What a run lost time and money with.", epilog=_DIAGNOSE)(diagnose)
    application.command("logs", help="What the worker logged of a task.", epilog=_LOGS)(logs)
    application.command("lint", help="Review agent code by ten rules.", epilog=_LINT)(lint)


def timeline(
    task_id: TaskId,
    in_browser: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write it to this file.")
    ] = None,
) -> None:
    """Draw the timeline."""
    from baton.timeline import TIMELINE, render
    from cli.run_folder import artifacts_folder, facts_in, page_frame, with_status_now

    folder = asyncio.run(artifacts_folder(task_id))
    place = (output or folder / TIMELINE).absolute()
    page = render(asyncio.run(with_status_now(facts_in(task_id, folder))), page_frame())
    try:
        place.write_text(page, encoding="utf-8")
    except OSError as error:
        raise Refused(f"{place} cannot be written: {error.strerror}; name another file with -o") from error
    show([Line(str(place))])
    if in_browser and not webbrowser.open(place.as_uri()):
        raise Refused(f"no browser could be opened here; the timeline is {place}")


def diagnose(task_id: TaskId, as_json: Json = False) -> None:
    """Diagnose a run."""
    from baton.diagnosis import diagnose as findings_of
    from cli.run_folder import artifacts_folder, facts_in, service_of

    folder = asyncio.run(artifacts_folder(task_id))
    facts = facts_in(task_id, folder)
    # Nothing is asked of it; but a task that runs may need it.
    service_of(facts)
    found = findings_of(facts)
    if as_json:
        shown = [finding.model_dump(mode="json") for finding in found]
        show_json(
            {
                "task_id": task_id,
                "ended": bool(facts.reported or facts.broken_off),
                "findings": shown,
                "unreadable": facts.unreadable,
            }
        )
        return
    for name in facts.unreadable:
        remark(f"warning: {folder / name} cannot be read; what it says is missing here")
    for finding in found:
        tone = Tone.BAD if at_least(finding.severity, Severity.HIGH) else Tone.WAITS
        show([Line(f"{finding.severity} {finding.id}: {finding.finding}", tone)])
        show([Line(f"- {evidence}", indent=1) for evidence in finding.evidence])
        show([Line(f"remedy: {finding.remedy}", Tone.FAINT, indent=1)])
    if not found:
        calls = len(facts.trace.of("model"))
        show([Line(f"Nothing stands out in {calls} model calls and {len(facts.trace.of('tool'))} tool calls.")])


def logs(
    task_id: TaskId,
    agent: Annotated[str | None, typer.Option("--agent", metavar="ID", help="Only this agent, or its chain.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is logged from now on.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document per line.")] = False,
) -> None:
    """Show the log of a task."""
    from baton.names import task_id_fault
    from cli.logs import TaskLog, shown
    from cli.places import state_path
    from cli.service_record import worker_log

    if (fault := task_id_fault(task_id)) is not None:
        raise Refused(fault)
    log = worker_log(state_path())
    if not log.is_file() and not follow:
        raise Refused(f"no worker has logged anything here ({log}); see: orchestrate up")
    some, of_task = False, TaskLog(log, task_id, agent)
    try:
        for event in of_task.lines(follow=follow):
            some = True
            if as_json:
                typer.echo(json.dumps(event, ensure_ascii=False))
            else:
                show(shown(event))
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    if not some and agent and of_task.agents:
        raise Refused(f"{task_id} has no agent {agent!r} in {log}; there are {_listed(of_task.agents)}")
    if not some:
        remark(f"nothing of {f'{agent} in ' if agent else ''}{task_id} is in {log}, or it was long ago")


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


def _listed(agents: set[str]) -> str:
    """The agents by name, a chain once; with many the last ones."""
    chains = sorted({agent.partition("~")[0] for agent in agents})
    left = len(chains) - MOST_AGENTS_NAMED
    return ", ".join(chains[-MOST_AGENTS_NAMED:]) + (f" and {left} more" if left > 0 else "")


def _counted(files: int, findings: int) -> str:
    from baton.wording import counted

    return f"{counted(files, 'file')} reviewed, {counted(findings, 'finding')}"

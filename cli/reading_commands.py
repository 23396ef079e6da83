"""Commands that only look: `status`, `watch`, `list`, `report`. They never start anything."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.exits import ExitCode, Refused
from cli.terminal import Line, is_terminal, remark, show, show_json

if TYPE_CHECKING:
    from cli.service import Service

TaskId = Annotated[str, typer.Argument(metavar="TASK_ID", help="The task's id; see: orchestrate list")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document.")]

_STATUS = """\b
Examples:
  orchestrate status
  orchestrate status migrate-typescript-2026-11-30 --json
  orchestrate status migrate-typescript-2026-11-30 --watch
"""
_WATCH = """\b
Example:
  orchestrate watch migrate-typescript-2026-11-30

Ctrl-C ends the watching, not the task. Exit codes: 0 done, 1 failed, 3 partial, 4 waiting for a person (when piped).
"""
_LIST = """\b
Examples:
  orchestrate list
  orchestrate list --all --json
"""
_REPORT = """\b
Examples:
  orchestrate report migrate-typescript-2026-11-30
  orchestrate report migrate-typescript-2026-11-30 --open
  orchestrate report migrate-typescript-2026-11-30 --json
"""


def register(application: typer.Typer) -> None:
    """Add the commands."""
    application.command("status", help="One look at a task, or at all that run.", epilog=_STATUS)(status)
    application.command("watch", help="Follow a task to its end.", epilog=_WATCH)(watch)
    application.command("list", help="Tasks, newest first.", epilog=_LIST)(list_tasks)
    application.command("report", help="The report of a task that has ended.", epilog=_REPORT)(report)


def status(
    task_id: Annotated[str | None, typer.Argument(metavar="[TASK_ID]", help="Without one: the running tasks.")] = None,
    follow: Annotated[bool, typer.Option("--watch", help="Follow it to its end.")] = False,
    as_json: Json = False,
) -> None:
    """Show how a task stands."""
    if task_id is None:
        _show_rows(everything=False, running_only=True, as_json=as_json)
        return
    if follow:
        watch(task_id, as_json=as_json)
    asyncio.run(_status(task_id, service_for(task_id), as_json=as_json))


def watch(task_id: TaskId, as_json: Json = False) -> None:
    """Follow a task."""
    from cli.run_command import say_how_to_come_back

    service = service_for(task_id)
    try:
        raise typer.Exit(asyncio.run(_watch(task_id, service, as_json=as_json)))
    except KeyboardInterrupt:
        remark("")
        say_how_to_come_back(task_id, service)
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def list_tasks(
    everything: Annotated[bool, typer.Option("--all", help="All of them, not only the last 20.")] = False,
    as_json: Json = False,
) -> None:
    """Show the history."""
    _show_rows(everything=everything, running_only=False, as_json=as_json)


def report(
    task_id: TaskId,
    in_browser: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    as_json: Json = False,
) -> None:
    """Show the report. One in this repository is found without a running service."""
    folder = _artifacts_here(task_id) or asyncio.run(_artifacts(task_id, service_for(task_id)))
    path = folder / ("integration-report.json" if as_json else "report.md")
    if not path.is_file():
        raise Refused(f"there is no report of {task_id} yet ({path}): it is written when the task ends")
    if in_browser:
        if not _open(path):
            raise Refused(f"no browser could be opened here; the report is {path}")
        return
    _show_report(path, as_json=as_json)


async def _status(task_id: str, service: "Service", *, as_json: bool) -> None:
    from cli.access import page
    from cli.outcome import ending_lines
    from cli.progress import progress
    from cli.service import connect
    from cli.tasks import Task

    task = Task(await connect(service), task_id)
    look = await task.look()
    address = page(service, task_id)
    if as_json:
        show_json(look.status.model_dump(mode="json") | {"hint": look.hint, "ui_url": address})
        return
    show(progress(look, datetime.now(UTC)))
    if look.closed:
        show(ending_lines(look, await task.ending(), address))


async def _watch(task_id: str, service: "Service", *, as_json: bool) -> ExitCode:
    from cli.run_command import follow_to_end
    from cli.service import connect
    from cli.tasks import Task

    return await follow_to_end(Task(await connect(service), task_id), service, as_json=as_json)


def _show_rows(*, everything: bool, running_only: bool, as_json: bool) -> None:
    from cli.access import NOTHING_RUNS, reading
    from cli.places import state_path

    service = reading(state_path())
    if service is None:
        if as_json:
            show_json([])
        remark(NOTHING_RUNS)
        return
    listed, lines = asyncio.run(_rows(service, everything=everything, running_only=running_only))
    if as_json:
        show_json(listed)
    else:
        show(lines)


async def _rows(service: "Service", *, everything: bool, running_only: bool) -> tuple[list[Any], list[Line]]:
    from cli.listing import rows, table
    from cli.service import connect

    found = await rows(await connect(service), everything=everything, running_only=running_only)
    listed = [row.model_dump(mode="json") for row in found]
    if running_only and not found:
        return listed, [Line("No task is running. See all with: orchestrate list")]
    return listed, table(found, datetime.now(UTC), _width())


def _width() -> int | None:
    import shutil

    return shutil.get_terminal_size().columns if is_terminal() else None


def service_for(task_id: str) -> "Service":
    """The service that can tell of this task. Raises `Refused` for a malformed id, exits 1 where none runs."""
    from baton.names import task_id_fault
    from cli.access import NOTHING_RUNS, reading
    from cli.places import state_path

    if (fault := task_id_fault(task_id)) is not None:
        raise Refused(fault)
    service = reading(state_path())
    if service is None:
        remark(NOTHING_RUNS)
        raise typer.Exit(ExitCode.FAILED)
    return service


def _artifacts_here(task_id: str) -> Path | None:
    from baton.names import task_id_fault
    from cli.checks import git

    if task_id_fault(task_id) is not None:
        return None
    found = git(Path.cwd(), "rev-parse", "--show-toplevel")
    folder = Path(found.stdout.decode(errors="surrogateescape")[:-1]) / ".claude/orchestration" / task_id
    return folder if found.returncode == 0 and (folder / "report.md").is_file() else None


async def _artifacts(task_id: str, service: "Service") -> Path:
    from cli.service import connect
    from cli.tasks import Task

    look = await Task(await connect(service), task_id).look()
    told = look.status.artifacts
    return Path(told) if told else Path(look.status.repository) / ".claude/orchestration" / task_id


def _open(path: Path) -> bool:
    import webbrowser

    return webbrowser.open(path.as_uri())


def _show_report(path: Path, *, as_json: bool) -> None:
    text = path.read_text(encoding="utf-8")
    if as_json or not is_terminal():
        typer.echo(text.rstrip("\n"))
        return
    from rich.markdown import Markdown

    from cli.terminal import console

    console().print(Markdown(text))

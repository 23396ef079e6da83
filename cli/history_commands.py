"""Commands that look at what was: `list` and `report`. They never start anything."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.exits import Refused
from cli.reading_commands import Json, TaskId, service_for
from cli.terminal import Line, is_terminal, remark, show, show_json

if TYPE_CHECKING:
    from cli.listing import Wanted
    from cli.service import Service

_LIST = """\b
Examples:
  orchestrate list
  orchestrate list --state failed --state partial --newer-than 7d
  orchestrate list --repo . --json
  orchestrate list --all

States: running, waiting, done, partial, failed, cancelled, terminated, "timed out", refused (bad input, nothing was
begun; listed with --all only).
"""
_REPORT = """\b
Examples:
  orchestrate report migrate-typescript-2026-11-30
  orchestrate report migrate-typescript-2026-11-30 --open
  orchestrate report migrate-typescript-2026-11-30 --json
"""


def register(application: typer.Typer) -> None:
    """Add the commands."""
    application.command("list", help="Tasks, newest first.", epilog=_LIST)(list_tasks)
    application.command("report", help="The report of a task that has ended.", epilog=_REPORT)(report)


def list_tasks(
    everything: Annotated[
        bool, typer.Option("--all", help="All of them, not only the last 20; refused ones too.")
    ] = False,
    state: Annotated[list[str] | None, typer.Option(metavar="STATE", help="Only this state (repeatable).")] = None,
    repo: Annotated[str | None, typer.Option(metavar="PATH|URL", help="Only tasks of this repository.")] = None,
    newer_than: Annotated[str | None, typer.Option(metavar="TIME", help="Started within, such as 12h or 7d.")] = None,
    older_than: Annotated[str | None, typer.Option(metavar="TIME", help="Started longer ago, such as 7d.")] = None,
    as_json: Json = False,
) -> None:
    """Show the history."""
    from cli.listing import NONE_YET, STATES, Wanted

    unknown = sorted(set(state or ()) - set(STATES))
    if unknown:
        raise Refused(f"--state {unknown[0]!r} is no state; allowed are: {', '.join(STATES)}")
    wanted = Wanted(
        everything=everything,
        states=frozenset(state or ()),
        repository=_repository(repo) if repo else None,
        started_after=moment_before(newer_than, "--newer-than"),
        started_before=moment_before(older_than, "--older-than"),
    )
    narrowed = wanted != Wanted(everything=everything)
    show_rows(wanted, "No such task. See all with: orchestrate list --all" if narrowed else NONE_YET, as_json=as_json)


def report(
    task_id: TaskId,
    in_browser: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    as_json: Json = False,
) -> None:
    """Show the report. One that lies on this host is found without a running service."""
    from baton.layout import REPORT_JSON, REPORT_MARKDOWN

    folder = artifacts_for(task_id)
    path = folder / (REPORT_JSON if as_json and not in_browser else REPORT_MARKDOWN)
    if not path.is_file():
        raise Refused(f"there is no report of {task_id} yet ({path}): it is written when the task ends")
    if in_browser:
        _open(path, as_json=as_json)
    else:
        _show_report(path, as_json=as_json)


def artifacts_for(task_id: str) -> Path:
    """The folder of a task's files for people: found on this host, else named by the task itself."""
    from cli.finished import artifacts_of
    from cli.places import state_path

    return artifacts_of(task_id, state_path(), current_repository()) or asyncio.run(
        _artifacts_told(task_id, service_for(task_id))
    )


def current_repository() -> Path | None:
    """The top folder of the checkout around the current folder; None where there is none."""
    from cli.checks import check_folder

    try:
        return check_folder(".")
    except Refused:
        return None


def moment_before(age: str | None, option: str) -> datetime | None:
    """The moment that long ago. Raises `Refused` for what is no duration."""
    from baton.durations import parse_duration

    if age is None:
        return None
    try:
        return datetime.now(UTC) - parse_duration(age)
    except (ValueError, OverflowError) as error:
        raise Refused(f"{option}: {error}") from error


def show_rows(wanted: "Wanted", none: str, *, as_json: bool) -> None:
    """List tasks; `none` is said where there is none."""
    from cli.access import reading, why_none
    from cli.places import state_path

    service = reading(state_path())
    if service is None:
        if as_json:
            show_json([])
        remark(why_none(state_path()))
        return
    listed, lines = asyncio.run(_rows(service, wanted, none))
    if as_json:
        show_json(listed)
    else:
        show(lines)


async def _rows(service: "Service", wanted: "Wanted", none: str) -> tuple[list[Any], list[Line]]:
    from cli.listing import rows, table
    from cli.service import connect

    found = await rows(await connect(service), wanted)
    return [row.model_dump(mode="json") for row in found], table(found, datetime.now(UTC), _width(), none)


def _width() -> int | None:
    import shutil

    return shutil.get_terminal_size().columns if is_terminal() else None


def _repository(given: str) -> str:
    """A repository as tasks name it: the top folder of the checkout, or the URL."""
    from baton.sources import is_url
    from cli.checks import check_folder

    return given if is_url(given) else str(check_folder(given))


async def _artifacts_told(task_id: str, service: "Service") -> Path:
    """Where the task's files are by its own word. Raises `Refused` where it has ended and its report is not there."""
    from baton.layout import DEFAULT_ARTIFACTS, REPORT_MARKDOWN
    from cli.service import connect
    from cli.tasks import Task

    look = await Task(await connect(service), task_id).look()
    told = look.status.artifacts
    folder = Path(told) if told else Path(look.status.repository) / DEFAULT_ARTIFACTS / task_id
    if look.closed and not (folder / REPORT_MARKDOWN).is_file():
        why = "what it left was cleaned up, or lies on another host" if told else "it wrote none, or it was cleaned up"
        raise Refused(f"{task_id} has ended ({look.status.state}), and there is no report of it in {folder}: {why}")
    return folder


def _open(path: Path, *, as_json: bool) -> None:
    """Show the report in a browser; where there is none, say where the page is."""
    import webbrowser

    from cli.report_page import write_page

    page = write_page(path)
    try:
        opened = webbrowser.open(page.as_uri())
    except webbrowser.Error:
        opened = False
    if as_json:
        show_json({"page": str(page), "opened": opened})
    else:
        show([Line(f"Opened {page}" if opened else f"No browser could be opened here; the page is {page}")])


def _show_report(path: Path, *, as_json: bool) -> None:
    text = path.read_text(encoding="utf-8")
    if as_json or not is_terminal():
        typer.echo(text.rstrip("\n"))
        return
    from rich.markdown import Markdown

    from cli.terminal import console

    console().print(Markdown(text))

"""Commands that look at running tasks: `status` and `watch`. They never start anything."""

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cli.exits import ExitCode, Refused
from cli.terminal import remark, show, show_json

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


def register(application: typer.Typer) -> None:
    """Add the commands."""
    application.command("status", help="One look at a task, or at all that run.", epilog=_STATUS)(status)
    application.command("watch", help="Follow a task to its end.", epilog=_WATCH)(watch)


def status(
    task_id: Annotated[str | None, typer.Argument(metavar="[TASK_ID]", help="Without one: the running tasks.")] = None,
    follow: Annotated[bool, typer.Option("--watch", help="Follow it to its end.")] = False,
    as_json: Json = False,
) -> None:
    """Show how a task stands."""
    if task_id is None:
        _show_running(as_json=as_json)
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


def _show_running(*, as_json: bool) -> None:
    from cli.history_commands import show_rows
    from cli.listing import Wanted

    show_rows(Wanted(running_only=True), "No task is running. See all with: orchestrate list", as_json=as_json)


def service_for(task_id: str) -> "Service":
    """The service that can tell of this task. Raises `Refused` for a malformed id, exits 1 where none runs."""
    from baton.names import task_id_fault
    from cli.access import reading, why_none
    from cli.places import state_path

    if (fault := task_id_fault(task_id)) is not None:
        raise Refused(fault)
    service = reading(state_path())
    if service is None:
        remark(why_none(state_path()))
        raise typer.Exit(ExitCode.FAILED)
    return service

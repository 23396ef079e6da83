"""`orchestrate resume`: go on with a task that was cancelled, failed or stayed partial, under its own id.

The worker knows what is left and says why there may be nothing to go on with; here only the start is put together.
"""

import json
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.exits import Refused

if TYPE_CHECKING:
    from pathlib import Path

    from cli.starting import Order

_EXAMPLES = """\b
Examples:
  orchestrate resume migrate-typescript-2026-11-30
  orchestrate resume migrate-typescript-2026-11-30 --max-cost 40 --max-agents 20
  orchestrate resume --task-id migrate-typescript-2026-11-30 --detach

What is done stays done and is not paid again. Limits given here come on top of the task's own.
"""


def register(application: typer.Typer) -> None:
    """Add the command."""
    application.command("resume", help="Go on with a stopped, failed or partial task.", epilog=_EXAMPLES)(resume)


def resume(
    task_id: Annotated[str | None, typer.Argument(metavar="TASK_ID", help="The task.")] = None,
    named: Annotated[str | None, typer.Option("--task-id", metavar="TASK_ID", help="The same.")] = None,
    max_parallel: Annotated[int | None, typer.Option(metavar="N", help="Steps side by side at most.")] = None,
    max_agents: Annotated[
        int | None, typer.Option(metavar="N", help="Agents at most, those before the stop included.")
    ] = None,
    max_cost: Annotated[str | None, typer.Option(metavar="USD", help="For the whole task.")] = None,
    max_output_tokens: Annotated[int | None, typer.Option(metavar="N", help="For the whole task.")] = None,
    max_duration: Annotated[str | None, typer.Option(metavar="TIME", help="Time it runs, such as 90s or 2h.")] = None,
    output_budget: Annotated[int | None, typer.Option(metavar="N", help="Output tokens of one agent.")] = None,
    model: Annotated[list[str] | None, typer.Option(metavar="ROLE=ID", help="Another model from now on.")] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Start it and leave.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON; lines go to standard error.")] = False,
) -> None:
    """Make sure that a service runs, start the task once more, follow it."""
    from cli.access import working
    from cli.places import state_path
    from cli.run_command import start_and_follow
    from cli.starting import Options

    if task_id is not None and named is not None and task_id != named:
        raise Refused(f"two tasks are named: {task_id} and {named}")
    chosen = task_id or named
    if chosen is None:
        raise Refused("name the task: orchestrate resume TASK_ID (orchestrate list --all shows them)")
    options = Options(
        max_parallel=max_parallel,
        max_agents=max_agents,
        max_cost=max_cost,
        max_output_tokens=max_output_tokens,
        max_duration=max_duration,
        output_budget=output_budget,
        models=tuple(model or ()),
        task_id=chosen,
    )
    state = state_path()
    order = again(chosen, options, state)
    raise typer.Exit(start_and_follow(order, working(state), detach=detach, as_json=as_json))


def again(task_id: str, options: Any, state: "Path") -> "Order":
    """Another start of the task. Raises `Refused` for what cannot be a task or a setting."""
    from pathlib import Path

    from baton.environment import allowed_environment
    from baton.messages import TaskInput
    from baton.names import task_id_fault
    from cli.checks import Source, check_credentials, check_settings
    from cli.starting import Order, settings_layer

    if (fault := task_id_fault(task_id)) is not None:
        raise Refused(fault)
    layer = settings_layer(options)
    check_settings(Path.home(), None, layer)
    check_credentials(os.environ, state / "service" / "credentials.json")
    refuse_needless(task_id, state)
    first = _first_input(task_id, state)
    task_input = TaskInput(
        task=str(first.get("task", "")),
        repository=str(first.get("repository", "")),
        settings=layer,
        environment=allowed_environment(os.environ),
        resume=True,
    )
    return Order(task_input, Source(task_input.repository, None), task_id, again=True)


def refuse_needless(task_id: str, state: "Path") -> None:
    """Raise `Refused` where this host knows that there is nothing to go on with.

    The worker would say so too, but in a run that from then on is all that is seen of the task. With a configured
    Temporal another host may have the task: there only what is here counts.
    """
    from baton.layout import PRIVATE_REPOSITORY, task_folder
    from baton.resume import already_done, unknown, without_repository
    from baton.states import TaskState
    from cli.connection import configured

    folder = task_folder(state, task_id)
    if not folder.is_dir():
        if configured() is None:
            raise Refused(unknown(task_id))
        return
    if _last_state(folder) == TaskState.DONE:
        raise Refused(already_done(task_id))
    if not (folder / PRIVATE_REPOSITORY).is_dir():
        raise Refused(without_repository(task_id, str(folder / PRIVATE_REPOSITORY)))


def _last_state(folder: "Path") -> str | None:
    try:
        return str(json.loads((folder / "state.json").read_bytes())["status"]["state"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _first_input(task_id: str, state: "Path") -> dict[str, Any]:
    """What the task was started with, where its folder is on this host: for the lists that people look at."""
    from baton.layout import RECORD, task_folder

    try:
        record = json.loads((task_folder(state, task_id) / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return dict(record.get("input", {}))

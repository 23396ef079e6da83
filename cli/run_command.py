"""`orchestrate run`: start a task, then follow it to its end."""

import asyncio
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.exits import ExitCode
from cli.terminal import Line, Tone, remark, show, show_json

if TYPE_CHECKING:
    from cli.service import Service
    from cli.starting import Order

_EXAMPLES = """\b
Examples:
  orchestrate "Migrate the project to TypeScript" --gate "types=npx tsc --noEmit"
  orchestrate @task.md --repo ~/project --approve-phases --max-cost 20
  orchestrate run "Add type hints" --plan-only
  git log -1 --format=%B | orchestrate - --detach --json
"""


class Mode(StrEnum):
    """`--mode`."""

    AUTO = "auto"
    SINGLE = "single"
    ORCHESTRATED = "orchestrated"


class Strategy(StrEnum):
    """`--handoff-strategy`."""

    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"


class Sandbox(StrEnum):
    """`--sandbox`."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class OnLimit(StrEnum):
    """`--on-limit`."""

    ASK = "ask"
    INTEGRATE = "integrate"
    STOP = "stop"


def register(application: typer.Typer) -> None:
    """Add the command."""
    application.command("run", help="Start a task and follow it.", epilog=_EXAMPLES)(run)


def run(
    words: Annotated[list[str], typer.Argument(metavar="TASK", help="What to do: words, @FILE, or - for stdin.")],
    repo: Annotated[str, typer.Option(metavar="PATH|URL", help="The repository.")] = ".",
    base: Annotated[str | None, typer.Option(metavar="REF", help="Start from REF instead of HEAD.")] = None,
    plan: Annotated[Path | None, typer.Option(metavar="FILE", help="Use this plan (YAML or JSON).")] = None,
    plan_only: Annotated[bool, typer.Option("--plan-only", help="Stop after planning and print the plan.")] = False,
    approve_phases: Annotated[
        bool, typer.Option("--approve-phases", help="Wait for approval after planning and before integration.")
    ] = False,
    parallel: Annotated[
        bool | None, typer.Option("--parallel/--sequential", help="Ask for steps side by side, or in a row.")
    ] = None,
    max_parallel: Annotated[int | None, typer.Option(metavar="N", help="Steps side by side at most.")] = None,
    max_agents: Annotated[int | None, typer.Option(metavar="N", help="Agents at most, successors included.")] = None,
    mode: Annotated[Mode, typer.Option(help="One agent, many, or as the planner finds.")] = Mode.AUTO,
    handoff_strategy: Annotated[Strategy | None, typer.Option(help="One chain of agents, or shards.")] = None,
    no_integration: Annotated[
        bool, typer.Option("--no-integration", help="Merge, but let no integrator work.")
    ] = False,
    max_cost: Annotated[
        str | None, typer.Option(metavar="USD", help="Stop before this is exceeded; 0 allows nothing.")
    ] = None,
    max_output_tokens: Annotated[int | None, typer.Option(metavar="N", help="Output tokens of all agents.")] = None,
    max_duration: Annotated[str | None, typer.Option(metavar="TIME", help="Such as 90s, 15m or 2h.")] = None,
    on_limit: Annotated[
        OnLimit | None, typer.Option(help="At a limit: ask a person, integrate what is there, or stop.")
    ] = None,
    output_budget: Annotated[int | None, typer.Option(metavar="N", help="Output tokens of one agent.")] = None,
    model: Annotated[
        list[str] | None, typer.Option(metavar="ROLE=ID", help="Roles: planner, executor, reviewer, integrator.")
    ] = None,
    gate: Annotated[
        list[str] | None, typer.Option(metavar="NAME=COMMAND", help="A command that must pass on the result.")
    ] = None,
    sandbox: Annotated[Sandbox | None, typer.Option(help="Whether commands run in a sandbox.")] = None,
    trust_project_commands: Annotated[
        bool, typer.Option("--trust-project-commands", help="Run the commands of the project's settings unasked.")
    ] = False,
    task_id: Annotated[str | None, typer.Option(metavar="ID", help="Name the task yourself.")] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Start it and leave.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON; lines go to standard error.")] = False,
) -> None:
    """Check what was given, make sure that a service runs, start the task, follow it."""
    from cli.access import working
    from cli.checks import check_task
    from cli.places import state_path
    from cli.starting import Options, prepare

    task = check_task(words, sys.stdin.read() if words == ["-"] else None)
    options = Options(
        repository=repo,
        base=base,
        plan=plan,
        plan_only=plan_only,
        approve_phases=approve_phases,
        parallel=parallel,
        max_parallel=max_parallel,
        max_agents=max_agents,
        mode=_word(mode),
        handoff_strategy=_word(handoff_strategy),
        integration=not no_integration,
        max_cost=max_cost,
        max_output_tokens=max_output_tokens,
        max_duration=max_duration,
        on_limit=on_limit.value if on_limit else None,
        output_budget=output_budget,
        models=tuple(model or ()),
        gates=tuple(gate or ()),
        sandbox=sandbox.value if sandbox else None,
        task_id=task_id,
        trust_project_commands=trust_project_commands,
    )
    state = state_path()
    order = prepare(task, options, state / "service" / "credentials.json")
    raise typer.Exit(start_and_follow(order, working(state), detach=detach, as_json=as_json))


def start_and_follow(order: "Order", service: "Service", *, detach: bool = False, as_json: bool = False) -> ExitCode:
    """Start the task and follow it; the exit code. Ctrl-C ends the following, not the task."""
    started: list[str] = []
    try:
        return asyncio.run(_start_and_follow(order, service, started, detach=detach, as_json=as_json))
    except KeyboardInterrupt:
        remark("")
        if not started:
            remark("Interrupted before the task was started.")
        for task_id in started:
            say_how_to_come_back(task_id, service)
        return ExitCode.INTERRUPTED


async def _start_and_follow(
    order: "Order", service: "Service", started: list[str], *, detach: bool, as_json: bool
) -> ExitCode:
    from cli.following import accepted
    from cli.service import connect
    from cli.starting import start
    from cli.tasks import Task

    server = await connect(service)
    task_id = await start(server, order)
    started.append(task_id)
    task = Task(server, task_id)
    if detach:
        early = await accepted(task)
        if early is not None and early.bad_input:
            remark(f"orchestrate: {early.fault}")
            return ExitCode.BAD_INPUT
        _say_started(service, task_id, as_json=as_json)
        return ExitCode.DONE
    if not as_json:
        show([Line(f"Task {task_id} started.", Tone.FAINT)])
    return await follow_to_end(task, service, as_json=as_json, with_plan=order.input.plan_only)


async def follow_to_end(task: Any, service: "Service", *, as_json: bool, with_plan: bool = False) -> ExitCode:
    """Follow a task and say how it ended, or what it waits for; the exit code.

    `with_plan`: the task only plans; the plan is shown, with what it would likely cost.
    """
    from cli.access import page
    from cli.following import follow_here
    from cli.outcome import ending_json, ending_lines, exit_code, plan_lines
    from cli.progress import waiting

    look, ending = await follow_here(task, machine=as_json)
    address = page(service, task.task_id)
    if ending is None:
        if as_json:
            show_json(look.status.model_dump(mode="json") | {"ui_url": address})
        else:
            show(waiting(look.status))
        return ExitCode.WAITING
    if ending.bad_input:
        remark(f"orchestrate: {ending.fault}")
        return ExitCode.BAD_INPUT
    plan = await task.plan() if with_plan else {}
    if as_json:
        show_json(ending_json(look, ending, address) | ({"plan": plan} if plan else {}))
    else:
        show(ending_lines(look, ending, address))
        if plan:
            show(plan_lines(plan))
    return exit_code(ending)


def say_how_to_come_back(task_id: str, service: "Service") -> None:
    """What to do after following was interrupted."""
    from cli.places import command_for

    program = command_for(service.directory.parent)
    remark(f"The task goes on. Follow it again: {program} watch {task_id}")
    remark(f"Stop it: {program} cancel {task_id}")


def _say_started(service: "Service", task_id: str, *, as_json: bool) -> None:
    from cli.access import page

    address = page(service, task_id)
    if as_json:
        show_json({"task_id": task_id, "state": "running", "ui_url": address})
        return
    lines = [Line(f"Task {task_id} started."), Line(f"Follow it: orchestrate watch {task_id}")]
    show([*lines, Line(f"In the browser: {address}")] if address else lines)


def _word(chosen: Any) -> Any:
    return chosen.value if chosen is not None else None

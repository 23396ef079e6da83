"""Starting a task: the options of `run` become one `TaskInput`, and the workflow starts under a free task id."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cli.checks import Source, check_credentials, check_plan, check_repository, check_settings
from cli.confirming import confirmed_commands
from cli.exits import Refused, ServiceError
from cli.naming import task_ids
from cli.terminal import remark

if TYPE_CHECKING:
    from baton.messages import TaskInput
    from cli.server import Server

SUMMARY_LIMIT_BYTES = 200
"""Temporal refuses longer static summaries."""


@dataclass(frozen=True)
class Options:
    """The options of `run` as typed; None where one is not given, so that the settings hold."""

    repository: str = "."
    base: str | None = None
    plan: Path | None = None
    plan_only: bool = False
    approve_phases: bool = False
    parallel: bool | None = None
    max_parallel: int | None = None
    max_agents: int | None = None
    mode: Literal["auto", "single", "orchestrated"] = "auto"
    handoff_strategy: Literal["sequential", "parallel"] | None = None
    integration: bool = True
    max_cost: str | None = None
    max_output_tokens: int | None = None
    max_duration: str | None = None
    on_limit: str | None = None
    output_budget: int | None = None
    models: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    sandbox: str | None = None
    task_id: str | None = None
    trust_project_commands: bool = False


@dataclass(frozen=True)
class Order:
    """A checked task, ready to be started: its input and where it works. `again`: it is there and goes on."""

    input: "TaskInput"
    source: Source
    task_id: str | None = None
    again: bool = False


def settings_layer(options: Options) -> dict[str, Any]:
    """The settings that the options stand for, in the form of the settings file."""
    limits = {
        "costUsd": options.max_cost,
        "outputTokens": options.max_output_tokens,
        "duration": options.max_duration,
    }
    layer: dict[str, Any] = {
        "maxAgents": options.max_agents,
        "maxParallelAgents": options.max_parallel,
        "parallelExecution": options.parallel,
        "requireApproval": True if options.approve_phases else None,
        "onLimit": options.on_limit,
        "outputBudget": options.output_budget,
        "sandbox": options.sandbox,
        "models": dict(_pair(given, "--model", "ROLE=ID") for given in options.models),
        "gates": [
            {"name": name, "command": command}
            for name, command in (_pair(given, "--gate", "NAME=COMMAND") for given in options.gates)
        ],
        "limits": {key: value for key, value in limits.items() if value is not None},
    }
    return {key: value for key, value in layer.items() if value is not None and value not in ({}, [])}


def prepare(task: str, options: Options, saved_credentials: Path) -> Order:
    """Check everything that can be checked here. Raises `Refused`; nothing was touched then."""
    from baton.environment import allowed_environment
    from baton.messages import TaskInput
    from baton.names import task_id_fault
    from baton.plan import HandoffStrategy
    from baton.traceparent import VARIABLE, caller_of

    if options.task_id is not None and (fault := task_id_fault(options.task_id)) is not None:
        raise Refused(fault)
    layer = settings_layer(options)
    source = check_repository(options.repository, options.base)
    layers = check_settings(Path.home(), source.top_level, layer)
    draft = check_plan(options.plan, source) if options.plan is not None else None
    check_credentials(os.environ, saved_credentials)
    state = saved_credentials.parent.parent
    trusted = options.trust_project_commands
    traceparent = os.environ.get(VARIABLE, "")
    if traceparent and caller_of(traceparent) is None:
        remark(f"warning: {VARIABLE} is no W3C trace header, so the task begins a trace of its own")
        traceparent = ""
    confirmed = () if trusted else confirmed_commands(layers, source.top_level, state)
    task_input = TaskInput(
        task=task,
        repository=source.repository,
        base=options.base,
        plan=draft,
        plan_only=options.plan_only,
        mode=options.mode,
        handoff_strategy=HandoffStrategy(options.handoff_strategy) if options.handoff_strategy else None,
        integration=options.integration,
        settings=layer,
        environment=allowed_environment(os.environ),
        trust_project_commands=trusted,
        confirmed_commands=confirmed,
        traceparent=traceparent,
    )
    return Order(task_input, source, options.task_id)


async def start(server: "Server", order: Order) -> str:
    """Start the task and return its id.

    Raises `Refused` when the id that was asked for is in use, ServiceError when the server does not start it.
    """
    from temporalio.service import RPCError, RPCStatusCode

    task_input, summary = order.input, first_line(order.input.task)
    memo = {"task": summary, "repository": task_input.repository}
    for task_id in _candidates(order):
        try:
            await server.start(task_id, task_input.model_dump_json().encode(), summary, memo, again=order.again)
        except RPCError as error:
            if error.status is not RPCStatusCode.ALREADY_EXISTS:
                raise ServiceError(f"Temporal does not start the task: {error.message}; see: orchestrate up") from error
            if order.again:
                raise Refused(
                    f"the task {task_id} is still running: follow it with: orchestrate watch {task_id}"
                ) from error
            if order.task_id is not None:
                raise Refused(
                    f"the task id {task_id!r} is already used: choose another with --task-id, "
                    f"or look at that task with: orchestrate status {task_id}"
                ) from error
        else:
            return task_id
    raise Refused("a hundred tasks with these words were started today: name this one with --task-id")


def first_line(task: str) -> str:
    """The first line of a task, at most as long as Temporal takes a summary."""
    line = task.strip().partition("\n")[0].strip()
    if len(line.encode()) <= SUMMARY_LIMIT_BYTES:
        return line
    return line.encode()[: SUMMARY_LIMIT_BYTES - 3].decode(errors="ignore") + "…"


def _candidates(order: Order) -> Iterator[str]:
    if order.task_id is not None:
        yield order.task_id
        return
    for task_id in task_ids(order.input.task, datetime.now().astimezone().date()):
        if not _has_artifacts(order.source, task_id):
            yield task_id


def _has_artifacts(source: Source, task_id: str) -> bool:
    """A task of this id was here before, though Temporal may have forgotten it: the worker would refuse the id."""
    from baton.layout import DEFAULT_ARTIFACTS

    return source.top_level is not None and (source.top_level / DEFAULT_ARTIFACTS / task_id).exists()


def _pair(given: str, option: str, form: str) -> tuple[str, str]:
    name, separator, value = given.partition("=")
    if not separator or not name.strip() or not value.strip():
        raise Refused(f"{option} {given!r} is not of the form {form}")
    return name.strip(), value.strip()

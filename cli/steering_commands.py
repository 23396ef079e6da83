"""Commands that steer a running task: `cancel`, `approve`, `reject`, `answer`.

An answer that makes no sense now is refused with what is asked; while the worker is away it is sent all the same,
because Temporal keeps it.
"""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.exits import ExitCode, Refused
from cli.reading_commands import TaskId, service_for
from cli.terminal import Line, remark, show

if TYPE_CHECKING:
    from baton.status import TaskStatus
    from cli.look import Look
    from cli.service import Service
    from cli.tasks import Task

CANCEL_LIMIT_SECONDS = 60
_TAKEN_LIMIT_SECONDS = 5

Phase = Annotated[
    str | None, typer.Option(metavar="PHASE", help="planning or integration; default: the one that waits.")
]
Comment = Annotated[str, typer.Option(metavar="TEXT", help="A remark for the task.")]

_CANCEL = """\b
Example:
  orchestrate cancel migrate-typescript-2026-11-30

What was done is kept and reported.
"""
_APPROVE = """\b
Examples:
  orchestrate approve migrate-typescript-2026-11-30
  orchestrate reject migrate-typescript-2026-11-30 --comment "Leave the tests alone"
"""
_ANSWER = """\b
Example:
  orchestrate answer migrate-typescript-2026-11-30 credentials-1 retry

`orchestrate status TASK_ID` shows what is asked, and the choices.
"""


def register(application: typer.Typer) -> None:
    """Add the commands."""
    application.command("cancel", help="Stop a task; what was done is kept.", epilog=_CANCEL)(cancel)
    application.command("approve", help="Approve a phase that waits.", epilog=_APPROVE)(approve)
    application.command("reject", help="Reject a phase that waits, with a remark.", epilog=_APPROVE)(reject)
    application.command("answer", help="Answer what a task asks.", epilog=_ANSWER)(answer)


def cancel(task_id: TaskId) -> None:
    """Stop a task and wait for its report."""
    service = service_for(task_id)
    try:
        raise typer.Exit(asyncio.run(_cancel(task_id, service)))
    except KeyboardInterrupt:
        remark(f"The task is being cancelled. See what came of it: orchestrate status {task_id}")
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def approve(task_id: TaskId, phase: Phase = None, comment: Comment = "") -> None:
    """Approve a phase."""
    asyncio.run(_decide(task_id, service_for(task_id), "approve", phase, comment))


def reject(task_id: TaskId, phase: Phase = None, comment: Comment = "") -> None:
    """Reject a phase."""
    asyncio.run(_decide(task_id, service_for(task_id), "reject", phase, comment))


def answer(
    task_id: TaskId,
    attention_id: Annotated[str, typer.Argument(metavar="ATTENTION_ID", help="What is answered.")],
    choice: Annotated[str, typer.Argument(metavar="CHOICE", help="One of the choices.")],
    comment: Comment = "",
) -> None:
    """Answer an attention item."""
    asyncio.run(_answer(task_id, service_for(task_id), attention_id, choice, comment))


async def _task(task_id: str, service: "Service") -> tuple["Task", "Look"]:
    """The task and how it stands. Raises `Refused` when it has ended: nothing can be told to it any more."""
    from cli.service import connect
    from cli.tasks import Task

    task = Task(await connect(service), task_id)
    look = await task.look()
    if look.closed:
        raise Refused(f"the task {task_id} has ended ({look.status.state}); see: orchestrate report {task_id}")
    return task, look


async def _cancel(task_id: str, service: "Service") -> ExitCode:
    from cli.access import page
    from cli.following import follow_here
    from cli.outcome import ending_lines

    task, _ = await _task(task_id, service)
    await task.cancel()
    remark("Cancelling: no further model call is made; what was done is put in order and reported.")
    try:
        look, ending = await asyncio.wait_for(follow_here(task, patient=True), CANCEL_LIMIT_SECONDS)
    except TimeoutError:
        remark(f"It has not ended within {CANCEL_LIMIT_SECONDS} s. Go on looking: orchestrate watch {task_id}")
        return ExitCode.FAILED
    if ending is not None:
        show(ending_lines(look, ending, page(service, task_id)))
    return ExitCode.DONE


async def _decide(task_id: str, service: "Service", decision: str, phase: str | None, comment: str) -> None:
    task, look = await _task(task_id, service)
    asked = [item for item in look.status.attention if item.kind == "approval"]
    wanted = [item for item in asked if phase is None or phase == item.phase]
    if not look.hint and not wanted:
        raise Refused(_nothing_asked(f"no approval{f' of {phase}' if phase else ''} is waited for", look.status))
    named = phase or (wanted[0].phase if wanted else None) or "planning"
    await task.signal(decision, {"phase": named, "comment": comment})
    await _say_taken(task, look, wanted[0].id if wanted else None, f"{named}: {decision} was sent to {task_id}")


async def _answer(task_id: str, service: "Service", attention_id: str, choice: str, comment: str) -> None:
    task, look = await _task(task_id, service)
    item = next((item for item in look.status.attention if item.id == attention_id), None)
    if not look.hint and item is None:
        raise Refused(_nothing_asked(f"{attention_id!r} is not asked", look.status))
    if item is not None and choice not in item.choices:
        raise Refused(f"{choice!r} is no choice for {attention_id}; the choices are: {', '.join(item.choices)}")
    payload: dict[str, Any] = {"attention_id": attention_id, "choice": choice, "comment": comment}
    await task.signal("answer", payload)
    await _say_taken(task, look, attention_id, f"{attention_id}: {choice} was sent to {task_id}")


async def _say_taken(task: "Task", before: "Look", attention_id: str | None, sent: str) -> None:
    """Say that the answer was sent, and whether the task has taken it. Raises `Refused` when it did not want it."""
    for _ in range(_TAKEN_LIMIT_SECONDS * 5):
        look = await task.look(before)
        refused = [text for text in look.status.rejected_signals if text not in before.status.rejected_signals]
        if refused:
            raise Refused("; ".join(refused))
        if look.hint:
            show([Line(f"{sent}; {look.hint}: it is taken as soon as the worker is back")])
            return
        if look.closed or attention_id not in {item.id for item in look.status.attention}:
            show([Line(f"{sent}, and taken.")])
            return
        await asyncio.sleep(0.2)
    show([Line(f"{sent}; it is not taken yet: orchestrate status {task.task_id}")])


def _nothing_asked(what: str, status: "TaskStatus") -> str:
    from cli.progress import answers

    if not status.attention:
        return f"{what}: the task {status.task_id} waits for nobody"
    commands = [command for item in status.attention for command in answers(status.task_id, item)]
    return f"{what}; what is asked can be answered with: {' | '.join(commands)}"

"""Commands that steer a running task: `cancel`, `approve`, `reject`, `answer`, `pause`, `unpause`, `guide`, `limits`.

What makes no sense now is refused by the task itself; while the worker is away it is sent all the same, because
Temporal keeps it.
"""

import asyncio
from datetime import timedelta
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
_CHECK_LIMIT = timedelta(seconds=60)
"""A plan is checked against all files of the repository."""

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
  orchestrate approve migrate-typescript-2026-11-30 --edit
  orchestrate reject migrate-typescript-2026-11-30 --comment "Leave the tests alone"
"""
_ANSWER = """\b
Example:
  orchestrate answer migrate-typescript-2026-11-30 credentials-1 retry

`orchestrate status TASK_ID` shows what is asked, and the choices.
"""
_PAUSE = """\b
Examples:
  orchestrate pause migrate-typescript-2026-11-30
  orchestrate unpause migrate-typescript-2026-11-30

Each agent finishes its turn and hands off; the task waits as long as you like.
"""
_GUIDE = """\b
Examples:
  orchestrate guide migrate-typescript-2026-11-30 "Keep the public names as they are"
  orchestrate guide migrate-typescript-2026-11-30 "Skip the generated files" --step 2

Agents at work see it on their next turn; later ones find it in their assignment.
"""
_LIMITS = """\b
Examples:
  orchestrate limits migrate-typescript-2026-11-30 --max-cost 40
  orchestrate limits migrate-typescript-2026-11-30 --max-agents 20 --max-duration 6h
  orchestrate limits migrate-typescript-2026-11-30 --max-output-tokens none

0 allows none, `none` takes a limit away. Agents above a lowered limit end their turn and wait for an answer.
"""


def register(application: typer.Typer) -> None:
    """Add the commands."""
    application.command("cancel", help="Stop a task; what was done is kept.", epilog=_CANCEL)(cancel)
    application.command("approve", help="Approve a phase that waits.", epilog=_APPROVE)(approve)
    application.command("reject", help="Reject a phase that waits, with a remark.", epilog=_APPROVE)(reject)
    application.command("pause", help="Have all agents hand off and wait.", epilog=_PAUSE)(pause)
    application.command("unpause", help="Go on after a pause.", epilog=_PAUSE)(unpause)
    application.command("guide", help="Tell the agents something.", epilog=_GUIDE)(guide)
    application.command("limits", help="Raise or lower the limits of a running task.", epilog=_LIMITS)(limits)
    application.command("answer", help="Answer what a task asks.", epilog=_ANSWER)(answer)


def cancel(task_id: TaskId) -> None:
    """Stop a task and wait for its report."""
    service = service_for(task_id)
    try:
        raise typer.Exit(asyncio.run(_cancel(task_id, service)))
    except KeyboardInterrupt:
        remark(f"The task is being cancelled. See what came of it: orchestrate status {task_id}")
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def approve(
    task_id: TaskId,
    phase: Phase = None,
    comment: Comment = "",
    edit: Annotated[bool, typer.Option("--edit", help="Open the plan in your editor; saved, it is approved.")] = False,
) -> None:
    """Approve a phase."""
    if edit:
        if phase not in {None, "planning"}:
            raise Refused("--edit opens the plan: it goes with the phase planning only")
        asyncio.run(_edit(task_id, service_for(task_id)))
        return
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


def pause(task_id: TaskId) -> None:
    """Pause a task."""
    asyncio.run(_steer(task_id, service_for(task_id), "pause", {}))


def unpause(task_id: TaskId) -> None:
    """Let a task go on."""
    asyncio.run(_steer(task_id, service_for(task_id), "unpause", {}))


def guide(
    task_id: TaskId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What the agents are told.")],
    step: Annotated[int | None, typer.Option(metavar="N", help="Only those of this step.")] = None,
) -> None:
    """Tell the agents something."""
    if not text.strip():
        raise Refused("the remark is empty: say what the agents should know")
    asyncio.run(_steer(task_id, service_for(task_id), "guide", {"text": text, "step": step}))


def limits(
    task_id: TaskId,
    max_cost: Annotated[str | None, typer.Option(metavar="USD", help="Cost of all agents.")] = None,
    max_output_tokens: Annotated[str | None, typer.Option(metavar="N", help="Output tokens of all agents.")] = None,
    max_duration: Annotated[str | None, typer.Option(metavar="TIME", help="Since its start, such as 2h.")] = None,
    max_agents: Annotated[int | None, typer.Option(metavar="N", min=0, help="Agents, successors included.")] = None,
    max_model_calls: Annotated[str | None, typer.Option(metavar="N", help="Model calls of all agents.")] = None,
) -> None:
    """Change limits."""
    given = {
        "max_cost_usd": max_cost,
        "max_output_tokens": max_output_tokens,
        "max_duration": max_duration,
        "max_agents": max_agents,
        "max_model_calls": max_model_calls,
    }
    named = {key: None if value == "none" else value for key, value in given.items() if value is not None}
    if not named:
        raise Refused("no limit is named; for example: --max-cost 40")
    from baton.steering import given_limits

    try:
        given_limits(named)
    except ValueError as error:
        raise Refused(str(error)) from error
    asyncio.run(_steer(task_id, service_for(task_id), "set_limits", named))


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
    await _tell(task, look, decision, {"phase": named, "comment": comment})


async def _edit(task_id: str, service: "Service") -> None:
    """Let a person edit the plan that waits, and approve what was saved."""
    from baton.status import approval_of
    from cli.plan_editor import Unchanged, edit_until_taken, plan_text
    from cli.tasks import SENT_ONLY

    task, look = await _task(task_id, service)
    if look.hint:
        raise Refused("the plan cannot be edited while no worker answers; see: orchestrate up")
    if approval_of(look.status.attention, "planning") is None:
        raise Refused(_nothing_asked("no approval of planning is waited for", look.status))
    over = [step.step for step in look.status.steps if step.state not in {"pending", "running"}]
    answers: list[str] = []

    async def taken(plan: dict[str, Any]) -> str | None:
        try:
            answer = await task.tell("revise_plan", plan | {"approve": True}, limit=_CHECK_LIMIT)
        except Refused as refused:
            return str(refused)
        answers.append(answer or f"the plan {SENT_ONLY}")
        return None

    try:
        if not await edit_until_taken(plan_text(await task.whole_plan(), over), taken):
            show([Line(f"{task_id}: the file was emptied; the plan still waits for approval")])
            return
    except Unchanged:
        await _tell(task, look, "approve", {"phase": "planning", "comment": ""})
        return
    show([Line(f"{task_id}: {answers[-1]}")])


async def _answer(task_id: str, service: "Service", attention_id: str, choice: str, comment: str) -> None:
    task, look = await _task(task_id, service)
    item = next((item for item in look.status.attention if item.id == attention_id), None)
    if not look.hint and item is None:
        raise Refused(_nothing_asked(f"{attention_id!r} is not asked", look.status))
    await _tell(task, look, "answer", {"attention_id": attention_id, "choice": choice, "comment": comment})


async def _steer(task_id: str, service: "Service", act: str, payload: dict[str, Any]) -> None:
    task, look = await _task(task_id, service)
    await _tell(task, look, act, payload)


async def _tell(task: "Task", look: "Look", act: str, payload: dict[str, Any]) -> None:
    """Tell the task, and say what it answered; while the worker is away it gets a signal, and that is said."""
    from cli.tasks import SENT_ONLY

    answer = await task.tell(act, payload, worker_away=bool(look.hint))
    if answer is None:
        answer = f"{act} {SENT_ONLY}"
    show([Line(f"{task.task_id}: {answer}")])


def _nothing_asked(what: str, status: "TaskStatus") -> str:
    from cli.progress import answers

    if not status.attention:
        return f"{what}: the task {status.task_id} waits for nobody"
    commands = [command for item in status.attention for command in answers(status.task_id, item)]
    return f"{what}; what is asked can be answered with: {' | '.join(commands)}"

"""Following a task until it ends: a live view on a terminal, one plain line per event when piped.

Following only looks: ending it in any way leaves the task as it is.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

import typer

from baton.states import TaskState
from cli.dialog import Dialog, Reply
from cli.exits import Refused, ServiceError
from cli.keys import keys
from cli.look import Look
from cli.progress import news, news_line, progress_within
from cli.tasks import SENT_ONLY, Ending, Task
from cli.terminal import console, is_terminal, plain, styled

if TYPE_CHECKING:
    from rich.console import RenderableType

POLL_SECONDS = 0.5
REFRESHES_PER_SECOND = 4


class View(Protocol):
    """Where looks go."""

    def take(self, look: Look) -> None: ...


class PlainView:
    """One timestamped line per event."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._before: Look | None = None

    def take(self, look: Look) -> None:
        """Write what is new."""
        for at, text in news(self._before, look, datetime.now(UTC)):
            self._write(plain(news_line(at, text)))
        self._before = look


class LiveView:
    """The tree, drawn again several times a second, so that clocks run and a resize is followed."""

    def __init__(self, dialog: Dialog | None = None) -> None:
        self._look: Look | None = None
        self._dialog = dialog

    def take(self, look: Look) -> None:
        """Show this from now on."""
        self._look = look
        if self._dialog is not None:
            self._dialog.about(look.status.attention)

    def draw(self) -> "RenderableType":
        """The tree now, in the rows that the terminal has."""
        from rich.console import Group

        if self._look is None:
            return ""
        out, below = console(), self._dialog.lines() if self._dialog is not None else []
        lines = progress_within(self._look, datetime.now(UTC), out.width, out.height - 1 - len(below))
        return Group(*(styled(line) for line in [*lines, *below]))


async def follow(task: Task, *, patient: bool, view: View) -> tuple[Look, Ending | None]:
    """Look again and again until the task has ended; unless `patient`, also until it waits for a person (no ending).

    Without a worker the server knows that a task waits, but not what for: then it is looked for until one is back.
    """
    look: Look | None = None
    while True:
        look = await task.look(look)
        view.take(look)
        if look.closed:
            return look, await task.ending()
        if not patient and look.status.state is TaskState.WAITING and look.status.attention:
            return look, None
        await asyncio.sleep(POLL_SECONDS)


async def follow_here(task: Task, *, machine: bool = False, patient: bool = False) -> tuple[Look, Ending | None]:
    """Follow in the way that fits standard output: on a terminal, or `patient`, also while a person is waited for.

    `machine`: standard output is kept free for JSON, lines go to standard error.
    """
    if machine or not is_terminal():
        view = PlainView(lambda text: typer.echo(text, err=machine))
        return await follow(task, patient=patient, view=view)
    dialog, answers = Dialog(), set[asyncio.Task[None]]()

    def pressed(key: str) -> None:
        if (reply := dialog.press(key)) is not None:
            answer = asyncio.create_task(_send(task, reply, dialog))
            answers.add(answer)
            answer.add_done_callback(answers.discard)

    with keys(pressed) as there_are_keys:
        live = LiveView(dialog if there_are_keys else None)
        with _live(live):
            return await follow(task, patient=True, view=live)


async def _send(task: Task, reply: Reply, dialog: Dialog) -> None:
    """Tell the task what was answered with keys, and the person what it says."""
    given = {"attention_id": reply.item.id, "choice": reply.choice, "comment": reply.comment}
    try:
        said = await task.tell("answer", given)
    except (Refused, ServiceError) as error:
        dialog.say(str(error))
    else:
        dialog.say(said or f"it {SENT_ONLY}")


async def accepted(task: Task, limit_seconds: float = 10) -> Ending | None:
    """Wait until the task's input was found good, at most so long. The ending where it has ended by then."""
    look: Look | None = None
    for _ in range(int(limit_seconds / POLL_SECONDS)):
        look = await task.look(look)
        if look.closed:
            return await task.ending()
        if look.status.phase not in {"starting", "opening"}:
            return None
        await asyncio.sleep(POLL_SECONDS)
    return None


def _live(view: LiveView) -> AbstractContextManager[object]:
    from rich.live import Live

    out = console()
    if not out.is_terminal:
        return nullcontext()
    return Live(
        get_renderable=view.draw, console=out, refresh_per_second=REFRESHES_PER_SECOND, transient=True, screen=False
    )

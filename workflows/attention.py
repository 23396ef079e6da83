"""What waits for a person: each item is visible until it is answered, and waits as long as it takes (invariant 9)."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from baton.progress import Answer, Progress
    from baton.status import AttentionItem, Wait
    from workflows.log import say

REJECTIONS_KEPT = 20
WAITS_KEPT = 100


class HeldBack(Exception):  # noqa: N818 - no fault: what comes next belongs to the next run of the workflow
    """The task goes on in a new run first."""


class Attention:
    """Open questions and their answers. `changed` is called whenever the list changes; `must_end` tells when nobody may
    wait any longer, because the task is to go on in a new run: there the same question is asked again, with its id."""

    def __init__(self, changed: Callable[[], None], must_end: Callable[[], bool]) -> None:
        self._changed = changed
        self._must_end = must_end
        self._carried: set[str] = set()
        self._open: dict[str, AttentionItem] = {}
        self.answers: dict[str, Answer] = {}
        self.asked = 0
        self.rejected: list[str] = []
        self.waits: tuple[Wait, ...] = ()

    @property
    def items(self) -> tuple[AttentionItem, ...]:
        """What is open now."""
        return tuple(self._open.values())

    def put(self, kind: str, question: str, choices: tuple[str, ...], **where: Any) -> str:
        """Open a question; returns its id."""
        self.asked += 1
        item = AttentionItem(
            id=f"{kind}-{self.asked}", kind=kind, question=question, choices=choices, since=workflow.now(), **where
        )
        self._open[item.id] = item
        say(f"waits for a person: {item.id}: {question}", step=item.step)
        self._changed()
        return item.id

    def take_up(self, progress: Progress) -> None:
        """Questions of the run before are open again; whoever asks one of them finds it, and its answer."""
        self._open = {item.id: item for item in progress.status.attention if not item.workflow_id}
        self._carried = set(self._open)
        self.answers = dict(progress.answers)
        self.asked = progress.asked
        self.rejected = list(progress.status.rejected_signals)
        self.waits = progress.status.waits

    async def ask(
        self, kind: str, question: str, choices: tuple[str, ...], *, stays: bool = False, **where: Any
    ) -> Answer:
        """Open a question and wait for its answer. Raises `HeldBack` where the wait goes on in a new run; with `stays`
        it never does."""
        name = self._again(kind, where) or self.put(kind, question, choices, **where)
        try:
            await workflow.wait_condition(lambda: name in self.answers or (not stays and self._must_end()))
        except (asyncio.CancelledError, Exception):  # not GeneratorExit: an evicted run is thrown away, no more
            self.drop(name)
            raise
        if name not in self.answers:
            raise HeldBack
        self.drop(name)
        return self.answers.pop(name)

    def is_open(self, kind: str) -> bool:
        """Whether a question of this kind was carried over and nobody waits for it yet."""
        return any(self._open[name].kind == kind for name in self._carried if name in self._open)

    def _again(self, kind: str, where: dict[str, Any]) -> str | None:
        for name in sorted(self._carried):
            item = self._open.get(name)
            if item and (item.kind, item.step, item.phase) == (kind, where.get("step"), where.get("phase")):
                self._carried.discard(name)
                return name
        return None

    def take(self, name: str) -> None:
        """The answer was passed on to whoever asked."""
        self.answers.pop(name, None)
        self.drop(name)

    def drop(self, name: str) -> None:
        """The question needs no answer any more."""
        item = self._open.pop(name, None)
        if item is not None:
            self.waited(item.kind, item.since, step=item.step, phase=item.phase)
            self._changed()

    def waited(self, kind: str, since: datetime, **where: Any) -> None:
        """A wait is over."""
        wait = Wait(kind=kind, since=since, until=workflow.now(), **where)
        self.waits = (*self.waits, wait)[-WAITS_KEPT:]

    def answer(self, name: str, choice: str, comment: str) -> AttentionItem | None:
        """Take an answer; None when it makes no sense now, which is noted."""
        if (fault := self.fault(name, choice)) is not None:
            self.reject(fault)
            return None
        self.answers[name] = Answer(choice=choice, comment=comment)
        # Not the comment: what people write may hold a secret.
        say(f"a person answered {name}: {choice}", step=self._open[name].step)
        return self._open[name]

    def end(self, name: str, choice: str) -> None:
        """Answer what is open by something that is none of its choices: whoever asked knows what it means."""
        self.answers[name] = Answer(choice=choice)

    def numbered(self, name: str, choice: str) -> str:
        """The choice that a number stands for, counted from 1; `choice` itself where it is none."""
        choices = self._open[name].choices if name in self._open else ()
        number = int(choice) if choice.isdecimal() and choice not in choices else 0
        return choices[number - 1] if 0 < number <= len(choices) else choice

    def fault(self, name: str, choice: str) -> str | None:
        """Why this answer makes no sense now, or None."""
        item = self._open.get(name)
        if item is None:
            return f"answer to {name!r}: there is no such question; open are: {', '.join(self._open) or 'none'}"
        if choice not in item.choices:
            return f"answer {choice!r} to {name}: the choices are {', '.join(item.choices)}"
        return None

    def reject(self, text: str) -> None:
        """Note a signal that made no sense."""
        say("what somebody told the task was refused; its status says why")
        self.rejected = [*self.rejected, text[:300]][-REJECTIONS_KEPT:]
        self._changed()

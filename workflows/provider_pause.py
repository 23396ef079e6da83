"""What an agent does while no model call may leave: it waits durably, and asks again now and then.

The quota workflow tells the end of a pause; asking again is what helps when that word is lost, or when another key is
used by then. No model call is made for it: the gate answers.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from baton.quota import Pause

ASK_AGAIN = {"usage": timedelta(minutes=15), "person": timedelta(hours=1)}
"""The gate is asked so often whether the pause still holds."""


class ProviderPause:
    """The pause that holds one agent, if one does. `told`: the one that others were told of and that holds still."""

    def __init__(self) -> None:
        self._released = False
        self.told: Pause | None = None

    def release(self) -> None:
        """The quota workflow says that it is over."""
        self._released = True

    def is_news(self, pause: Pause) -> bool:
        """Whether the parent does not know of this pause yet; from now on it does."""
        before, self.told = self.told, pause if pause.kind != "busy" else self.told
        return pause.kind != "busy" and before != pause

    def is_over(self) -> bool:
        """Whether the parent was told of a pause that has ended; told once."""
        pause = self.told
        ended = pause is not None and (self._released or (pause.until is not None and pause.until <= workflow.now()))
        self.told = None if ended else pause
        return ended

    def answers(self) -> bool:
        """A call was answered; whether others still think that it is paused."""
        told, self.told = self.told, None
        return told is not None

    async def wait_out(self, pause: Pause, must_end: Callable[[], bool]) -> None:
        """Until the pause ends, it is time to ask again, or the agent has something else to do."""
        self._released = False
        if pause.workflow_id:
            try:
                held = workflow.get_external_workflow_handle(pause.workflow_id)
                await held.signal("wait_for", workflow.info().workflow_id)
            except ApplicationError:
                self._released = True
        limits = [ASK_AGAIN[pause.kind]] if pause.kind in ASK_AGAIN else []
        if pause.until is not None:
            limits.append(max(pause.until - workflow.now(), timedelta(seconds=1)))
        with suppress(TimeoutError):
            await workflow.wait_condition(lambda: self._released or must_end(), timeout=min(limits, default=None))

    async def lift(self, pause: Pause) -> None:
        """A person helped: the pause is over for everyone."""
        if pause.workflow_id:
            with suppress(ApplicationError):
                await workflow.get_external_workflow_handle(pause.workflow_id).signal("release", pause)
        self._released = True


def pause_of(error: ActivityError) -> Pause:
    """The pause that a failed activity tells of."""
    details = error.cause.details if isinstance(error.cause, ApplicationError) else ()
    return Pause.model_validate(details[0])

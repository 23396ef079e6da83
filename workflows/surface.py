"""What a person may tell a running task: each act is checked first, then done, for signals and updates alike.

A signal that makes no sense now changes nothing and is noted in the status; an update of it is refused at once. What
has the form of a token is masked before anything else sees it; values that only a host knows are masked there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from baton.messages import Direction
    from baton.names import BAD_INPUT
    from baton.plan import PlanDraft
    from baton.redaction import masked_value
    from baton.status import OWN_WORDS, approval_of
    from baton.steering import Remark, given_limits, given_object, given_plan, given_remark
    from baton.wording import counted
    from workflows.failures import reason_of
    from workflows.limits import RAISE, Directions
    from workflows.planning import NO_PLAN_WAITS, Planning
    from workflows.task_run import TaskRun


@dataclass(frozen=True)
class Act:
    """Something that may be done now. `change` does it and says what to pass on to agents; `said` tells a person."""

    said: str
    change: Callable[[], Directions]


class Surface:
    """The acts of one task, by the names of their signals."""

    def __init__(self, run: TaskRun, planning: Planning) -> None:
        self._run = run
        self._planning = planning
        self._acts: dict[str, Callable[[dict[str, Any]], Act]] = {
            "approve": lambda given: self._decide("approve", given),
            "reject": lambda given: self._decide("reject", given),
            "answer": self._answer,
            "pause": lambda given: self._pause(paused=True),
            "unpause": lambda given: self._pause(paused=False),
            "guide": self._guide,
            "set_limits": self._set_limits,
        }

    def check(self, name: str, request: Any) -> None:
        """Refuse an update that makes no sense now."""
        try:
            self._act(name, request)
        except ValueError as error:
            raise _refused(str(error)) from error

    async def update(self, name: str, request: Any) -> str:
        """Do what was checked; says what was done."""
        try:
            act = self._act(name, request)
        except ValueError as error:
            raise _refused(str(error)) from error
        await self._pass_on(act.change())
        return act.said

    async def signal(self, name: str, request: Any) -> None:
        """Do it, or note why not."""
        await self._pass_on(self.at_once(name, request))

    def at_once(self, name: str, request: Any) -> Directions:
        """Do it, or note why not; what is to be passed on."""
        try:
            return self._act(name, request).change()
        except ValueError as error:
            self._run.attention.reject(str(error))
            return ()

    def check_plan(self, request: Any) -> None:
        """Refuse another plan that makes no sense now; its faults against the repository are found later."""
        try:
            self._draft(request)
        except ValueError as error:
            raise _refused(str(error)) from error

    async def revise(self, request: Any) -> str:
        """Put another plan in the place of the one that waits for approval. Raises where it has faults."""
        try:
            draft, approve = self._draft(request)
            await self._planning.replace(draft, approve=approve)
        except ValueError as error:
            raise _refused(str(error)) from error
        except ActivityError as error:
            raise _refused(reason_of(error)) from error
        return "the plan was replaced" + (" and approved" if approve else "; it waits for approval")

    async def revise_by_signal(self, request: Any) -> None:
        """The same, a plan with faults is noted."""
        try:
            await self.revise(request)
        except ApplicationError as error:
            self._run.attention.reject(error.message)

    def _draft(self, request: Any) -> tuple[PlanDraft, bool]:
        draft, approve = given_plan(masked_value(given_object("revise_plan", request)))
        if not self._planning.waits():
            raise ValueError(NO_PLAN_WAITS)
        return draft, approve

    async def _pass_on(self, directions: Directions) -> None:
        for workflow_id, direction in directions:
            await self._run.chains.direct(workflow_id, direction)

    def _act(self, name: str, request: Any) -> Act:
        return self._acts[name](masked_value(given_object(name, request)))

    def _decide(self, choice: str, given: dict[str, Any]) -> Act:
        attention = self._run.attention
        asked = [item.phase for item in attention.items if item.kind == "approval" and item.phase]
        phase = str(given.get("phase") or next(iter(asked), "planning"))
        item = approval_of(attention.items, phase)
        if item is None:
            raise ValueError(f"{choice} of phase {phase!r}: no such approval is waited for")
        name, comment = item.id, str(given.get("comment") or "")

        def change() -> Directions:
            attention.answer(name, choice, comment)
            return ()

        return Act(f"{phase}: {choice} was taken", change)

    def _answer(self, given: dict[str, Any]) -> Act:
        attention = self._run.attention
        name, choice = str(given.get("attention_id", "")), str(given.get("choice", ""))
        comment = str(given.get("comment") or "")
        choice = attention.numbered(name, choice)
        if (fault := attention.fault(name, choice)) is not None:
            raise ValueError(fault)
        asked = next(item for item in attention.items if item.id == name)
        if asked.kind == "limit":
            return self._answer_limit(choice, comment)
        if asked.kind == "question" and choice == OWN_WORDS and not comment.strip():
            raise ValueError(f"answer to {name}: {OWN_WORDS} needs your own words in the comment")
        told = _in_words(choice, comment) if asked.kind == "question" else choice

        if self._run.account.holds(name):
            return Act(f"{name}: {choice} was taken", lambda: self._run.account.answered(choice))

        def change() -> Directions:
            item = attention.answer(name, choice, comment)
            if item is None or not item.workflow_id:
                return ()
            attention.take(name)
            return ((item.workflow_id, Direction(kind="choice", text=told)),)

        return Act(f"{name}: {choice} was taken", change)

    def _answer_limit(self, choice: str, comment: str) -> Act:
        limits = self._run.limits
        if choice == RAISE:
            limits.raised(comment)
        return Act(f"limit: {choice} was taken", lambda: limits.take(choice, comment))

    def _pause(self, *, paused: bool) -> Act:
        run = self._run
        if run.status.paused == paused:
            raise ValueError(f"{'pause' if paused else 'unpause'}: it is {'' if paused else 'not '}paused")

        def change() -> Directions:
            (run.pause if paused else run.end_pause)()
            run.happened("paused: the agents hand off and wait" if paused else "goes on after the pause")
            direction = Direction(kind="pause" if paused else "unpause")
            return tuple((agent.workflow_id, direction) for agent in run.status.agents_at_work)

        return Act("paused: the agents hand off and wait" if paused else "the task goes on", change)

    def _guide(self, given: dict[str, Any]) -> Act:
        run = self._run
        remark = given_remark(given)
        self._check_remark(remark)
        chosen = run.chains.names(remark.step)

        def change() -> Directions:
            run.guidance.append(remark)
            run.happened("guidance" + (f" for step {remark.step}" if remark.step is not None else "") + " was given")
            return tuple((name, Direction(kind="guidance", text=remark.text)) for name in chosen)

        later = "and every agent that starts later" if remark.step is None else "and whoever works on it later"
        return Act(f"{counted(len(chosen), 'agent')} at work will see it on the next turn, {later}", change)

    def _check_remark(self, remark: Remark) -> None:
        run = self._run
        if remark in run.guidance:
            raise ValueError("guide: the same remark was given before")
        if remark.step is None:
            return
        if remark.step not in {step.step for step in run.status.steps}:
            known = ", ".join(str(step.step) for step in run.status.steps) or "none yet"
            raise ValueError(f"guide: there is no step {remark.step}; the steps are: {known}")
        if remark.step in run.results:
            raise ValueError(f"guide: step {remark.step} is over ({run.results[remark.step].status})")

    def _set_limits(self, given: dict[str, Any]) -> Act:
        change = given_limits(given)
        if not self._run.is_open:
            raise ValueError("set_limits: the task is not open yet; try again in a moment")

        return Act(f"limits: {change.told()}", lambda: self._run.set_limits(change))


def _in_words(choice: str, comment: str) -> str:
    """The answer to a model's question."""
    said = comment.strip()
    return said if choice == OWN_WORDS else f"{choice}. {said}" if said else choice


def _refused(why: str) -> ApplicationError:
    return ApplicationError(why, type=BAD_INPUT, non_retryable=True)

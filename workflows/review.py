"""The supervision of a chain's work, before it is merged: reviews in fresh contexts, retries, a person's decision.

The executor keeps its workspace over all rounds. What a review took up is kept with the chain's end, so that it goes on
there in a new run of the workflow.
"""

import asyncio
from collections.abc import Callable
from decimal import Decimal

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from baton.assignments import reviewer_assignment
    from baton.messages import AgentResult, Assignment
    from baton.plan import Plan, PlanStep
    from baton.pricing import Usage
    from baton.reviews import CHOICES, FAIL, RETRY, Decision, Review, Subject, subjects, synthesis
    from baton.roles import Role
    from baton.schedule import Unit
    from baton.supervision import after_retry, failed_by_review, review_reasons, sent_back, subject, with_review
    from workflows.task_run import TaskRun
    from workflows.versions import REVIEWS
    from workflows.waits import in_slot

SHARE = Decimal("0.05")
"""Of what is left of the limits, for each reviewer at first; it may ask for more."""


Assign = Callable[[PlanStep, Unit, str], Assignment]
"""The assignment of a chain's first executor, of this step and unit, begun at this commit."""


class Supervision:
    """Reviews within the execution of one plan. `slots`: what agents at work take one of."""

    def __init__(self, run: TaskRun, plan: Plan, slots: asyncio.Semaphore, assignment: Assign) -> None:
        self._run = run
        self._plan = plan
        self._slots = slots
        self._assignment = assignment

    async def settled(self, step: PlanStep, unit: Unit, start: str, result: AgentResult) -> AgentResult:
        """The chain's result once nothing more is to be said of it. Raises `HeldBack`."""
        run = self._run
        while not result.reviewed:
            reasons = review_reasons(run.opened.settings.review, step, result)
            if not reasons or not workflow.patched(REVIEWS):
                return result
            run.chain_ends[unit.label] = result
            review, usage = await self._review(step, unit, result, subject(step, result, start, reasons))
            result = with_review(result, review, usage)
            run.chain_ends[unit.label] = result
            if review.decision is Decision.ESCALATED:
                review = await self._decided_by_a_person(step, review)
                result = result.model_copy(update={"reviews": (*result.reviews[:-1], review)})
            run.happened(_told(unit, review))
            self._adjust(review)
            if review.decision is Decision.RETRY or review.answer == RETRY:
                result = await self._again(step, unit, start, result, review)
                continue
            if review.answer == FAIL:
                result = failed_by_review(result, review.feedback)
            result = result.model_copy(update={"reviewed": True})
        run.chain_ends[unit.label] = result
        return result

    async def _review(self, step: PlanStep, unit: Unit, result: AgentResult, about: Subject) -> tuple[Review, Usage]:
        """One round: every view in a context of its own, side by side as far as there are slots."""
        views = subjects(about, self._run.opened.settings.review_lenses)
        number = len(result.reviews) + 1
        of_lenses = [f"-{position}" if view.lens else "" for position, view in enumerate(views, 1)]
        looks = [
            asyncio.create_task(self._look(step, unit, result.commit, view, number, lens))
            for view, lens in zip(views, of_lenses, strict=True)
        ]
        try:
            ends = await asyncio.gather(*looks)
        except (asyncio.CancelledError, Exception):  # not GeneratorExit: an evicted run is thrown away, no more
            for look in looks:
                look.cancel()
            await asyncio.gather(*looks, return_exceptions=True)
            raise
        retries = sum(review.decision is Decision.RETRY for review in result.reviews)
        verdicts = [
            (view.lens or "", end.submission.input if end is not None and end.submission is not None else None)
            for view, end in zip(views, ends, strict=True)
        ]
        usage = sum((end.totals.usage for end in ends if end is not None), Usage())
        return synthesis(verdicts, about.reasons, retries), usage

    async def _look(
        self, step: PlanStep, unit: Unit, commit: str, view: Subject, number: int, lens: str
    ) -> AgentResult | None:
        """One reviewer's work; None where none may start."""
        run = self._run
        name = f"reviewer-{unit.label}{lens}" + (f"-{number}" if number > 1 else "")
        async with in_slot(self._slots) as waited:
            if await run.limits.hindrance(Role.REVIEWER) is not None:
                return None
            place = f"{self._assignment(step, unit, view.since).workspace}-review{lens}-{number}"
            assignment = reviewer_assignment(run.task_id, run.input, run.opened, step, commit, view, name, place)
            return await run.chains.run(assignment, f"{run.task_id}/step-{unit.label}/review{lens}", SHARE, waited)

    async def _again(self, step: PlanStep, unit: Unit, start: str, result: AgentResult, review: Review) -> AgentResult:
        """The work done again by the feedback; as it was, and partial, where no executor may start."""
        run = self._run
        async with in_slot(self._slots) as waited:
            hindrance = await run.limits.hindrance()
            if hindrance is not None:
                why = f"sent back by a review ({review.feedback[:300]}); {hindrance}"
                return failed_by_review(result, why).model_copy(update={"reviewed": True, "rejected": False})
            assignment = sent_back(self._assignment(step, unit, start), result, review, workflow.now())
            again = await run.chains.run(assignment, f"{run.task_id}/step-{unit.label}", waited=waited)
        run.knowledge = run.knowledge.with_entries(again.knowledge.entries[len(assignment.knowledge.entries) :])
        return after_retry(result, again)

    async def _decided_by_a_person(self, step: PlanStep, review: Review) -> Review:
        """What a person makes of a verdict that is neither an approval nor a retry that is left."""
        question = f"The review of step {step.step} does not approve it: {review.feedback[:1000]}"
        answer = await self._run.attention.ask("review", question, CHOICES, stays=True, step=step.step)
        feedback = "\n".join(filter(None, (answer.comment, review.feedback)))
        return review.model_copy(update={"answer": answer.choice, "feedback": feedback})

    def _adjust(self, review: Review) -> None:
        """A wish about later steps means a new plan for what has not begun: checked, and approved where that is set."""
        run = self._run
        later = [s for s in self._plan.plan if s.step not in run.results and s.step not in run.starts]
        if review.plan_adjustments and later and run.keeps_progress and run.may_replan:
            run.replan_wanted = True
            run.happened(f"a reviewer wants later steps to change: {review.plan_adjustments[0][:200]}")


def _told(unit: Unit, review: Review) -> str:
    score = "" if review.score is None else f", score {review.score}"
    word = str(review.answer or review.decision).replace("_", " ")
    return f"review of step {unit.label}: {word}{score} ({'; '.join(review.reasons)[:200]})"

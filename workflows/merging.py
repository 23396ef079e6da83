"""The merge queue: one merge at a time, in plan order among the steps that are ready, cheap gates after each. Where no
gates run between them, all that wait are merged by one activity, and each stays a commit of its own. What does not
merge goes to a resolver or a person (`settlement`)."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from baton.findings import GateResult, GateSpec, GateVerdict, VerdictStatus, compare
    from baton.merging import Conflict, cheap_gates, whose
    from baton.messages import MergedStep, MergeStep
    from baton.plan import Plan, execution_order
    from workflows.settlement import Redo, Settlement, Work
    from workflows.task_run import TaskRun
    from workflows.versions import AFTER_MERGES, INTEGRATOR_CONFLICT, MERGE_QUEUE, MERGED_TOGETHER, RESULT_SEEN
    from workflows.waits import waited


BETWEEN_MERGES = "gates"
"""The workspace of the gates between merges."""


@dataclass(eq=False)
class _Turn:
    """Somebody's turn, by its place in the queue. `work`: what may be merged with that of others, and `merged` what
    became of it in the turn of another; `is_merged_now` while that goes on."""

    place: tuple[int, int]
    since: datetime
    work: Work | None = None
    merged: MergedStep | None = None
    is_merged_now: bool = False


class MergeQueue:
    """Merges the steps of one plan. `slots`: what agents at work take one of. `known`: what the gates say of the
    result, where that is known; else the baseline is."""

    def __init__(self, run: TaskRun, plan: Plan, slots: asyncio.Semaphore, known: tuple[GateResult, ...] = ()) -> None:
        self.run, self.plan, self.slots = run, plan, slots
        self._checks = workflow.patched(MERGE_QUEUE)
        order = execution_order(plan) if self._checks else ()
        self._position = {number: position for position, number in enumerate(order)}
        self._waiting: list[_Turn] = []
        self._arrived = 0
        self._is_taken = False

    async def merge(self, work: Work) -> MergedStep | Redo:
        """Put the work on the result."""
        waiting = self.run.conflicts.get(work.step) if work.step is not None else None
        if waiting is not None:
            # A person was asked in an earlier run of the workflow.
            merged = _unmerged(self.run.head, waiting.prepared.conflict)
        else:
            merged = await self.merge_now(work)
            if merged.conflict is None or workflow.cancellation_reason() is not None:
                return merged
            if work.step is None and not workflow.patched(INTEGRATOR_CONFLICT):
                return merged
            self.run.happened(f"{whose(work.step)} does not merge: {merged.conflict.described()}")
        try:
            return await Settlement(self, work).run(waiting)
        except asyncio.CancelledError:
            return merged
        except ActivityError as error:
            if is_cancelled_exception(error):
                return merged
            raise

    async def merge_now(self, work: Work, checked_on: str | None = None) -> MergedStep:
        """One merge in its turn, or in that of another, and the gates after it; none after the integrator's, which all
        gates follow. A resolution is merged by itself: `checked_on` names the head of the result on which gates passed
        for it, if they did, and where that is the same still no others run."""
        is_alone = work.step is None or checked_on is not None
        async with self._turn(work.step or 0, None if is_alone else work) as turn:
            if turn.merged is not None:
                return turn.merged
            if (others := self._others(turn)) and workflow.patched(MERGED_TOGETHER):
                return await self._merge_together(turn, others)
            before = self.run.head
            merged = await self.run.host.merge(self._to_merge(work, turn))
            if merged.merged and work.step is not None and self._checks and checked_on != before:
                await self._check((work.step,), merged.commit)
        return merged

    def _others(self, turn: _Turn) -> list[_Turn]:
        """Who else waits and may be merged in this turn: those who come next, where no gates would run in between."""
        if turn.work is None or not self._checks or self._cheap_gates():
            return []
        return list(takewhile(lambda other: other.work is not None, sorted(self._waiting, key=lambda one: one.place)))

    async def _merge_together(self, turn: _Turn, others: Sequence[_Turn]) -> MergedStep:
        """Merge all of these. Those of whom the activity does not tell stay in the queue; where it fails, that is the
        first one's failure, and all others stay there."""
        requests = [self._to_merge(one.work, one) for one in (turn, *others) if one.work is not None]
        for other in others:
            other.is_merged_now = True
        try:
            together = await self.run.host.merge_together(requests)
            for other, merged in zip(others, together[1:], strict=False):
                other.merged = merged
            if steps := [request.step for request, one in zip(requests, together, strict=False) if one.merged]:
                await self._check(steps, self.run.head)
        finally:
            for other in others:
                other.is_merged_now = False
        return together[0]

    def _to_merge(self, work: Work, turn: _Turn) -> MergeStep:
        return self.run.host.to_merge(work.branches, work.step, work.subject, waited("merge_queue", turn.since))

    async def _check(self, merged: Collection[int | None], commit: str) -> None:
        """The cheap gates after steps were merged; not after the last ones, since all gates follow on that very
        commit."""
        run = self.run
        others = (one.step for one in self.plan.plan if one.step not in merged)
        goes_on = run.replan_wanted or run.renewal_due or any(other not in run.results for other in others)
        if not goes_on and workflow.patched(AFTER_MERGES):
            return
        results, _ = await self._gates(commit)
        run.checked(results)

    async def new_failures(self, commit: str) -> tuple[GateVerdict, ...]:
        """Cheap gates that newly fail on a commit that is not on the result. Waits for the baseline. Where merges came
        that these gates have not seen, they run on the result too: what fails there is no fault of the commit."""
        if self.run.opened.gates:
            await workflow.wait_condition(lambda: self.run.baseline is not None)
        results, known = await self._gates(commit)
        failing = _failing(known, results)
        if self.run.trail.unseen(one.name for one in failing) and workflow.patched(RESULT_SEEN):
            async with self._turn(0, None):
                on_result, _ = await self._gates(self.run.head)
                self.run.checked(on_result)
            failing = _failing(self.run.trail.known([one.name for one in results], self.run.baseline or ()), results)
        return failing

    async def _gates(self, commit: str) -> tuple[tuple[GateResult, ...], tuple[GateResult, ...]]:
        """What the cheap gates say of a commit, and what they said of the result before. Which ones are cheap is known
        from the baseline: until it is there, nothing runs."""
        run, baseline, chosen = self.run, self.run.baseline or (), self._cheap_gates()
        known = run.trail.known([gate.name for gate in chosen], baseline)
        if not chosen:
            return (), known
        return (await run.host.gates(commit, BETWEEN_MERGES, known, chosen=chosen)).results, known

    def _cheap_gates(self) -> tuple[GateSpec, ...]:
        return cheap_gates(self.run.opened.gates, self.run.baseline or ())

    @asynccontextmanager
    async def _turn(self, step: int, work: Work | None) -> AsyncIterator[_Turn]:
        """Wait for a turn and hold it; or, where `merged` is there, for the end of the turn in which that came."""
        self._arrived += 1
        turn = _Turn((self._position.get(step, 0), self._arrived), workflow.now(), work)
        self._waiting.append(turn)
        try:
            await self._come(turn)
        finally:
            self._waiting.remove(turn)
        try:
            yield turn
        finally:
            if turn.merged is None:
                self._is_taken = False

    async def _come(self, turn: _Turn) -> None:
        try:
            await workflow.wait_condition(lambda: not turn.is_merged_now and self._is_over_or_next(turn))
        except asyncio.CancelledError:
            if turn.is_merged_now:
                # What comes onto the result all the same is counted.
                await workflow.wait_condition(lambda: not turn.is_merged_now)
            if turn.merged is None:
                raise
        if turn.merged is None:
            self._is_taken = True

    def _is_over_or_next(self, turn: _Turn) -> bool:
        return turn.merged is not None or (
            not self._is_taken and turn.place == min(one.place for one in self._waiting if one.merged is None)
        )


def _failing(known: tuple[GateResult, ...], now: tuple[GateResult, ...]) -> tuple[GateVerdict, ...]:
    return tuple(one for one in compare(known, now) if one.status is VerdictStatus.NEW_FAILURE)


def _unmerged(head: str, conflict: Conflict | None) -> MergedStep:
    """A step whose conflict was known before."""
    names = tuple(path.path for path in conflict.paths) if conflict is not None else ()
    return MergedStep(commit=head, merged=False, conflicts=names, conflict=conflict)

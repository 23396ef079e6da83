"""The merge queue: one merge at a time, in plan order among the steps that are ready, cheap gates after each. What does
not merge goes to a resolver or a person (`settlement`)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from baton.findings import GateResult, GateVerdict, VerdictStatus, compare
    from baton.merging import Conflict, cheap_gates, whose
    from baton.messages import MergedStep
    from baton.plan import Plan, execution_order
    from workflows.settlement import Redo, Settlement, Work
    from workflows.task_run import TaskRun
    from workflows.versions import AFTER_MERGES, INTEGRATOR_CONFLICT, MERGE_QUEUE, RESULT_SEEN
    from workflows.waits import waited


BETWEEN_MERGES = "gates"
"""The workspace of the gates between merges."""


class MergeQueue:
    """Merges the steps of one plan. `slots`: what agents at work take one of. `known`: what the gates say of the
    result, where that is known; else the baseline is."""

    def __init__(self, run: TaskRun, plan: Plan, slots: asyncio.Semaphore, known: tuple[GateResult, ...] = ()) -> None:
        self.run, self.plan, self.slots = run, plan, slots
        self._checks = workflow.patched(MERGE_QUEUE)
        order = execution_order(plan) if self._checks else ()
        self._position = {number: position for position, number in enumerate(order)}
        self._waiting: list[tuple[int, int]] = []
        self._arrived = 0
        self._merging = False

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

    async def merge_now(self, work: Work, checked_on: str = "") -> MergedStep:
        """One merge in its turn, and the gates after it; none when they passed for the same files (`checked_on`: the
        head of the result then), and none after the integrator's, which all gates follow."""
        since = workflow.now()
        async with self._turn(work.step or 0):
            before = self.run.head
            held_up = waited("merge_queue", since)
            merged = await self.run.host.merge(work.branches, work.step, work.subject, held_up)
            if merged.merged and work.step is not None and self._checks and checked_on != before:
                await self._check(work.step, merged.commit)
        return merged

    async def _check(self, step: int, commit: str) -> None:
        """The cheap gates after a merge; not after the last one, since all gates follow on that very commit."""
        run = self.run
        others = (one.step for one in self.plan.plan if one.step != step)
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
            async with self._turn(0):
                on_result, _ = await self._gates(self.run.head)
                self.run.checked(on_result)
            failing = _failing(self.run.trail.known([one.name for one in results], self.run.baseline or ()), results)
        return failing

    async def _gates(self, commit: str) -> tuple[tuple[GateResult, ...], tuple[GateResult, ...]]:
        """What the cheap gates say of a commit, and what they said of the result before. Which ones are cheap is known
        from the baseline: until it is there, nothing runs."""
        run, baseline = self.run, self.run.baseline or ()
        chosen = cheap_gates(run.opened.gates, baseline)
        known = run.trail.known([gate.name for gate in chosen], baseline)
        if not chosen:
            return (), known
        return (await run.host.gates(commit, BETWEEN_MERGES, known, chosen=chosen)).results, known

    @asynccontextmanager
    async def _turn(self, step: int) -> AsyncIterator[None]:
        self._arrived += 1
        ticket = (self._position.get(step, 0), self._arrived)
        self._waiting.append(ticket)
        try:
            await workflow.wait_condition(lambda: not self._merging and min(self._waiting) == ticket)
            self._merging = True
        finally:
            self._waiting.remove(ticket)
        try:
            yield
        finally:
            self._merging = False


def _failing(known: tuple[GateResult, ...], now: tuple[GateResult, ...]) -> tuple[GateVerdict, ...]:
    return tuple(one for one in compare(known, now) if one.status is VerdictStatus.NEW_FAILURE)


def _unmerged(head: str, conflict: Conflict | None) -> MergedStep:
    """A step whose conflict was known before."""
    names = tuple(path.path for path in conflict.paths) if conflict is not None else ()
    return MergedStep(commit=head, merged=False, conflicts=names, conflict=conflict)

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
    from workflows.versions import MERGE_QUEUE


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
        self._known = known

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
        async with self._turn(work.step or 0):
            before = self.run.head
            merged = await self.run.host.merge(work.branches, work.step, work.subject)
            if merged.merged and work.step is not None and self._checks and checked_on != before:
                verdicts = await self.verdicts(merged.commit, f"merged-{work.step}", patient=False)
                self.run.after_merges[work.step] = verdicts
                for verdict in verdicts:
                    if verdict.status is VerdictStatus.NEW_FAILURE:
                        self.run.happened(f"gate {verdict.name} newly fails after step {work.step} was merged")
        return merged

    async def verdicts(self, commit: str, workspace: str, *, patient: bool) -> tuple[GateVerdict, ...]:
        """What the cheap gates say of a commit, against the result before it. Which ones are cheap is known from the
        baseline: until it is there, nothing runs, unless the caller is `patient`."""
        run = self.run
        if patient and run.opened.gates:
            await workflow.wait_condition(lambda: run.baseline is not None)
        baseline = run.baseline or ()
        chosen = cheap_gates(run.opened.gates, baseline)
        if not chosen:
            return ()
        names = {gate.name for gate in chosen}
        known = tuple(result for result in self._known or baseline if result.name in names)
        now = (await run.host.gates(commit, workspace, known, chosen=chosen)).results
        if not patient:
            self._known = now
        return tuple(compare(known, now))

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


def _unmerged(head: str, conflict: Conflict | None) -> MergedStep:
    """A step whose conflict was known before."""
    names = tuple(path.path for path in conflict.paths) if conflict is not None else ()
    return MergedStep(commit=head, merged=False, conflicts=names, conflict=conflict)

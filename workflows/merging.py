"""The merge queue: one merge at a time, in plan order among the steps that are ready, cheap gates after each; and what
happens to a step that does not merge: a resolver, then a person, while other steps go on.

What stays unmerged is the outcome as `merge_step` gave it, and the step fails with it; nothing of it is reported done.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.merging import Merging
    from baton import report
    from baton.assignments import resolver_assignment
    from baton.bounds import RESOLUTIONS, RESOLVER_ROUNDS
    from baton.findings import GateResult, GateVerdict, VerdictStatus, compare
    from baton.knowledge import Decision, entries
    from baton.merging import (
        AGENT,
        CHOICES,
        REDO,
        Conflict,
        PrepareConflict,
        PreparedConflict,
        Resolution,
        SettleConflict,
        SettledConflict,
        Settling,
        cheap_gates,
        question,
        redo_guidance,
        sent_back,
        settling,
        with_intents,
    )
    from baton.messages import AgentResult, MergedStep, WaitingConflict
    from baton.plan import Plan, PlanStep, execution_order
    from baton.roles import Role
    from baton.states import AgentEnd
    from workflows import policies
    from workflows.attention import HeldBack
    from workflows.task_run import TaskRun
    from workflows.versions import MERGE_QUEUE


SHARE = Decimal("0.1")
"""The part of what is left of the limits that a resolver begins with; it asks for more when it needs more."""


@dataclass(frozen=True)
class Redo:
    """The step is to be done again on top of the present result."""

    guidance: str


class MergeQueue:
    """Merges the steps of one plan. `slots`: what agents at work take one of."""

    def __init__(self, run: TaskRun, plan: Plan, slots: asyncio.Semaphore) -> None:
        self.run, self.plan, self.slots = run, plan, slots
        self._checks = workflow.patched(MERGE_QUEUE)
        order = execution_order(plan) if self._checks else ()
        self._position = {number: position for position, number in enumerate(order)}
        self._waiting: list[tuple[int, int]] = []
        self._arrived = 0
        self._merging = False
        self._known: tuple[GateResult, ...] = ()

    async def merge(self, step: PlanStep, branches: tuple[str, ...], summary: str = "") -> MergedStep | Redo:
        """Put the step on the result. `summary`: what its agents say they did, for whoever resolves a conflict."""
        waiting = self.run.conflicts.get(step.step)
        if waiting is not None:
            # A person was asked in an earlier run of the workflow.
            merged = _unmerged(self.run.head, waiting.prepared.conflict)
        else:
            merged = await self.merge_now(step, branches)
            if merged.conflict is None or workflow.cancellation_reason() is not None:
                return merged
            self.run.happened(f"step {step.step} does not merge: {merged.conflict.described()}")
        try:
            return await _Settlement(self, step, branches, summary).run(waiting)
        except asyncio.CancelledError:
            return merged
        except ActivityError as error:
            if is_cancelled_exception(error):
                return merged
            raise

    async def merge_now(self, step: PlanStep, branches: tuple[str, ...], checked_on: str = "") -> MergedStep:
        """One merge in its turn, and the gates after it; none when they passed for the same files (`checked_on`: the
        head of the result then)."""
        async with self._turn(step.step):
            before = self.run.head
            merged = await self.run.host.merge(branches, step.step, report.commit_subject(step))
            if merged.merged and self._checks and checked_on != before:
                verdicts = await self.verdicts(merged.commit, f"merged-{step.step}", patient=False)
                self.run.after_merges[step.step] = verdicts
                for verdict in verdicts:
                    if verdict.status is VerdictStatus.NEW_FAILURE:
                        self.run.happened(f"gate {verdict.name} newly fails after step {step.step} was merged")
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
        known = self._known or tuple(result for result in baseline if result.name in names)
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


class _Settlement:
    """One step that does not merge, until it does, is done again, or is given up."""

    def __init__(self, queue: MergeQueue, step: PlanStep, branches: tuple[str, ...], summary: str) -> None:
        self._queue, self._run, self._step = queue, queue.run, step
        self._branches, self._summary = branches, summary
        self._rounds_left = RESOLVER_ROUNDS
        self._remarks: tuple[str, ...] = ()
        self._why: tuple[str, ...] = ()
        self._resolutions: tuple[Resolution, ...] = ()

    async def run(self, waiting: WaitingConflict | None) -> MergedStep | Redo:
        """Resolve and merge; a result that went on meanwhile may bring the next conflict."""
        while True:
            prepared = await self._prepare() if waiting is None else self._take_up(waiting)
            waiting = None
            if isinstance(settled := await self._settled(prepared), Redo):
                return settled
            if settled is None:
                continue
            merged = await self._queue.merge_now(self._step, self._branches, settled)
            if merged.conflict is None:
                return merged.model_copy(update={"resolutions": self._resolutions})

    async def _settled(self, prepared: PreparedConflict) -> str | Redo | None:
        """The head on which the resolution was checked, empty when it was not; None when the conflict must be laid
        out once more."""
        if prepared.conflict is None:
            return ""
        if self._rounds_left:
            self._rounds_left -= 1
            tried, resolved = await self._by_agent(prepared, prepared.conflict)
            if resolved:
                self._branches = (self._workspace, *prepared.rest)
                return "" if prepared.rest else prepared.conflict.head
            self._rounds_left = 0
            if tried:
                return None
        return await self._by_person(prepared, prepared.conflict)

    def _take_up(self, waiting: WaitingConflict) -> PreparedConflict:
        self._workspace, self._branches, self._rounds_left = waiting.workspace, waiting.branches, 0
        return waiting.prepared

    async def _prepare(self) -> PreparedConflict:
        run = self._run
        run.resolutions += 1
        self._workspace = f"resolve-{run.resolutions}"
        prepared: PreparedConflict = await workflow.execute_activity_method(
            Merging.prepare_conflict,
            PrepareConflict(
                task_id=run.task_id, step=self._step.step, branches=self._branches, workspace=self._workspace
            ),
            task_queue=run.opened.host_queue,
            summary=f"lay out the conflict of step {self._step.step}",
            **policies.GIT,
        )
        if prepared.conflict is None:
            return prepared
        summaries = {number: result.summary for number, result in run.results.items()}
        summaries[self._step.step] = self._summary
        conflict = with_intents(prepared.conflict, self._queue.plan, summaries, run.knowledge)
        return prepared.model_copy(update={"conflict": conflict})

    async def _by_agent(self, prepared: PreparedConflict, conflict: Conflict) -> tuple[bool, bool]:
        """Whether a resolver worked on it, and whether the conflict is resolved. Its work may come back once."""
        reasons: tuple[str, ...] = ()
        agents = 0
        for _ in range(RESOLUTIONS):
            if (hindrance := self._hindrance()) is not None:
                self._why = (*self._why, f"No resolver works on it: {hindrance}")
                return agents > 0, False
            result = await self._resolver(prepared, conflict, reasons, agents)
            agents += max(1, result.totals.agents)
            said = result.submission.input if result.submission else {}
            if result.end is not AgentEnd.FINISHED or said.get("unresolved"):
                told = said.get("rationale") or result.detail or "it ended without a resolution"
                self._why = (*self._why, f"{result.agent_id} did not resolve it: {told}")
                return True, False
            faults = await self._faults(prepared, conflict)
            if not faults:
                self._note(result.agent_id, AGENT, conflict, said)
                return True, True
            reasons = (sent_back(faults),)
        self._why = (*self._why, f"A resolver's work came back twice: {reasons[0]}")
        return True, False

    def _hindrance(self) -> str | None:
        """Why no resolver may start; None when one may, and then it is counted. Nobody is asked for more: without a
        resolver a person is asked about the conflict itself."""
        run = self._run
        run.hold_back_if_due()
        reason = run.limits.reason(Role.RESOLVER)
        if reason is None:
            run.books.count_agent()
        return reason

    async def _resolver(
        self, prepared: PreparedConflict, conflict: Conflict, reasons: tuple[str, ...], agents: int
    ) -> AgentResult:
        run = self._run
        assignment = resolver_assignment(
            run.task_id,
            run.input,
            run.opened,
            self._queue.plan,
            conflict,
            self._workspace,
            prepared.commit,
            run.knowledge,
            (*self._remarks, *reasons),
        ).model_copy(update={"generation": agents + 1})
        try:
            async with self._queue.slots:
                result = await run.chains.run(assignment, f"{run.task_id}/{self._workspace}", SHARE)
        except HeldBack:
            run.books.return_agent()
            raise
        if result.end is AgentEnd.CANCELLED or workflow.cancellation_reason() is not None:
            raise asyncio.CancelledError
        run.knowledge = run.knowledge.with_entries(result.knowledge.entries[len(assignment.knowledge.entries) :])
        return result

    async def _faults(self, prepared: PreparedConflict, conflict: Conflict) -> tuple[str, ...]:
        """What is wrong with what the agent left: in the files, or to the gates."""
        settled = await self._settle(prepared, conflict, "agent")
        if settled.faults:
            return settled.faults
        verdicts = await self._queue.verdicts(settled.commit, f"{self._workspace}-gates", patient=True)
        return tuple(
            f"gate {verdict.name} fails with this resolution and did not fail before it: "
            + ("; ".join(verdict.new_failures[:5]) or verdict.detail)
            for verdict in verdicts
            if verdict.status is VerdictStatus.NEW_FAILURE
        )

    async def _by_person(self, prepared: PreparedConflict, conflict: Conflict) -> str | Redo | None:
        """A person's choice; asked again while what was edited by hand is not resolved."""
        run = self._run
        waits = WaitingConflict(
            workspace=self._workspace,
            branches=self._branches,
            prepared=prepared.model_copy(update={"conflict": conflict.without_versions()}),
        )
        run.conflicts[self._step.step] = waits
        while True:
            asked = question(conflict, prepared.path, self._why)
            answer = await run.attention.ask("conflict", asked, CHOICES, step=self._step.step)
            run.conflicts.pop(self._step.step, None)
            self._why = ()
            if answer.choice == REDO:
                run.happened(f"step {self._step.step} is done again on top of the result")
                return Redo(redo_guidance(conflict, answer.comment))
            if answer.choice == AGENT:
                self._rounds_left, self._remarks = 1, (answer.comment,) if answer.comment else ()
                return None
            settled = await self._settle(prepared, conflict, settling(answer.choice))
            if not settled.faults:
                said = {"resolution": f"{answer.choice} was chosen", "rationale": answer.comment}
                self._note("a person", answer.choice, conflict, said)
                self._branches = (self._workspace, *prepared.rest)
                return ""
            run.conflicts[self._step.step] = waits
            self._why = tuple(f"It is not resolved yet: {fault}" for fault in settled.faults)

    async def _settle(self, prepared: PreparedConflict, conflict: Conflict, choice: Settling) -> SettledConflict:
        settled: SettledConflict = await workflow.execute_activity_method(
            Merging.settle_conflict,
            SettleConflict(
                task_id=self._run.task_id,
                workspace=self._workspace,
                commit=prepared.commit,
                branch=conflict.branch,
                choice=choice,
                owners=conflict.owners,
            ),
            task_queue=self._run.opened.host_queue,
            summary=f"settle the conflict of step {self._step.step}: {choice}",
            **policies.GIT,
        )
        return settled

    def _note(self, by: str, choice: str, conflict: Conflict, said: dict[str, str]) -> None:
        """Tell how it was resolved: later agents by the knowledge, people by the step's result."""
        run, names = self._run, ", ".join(path.path for path in conflict.paths[:5])
        resolution, rationale = said.get("resolution", ""), said.get("rationale", "")
        told = Resolution(by=by, choice=choice, paths=conflict.names, resolution=resolution, rationale=rationale)
        self._resolutions = (*self._resolutions, told)
        decision = Decision(
            decision=f"Conflict of step {self._step.step} in {names}: {resolution}", rationale=rationale
        )
        run.knowledge = run.knowledge.with_entries(entries(by, workflow.now(), decisions=[decision]))
        run.happened(f"the conflict of step {self._step.step} in {names} is resolved by {by} ({choice})")


def _unmerged(head: str, conflict: Conflict | None) -> MergedStep:
    """A step whose conflict was known before."""
    names = tuple(path.path for path in conflict.paths) if conflict is not None else ()
    return MergedStep(commit=head, merged=False, conflicts=names, conflict=conflict)

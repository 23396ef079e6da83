"""What happens to work that does not merge: a resolver, then a person, while other steps go on.

What stays unmerged is the outcome as `merge_step` gave it, and the step fails with it; nothing of it is reported done.
"""

import asyncio
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from activities.merging import Merging
    from baton.assignments import resolver_assignment
    from baton.bounds import RESOLUTIONS, RESOLVER_ROUNDS
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
        question,
        redo_guidance,
        sent_back,
        settling,
        whose,
        with_intents,
    )
    from baton.messages import AgentResult, MergedStep, WaitingConflict
    from baton.roles import Role
    from baton.states import AgentEnd
    from workflows import policies
    from workflows.attention import HeldBack
    from workflows.waits import in_slot

if TYPE_CHECKING:
    from workflows.merging import MergeQueue

SHARE = Decimal("0.1")
"""The part of what is left of the limits that a resolver begins with; it asks for more when it needs more."""


@dataclass(frozen=True)
class Work:
    """What is put on the result as one commit: a step's, or the integrator's (None).

    `summary`: what its agents say they did, for whoever resolves a conflict.
    """

    step: int | None
    branches: tuple[str, ...]
    subject: str
    summary: str = ""


@dataclass(frozen=True)
class Redo:
    """The work is to be done again on top of the present result; `paths`: what was in conflict."""

    guidance: str
    paths: tuple[str, ...] = ()


class Settlement:
    """Work that does not merge, until it does, is done again, or is given up."""

    def __init__(self, queue: "MergeQueue", work: Work) -> None:
        self._queue, self._run, self._work = queue, queue.run, work
        self._branches = work.branches
        self._whose = whose(work.step)
        self._rounds_left = RESOLVER_ROUNDS
        self._remarks: tuple[str, ...] = ()
        self._why: tuple[str, ...] = ()
        self._gave_way: tuple[str, ...] = ()
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
            merged = await self._queue.merge_now(replace(self._work, branches=self._branches), settled)
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
                task_id=run.task_id, step=self._work.step, branches=self._branches, workspace=self._workspace
            ),
            task_queue=run.opened.host_queue,
            summary=f"lay out the conflict of {self._whose}",
            **policies.GIT,
        )
        if prepared.conflict is None:
            return prepared
        summaries = {number: result.summary for number, result in run.results.items()}
        if self._work.step is not None:
            summaries[self._work.step] = self._work.summary
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
        if self._work.step is not None:
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
            async with in_slot(self._queue.slots) as waited:
                result = await run.chains.run(assignment, f"{run.task_id}/{self._workspace}", SHARE, waited)
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
        failing = await self._queue.new_failures(settled.commit)
        return tuple(
            f"gate {verdict.name} fails with this resolution and did not fail before it: "
            + ("; ".join(verdict.new_failures[:5]) or verdict.detail)
            for verdict in failing
        )

    async def _by_person(self, prepared: PreparedConflict, conflict: Conflict) -> str | Redo | None:
        """A person's choice; asked again while what was edited by hand is not resolved."""
        run = self._run
        waits = WaitingConflict(
            workspace=self._workspace,
            branches=self._branches,
            prepared=prepared.model_copy(update={"conflict": conflict.without_versions()}),
        )
        step = self._work.step
        while True:
            # What the integrator did is in no progress, so its wait stays in this run.
            if step is not None:
                run.conflicts[step] = waits
            asked = question(conflict, prepared.path, self._why)
            answer = await run.attention.ask("conflict", asked, CHOICES, step=step, stays=step is None)
            if step is not None:
                run.conflicts.pop(step, None)
            self._why = ()
            if answer.choice == REDO:
                run.happened(f"{self._whose} is done again on top of the result")
                return Redo(redo_guidance(conflict, answer.comment), conflict.names)
            if answer.choice == AGENT:
                self._rounds_left, self._remarks = 1, (answer.comment,) if answer.comment else ()
                return None
            settled = await self._settle(prepared, conflict, settling(answer.choice))
            if not settled.faults:
                said = {"resolution": f"{answer.choice} was chosen", "rationale": answer.comment}
                self._note("a person", answer.choice, conflict, said)
                self._branches = (self._workspace, *prepared.rest)
                return ""
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
            summary=f"settle the conflict of {self._whose}: {choice}",
            **policies.GIT,
        )
        self._gave_way = settled.gave_way
        return settled

    def _note(self, by: str, choice: str, conflict: Conflict, said: dict[str, str]) -> None:
        """Tell how it was resolved: later agents by the knowledge, people by the step's result."""
        run, names = self._run, ", ".join(path.path for path in conflict.paths[:5])
        resolution, rationale = said.get("resolution", ""), said.get("rationale", "")
        told = Resolution(
            by=by,
            choice=choice,
            paths=conflict.names,
            resolution=resolution,
            rationale=rationale,
            gave_way=self._gave_way,
        )
        self._resolutions = (*self._resolutions, told)
        decision = Decision(decision=f"Conflict of {self._whose} in {names}: {resolution}", rationale=rationale)
        run.knowledge = run.knowledge.with_entries(entries(by, workflow.now(), decisions=[decision]))
        run.happened(f"the conflict of {self._whose} in {names} is resolved by {by} ({choice})")

"""The integration of a task: the baseline taken at its start, gates on the result, the integrator, gates again."""

import asyncio

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from baton.assignments import integrator_assignment
    from baton.consistency import Agreement, Comparison, Settlement, compared, redo_steps, rulings_in, settled, shown
    from baton.findings import GateResult, GateVerdict, baseline_notes, compare
    from baton.gate_trail import came_in, with_origin
    from baton.merging import Resolution, with_resolutions
    from baton.messages import AgentResult, MergedStep
    from baton.plan import Plan
    from baton.repairs import repair_steps, watched
    from baton.roles import Role
    from workflows.closing import Left
    from workflows.execution import was_cancelled
    from workflows.failures import raise_if_cancelled
    from workflows.limits import STOP
    from workflows.merging import MergeQueue
    from workflows.repair import repair
    from workflows.settlement import Work
    from workflows.task_run import TaskRun
    from workflows.versions import BASELINE_FIRST, CONSISTENCY, REPAIR


class Integration:
    """The checks of one task, from its baseline to its integrated result."""

    def __init__(self, run: TaskRun) -> None:
        self._run = run
        self._baseline: asyncio.Task[tuple[GateResult, ...]] | None = None
        self._verdicts: tuple[GateVerdict, ...] = ()
        self._gates: tuple[GateResult, ...] = ()
        self._integrator: AgentResult | None = None
        self._resolutions: tuple[Resolution, ...] = ()
        self._settlements: tuple[Settlement, ...] = ()
        self._agreed: tuple[Agreement, ...] = ()

    def start_baseline(self) -> None:
        """Take the gates on the base commit, beside all that follows."""
        self._baseline = asyncio.create_task(self._take_baseline())

    async def settle_baseline(self) -> None:
        """Wait until the baseline is known."""
        await self._base_gates()

    def give_up(self) -> None:
        """Nobody waits for the baseline any more."""
        if self._baseline is not None:
            self._baseline.cancel()

    async def run(self, plan: Plan) -> None:
        """Check the result against the baseline, let the integrator work on it, and check again."""
        run = self._run
        if run.head == run.opened.base_commit:
            return
        run.hold_back_if_due()
        if run.limits.over == STOP:
            run.happened("no integration: a person stopped the task at its limit")
            return
        run.enter("integrating")
        await run.write_aside()
        answer = await run.approval("integration")
        if answer is not None and answer.choice == "reject":
            run.happened("integration was rejected; the result stays as it is")
            return
        await self._compare_gates("result")
        if run.input.integration:
            plan = await self._repaired(plan)
        comparison = compared(run.knowledge, plan, run.results)
        self._agreed = comparison.agreed
        self._settlements = settled(comparison.contradictions, ())
        if not run.input.integration:
            return
        merged = await self._integrated(plan, comparison)
        if merged is None:
            return
        if merged.merged:
            await self._compare_gates("integrated")
            plan = await self._repaired(plan)
        await self._settle(plan, comparison)

    async def _integrated(self, plan: Plan, comparison: Comparison) -> MergedStep | None:
        """The integrator's work on the result; None when no integrator may start. As often as a person has it done
        again where it does not merge."""
        run, queue = self._run, MergeQueue(self._run, plan, asyncio.Semaphore(1))
        guidance: tuple[str, ...] = ()
        while await run.limits.hindrance(Role.INTEGRATOR) is None:
            assignment = integrator_assignment(
                run.task_id,
                run.input,
                run.opened,
                plan,
                run.head,
                run.knowledge,
                tuple(run.results.values()),
                self._verdicts,
                shown(comparison),
            )
            if guidance:
                again = f"again-{len(guidance)}-{assignment.workspace}"
                assignment = assignment.model_copy(update={"workspace": again, "guidance": guidance})
            self._integrator = await run.chains.run(assignment, f"{run.task_id}/integrate")
            if was_cancelled(self._integrator):
                raise asyncio.CancelledError
            run.knowledge = self._integrator.knowledge
            said = self._integrator.submission.input if self._integrator.submission else {}
            work = Work(None, (assignment.workspace,), "Integrate the steps", str(said.get("summary", "")))
            merged = await queue.merge(work)
            raise_if_cancelled()
            if isinstance(merged, MergedStep):
                self._resolutions = merged.resolutions
                return merged
            guidance = (*guidance, merged.guidance)
        if guidance:
            run.happened("the integrator's work is not on the result: no further agent may do it again")
        return None

    async def _settle(self, plan: Plan, comparison: Comparison) -> None:
        """Have what chose otherwise brought in line, as the integrator ruled, else as the earlier step chose."""
        run = self._run
        submission = self._integrator.submission if self._integrator else None
        self._settlements = settled(comparison.contradictions, rulings_in(submission.input if submission else {}))
        steps = redo_steps(plan, run.results, run.records, self._settlements)
        if not steps or not workflow.patched(CONSISTENCY):
            return
        if await repair(run, plan, steps):
            await self._compare_gates("in-line")
            await self._repaired(run.plan or plan)

    async def left(self, plan: Plan | None, *, with_baseline: bool) -> Left:
        """What the integration came to, for the report."""
        submission = self._integrator.submission if self._integrator else None
        return Left(
            plan=plan,
            verdicts=self._verdicts,
            baseline=await self._base_gates() if with_baseline else (),
            integration=with_resolutions(submission.input if submission else {}, self._resolutions),
            settlements=self._settlements,
            agreed=self._agreed,
        )

    async def _repaired(self, plan: Plan) -> Plan:
        """Have new failures repaired, round by round, with the gates after each; returns the plan as it is then."""
        run = self._run
        while steps := repair_steps(plan, run.results, self._verdicts, self._gates, came_in(run.after_merges)):
            if not workflow.patched(REPAIR):
                break
            mended = await repair(run, plan, steps)
            plan = run.plan or plan
            if not mended:
                break
            await self._compare_gates(f"repaired-{steps[0].repair_round}")
        return plan

    async def _compare_gates(self, workspace: str) -> None:
        baseline = await self._base_gates() if workflow.patched(BASELINE_FIRST) else ()
        vanishing = watched(self._run.plan) if self._run.plan is not None else ()
        found = await self._run.host.gates(self._run.head, workspace, baseline, vanishing)
        self._gates, self._run.sizes = found.results, found.sizes
        verdicts = compare(await self._base_gates(), self._gates)
        self._run.checked(self._gates)
        came = came_in(self._run.after_merges)
        self._run.verdicts = self._verdicts = tuple(with_origin(verdict, came) for verdict in verdicts)
        for verdict in self._verdicts:
            word = str(verdict.status).replace("_", " ")
            self._run.happened(f"gate {verdict.name}: {word}" + (f" ({verdict.detail})" if verdict.detail else ""))

    async def _take_baseline(self) -> tuple[GateResult, ...]:
        found = await self._run.host.gates(self._run.opened.base_commit, "baseline")
        self._run.baseline, self._run.sizes_before = found.results, found.sizes
        for note in baseline_notes(found.results):
            self._run.warn(note)
        return found.results

    async def _base_gates(self) -> tuple[GateResult, ...]:
        """The gates on the base commit, once they are through."""
        if self._baseline is not None:
            self._run.baseline = await self._baseline
        return self._run.baseline or ()

"""The execution of a plan: steps start when their dependencies are merged, chains share slots, merges go one by one.

A failing, hanging or cut-off chain never takes its siblings down: it ends as the result of its own step.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from baton import report
    from baton.assignments import executor_assignment
    from baton.command_results import nothing_to_take, without_failures
    from baton.knowledge import needs_of
    from baton.ledger import ItemCounts, counts, merge
    from baton.merging import given_up_items, given_up_paths
    from baton.messages import AgentResult, Assignment, MergedStep, Redone, StepResult
    from baton.plan import Plan, PlanStep, execution_order
    from baton.results import broken, combined, not_attempted, nothing_needed, step_result, unmerged
    from baton.resume import put_together, rest
    from baton.roles import Role
    from baton.run_commands import failed
    from baton.schedule import Unit, blocked_by_failure, branch_prefix, startable, units, weight
    from baton.states import AgentEnd, StepStatusWord
    from baton.status_changes import with_result, with_step
    from workflows.attention import HeldBack
    from workflows.failures import raise_if_cancelled
    from workflows.merging import MergeQueue
    from workflows.resuming import take_home
    from workflows.review import Supervision
    from workflows.run_steps import run_commands
    from workflows.settlement import Work
    from workflows.task_run import TaskRun
    from workflows.waits import in_slot

HEAD_START = timedelta(seconds=20)
"""The first of several chains gets so much time to have its prompt cached before the others start."""


class Execution:
    """Executes one plan within a task."""

    def __init__(self, run: TaskRun, plan: Plan) -> None:
        self._run = run
        self._plan = plan
        settings = run.opened.settings
        parallel = settings.parallel_execution and plan.execution_strategy == "parallel"
        self._slots = asyncio.Semaphore(settings.max_parallel_agents if parallel else 1)
        self._weights = {
            unit.label: weight(step, unit)
            for step in plan.plan
            if step.step not in run.results
            for unit in units(step, settings.budget)
        }
        self._queue = MergeQueue(run, plan, self._slots)
        self._again = run.again
        self._supervision = Supervision(run, plan, self._slots, self._assignment)
        self._first_started = False

    async def run(self) -> None:
        """Every step gets a result; once a new plan is wanted, no further one is started.

        When the task is cancelled, running chains end first and are counted. Raises `HeldBack` when what is left is to
        be done in a new run of the workflow; nothing is under way then.
        """
        run, held_back = self._run, False
        waiting = [number for number in execution_order(self._plan) if number not in self._run.results]
        # In order: a set would cancel them in another one when the history is replayed.
        running: list[asyncio.Task[bool]] = []
        try:
            while waiting or running:
                raise_if_cancelled()
                if run.replan_wanted:
                    waiting = [number for number in waiting if number in run.starts]
                elif run.renewal_due:
                    held_back = held_back or bool(waiting)
                    waiting.clear()
                for number in startable(self._plan, waiting, self._run.results):
                    waiting.remove(number)
                    running.append(asyncio.create_task(self._one(self._plan.step(number))))
                if not running:
                    break
                done, running = await workflow.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    held_back = task.result() or held_back
            if held_back:
                raise HeldBack
        except (asyncio.CancelledError, Exception):  # not GeneratorExit: an evicted run is thrown away, no more
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            raise

    async def _one(self, step: PlanStep) -> bool:
        """One step to its result; True when that is left to a new run."""
        run = self._run
        try:
            await self._settle_left_behind(step)
            if step.step in run.results:
                await run.write_aside(report.step_artifacts(run.results[step.step]))
                return False
            step = rest(self._with_failures(step), run.earlier.get(step.step))
            result = self._hindrance(step) or await self._step(step)
            while self._is_to_do_again(step):
                result = await self._step(step)
        except HeldBack:
            return True
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            result = broken(step, str(error.cause or error)[:500], run.records.get(step.step, ()))
        if (earlier := run.earlier.pop(step.step, None)) is not None:
            result, run.records[step.step] = put_together(earlier, result, run.records.get(step.step, ()))
        self._take_failures(step)
        run.results[step.step] = result
        cancelled = workflow.cancellation_reason() is not None
        run.status, text = with_result(run.status, result, cancelled=cancelled)
        run.happened(text)
        run.step_is_over(step.step, is_unmerged=result.unmerged)
        await run.write_aside(report.step_artifacts(result))
        return False

    async def _settle_left_behind(self, step: PlanStep) -> None:
        """Put on the result first what an earlier start of the task left of the step and does not merge by itself."""
        run = self._run
        left = run.left_behind.get(step.step)
        if left is None:
            return
        subject = report.commit_subject(step)
        merged = await self._queue.merge(Work(step.step, left.branches, subject, left.agent.detail))
        raise_if_cancelled()
        run.left_behind.pop(step.step)
        if isinstance(merged, MergedStep):
            take_home(run, step, left.agent, merged)
        else:
            self._again[step.step] = Redone(
                times=1, guidance=merged.guidance, totals=left.agent.totals, paths=merged.paths
            )

    def _hindrance(self, step: PlanStep) -> StepResult | None:
        """Why a step does not start, as its result; None when it does."""
        if step.only_needs:
            needs = needs_of((*step.items, *step.owns), self._run.knowledge)
            return None if needs else nothing_needed(step)
        if blocked_by_failure(self._plan, step.step, self._run.results):
            return not_attempted(step, "a step that it depends on failed")
        return nothing_to_take(step) if step.failures_of is not None and not step.items else None

    def _with_failures(self, step: PlanStep) -> PlanStep:
        """The step with the items whose command failed, where it is there for those."""
        if step.failures_of is None:
            return step
        run, items = self._run, failed(self._run.records.get(step.failures_of, ()))
        run.status = with_step(run.status, step.step, items=ItemCounts(total=len(items), open=len(items)))
        return step.model_copy(update={"items": items})

    def _take_failures(self, step: PlanStep) -> None:
        """Items that a step took count there, and no longer where their command failed."""
        run, giver = self._run, step.failures_of
        if giver is None or giver not in run.results:
            return
        left = tuple(record for record in run.records.get(giver, ()) if record.item not in step.items)
        result = without_failures(run.results[giver], left, step.step)
        run.records[giver], run.results[giver] = left, result
        run.status = with_step(run.status, giver, state=str(result.status), items=result.items)

    async def _step(self, step: PlanStep) -> StepResult:
        run = self._run
        if step.run is not None:
            return await self._commands(step)
        start = run.starts.setdefault(step.step, run.head)
        pieces = units(step, run.opened.settings.budget)
        ends = await _ended([asyncio.create_task(self._chain(step, unit, start)) for unit in pieces])
        if None in ends:
            raise HeldBack
        refused = [end for end in ends if isinstance(end, str)]
        chains = [end for end in ends if isinstance(end, AgentResult)]
        if not chains:
            return not_attempted(step, refused[0])
        worked = [unit for unit, end in zip(pieces, ends, strict=True) if _is_to_merge(end)]
        run.replan_wanted = run.replan_wanted or any(chain.end is AgentEnd.REPLAN for chain in chains)
        return await self._merged(step, combined(step, chains, refused), worked)

    async def _commands(self, step: PlanStep) -> StepResult:
        """A step without a model, in a slot as any chain."""
        run, unit = self._run, Unit(step=step.step)
        taken = any(other.failures_of == step.step for other in self._plan.plan)
        async with in_slot(self._slots) as waited:
            if run.time_is_up and (hindrance := await run.limits.hindrance(Role.PLANNER)) is not None:
                return not_attempted(step, hindrance)
            run.status = with_step(run.status, step.step, state="running")
            run.show()
            start = run.starts.setdefault(step.step, run.head)
            place = self._workspace(unit)
            also = self._again[step.step].paths if step.step in self._again else ()
            ran = await run_commands(run, step, place, start, failures_are_taken=taken, waited=waited, also_owned=also)
        return await self._merged(step, ran, [unit])

    async def _merged(self, step: PlanStep, agent: AgentResult, pieces: Sequence[Unit]) -> StepResult:
        """The step's result, with what its pieces did on the result of the task."""
        agent = self._with_earlier(step, agent)
        merged = await self._merge(step, pieces, agent) if pieces else None
        if merged is not None and merged.conflicts:
            agent = unmerged(agent, merged.conflicts)
        elif merged is not None and (lost := given_up_paths(merged.resolutions)):
            agent = agent.model_copy(update={"items": given_up_items(agent.items, lost)})
        self._run.records[step.step] = agent.items
        return step_result(step, agent, merged)

    async def _chain(self, step: PlanStep, unit: Unit, start: str) -> AgentResult | str:
        """One chain of agents and the reviews of its work; a sentence when it may not start."""
        ended = await self._worked(step, unit, start)
        return ended if isinstance(ended, str) else await self._supervision.settled(step, unit, start, ended)

    async def _worked(self, step: PlanStep, unit: Unit, start: str) -> AgentResult | str:
        """One chain of agents in a slot. One that ended in an earlier run of the workflow is not started again."""
        run = self._run
        if (ended := run.chain_ends.get(unit.label)) is not None:
            return ended
        async with in_slot(self._slots) as waited:
            if run.replan_wanted and run.keeps_progress:
                return "a new plan is wanted first"
            run.hold_back_if_due()
            if self._first_started:
                await self._let_the_first_get_ahead()
            if (hindrance := await run.limits.hindrance()) is not None:
                return hindrance
            self._first_started = True
            run.status = with_step(run.status, step.step, state="running")
            run.show()
            assignment = self._assignment(step, unit, start)
            try:
                name = f"{run.task_id}/step-{unit.label}"
                result = await run.chains.run(assignment, name, self._share(unit), waited)
            except HeldBack:
                run.books.return_agent()
                raise
            run.knowledge = run.knowledge.with_entries(result.knowledge.entries[len(assignment.knowledge.entries) :])
            run.chain_ends[unit.label] = result
            run.replan_wanted = run.replan_wanted or (run.keeps_progress and result.end is AgentEnd.REPLAN)
            await run.save_much_knowledge()
            return result

    def _share(self, unit: Unit) -> Decimal:
        """The part of what is left for a chain, by its weight among all that have not begun."""
        own = self._weights.pop(unit.label, 1)
        return Decimal(own) / (own + sum(self._weights.values()))

    async def _let_the_first_get_ahead(self) -> None:
        """Siblings read the prompt cache of the first one, once its first answer has begun."""
        run = self._run

        def warmed() -> bool:
            at_work = run.status.agents_at_work
            return run.status.handoffs > 0 or not at_work or any(agent.turn > 0 for agent in at_work)

        try:
            await workflow.wait_condition(warmed, timeout=HEAD_START)
        except TimeoutError:
            return

    async def _merge(self, step: PlanStep, pieces: Sequence[Unit], agent: AgentResult) -> MergedStep | None:
        """The step on the result; None when a person chose to have it done again."""
        branches = tuple(self._workspace(unit) for unit in pieces)
        summary = str(agent.submission.input.get("summary", "")) if agent.submission else agent.detail
        merged = await self._queue.merge(Work(step.step, branches, report.commit_subject(step), summary))
        if isinstance(merged, MergedStep):
            return merged
        times = self._again[step.step].times + 1 if step.step in self._again else 1
        self._again[step.step] = Redone(
            times=times, guidance=merged.guidance, totals=agent.totals, wanted=True, paths=merged.paths
        )
        return None

    def _is_to_do_again(self, step: PlanStep) -> bool:
        """Whether the step's last outcome was that it is done again; asked once for each."""
        again = self._again.get(step.step)
        if again is None or not again.wanted:
            return False
        self._again[step.step] = again.model_copy(update={"wanted": False})
        self._run.step_is_over(step.step)
        self._run.records[step.step] = rows = merge(step.items)
        self._run.status = with_step(self._run.status, step.step, state="running", items=counts(rows))
        return True

    def _workspace(self, unit: Unit) -> str:
        """Where a chain works; a step that is done again gets new workspaces."""
        again = self._again.get(unit.step)
        return branch_prefix(again.times if again else 0) + unit.label

    def _assignment(self, step: PlanStep, unit: Unit, start: str) -> Assignment:
        """The assignment of a chain's first executor."""
        run = self._run
        finished = tuple(n for n, result in run.results.items() if result.status is StepStatusWord.OK)
        first = executor_assignment(
            run.task_id, run.input, run.opened, self._plan, step, unit, start, run.knowledge, finished
        )
        return self._on_top(first, unit)

    def _on_top(self, assignment: Assignment, unit: Unit) -> Assignment:
        """The assignment of a step that is done again: in a new workspace, and with the reason; what was in conflict is
        its own."""
        again = self._again.get(unit.step)
        if again is None:
            return assignment
        told = (*assignment.guidance, again.guidance)
        changes = {"workspace": self._workspace(unit), "guidance": told, "also_owned": again.paths}
        return assignment.model_copy(update=changes)

    def _with_earlier(self, step: PlanStep, agent: AgentResult) -> AgentResult:
        """What the step used includes what it used before it was done again."""
        again = self._again.get(step.step)
        return agent if again is None else agent.model_copy(update={"totals": again.totals + agent.totals})


async def _ended(chains: list[asyncio.Task[AgentResult | str]]) -> list[AgentResult | str | None]:
    """What the chains came to, all of them; None for one that is held back. A cancelled one still says what it did;
    `gather` alone would lose that."""
    try:
        await asyncio.gather(*chains, return_exceptions=True)
    except asyncio.CancelledError:
        await asyncio.gather(*chains, return_exceptions=True)
    return [_end(chain) for chain in chains]


def _is_to_merge(end: AgentResult | str | None) -> bool:
    """Whether a chain did something that nobody refused."""
    return isinstance(end, AgentResult) and end.totals.agents > 0 and not end.rejected


def _end(chain: asyncio.Task[AgentResult | str]) -> AgentResult | str | None:
    if chain.cancelled():
        return "the task was cancelled first"
    error = chain.exception()
    if isinstance(error, HeldBack):
        return None
    return chain.result() if error is None else f"it could not be started: {error}"[:500]


def was_cancelled(result: AgentResult) -> bool:
    """A cancelled chain ends normally with what it did; or the cancellation reached the task itself."""
    return result.end is AgentEnd.CANCELLED or workflow.cancellation_reason() is not None

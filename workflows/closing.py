"""The end of every task, also of a cancelled or broken one: publish, report, and put the workspaces away meanwhile.

Nothing that goes wrong here costs the report: a result that cannot be published stays in the private repository, and
the report says so; workspaces that could not be put away are tried once more when the task is closed.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from activities.opening import Opening
    from activities.tasks import TaskWork
    from baton import report
    from baton.consistency import Agreement, Settlement
    from baton.findings import GateResult, GateVerdict
    from baton.messages import Publish, Published, StepResult, TaskRef
    from baton.plan import Plan
    from baton.repairs import judged_by_gates
    from baton.report_facts import ReportFacts, undone
    from baton.results import not_attempted, task_state
    from baton.states import TaskState
    from baton.status import TaskResult
    from baton.synthesis import Synthesis, SynthesisFacts
    from workflows import policies
    from workflows.failures import reason_of
    from workflows.log import say
    from workflows.synthesis import summary
    from workflows.task_run import TaskRun
    from workflows.versions import PUT_AWAY_BESIDE


@dataclass(frozen=True)
class Left:
    """What the phases left, as far as they came."""

    plan: Plan | None
    verdicts: tuple[GateVerdict, ...] = ()
    baseline: tuple[GateResult, ...] = ()
    integration: dict[str, Any] = field(default_factory=dict)
    settlements: tuple[Settlement, ...] = ()
    agreed: tuple[Agreement, ...] = ()


async def close(run: TaskRun, left: Left, *, cancelled: bool = False, failure: str = "") -> TaskResult:
    """Report and publish; `failure` says why the task broke off."""
    run.enter("reporting")
    why = "the task was cancelled first" if cancelled else failure or "it was not reached"
    results = _all_results(run, left.plan, why)
    state = TaskState.FAILED
    if (left.plan is not None and not failure) or cancelled:
        repairs = judged_by_gates(left.plan) if left.plan is not None else frozenset()
        planned = tuple(result for result in results if result.step not in repairs)
        state = task_state(planned, left.verdicts, cancelled)
    if failure:
        run.update(summary=f"the task broke off: {failure}")
    putting_away = asyncio.create_task(_put_away(run)) if workflow.patched(PUT_AWAY_BESIDE) else None
    published = await _publish(run) if run.head != run.opened.base_commit else None
    for note in published.notes if published else ():
        run.warn(note)
    if published is None and run.head != run.opened.base_commit and state is TaskState.DONE:
        state = TaskState.PARTIAL
    told = Synthesis()
    if not cancelled and not failure and not run.input.plan_only:
        held_against = SynthesisFacts(
            task_id=run.task_id, task=run.input.task, state=state, results=results, verdicts=left.verdicts
        )
        told = await summary(run, held_against)
    run.end_pause()
    run.update(
        state=state,
        ref=published.ref if published else None,
        closed_at=workflow.now(),
        attention=(),
        agents_at_work=(),
    )
    facts = ReportFacts(
        status=run.status,
        results=results,
        verdicts=left.verdicts,
        baseline=left.baseline,
        integration=left.integration,
        knowledge=run.knowledge,
        head=run.head,
        private_repository=run.opened.private_repository,
        plan_only=run.input.plan_only,
        persisted=run.opened.settings.persist_state,
        sizes_before=run.sizes_before,
        sizes=run.sizes,
        synthesis=told,
        plan=left.plan,
        settlements=left.settlements,
        agreed=left.agreed,
        undone=undone(run.records),
    )
    run.update(summary=run.status.summary or report.summary_line(facts))
    facts = facts.model_copy(update={"status": run.status})
    await run.write(report.report_artifacts(facts))
    if putting_away is not None:
        await putting_away
    await workflow.execute_activity_method(
        TaskWork.close_task,
        TaskRef(task_id=run.task_id),
        task_queue=run.opened.host_queue,
        summary="close the task",
        **policies.GIT,
    )
    await run.notices.ended(str(state), run.status.summary)
    run.enter(str(state))
    await workflow.wait_condition(workflow.all_handlers_finished)
    return report.task_result(facts)


async def discard(run: TaskRun) -> None:
    """What the user gave cannot be used after all: nothing stays behind."""
    await workflow.execute_activity_method(
        Opening.discard_task,
        TaskRef(task_id=run.task_id),
        task_queue=run.opened.host_queue,
        summary="discard the task",
        **policies.GIT,
    )


async def _publish(run: TaskRun) -> Published | None:
    """The result in the user's repository; None, and a line, when it could not be put there."""
    try:
        return await workflow.execute_activity_method(
            TaskWork.publish,
            Publish(task_id=run.task_id, commit=run.head),
            task_queue=run.opened.host_queue,
            summary="publish the result",
            **policies.GIT,
        )
    except ActivityError as error:
        why = f"the result could not be published and stays in the private repository: {reason_of(error)[:300]}"
        run.happened(why)
        run.warn(why)
        return None


async def _put_away(run: TaskRun) -> None:
    """The workspaces, which nobody needs any more."""
    try:
        await workflow.execute_activity_method(
            TaskWork.put_away,
            TaskRef(task_id=run.task_id),
            task_queue=run.opened.host_queue,
            summary="put the workspaces away",
            **policies.GIT,
        )
    except ActivityError as error:
        say(f"the workspaces could not be put away, which is tried again: {reason_of(error)[:300]}")


def _all_results(run: TaskRun, plan: Plan | None, why: str) -> tuple[StepResult, ...]:
    """A result for every step; `why` is told of those that never started."""
    if plan is None or run.input.plan_only:
        return ()
    return tuple(run.results.get(step.step) or not_attempted(step, why) for step in plan.plan)

"""Steps that are added to a plan after it was executed: repairs of new failures, and what is to be brought in line with
other work. They are done like every other; then the gates run again.

A round that puts nothing on the result is the last one. What stays is told in the report.
"""

from collections.abc import Sequence

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from activities.tasks import TaskWork
    from baton.messages import SettlePlan
    from baton.plan import Plan, PlanStep
    from baton.status_changes import planned
    from baton.wording import counted
    from workflows import policies
    from workflows.execution import Execution
    from workflows.failures import raise_if_cancelled
    from workflows.task_run import TaskRun


async def repair(run: TaskRun, plan: Plan, steps: Sequence[PlanStep]) -> bool:
    """Run one round of repair steps; whether they put anything on the result. Raises `HeldBack` as every execution."""
    if (limit := run.limits.reason()) is not None:
        run.happened(
            f"{'new failures are not repaired' if steps[0].repairs else 'nothing is brought in line'}: {limit}"
        )
        return False
    number, before = steps[0].repair_round, run.head
    whole = plan.model_copy(update={"plan": (*plan.plan, *steps)})
    await workflow.execute_activity_method(
        TaskWork.settle_plan,
        SettlePlan(task_id=run.task_id, plan=whole),
        task_queue=run.opened.host_queue,
        summary=f"settle the {'repairs' if steps[0].repairs else 'steps'} of round {number}",
        **policies.GIT,
    )
    run.plan = whole
    run.update(steps=(*run.status.steps, *planned(tuple(steps))))
    what = f"round {number} of repairs" if steps[0].repairs else "work is brought in line with other work"
    run.happened(f"{what}: {counted(len(steps), 'step')}")
    run.enter("repairing")
    await run.save()
    await Execution(run, whole).run()
    raise_if_cancelled()
    run.enter("integrating")
    return run.head != before

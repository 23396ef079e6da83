"""Going on with a task that was stopped: what branches hold that never reached the result is put there first, so that
nothing that is done is paid for again; then only what is left runs."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from activities.tasks import TaskWork
    from baton import report
    from baton.ledger import counts, grouped
    from baton.merging import given_up_items, given_up_paths
    from baton.messages import AgentResult, MergedStep
    from baton.plan import Plan, PlanStep
    from baton.progress import Earlier, LoadProgress, Unmerged
    from baton.results import step_result
    from baton.resume import confirmed, only_done, put_together, resumed
    from baton.status_changes import with_step
    from baton.wording import counted
    from workflows import policies
    from workflows.task_run import TaskRun
    from workflows.versions import LEFT_BEHIND


async def resume(run: TaskRun) -> None:
    """Take up what the task's earlier starts left. The task was opened again before."""
    loaded = await workflow.execute_activity_method(
        TaskWork.load_progress,
        LoadProgress(task_id=run.task_id),
        task_queue=run.opened.host_queue,
        summary="resume",
        **policies.GIT,
    )
    run.take_input(loaded.input)
    if loaded.progress is None:
        return
    again = resumed(loaded.progress, loaded.salvaged)
    run.take_up(loaded.opened, again.progress, is_kept=False)
    run.happened("resumed: " + _what_is_left(run))
    if run.plan is not None:
        for unmerged in again.unmerged:
            await _bring_home(run, run.plan, unmerged)
    await run.save()


async def _bring_home(run: TaskRun, plan: Plan, unmerged: Unmerged) -> None:
    """Put the work of interrupted chains on the result. Where that conflicts, it is settled when the step's turn comes,
    so that the others need not wait for a person."""
    number, agent = unmerged.step, unmerged.agent
    step = plan.step(number)
    merged = await run.host.merge(run.host.to_merge(unmerged.branches, number, report.commit_subject(step)))
    if merged.conflicts:
        if workflow.patched(LEFT_BEHIND):
            run.left_behind[number] = unmerged
        run.happened(f"step {number}: what was interrupted conflicts in {merged.conflicts[0]}")
        return
    take_home(run, step, agent, merged)


def take_home(run: TaskRun, step: PlanStep, agent: AgentResult, merged: MergedStep) -> None:
    """What an earlier start of the task did of a step is on the result now: the step goes on with the rest, or is over.

    `agent`: what it did.
    """
    number = step.step
    agent = agent.model_copy(update={"items": only_done(agent.items)})
    if lost := given_up_paths(merged.resolutions):
        agent = agent.model_copy(update={"items": given_up_items(agent.items, lost)})
    earlier, result = run.earlier.get(number, Earlier()), step_result(step, agent, merged)
    result, records = put_together(earlier, result, agent.items)
    run.records[number] = records
    kept = Earlier(result=result, records=grouped(records))
    if kept.is_whole(step):
        run.earlier.pop(number, None)
        run.results[number] = confirmed(result)
    elif step.items and records and all(record.status.finished for record in records):
        # What is not done gave way to the result just now.
        run.earlier.pop(number, None)
        run.results[number] = result
    else:
        run.earlier[number] = kept
    state = str(run.results[number].status) if number in run.results else "pending"
    run.status = with_step(run.status, number, items=counts(records) if records else result.items, state=state)
    run.happened(f"step {number}: {counted(result.items.done, 'item')} of an interrupted chain kept")


def _what_is_left(run: TaskRun) -> str:
    if run.plan is None:
        return "there is no plan yet"
    left = [step.step for step in run.plan.plan if step.step not in run.results]
    return f"{counted(len(left), 'step')} of {len(run.plan.plan)} left"

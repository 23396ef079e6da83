"""A long task goes on in a new run of its workflow, so that no history outgrows the server.

It happens at quiet points: new chains are held back until the running ones end, because a child does not outlive its
parent's run. The new run finds everything through a reference to the progress that this host keeps.
"""

from typing import NoReturn

from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.tasks import TaskWork
    from baton.messages import Carried, TaskInput
    from baton.progress import LoadProgress
    from workflows import policies
    from workflows.failures import raise_if_cancelled
    from workflows.task_run import TaskRun


async def renew(run: TaskRun, task: TaskInput) -> NoReturn:
    """End this run and go on in the next. What signals change meanwhile is kept too, before it ends."""
    revision = await run.keep_for_next_run()
    while True:
        await workflow.wait_condition(workflow.all_handlers_finished)
        raise_if_cancelled()
        if run.is_kept():
            break
        revision = await run.keep_for_next_run()
    carried = Carried(host_queue=run.opened.host_queue, revision=revision)
    workflow.continue_as_new(task.model_copy(update={"carried": carried}), memo=workflow.memo())


async def take_up(run: TaskRun, carried: Carried) -> None:
    """Go on from where the run before ended."""
    loaded = await workflow.execute_activity_method(
        TaskWork.load_progress,
        LoadProgress(task_id=run.task_id, revision=carried.revision),
        task_queue=carried.host_queue,
        summary="go on",
        **policies.GIT,
    )
    if loaded.progress is None:
        raise ApplicationError("the progress of the task is lost", non_retryable=True)
    run.take_input(loaded.input)
    run.take_up(loaded.opened, loaded.progress, is_kept=True)

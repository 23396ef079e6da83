"""A step that runs commands instead of agents, from its first command to a result that is merged as any other."""

import asyncio

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.run_steps import RunSteps
    from baton.command_results import commands_result
    from baton.messages import AgentResult, CommandsRun, RunCommands, Waited
    from baton.plan import PlanStep
    from baton.roles import Role
    from baton.states import AgentEnd
    from workflows import policies
    from workflows.failures import raise_if_cancelled
    from workflows.task_run import TaskRun


async def run_commands(
    run: TaskRun,
    step: PlanStep,
    workspace: str,
    start: str,
    *,
    failures_are_taken: bool,
    waited: tuple[Waited, ...] = (),
    also_owned: tuple[str, ...] = (),
) -> AgentResult:
    """Run the step's command in slices until nothing is left, with pauses and the time limit heard in between.

    What is recorded counts also where the task is cancelled. Raises `HeldBack` where the next run of the workflow is to
    go on.
    """
    request = RunCommands(
        task_id=run.task_id,
        agent_id=f"run-{step.step}",
        step=step,
        workspace=workspace,
        start_commit=start,
        waited=waited,
        also_owned=also_owned,
    )
    end, detail = AgentEnd.FINISHED, ""
    try:
        while True:
            await workflow.wait_condition(lambda: not run.status.paused)
            raise_if_cancelled()
            run.hold_back_if_due()
            ran = await _slice(run, request)
            request = request.model_copy(update={"waited": ()})
            if ran.finished or ran.refused:
                break
            if run.time_is_up and (reached := await run.limits.hindrance(Role.PLANNER)) is not None:
                end, detail = AgentEnd.STOPPED, reached
                break
    except (asyncio.CancelledError, ActivityError) as error:
        if not is_cancelled_exception(error):
            raise
        ran = await asyncio.shield(_slice(run, request.model_copy(update={"only_tell": True})))
        end, detail = AgentEnd.CANCELLED, "the task was cancelled"
    return commands_result(step, ran, end, detail, failures_are_taken=failures_are_taken)


async def _slice(run: TaskRun, request: RunCommands) -> CommandsRun:
    return await workflow.execute_activity_method(
        RunSteps.run_commands,
        request,
        task_queue=run.opened.host_queue,
        summary=f"step {request.step.step}: {request.step.run}"[:200],
        **policies.COMMANDS,
    )

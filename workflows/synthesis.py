"""The summary at the end of a task. Whatever goes wrong with it costs nothing but the summary."""

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.synthesizing import Synthesizing
    from baton.synthesis import SUMMARIZER, Synthesis, SynthesisFacts, is_wanted
    from workflows import policies
    from workflows.failures import reason_of
    from workflows.task_run import TaskRun
    from workflows.versions import SYNTHESIS


async def summary(run: TaskRun, facts: SynthesisFacts) -> Synthesis:
    """What the summarizer says of the results.

    Nothing where there is little to say, where no integration is wanted, and where no more may be spent.
    """
    if not run.input.integration or not is_wanted(facts.results):
        return Synthesis()
    if (limit := run.limit_reached()) is not None:
        return Synthesis(why=limit)
    if not workflow.patched(SYNTHESIS):
        return Synthesis()
    try:
        said: Synthesis = await workflow.execute_activity_method(
            Synthesizing.summarize,
            facts,
            task_queue=run.opened.host_queue,
            summary=f"{SUMMARIZER} · the summary",
            **policies.SUMMARY,
        )
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        why = reason_of(error)[:300]
        run.happened(f"no summary by a model: {why}")
        return Synthesis(why=why)
    if said.why and not said.model:
        run.happened(f"no summary by a model: {said.why}")
    run.books.settle(SUMMARIZER, said.usage)
    run.update(usage=run.books.settled)
    return said

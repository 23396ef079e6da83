"""What a task has done on its host: merges and gates."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.merging import Merging
    from activities.tasks import TaskWork
    from baton.findings import GateResult, GateSpec, not_run
    from baton.gate_trail import NOT_COMPARED
    from baton.messages import GateResults, MergedStep, MergeStep, MergeSteps, RunGates, Waited
    from workflows import policies

if TYPE_CHECKING:
    from workflows.task_run import TaskRun


class HostWork:
    """The git work and the gates of one task."""

    def __init__(self, run: "TaskRun") -> None:
        self._run = run

    def to_merge(
        self, branches: tuple[str, ...], step: int | None, subject: str, waited: tuple[Waited, ...] = ()
    ) -> MergeStep:
        """What is to be put on the result as one commit."""
        onto = self._run.head if self._run.keeps_progress else ""
        return MergeStep(
            task_id=self._run.task_id, branches=branches, step=step, subject=subject, onto=onto, waited=waited
        )

    async def merge(self, request: MergeStep) -> MergedStep:
        """Put what the branches changed on the result as one commit."""
        merged: MergedStep = await workflow.execute_activity_method(
            Merging.merge_step,
            request,
            task_queue=self._run.opened.host_queue,
            summary=f"merge {', '.join(request.branches[:3])}",
            **policies.GIT,
        )
        self._take(request, merged)
        return merged

    async def merge_together(self, requests: Sequence[MergeStep]) -> tuple[MergedStep, ...]:
        """The same for several in their order, each on top of the one before. What became of the first ones comes back;
        the rest is to be asked for again."""
        merged: tuple[MergedStep, ...] = await workflow.execute_activity_method(
            Merging.merge_steps,
            MergeSteps(task_id=self._run.task_id, merges=tuple(requests)),
            task_queue=self._run.opened.host_queue,
            summary=f"merge steps {', '.join(str(request.step) for request in requests)}",
            **policies.GIT,
        )
        for request, one in zip(requests, merged, strict=False):
            self._take(request, one)
        return merged

    def _take(self, request: MergeStep, merged: MergedStep) -> None:
        self._run.head = merged.commit
        if merged.merged:
            self._run.trail = self._run.trail.with_merge(request.step)

    async def gates(
        self,
        commit: str,
        workspace: str,
        baseline: tuple[GateResult, ...] = (),
        watched: tuple[str, ...] = (),
        chosen: tuple[GateSpec, ...] | None = None,
    ) -> GateResults:
        """Run all gates on a commit, or the chosen ones in a workspace that is kept for the next run. Gates that cannot
        be run are inconclusive; they never end the task.

        `baseline`: with it new failures are run again, and what became of the tests is looked at. `watched`: tests
        that failed newly before.
        """
        gates = self._run.opened.gates if chosen is None else chosen
        sizes = self._run.opened.settings.sizes if chosen is None else ()
        if not gates and not sizes:
            return GateResults()
        try:
            found: GateResults = await workflow.execute_activity_method(
                TaskWork.run_gates,
                RunGates(
                    task_id=self._run.task_id,
                    commit=commit,
                    workspace=workspace,
                    gates=gates,
                    baseline=tuple(result.model_copy(update=NOT_COMPARED) for result in baseline),
                    watched=watched,
                    sizes=sizes,
                    keep=chosen is not None,
                ),
                task_queue=self._run.opened.host_queue,
                summary=f"gates on {workspace}",
                **policies.gates([gate.timeout for gate in gates]),
            )
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            return GateResults(results=tuple(not_run(gate, str(error.cause or error)[:500]) for gate in gates))
        return found

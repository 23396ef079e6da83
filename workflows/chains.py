"""The chains of agents of one task: children from start to end, what they tell, and what is passed on to them."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, ChildWorkflowError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from baton.ledger import ItemRecord
    from baton.messages import AgentEvent, AgentResult, Assignment, Direction, Waited
    from baton.pricing import Usage
    from baton.states import AgentEnd
    from baton.status_changes import with_event
    from workflows.agent import AgentWorkflow
    from workflows.attention import HeldBack
    from workflows.failures import raise_if_cancelled

if TYPE_CHECKING:
    from workflows.task_run import TaskRun

CANCEL_AGAIN, CANCEL_AGAIN_AT_MOST = timedelta(seconds=3), timedelta(minutes=5)
"""How long a chain that was cancelled may take before it is told again; longer each time, for its host may be away."""


class Chains:
    """All chains of one task."""

    def __init__(self, run: "TaskRun") -> None:
        self._run = run
        self._starting: set[str] = set()
        self._running: dict[str, int | None] = {}
        self._events: dict[str, AgentEvent] = {}

    @property
    def usage(self) -> dict[str, Usage]:
        """What each running chain used, as far as it told."""
        return {name: event.usage for name, event in self._events.items()}

    async def run(
        self,
        assignment: Assignment,
        workflow_id: str,
        share: Decimal = Decimal(1),
        waited: tuple[Waited, ...] = (),
    ) -> AgentResult:
        """Run a chain of agents to its end. One that dies takes nobody with it: that is its result.

        `share`: so much of what is left of the limits is its part. The agent itself must have been counted before.
        `waited`: what held it back.
        """
        run = self._run
        await workflow.wait_condition(lambda: not run.status.paused or (run.renewal_due and not run.books.running))
        raise_if_cancelled()
        if run.status.paused:
            raise HeldBack
        part = run.books.hold(workflow_id, share, run.opened.settings.output_budget)
        subject = assignment.step.description if assignment.step else assignment.task
        guidance = (*assignment.guidance, *self._guidance_for(assignment))
        sent = run.keeping.untold(assignment.knowledge) if run.keeps_progress else assignment.knowledge
        given = {"guidance": guidance, "knowledge": sent, "knowledge_kept": run.keeps_progress, "waited": waited}
        self._starting.add(workflow_id)
        self._running[workflow_id] = assignment.step.step if assignment.step else None
        try:
            chain = await workflow.start_child_workflow(
                AgentWorkflow.run,
                assignment.model_copy(update={"allowance": part, **given}),
                id=workflow_id,
                # Where its activities are, so that the worker begins the next one without a way over the server.
                task_queue=assignment.host_queue,
                id_reuse_policy=WorkflowIDReusePolicy.TERMINATE_IF_RUNNING,
                static_summary=f"{assignment.name}: {subject}"[:200],
            )
            self._starting.discard(workflow_id)
            result = await _end_of(chain, workflow_id)
            learned = result.knowledge.entries[len(sent.entries) :]
            result = result.model_copy(update={"knowledge": assignment.knowledge.with_entries(learned)})
        except ChildWorkflowError as error:
            cancelled = is_cancelled_exception(error)
            result = AgentResult(
                agent_id=assignment.name,
                end=AgentEnd.CANCELLED if cancelled else AgentEnd.FAILED,
                detail=str(error.cause or error)[:500],
                items=tuple(ItemRecord(item=item) for item in assignment.items),
                commit=assignment.start_commit,
            )
        self._starting.discard(workflow_id)
        run.account.goes_on(workflow_id)
        run.books.settle(workflow_id, result.totals.usage)
        self._events.pop(workflow_id, None)
        self._running.pop(workflow_id, None)
        at_work = tuple(agent for agent in run.status.agents_at_work if agent.workflow_id != workflow_id)
        agents = run.status.agents + result.totals.agents
        run.update(usage=run.books.settled, agents=agents, agents_at_work=at_work)
        await run.limits.ended(workflow_id)
        return result

    def names(self, step: int | None = None) -> tuple[str, ...]:
        """The workflow ids of the chains that run, or of one step's; those that told first come first."""
        told = [agent.workflow_id for agent in self._run.status.agents_at_work if step in {None, agent.step}]
        silent = [name for name, own in self._running.items() if name not in told and step in {None, own}]
        return (*told, *silent)

    def _guidance_for(self, assignment: Assignment) -> tuple[str, ...]:
        """What was said for all agents or for this step, and the agent does not know yet."""
        step = assignment.step.step if assignment.step else None
        said = (remark.text for remark in self._run.guidance if remark.step in {None, step})
        return tuple(text for text in said if text not in assignment.guidance)

    async def take_event(self, event: AgentEvent) -> None:
        """An agent tells how it stands, asks something, or asks for a successor."""
        self._events[event.workflow_id] = event
        self._run.status = with_event(self._run.status, event, tuple(self._events.values()), workflow.now())
        if not self._run.account.take(event) and event.kind == "attention":
            self._run.attention.put(
                event.attention, event.detail, event.choices, workflow_id=event.workflow_id, step=event.step
            )
        if event.handoff is not None:
            self._run.handoffs.append(event.handoff)
        self._run.show()
        self._run.limits.tell_when_near()
        if event.kind in {"lease", "allowance"}:
            await self._run.limits.asked(event)
        elif event.kind == "started" and self._run.status.paused:
            await self.direct(event.workflow_id, Direction(kind="pause"))
        elif event.kind == "started" and self._run.time_is_up:
            await self.direct(event.workflow_id, self._run.time_limit.direction())

    async def direct(self, workflow_id: str, direction: Direction) -> None:
        """Pass something on to a running agent."""
        if workflow_id in self._starting:
            await workflow.wait_condition(lambda: workflow_id not in self._starting)
        try:
            await workflow.get_external_workflow_handle(workflow_id).signal("direct", direction)
        except ApplicationError:
            self._run.attention.reject(f"{direction.kind}: {workflow_id} does not run any more")


async def _end_of(chain: workflow.ChildWorkflowHandle[Any, AgentResult], workflow_id: str) -> AgentResult:
    """The chain's result. When the task is cancelled, so is the run that the chain has reached by then.

    The SDK would cancel the first run, which has long continued as new; and a request that meets a run in the moment
    of its handoff is lost, so it is repeated until the chain ends.
    """
    try:
        return await asyncio.shield(chain)
    except asyncio.CancelledError:
        patience = CANCEL_AGAIN
        while not chain.done():
            with suppress(ApplicationError):
                await workflow.get_external_workflow_handle(workflow_id).cancel()
            with suppress(TimeoutError):
                await workflow.wait_condition(chain.done, timeout=patience)
            patience = min(2 * patience, CANCEL_AGAIN_AT_MOST)
        return await chain

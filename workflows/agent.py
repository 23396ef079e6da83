"""AgentWorkflow: one assignment of any role. One run is one agent; a handoff is a continue-as-new with the manifest.

The run only orders: open, turn after turn as `baton.agent` decides, close. Everything that must survive a kill is in
the conversation's head and the workspace's commit, which the state carries.
"""

import asyncio
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.agents import Agents
    from activities.turn import Turns
    from baton.agent import AgentState, Ask, Finish, HandOff, Stop, next_move, remaining
    from baton.ledger import ItemCounts, ItemRecord, counts, merge
    from baton.manifest import HandoffReason
    from baton.messages import (
        AGENT_WORKFLOW,
        NEEDS_PERSON,
        AgentEnd,
        AgentEvent,
        AgentResult,
        Assignment,
        ChainTotals,
        CloseAgent,
        ClosedAgent,
        Direction,
        EventKind,
        TurnRequest,
    )
    from baton.roles import Role, agent_id
    from baton.status import AgentStatus
    from workflows import policies

EVENT_INTERVAL = timedelta(seconds=30)
TURNS = {
    Role.PLANNER: Turns.plan,
    Role.EXECUTOR: Turns.execute_step,
    Role.REVIEWER: Turns.review,
    Role.RESOLVER: Turns.resolve,
    Role.INTEGRATOR: Turns.integrate,
}


@workflow.defn(name=AGENT_WORKFLOW)
class AgentWorkflow:
    """The life of one agent."""

    @workflow.init
    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._state: AgentState | None = None
        self._guidance: list[str] = []
        self._answer: Direction | None = None
        self._last_event: datetime | None = None

    @workflow.run
    async def run(self, assignment: Assignment) -> AgentResult:
        """Work until the assignment is done, handed off or stopped."""
        try:
            await self._open()
            return await self._work()
        except (asyncio.CancelledError, FailureError) as error:
            if is_cancelled_exception(error):
                return await asyncio.shield(self._end(AgentEnd.CANCELLED, HandoffReason.CANCELLED, "cancelled"))
            return await self._end(AgentEnd.FAILED, HandoffReason.ERROR_RECOVERY, _reason(error))

    @workflow.query
    def status(self) -> AgentStatus:
        """How this agent stands."""
        return AgentStatus(**self._event("progress").model_dump(include=set(AgentStatus.model_fields)))

    @workflow.signal
    def direct(self, direction: Direction) -> None:
        """Guidance from the user, or the answer to what this agent waits for."""
        if direction.kind == "guidance":
            self._guidance.append(direction.text)
        else:
            self._answer = direction

    async def _work(self) -> AgentResult:
        while True:
            move = next_move(self._assignment, self._current, tuple(self._guidance))
            match move:
                case Ask():
                    await self._turn(move)
                    if workflow.info().is_continue_as_new_suggested():
                        return await self._hand_off(HandoffReason.CONTEXT_LIMIT)
                case HandOff():
                    return await self._hand_off(move.reason)
                case Finish():
                    return await self._end(AgentEnd.FINISHED, HandoffReason.SUBTASK_COMPLETE, "")
                case Stop():
                    end = AgentEnd.BLOCKED if move.blocked else AgentEnd.STOPPED
                    return await self._end(end, HandoffReason.OUTPUT_LIMIT, move.detail)

    @property
    def _current(self) -> AgentState:
        if self._state is None:
            raise ApplicationError("the agent was not opened", non_retryable=True)
        return self._state

    async def _open(self) -> None:
        opened = await workflow.execute_activity_method(
            Agents.open_agent,
            self._assignment,
            task_queue=self._assignment.host_queue,
            summary=f"{self._id} · open",
            **policies.OPEN,
        )
        self._state = AgentState(head=opened.head, commit=opened.commit)
        await self._tell("started")

    async def _turn(self, ask: Ask) -> None:
        state, assignment = self._current, self._assignment
        request = TurnRequest(
            task_id=assignment.task_id,
            agent_id=self._id,
            role=assignment.role,
            workspace=assignment.workspace,
            head=state.head,
            commit=state.commit,
            turn=state.turn + 1,
            max_tokens=ask.max_tokens,
            notices=ask.notices,
        )
        del self._guidance[: sum(notice.kind == "guidance" for notice in ask.notices)]
        while True:
            try:
                outcome = await workflow.execute_activity_method(
                    TURNS[assignment.role],
                    request,
                    task_queue=assignment.host_queue,
                    summary=f"{self._id} · turn {request.turn}",
                    **policies.turn(request.max_tokens),
                )
                break
            except ActivityError as error:
                if not _needs_person(error):
                    raise
                await self._wait_for_person(_reason(error))
        self._state = state.after(outcome).model_copy(
            update={"prepared": state.prepared or ask.prepared, "hand_off_asked": ask.hand_off_asked}
        )
        if self._last_event is None or workflow.now() - self._last_event >= EVENT_INTERVAL:
            await self._tell("progress")

    async def _wait_for_person(self, question: str) -> None:
        """Wait durably until the parent passes on an answer. `stop` ends the agent."""
        self._answer = None
        await self._tell("attention", detail=question)
        await workflow.wait_condition(lambda: self._answer is not None)
        if self._direction_kind() == "stop":
            raise ApplicationError(f"stopped by a person: {question}", type="StoppedByPerson", non_retryable=True)

    def _direction_kind(self) -> str | None:
        return self._answer.kind if self._answer else None

    async def _hand_off(self, reason: HandoffReason) -> AgentResult:
        assignment, state = self._assignment, self._current
        if assignment.successors_left <= 0:
            return await self._end(AgentEnd.STOPPED, reason, "no further agent is allowed (maxAgents)")
        closed = await self._close(reason, successor=True)
        fruitless = 0 if closed.progressed else assignment.totals.fruitless + 1
        if fruitless >= 2:
            return await self._end(AgentEnd.BLOCKED, reason, "two agents in a row handed off without any progress")
        successor = agent_id(assignment.name, assignment.generation + 1)
        await self._tell("handoff", detail=reason, successor_id=successor)
        following = assignment.model_copy(
            update={
                "generation": assignment.generation + 1,
                "items": closed.manifest.pending_items
                if closed.manifest.in_progress_item is None
                or closed.manifest.in_progress_item.file not in assignment.items
                else (closed.manifest.in_progress_item.file, *closed.manifest.pending_items),
                "done": (*assignment.done, *closed.records),
                "manifest": closed.manifest,
                "knowledge": closed.knowledge,
                "chain": closed.manifest.chain,
                "successors_left": assignment.successors_left - 1,
                "allowance": remaining(assignment.allowance, state.usage),
                "guidance": (*assignment.guidance, *self._guidance),
                "totals": self._totals(handoffs=1, fruitless=fruitless),
            }
        )
        await workflow.wait_condition(workflow.all_handlers_finished)
        return workflow.continue_as_new(following)

    async def _end(self, end: AgentEnd, reason: HandoffReason, detail: str) -> AgentResult:
        """The result of the whole chain."""
        assignment = self._assignment
        closed: ClosedAgent | None = None
        if self._state is not None:
            try:
                closed = await self._close(reason, successor=False)
            except ActivityError as error:
                end, detail = AgentEnd.FAILED, f"{detail}; what it left could not be read: {_reason(error)}".strip("; ")
        await self._tell("ended", detail=detail)
        await workflow.wait_condition(workflow.all_handlers_finished)
        return AgentResult(
            agent_id=self._id,
            end=end,
            detail=detail,
            submission=closed.submission if closed else None,
            plan=closed.plan if closed else None,
            items=self._records(closed.records if closed else ()),
            knowledge=closed.knowledge if closed else assignment.knowledge,
            totals=self._totals(),
            commit=self._state.commit if self._state else assignment.start_commit,
        )

    async def _close(self, reason: HandoffReason, *, successor: bool) -> ClosedAgent:
        state = self._current
        return await workflow.execute_activity_method(
            Agents.close_agent,
            CloseAgent(
                assignment=self._assignment,
                head=state.head,
                commit=state.commit,
                turns=state.turn,
                usage=state.usage,
                reason=reason,
                successor=successor,
                at=workflow.now(),
            ),
            task_queue=self._assignment.host_queue,
            summary=f"{self._id} · {'hand off' if successor else 'close'}",
            **policies.GIT,
        )

    def _totals(self, *, handoffs: int = 0, fruitless: int = 0) -> ChainTotals:
        before, state = self._assignment.totals, self._current if self._state else None
        return ChainTotals(
            usage=before.usage + state.usage if state else before.usage,
            agents=before.agents + 1,
            handoffs=before.handoffs + handoffs,
            turns=before.turns + (state.turn if state else 0),
            fruitless=fruitless,
        )

    def _records(self, own: tuple[ItemRecord, ...]) -> tuple[ItemRecord, ...]:
        step = self._assignment.step
        return merge(step.items if step else (), self._assignment.done, own)

    def _item_counts(self) -> ItemCounts:
        """Counts so far; which items this agent finished is known exactly at its end, their number now."""
        step = self._assignment.step
        if step is None:
            return ItemCounts()
        before = counts(merge(step.items, self._assignment.done))
        finished = self._state.finished_items if self._state else 0
        return before.model_copy(update={"changed": before.changed + finished, "open": before.open - finished})

    def _event(self, kind: EventKind, detail: str = "", successor_id: str | None = None) -> AgentEvent:
        state, assignment = self._state, self._assignment
        return AgentEvent(
            kind=kind,
            agent_id=self._id,
            workflow_id=workflow.info().workflow_id,
            step=assignment.step.step if assignment.step else None,
            role=assignment.role,
            turn=state.turn if state else 0,
            used_tokens=state.usage.output_tokens if state else 0,
            budget_tokens=assignment.budget.tokens,
            usage=self._totals().usage,
            agents=assignment.generation,
            items=self._item_counts(),
            doing=state.last.doing if state and state.last else "",
            detail=detail,
            successor_id=successor_id,
        )

    async def _tell(self, kind: EventKind, detail: str = "", successor_id: str | None = None) -> None:
        """Tell the parent. An agent that was started on its own has none and tells nobody."""
        self._last_event = workflow.now()
        if kind in {"started", "ended", "handoff"}:
            workflow.set_current_details(f"**{self._id}** {kind} {detail}")
        if workflow.info().parent is None:
            return
        try:
            parent = workflow.get_external_workflow_handle(self._assignment.task_id)
            await parent.signal("agent_event", self._event(kind, detail, successor_id))
        except ApplicationError:
            workflow.logger.warning("the orchestration did not take an event of %s", self._id)

    @property
    def _id(self) -> str:
        return agent_id(self._assignment.name, self._assignment.generation)


def _needs_person(error: ActivityError) -> bool:
    return isinstance(error.cause, ApplicationError) and error.cause.type == NEEDS_PERSON


def _reason(error: BaseException) -> str:
    cause = error.cause if isinstance(error, ActivityError) else error
    return str(cause or error)[:1000]

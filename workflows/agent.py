"""AgentWorkflow: one assignment of any role. One run is one agent; a handoff is a continue-as-new with the manifest.

The run only orders: open, turn after turn as `baton.agent` decides, close. Everything that must survive a kill is in
the conversation's head, the workspace's commit and the item records, which the state carries.
"""

import asyncio

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities import directions
    from activities.agents import Agents
    from activities.turn import Turns
    from baton.agent import AgentState, Ask, Finish, HandOff, Stop, next_move, remaining
    from baton.bookkeeping import NO_ANSWER
    from baton.bounds import FRUITLESS_HANDOFFS
    from baton.breakers import Trip, TripKind, limit_trip
    from baton.chain import (
        REPLAN,
        STOP,
        agent_event,
        may_be_fruitless,
        no_progress_choices,
        result,
        successor,
    )
    from baton.facts import Question
    from baton.manifest import HandoffReason
    from baton.messages import (
        AgentEvent,
        AgentResult,
        Assignment,
        CloseAgent,
        ClosedAgent,
        Direction,
        EventKind,
        TurnOutcome,
        TurnRequest,
        Waited,
    )
    from baton.names import (
        AGENT_WORKFLOW,
        CONTEXT_TOO_LONG,
        CONVERSATION_LOST,
        NEEDS_PERSON,
        QUOTA_PAUSED,
        REQUEST_REFUSED,
        STALLED,
    )
    from baton.pricing import Usage
    from baton.quick_turns import ahead
    from baton.quota import ACCOUNT, Pause, question, told
    from baton.redaction import without_secrets
    from baton.roles import Role, agent_id
    from baton.stalls import Decision, Unanswered, decide, stall_trip
    from baton.states import AgentEnd
    from baton.status import OWN_WORDS, AgentStatus
    from workflows import policies
    from workflows.failures import lost_in, reason_of, type_of
    from workflows.log import say
    from workflows.provider_pause import ProviderPause, pause_of
    from workflows.telling import Telling
    from workflows.versions import LIMITS_ASK, QUICK_TURNS
    from workflows.waits import waited

REPLACED_FROM_FACTS = {
    CONVERSATION_LOST: HandoffReason.ERROR_RECOVERY,
    REQUEST_REFUSED: HandoffReason.ERROR_RECOVERY,
    CONTEXT_TOO_LONG: HandoffReason.CONTEXT_LIMIT,
}
"""Errors after which this conversation cannot go on, and why its successor starts."""

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
        self._guidance_shown = self._directions = 0
        self._stop: str | None = None
        self._stopped_by: TripKind | None = None
        self._choice: str | None = None
        self._lease: str | None = None
        self._answers: tuple[str, ...] = ()
        self._allowed = False
        self._held: str | None = None
        self._paused = assignment.paused
        self._telling = Telling(assignment.task_id)
        self._provider = ProviderPause()
        self._unanswered = Unanswered()
        self._waited: tuple[Waited, ...] = ()
        self._all_counted = False

    @workflow.run
    async def run(self, assignment: Assignment) -> AgentResult:
        """Work until the assignment is done, handed off or stopped."""
        try:
            await workflow.wait_condition(lambda: not self._paused)
            await self._open()
            return await self._work()
        except (asyncio.CancelledError, FailureError) as error:
            if is_cancelled_exception(error):
                return await asyncio.shield(self._end(AgentEnd.CANCELLED, HandoffReason.CANCELLED, "cancelled"))
            return await self._end(AgentEnd.FAILED, HandoffReason.ERROR_RECOVERY, reason_of(error))

    @workflow.query
    def status(self) -> AgentStatus:
        """How this agent stands."""
        return AgentStatus(**self._event().model_dump(include=set(AgentStatus.model_fields)))

    @workflow.signal
    def direct(self, direction: Direction) -> None:
        """Guidance, a pause or its end, or the choice that answers what this agent waits for."""
        direction = without_secrets(direction)
        self._directions += 1
        # A hint for the activity that runs; the workflow never reads it.
        directions.note(workflow.info().run_id, self._directions)
        match direction.kind:
            case "guidance":
                self._guidance.append(direction.text)
            case "choice":
                self._choice = direction.text
            case "lease":
                self._lease = direction.text
            case "stop":
                self._stop, self._stopped_by = direction.text, direction.limit
            case "hold":
                self._held = direction.text
            case "allowance":
                self._take_allowance(direction)
            case "released":
                self._provider.release()
            case "pause" | "unpause":
                self._paused = direction.kind == "pause"

    async def _work(self) -> AgentResult:
        while True:
            if (ended := await self._interrupted()) is not None:
                return ended
            move = next_move(self._assignment, self._current, tuple(self._guidance[self._guidance_shown :]))
            match move:
                case Ask():
                    if (ended := await self._turn(move)) is not None:
                        return ended
                    if workflow.info().is_continue_as_new_suggested():
                        return await self._hand_off(HandoffReason.CONTEXT_LIMIT)
                case HandOff():
                    return await self._hand_off(move.reason, trip=move.trip)
                case Finish():
                    return await self._end(AgentEnd.FINISHED, HandoffReason.SUBTASK_COMPLETE, "")
                case Stop() if move.limit and await self._asked_for_more(move.detail):
                    continue
                case Stop():
                    end = AgentEnd.BLOCKED if move.blocked else AgentEnd.STOPPED
                    return await self._end(end, HandoffReason.OUTPUT_LIMIT, move.detail, move.trip)

    async def _interrupted(self) -> AgentResult | None:
        """What a cancellation, a reached time limit or a pause makes of this agent; None when it goes on."""
        # A cancellation is swallowed when an activity completes in the same moment; so it is looked for again.
        if workflow.cancellation_reason() is not None:
            raise asyncio.CancelledError
        if self._stop is not None:
            trip = limit_trip(self._stopped_by, self._stop) if self._stopped_by else None
            return await self._end(AgentEnd.STOPPED, HandoffReason.OUTPUT_LIMIT, self._stop, trip)
        if self._held is not None:
            await self._asked_for_more(self._held)
            return await self._interrupted()
        if not self._paused:
            return None
        # Hand off cleanly; an agent that did nothing yet, or may have no successor, waits as it is.
        if self._current.turn > 0 and await self._may_be_followed():
            return await self._succeed(HandoffReason.PAUSED)
        await workflow.wait_condition(lambda: not self._paused or self._stop is not None)
        return await self._interrupted()

    async def _open(self) -> None:
        while True:
            try:
                opened = await workflow.execute_activity_method(
                    Agents.open_agent,
                    self._assignment,
                    task_queue=self._assignment.host_queue,
                    summary=f"{self._id} · open",
                    **policies.OPEN,
                )
                break
            except ActivityError as error:
                if type_of(error) != QUOTA_PAUSED:
                    raise
                await self._wait_for_provider(error)
                if self._stop is not None:
                    raise
        if opened.generation is not None:
            self._assignment = self._assignment.model_copy(update={"generation": opened.generation})
        self._state = AgentState(
            head=opened.head, commit=opened.commit, extra_usage=opened.usage, inherited=opened.knowledge
        )
        await self._telling.aside(self._event("started"))

    async def _turn(self, ask: Ask) -> AgentResult | None:
        """One turn, or a wait for the provider instead; a result when this conversation cannot go on and nobody may
        take over."""
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
            answers=self._answers,
            asked_before=self._unanswered.times,
            lost=self._unanswered.lost,
            waited=self._waited,
            left=remaining(assignment.allowance, state.usage + state.extra_usage),
            ahead=ahead(assignment, state, ask, self._directions) if workflow.patched(QUICK_TURNS) else None,
        )
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
                if (reason := REPLACED_FROM_FACTS.get(type_of(error) or "")) is not None:
                    return await self._hand_off(reason, reason_of(error))
                if type_of(error) == QUOTA_PAUSED:
                    self._unanswered = self._unanswered.waited(lost_in(error))
                    await self._wait_for_provider(error)
                    return None
                if type_of(error) == STALLED:
                    return await self._stalled(error)
                if type_of(error) != NEEDS_PERSON:
                    raise
                if await self._ask_person("credentials", reason_of(error), ("retry", "stop")) == "stop":
                    raise
        outcome = self._take(ask, outcome)
        if self._provider.answers():
            self._telling.be_due()
        self._answers = tuple([await self._answer(question) for question in outcome.asked])
        if request.turn == 1 or self._telling.is_due:
            await self._telling.aside(self._event())
        return None

    def _take(self, ask: Ask, outcome: TurnOutcome) -> TurnOutcome:
        """Take a turn, and those that its activity took after it; returns the last of them."""
        asked = sum(notice.kind == "guidance" for notice in ask.notices)
        self._guidance_shown += asked if outcome.guidance is None else outcome.guidance
        self._state = self._current.after(outcome).asked(ask)
        for further in outcome.further:
            self._state = self._state.after(further)
        self._unanswered, self._waited = Unanswered(), ()
        if (vain := outcome.in_vain) is not None:
            again = self._unanswered.stalled if vain.silent else self._unanswered.waited
            self._unanswered = again(vain.lost)
        return (outcome, *outcome.further)[-1]

    async def _stalled(self, error: ActivityError) -> AgentResult | None:
        """The model fell silent: ask again, let a fresh agent go on, or report it."""
        self._unanswered = self._unanswered.stalled(lost_in(error))
        state, totals = self._current, self._assignment.totals
        decision = decide(self._unanswered.silent, totals.trips)
        if decision is Decision.WAIT:
            return None
        doing = state.last.doing if state.last else ""
        trip = stall_trip(self._unanswered.silent, state.turn + 1, doing, self._assignment.step)
        self._count(self._unanswered.lost)
        if decision is Decision.REBRIEF:
            return await self._hand_off(HandoffReason.ERROR_RECOVERY, reason_of(error), trip)
        return await self._end(AgentEnd.BLOCKED, HandoffReason.ERROR_RECOVERY, trip.sentence, trip)

    async def _wait_for_provider(self, error: ActivityError) -> None:
        """Wait while no model call may leave. Raises the error when a person stops this agent for it."""
        pause = pause_of(error)
        if self._provider.is_news(pause):
            await self._telling.tell(self._paused_event(pause))
        self._choice = None
        since = workflow.now()
        say(f"waits: {told(pause)}; {pause.reason}", agent=self._id)
        await self._provider.wait_out(pause, lambda: bool(self._stop or self._held or self._choice) or self._paused)
        say("the wait for the provider is over", agent=self._id)
        self._waited += waited("quota", since)
        match self._taken_choice():
            case None:
                pass
            case "stop":
                raise error
            case _:
                await self._provider.lift(pause)
        if self._provider.is_over():
            await self._telling.tell(self._event())

    def _taken_choice(self) -> str | None:
        choice, self._choice = self._choice, None
        return choice

    def _paused_event(self, pause: Pause) -> AgentEvent:
        if pause.kind != "person":
            return self._event()
        asked = {"attention": ACCOUNT, "detail": question(pause), "choices": ("retry", STOP)}
        return self._event("attention").model_copy(update=asked)

    async def _hand_off(self, reason: HandoffReason, detail: str = "", trip: Trip | None = None) -> AgentResult:
        """Go on as the successor; the result of the chain where none may follow. `trip`: why a fresh agent is to."""
        detail = trip.sentence if trip else detail
        choice: str | None = None
        if may_be_fruitless(self._assignment, self._current):
            evidence = await self._close(reason, successor=False, evidence=True)
            if successor(self._assignment, self._current, evidence.manifest).totals.fruitless >= FRUITLESS_HANDOFFS:
                choices = no_progress_choices(self._assignment.role)
                choice = await self._ask_person("no_progress", _no_progress(evidence, detail), choices)
        if choice == REPLAN:
            return await self._end(AgentEnd.REPLAN, reason, "no progress; a person asked for a new plan")
        if choice == STOP:
            ended = await self._end(AgentEnd.BLOCKED, reason, "stopped by a person: no progress")
            return ended.model_copy(update={"stopped_by_person": True})
        if await self._may_be_followed():
            return await self._succeed(reason, choice, trip)
        limit = "no further agent is allowed (maxAgents)"
        trip = trip or limit_trip(TripKind.MAX_DEPTH, limit)
        return await self._end(AgentEnd.STOPPED, reason, f"{detail}; {limit}" if detail else limit, trip)

    async def _may_be_followed(self) -> bool:
        """Whether a successor is allowed: by the chain's own number, else by the parent, which counts all agents."""
        left = self._assignment.successors_left
        if left is not None or workflow.info().parent is None:
            return bool(left)
        self._lease = None
        await self._telling.tell(self._event("lease"))
        await workflow.wait_condition(lambda: self._lease is not None or self._stop is not None)
        return bool(self._lease)

    async def _asked_for_more(self, detail: str) -> bool:
        """Wait until the parent allows more or ends this agent; False where nobody can be asked."""
        self._held = None
        if workflow.info().parent is None or not workflow.patched(LIMITS_ASK):
            return False
        self._allowed = False
        await self._telling.tell(self._event("allowance").model_copy(update={"detail": detail}))
        await workflow.wait_condition(lambda: self._allowed or self._stop is not None)
        return True

    def _unseen(self) -> tuple[str, ...]:
        """Answers of a person that this agent has not read yet."""
        last = self._current.last
        asked = last.asked if last is not None else ()
        return tuple(f"{one.question}\n{text}" for one, text in zip(asked, self._answers, strict=False))

    def _take_allowance(self, direction: Direction) -> None:
        """From now on the chain may use so much in all; what its earlier agents used is taken off."""
        if direction.allowance is not None:
            left = remaining(direction.allowance, self._assignment.totals.usage)
            self._assignment = self._assignment.model_copy(update={"allowance": left})
        self._allowed = True

    async def _succeed(self, reason: HandoffReason, choice: str | None = None, trip: Trip | None = None) -> AgentResult:
        """Hand the manifest to the successor: the next run of this workflow."""
        closed = await self._close(reason, successor=True, trip=trip)
        await self._telling.tell(self._event("handoff", handoff=closed))
        following = successor(self._assignment, self._current, closed.manifest, choice).model_copy(
            update={"guidance": (*self._assignment.guidance, *self._guidance, *self._unseen()), "paused": self._paused}
        )
        await workflow.wait_condition(workflow.all_handlers_finished)
        if workflow.cancellation_reason() is not None:
            raise asyncio.CancelledError
        return workflow.continue_as_new(following)

    async def _answer(self, question: Question) -> str:
        """A person's answer to what the model asked."""
        if workflow.info().parent is None:
            return NO_ANSWER
        return await self._ask_person("question", question.question, (*question.options, OWN_WORDS))

    async def _ask_person(self, kind: str, question: str, choices: tuple[str, ...]) -> str:
        """Wait durably until the parent passes on a choice."""
        self._choice = None
        await self._telling.tell(
            self._event("attention").model_copy(update={"attention": kind, "detail": question, "choices": choices})
        )
        await workflow.wait_condition(lambda: self._choice is not None)
        return self._choice or ""

    async def _end(self, end: AgentEnd, reason: HandoffReason, detail: str, trip: Trip | None = None) -> AgentResult:
        """The result of the whole chain."""
        closed: ClosedAgent | None = None
        if self._state is not None:
            try:
                closed = await self._close(reason, successor=False, trip=trip)
            except ActivityError as error:
                end, detail = (
                    AgentEnd.FAILED,
                    f"{detail}; what it left could not be read: {reason_of(error)}".strip("; "),
                )
        await self._telling.tell(self._event("ended").model_copy(update={"detail": detail}))
        await workflow.wait_condition(workflow.all_handlers_finished)
        return result(self._assignment, self._state, closed, end, detail, trip)

    async def _close(
        self, reason: HandoffReason, *, successor: bool, evidence: bool = False, trip: Trip | None = None
    ) -> ClosedAgent:
        state = self._current
        closed: ClosedAgent = await workflow.execute_activity_method(
            Agents.close_agent,
            CloseAgent(
                assignment=self._assignment,
                head=state.head,
                commit=state.commit,
                turns=state.turn,
                usage=state.usage,
                records=state.records,
                knowledge=(*state.inherited, *state.knowledge),
                reason=reason,
                successor=successor,
                evidence=evidence,
                at=workflow.now(),
                trip=trip,
                waited=self._waited,
            ),
            task_queue=self._assignment.host_queue,
            summary=f"{self._id} · {'hand off' if successor else 'close'}",
            **policies.GIT,
        )
        for turn in closed.unheard:
            self._state = self._current.after(turn)
        if not evidence:
            self._count(closed.usage)
        return closed

    def _count(self, usage: Usage) -> None:
        """Add what the turn without an outcome cost, after which this agent ends; once, also if it is closed again."""
        if not self._all_counted:
            state = self._current
            self._state = state.model_copy(update={"extra_usage": state.extra_usage + usage})
            self._all_counted = True

    def _event(self, kind: EventKind = "progress", handoff: ClosedAgent | None = None) -> AgentEvent:
        event = agent_event(kind, workflow.info().workflow_id, self._assignment, self._state, handoff)
        pause = self._provider.told
        if pause is None:
            return event
        return event.model_copy(update={"doing": told(pause), "paused_until": pause.until})

    @property
    def _current(self) -> AgentState:
        if self._state is None:
            raise ApplicationError("the agent was not opened", non_retryable=True)
        return self._state

    @property
    def _id(self) -> str:
        return agent_id(self._assignment.name, self._assignment.generation)


def _no_progress(closed: ClosedAgent, detail: str) -> str:
    manifest = closed.manifest
    at = manifest.in_progress_item.file if manifest.in_progress_item else next(iter(manifest.pending_items), "the step")
    why = f" ({detail})" if detail else ""
    what = "were cut off at the same place" if manifest.cut_off else "had no item done, no change and no finding"
    return (
        f"{manifest.from_agent.id} and its predecessor {what}{why}. They were at {at}; "
        f"{len(manifest.pending_items)} items are pending."
    )

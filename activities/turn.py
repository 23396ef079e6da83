"""One turn of an agent as a transaction: never paid twice, never half applied, whenever it is killed.

Order of effects: the response is journaled before anything else happens (but for the workspace, which may be made while
the model answers); then tools run in the workspace; then the node is stored and the checkpoint that names it is made,
side by side; then the journal names the outcome. Each step finds what an earlier attempt left and goes on from there.
The workspace's lock is held throughout, so a second attempt waits for a first one that still lives instead of paying
for the same response.
"""

import asyncio
import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.call_telemetry import response_found
from activities.calls import Calls, doing
from activities.conversations import Conversation, bytes_of
from activities.credentials import Credentials
from activities.directions import number_of
from activities.logs import lines_of_turn
from activities.lost_calls import LostCalls
from activities.model import Model, ModelCancelled, ModelError, ModelRequest
from activities.overload_waits import OverloadWaits
from activities.predecessor import Predecessor
from activities.prompts import notice_text
from activities.pulse import MODEL, Pulse, pulse
from activities.sandbox import Sandbox
from activities.side_by_side import side_by_side
from activities.store import LostBlobError, name_of
from activities.task_folder import TaskFolder, Tasks
from activities.telemetry import delivered, working
from activities.trace import Teller, TurnTrace
from activities.turn_journal import Paid, turn_key
from activities.working_tree import TRAILER_AGENT, TRAILER_RESULT, TRAILER_TURN
from activities.workspace_lock import WorkspaceLock
from activities.workspace_tools import workspace_tools
from baton.agent import remaining
from baton.breakers import signs_of
from baton.conversation import (
    Block,
    Notice,
    Turn,
    calls,
    messages,
    replayable,
    user_content,
    with_cache_breakpoints,
)
from baton.facts import TurnFacts
from baton.messages import InVain, TurnOutcome, TurnRequest
from baton.models import Stored
from baton.names import CONVERSATION_LOST
from baton.pricing import Usage
from baton.quick_turns import QUICK_SECONDS, next_request
from baton.redaction import masked_value
from baton.roles import WRITING_ROLES

logger = logging.getLogger("baton.turn")


class _Applied(Stored):
    """A turn whose node is stored and whose checkpoint is made."""

    head: str
    commit: str
    node: Turn


@dataclass(frozen=True)
class _Attempt:
    """What one attempt of a turn works with."""

    folder: TaskFolder
    request: TurnRequest
    key: str
    beat: Pulse
    lock: WorkspaceLock
    trace: TurnTrace

    @property
    def writes(self) -> bool:
        return self.request.role in WRITING_ROLES


class Turns:
    """Turns of agents of every role."""

    def __init__(self, tasks: Tasks, model: Model, credentials: Credentials, sandbox: Sandbox | None = None) -> None:
        self._tasks = tasks
        self._model = model
        self._credentials = credentials
        self._sandbox = sandbox

    @activity.defn(name="plan")
    async def plan(self, request: TurnRequest) -> TurnOutcome:
        """One turn of a planner."""
        return await self._turns(request)

    @activity.defn(name="execute_step")
    async def execute_step(self, request: TurnRequest) -> TurnOutcome:
        """One turn of an executor."""
        return await self._turns(request)

    @activity.defn(name="review")
    async def review(self, request: TurnRequest) -> TurnOutcome:
        """One turn of a reviewer."""
        return await self._turns(request)

    @activity.defn(name="resolve")
    async def resolve(self, request: TurnRequest) -> TurnOutcome:
        """One turn of a resolver."""
        return await self._turns(request)

    @activity.defn(name="integrate")
    async def integrate(self, request: TurnRequest) -> TurnOutcome:
        """One turn of an integrator."""
        return await self._turns(request)

    async def _turns(self, request: TurnRequest) -> TurnOutcome:
        """The turn, and while they are quick those after it."""
        began, in_vain = time.monotonic(), None
        # What an earlier attempt was in the middle of is taken up as it was asked for, whatever came since.
        takes_up = activity.info().attempt > 1 and self._is_known(request)
        async with pulse("waiting for the workspace") as beat:
            try:
                done = [await self._turn(request, beat)]
            except ModelError as error:
                raise error.fault.error(error.lost) from error
            while (further := next_request(request, done)) is not None and (takes_up or _may_go_on(request, began)):
                takes_up = takes_up and self._is_known(further)
                try:
                    done.append(await self._turn(further, beat))
                except ModelError as error:
                    in_vain = InVain(lost=error.lost or Usage(), silent=error.fault.stalled)
                    break
                except asyncio.CancelledError:
                    if not _is_cancelled_by_workflow():
                        raise
                    # It hears of what was done, and `close_agent` counts the rest.
                    break
                except Exception:
                    logger.exception("turn %d is left to the next activity, which meets the same", further.turn)
                    break
        return done[0].model_copy(update={"further": tuple(done[1:]), "in_vain": in_vain})

    def _is_known(self, request: TurnRequest) -> bool:
        """Whether the turn was over in an earlier attempt."""
        key = turn_key(activity.info().workflow_run_id, request.turn, request.head)
        return self._tasks.folder(request.task_id).store.entry(f"{key}/outcome") is not None

    async def _turn(self, request: TurnRequest, beat: Pulse) -> TurnOutcome:
        folder = self._tasks.folder(request.task_id)
        run, work = activity.info().workflow_run_id, activity.info().activity_id
        key = turn_key(run, request.turn, request.head)
        folder.require()
        beat.turn = request.turn
        async with folder.locked(request.workspace) as lock:
            if (known := folder.store.entry(f"{key}/outcome")) is not None:
                return TurnOutcome.model_validate_json(known)
            teller = Teller(request.agent_id, request.role, request.turn)
            attempt = _Attempt(folder, request, key, beat, lock, TurnTrace(folder, teller, activity.info().attempt))
            try:
                with (
                    lines_of_turn(request.task_id, request.agent_id, request.turn),
                    working(folder, request.agent_id, request.turn, f"{run}/{work}"),
                ):
                    outcome = await self._transact(attempt)
            except LostBlobError as error:
                raise ApplicationError(str(error), type=CONVERSATION_LOST, non_retryable=True) from error
            # The disk is not waited for: without this entry the checkpoint tells the same; where the turn made none,
            # its calls run again. That could not be told to a turn that has been paid for since.
            durable = request.ahead is not None and not attempt.writes
            entry = folder.store.enter(f"{key}/outcome", outcome.model_dump_json().encode(), durable=durable)
            return TurnOutcome.model_validate_json(entry)

    async def _transact(self, attempt: _Attempt) -> TurnOutcome:
        conversation = attempt.folder.conversations.load(attempt.request.head)
        begun = attempt.folder.store.entry(f"{attempt.key}/response") is not None
        paid = await self._paid(attempt, conversation)
        if (applied := await _already_applied(attempt, begun=begun)) is not None:
            return _outcome(applied, paid)
        return _outcome(await self._apply(attempt, conversation, paid), paid)

    async def _paid(self, attempt: _Attempt, conversation: Conversation) -> Paid:
        """The response, and meanwhile the workspace: neither is waited for when the other cannot be had."""

        async def answered() -> Paid | ModelError:
            try:
                return await self._response(attempt, conversation)
            except ModelError as error:
                # No reason to give the workspace up: the next attempt needs it.
                return error

        _, paid = await side_by_side(_workspace_of(attempt), answered())
        if isinstance(paid, ModelError):
            raise paid
        return paid

    async def _response(self, attempt: _Attempt, conversation: Conversation) -> Paid:
        """The response of this turn: the journaled one, else a new one that is journaled before it is used."""
        folder, request, opening = attempt.folder, attempt.request, conversation.opening
        if (known := folder.store.entry(f"{attempt.key}/response")) is not None:
            paid = Paid.model_validate_json(known)
            response_found(opening.model, request.max_tokens, paid.response, paid.at, paid.seconds)
            attempt.trace.model_answered(paid.response, paid.seconds, paid.at, again=True)
            return paid
        user = await self._user_content(folder, request, conversation)
        again = f"/again-{request.asked_before}" if request.asked_before else ""
        info, lock = activity.info(), attempt.lock.descriptor
        lost = LostCalls(
            folder.store,
            f"{attempt.key}{again}",
            lock,
            info.attempt,
            request.lost,
            turn=attempt.key,
            number=request.turn,
        )
        prices = folder.record.opened.settings.prices
        before = conversation.turns[-1] if conversation.turns else None
        asked = ModelRequest(
            model=opening.model,
            system=opening.system,
            tools=opening.tools,
            messages=with_cache_breakpoints(messages(opening, conversation.turns, user)),
            max_tokens=request.max_tokens,
            user_id=opening.user_id,
            effort=opening.effort,
        )
        lost.was_killed(asked, before, prices, attempt.trace)
        due = info.current_attempt_scheduled_time
        waits = OverloadWaits(folder.store, f"{attempt.key}{again}", info.attempt, due, attempt.beat, attempt.trace)
        attempt.trace.waited(*request.waited)
        waits.begun()
        attempt.beat.doing = MODEL
        attempt.trace.begin()
        try:
            progress = lost.watching(attempt.beat.report_tokens)
            response = await self._model.respond(asked, progress, prices, waits.waiting)
        except ModelCancelled as error:
            # Nobody hears of it from here: `close_agent` looks it up.
            lost.broke(error.spent)
            attempt.trace.model_cancelled(opening.model, error.spent)
            raise
        except ModelError as error:
            waits.failed(error.fault)
            lost.broke(error.spent)
            error.lost = lost.with_own()
            attempt.trace.model_failed(opening.model, error.fault, error.spent)
            raise
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        told = sum(notice.kind == "guidance" for notice in request.notices)
        seconds = attempt.trace.seconds
        paid = Paid(user=user, response=response, at=at, seconds=seconds, lost=lost.total(), guidance=told)
        paid = Paid.model_validate_json(await _entered(folder, f"{attempt.key}/response", paid))
        attempt.trace.model_answered(paid.response, paid.seconds, paid.at)
        return paid

    async def _user_content(self, folder: TaskFolder, request: TurnRequest, before: Conversation) -> tuple[Block, ...]:
        """What the model is told next. What people said may hold a secret: other clients send it unseen."""
        said = [*request.answers, *(notice.text for notice in request.notices)]
        if any(said):
            secrets = await self._credentials.secrets_around(folder.workspace(request.workspace), folder.checkout)
            said = await asyncio.to_thread(masked_value, said, secrets)
        answers, texts = said[: len(request.answers)], said[len(request.answers) :]
        told = zip(request.notices, texts, strict=True)
        notices = [Notice(kind=n.kind, text=text or notice_text(n.kind, request.role)) for n, text in told]
        return user_content(before.last, answers, notices)

    async def _apply(self, attempt: _Attempt, conversation: Conversation, paid: Paid) -> _Applied:
        """Run the calls, store the node, make the checkpoint."""
        folder, request, opening = attempt.folder, attempt.request, conversation.opening
        secrets, beat = self._credentials.secrets(), attempt.beat
        tools = workspace_tools(folder, request, opening, attempt.lock, self._sandbox, secrets, beat.report_sign)
        tree = folder.repository.tree_after(folder.workspace(request.workspace), request.head, request.commit)
        runner = Calls(
            folder=folder,
            request=request,
            conversation=conversation,
            tools=tools,
            predecessor=Predecessor(
                folder=folder,
                model=self._model,
                head=opening.predecessor_head,
                journal_key=attempt.key,
                agent=request.agent_id,
                turn=request.turn,
                beat=attempt.beat,
                left=remaining(request.left, paid.response.usage + paid.lost),
            ),
            beat=beat,
            trace=attempt.trace,
            tree=tree,
        )
        work = await runner.run(paid.response)
        await delivered()
        node = Turn(
            parent=request.head,
            turn=request.turn,
            user=paid.user,
            response=paid.response,
            replay=replayable(paid.response),
            results=tuple(work.results),
            facts=work.facts.model_dump(mode="json"),
            extra_usage=work.extra_usage + paid.lost,
        )
        data = bytes_of(node)
        head, commit = name_of(data), request.commit
        storing = asyncio.to_thread(folder.conversations.add, conversation, node, data)
        if attempt.writes and (calls(paid.response) or work.facts.written):
            checkpoint = folder.repository.checkpoint(
                folder.workspace(request.workspace),
                f"{request.agent_id} · turn {request.turn}",
                {TRAILER_AGENT: request.agent_id, TRAILER_TURN: str(request.turn), TRAILER_RESULT: head},
                tools.guard.barred_paths,
                tree,
            )
            # A checkpoint that is given up is over then; a node that is stored late does no harm.
            _, commit = await side_by_side(storing, checkpoint)
        else:
            await storing
            if attempt.writes:
                folder.repository.keep_tree(folder.workspace(request.workspace), head, tree)
        return _Applied(head=head, commit=commit, node=node)


def _may_go_on(request: TurnRequest, began: float) -> bool:
    """Whether an activity that began then is young enough for one more turn, and nobody told the agent anything."""
    told = number_of(activity.info().workflow_run_id)
    is_told = request.ahead is not None and told > request.ahead.directions
    is_ending = activity.is_cancelled() or activity.is_worker_shutdown()
    return time.monotonic() - began < QUICK_SECONDS and not is_told and not is_ending


def _is_cancelled_by_workflow() -> bool:
    """Else the worker stops, and another attempt takes up what this one is in the middle of."""
    details = activity.cancellation_details()
    return details is not None and details.cancel_requested


async def _workspace_of(attempt: _Attempt) -> None:
    """Have the workspace there, while the model answers: the first turn makes it, and one that was deleted is made
    again."""
    branch = attempt.request.workspace if attempt.writes else None
    await attempt.folder.repository.open_workspace(attempt.request.workspace, attempt.request.commit, branch)


async def _already_applied(attempt: _Attempt, *, begun: bool) -> _Applied | None:
    """This very turn, when an earlier attempt died after its checkpoint.

    Otherwise the workspace is brought back to where the turn starts when its tools may have run (`begun`: it has its
    response since before; or another run began it, of which this process would know nothing).
    """
    folder, request = attempt.folder, attempt.request
    if not attempt.writes:
        return None
    workspace = folder.workspace(request.workspace)
    moved = await folder.repository.last_checkpoint(workspace) != request.commit
    if moved and (applied := await _checkpointed(attempt, workspace)) is not None:
        return applied
    known = folder.repository.vouches_for(workspace, request.head, request.commit)
    if moved or begun or activity.info().attempt > 1 or not known:
        await folder.repository.reset(workspace, request.commit)
    return None


async def _checkpointed(attempt: _Attempt, workspace: Path) -> _Applied | None:
    """This turn as the first checkpoint after its start has it, when that is what it was made for and its node was
    stored. Later ones may follow: of further turns of the same activity."""
    folder, request = attempt.folder, attempt.request
    made = await folder.repository.checkpoints(workspace, request.commit)
    commit, trailers = made[0] if made else ("", {})
    name = trailers.get(TRAILER_RESULT)
    if not name or trailers.get(TRAILER_AGENT) != request.agent_id:
        return None
    try:
        node = folder.conversations.node(name)
    except LostBlobError:
        return None
    if isinstance(node, Turn) and (node.parent, node.turn) == (request.head, request.turn):
        return _Applied(head=name, commit=commit, node=node)
    return None


def _outcome(applied: _Applied, paid: Paid) -> TurnOutcome:
    node = applied.node
    facts = TurnFacts.model_validate(node.facts)
    wanted = calls(node.response)
    return TurnOutcome(
        head=applied.head,
        commit=applied.commit,
        ending=node.response.ending,
        usage=node.response.usage,
        extra_usage=node.extra_usage,
        submitted=facts.submission.tool if facts.submission else None,
        refused_submissions=facts.refused_submissions,
        items=tuple(record.model_copy(update={"commit": applied.commit}) for record in facts.items),
        knowledge=facts.knowledge,
        files_changed=len(facts.written),
        calls=len(wanted),
        doing=doing(wanted[-1]) if wanted else "",
        asked=facts.asked,
        signs=signs_of(node.response, node.results, paid.seconds),
        guidance=paid.guidance,
    )


async def _entered(folder: TaskFolder, key: str, value: Stored) -> bytes:
    """The journal's entry, for which the disk is waited for aside: other agents go on."""
    data = value.model_dump_json().encode()
    try:
        return await asyncio.to_thread(folder.store.enter, key, data)
    except asyncio.CancelledError:
        # While it waits for a thread it goes with us; what was paid for must not. Both may write: the first one counts.
        folder.store.enter(key, data)
        raise

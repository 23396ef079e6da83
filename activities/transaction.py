"""One turn of an agent as a transaction: never paid twice, never half applied, whenever it is killed.

Order of effects: the response is journaled before anything else happens (but for the workspace, which may be made while
the model answers); then tools run in the workspace; then the turn is kept: its node is stored and the checkpoint that
names it is made, side by side, and the journal names the outcome. Each step finds what an earlier attempt left and goes
on from there. While a turn is kept the model may be asked for the next one, whose response is journaled afterwards.
The workspace's lock is held throughout, so a second attempt waits for a first one that still lives instead of paying
for the same response.
"""

import asyncio
import contextvars
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.call_telemetry import response_found
from activities.calls import Calls, doing
from activities.conversations import Conversation, bytes_of
from activities.credentials import Credentials
from activities.logs import lines_of_turn
from activities.lost_calls import LostCalls, place_of_turn
from activities.model import Model, ModelCancelled, ModelError, ModelRequest
from activities.overload_waits import OverloadWaits
from activities.predecessor import Predecessor
from activities.prompts import notice_text
from activities.pulse import MODEL, Pulse
from activities.sandbox import Sandbox
from activities.side_by_side import side_by_side
from activities.store import LostBlobError
from activities.task_folder import TaskFolder
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
from baton.messages import TurnOutcome, TurnRequest
from baton.names import CONVERSATION_LOST
from baton.redaction import masked_value
from baton.roles import WRITING_ROLES

logger = logging.getLogger("baton.turn")


@dataclass(frozen=True)
class _Applied:
    """A turn's node, its name, and the commit that goes with it."""

    head: str
    commit: str
    node: Turn


@dataclass(frozen=True)
class Workplace:
    """Where an activity takes its turns. `lock`: the workspace's, which is held."""

    folder: TaskFolder
    lock: WorkspaceLock
    beat: Pulse


class Ran:
    """A turn whose calls have run. `outcome`: what is known of it before it is kept; its commit may be that of the turn
    before. `keep` makes it last; it runs once, in the context in which it was given."""

    def __init__(self, outcome: TurnOutcome, keep: Callable[[], Coroutine[Any, Any, TurnOutcome]]) -> None:
        self.outcome = outcome
        self._keep = keep
        self._context = contextvars.copy_context()
        self._keeping: asyncio.Task[TurnOutcome] | None = None

    async def kept(self) -> TurnOutcome:
        """Its outcome, once nothing can undo it. A caller that is cancelled meanwhile waits for that too."""
        if self._keeping is None:
            self._keeping = asyncio.create_task(self._keep(), context=self._context)
        try:
            return await asyncio.shield(self._keeping)
        except asyncio.CancelledError:
            while not self._keeping.done():
                # However often it is cancelled.
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([self._keeping])
            if not self.is_kept:
                logger.warning("a turn was not kept when its activity was cancelled; another attempt runs its calls")
            raise

    @property
    def is_kept(self) -> bool:
        """Whether nothing can undo it by now."""
        keeping = self._keeping
        return keeping is not None and keeping.done() and not keeping.cancelled() and keeping.exception() is None


@dataclass(frozen=True)
class _Attempt:
    """What one attempt of a turn works with. `before`: the turn before, where the same activity took it."""

    place: Workplace
    request: TurnRequest
    key: str
    trace: TurnTrace
    before: Ran | None

    @property
    def folder(self) -> TaskFolder:
        return self.place.folder

    @property
    def writes(self) -> bool:
        return self.request.role in WRITING_ROLES


class Transactions:
    """Takes turns of agents of every role."""

    def __init__(self, model: Model, credentials: Credentials, sandbox: Sandbox | None) -> None:
        self._model = model
        self._credentials = credentials
        self._sandbox = sandbox

    async def turn(self, place: Workplace, request: TurnRequest, before: Ran | None = None) -> Ran:
        """Ask the model and run its calls, or find what an earlier attempt did of it. The turn `before` is kept while
        the model answers, and its commit is the request's. Raises `ModelError`; the turn before is kept then."""
        folder, info = place.folder, activity.info()
        key = turn_key(info.workflow_run_id, request.turn, request.head)
        place.beat.turn = request.turn
        if (known := folder.store.entry(f"{key}/outcome")) is not None:
            outcome = TurnOutcome.model_validate_json(known)
            return Ran(outcome, partial(_found, outcome))
        trace = TurnTrace(folder, Teller(request.agent_id, request.role, request.turn), info.attempt)
        work = f"{info.workflow_run_id}/{info.activity_id}"
        try:
            with (
                lines_of_turn(request.task_id, request.agent_id, request.turn),
                working(folder, request.agent_id, request.turn, work),
            ):
                return await self._transact(_Attempt(place, request, key, trace, before))
        except LostBlobError as error:
            raise ApplicationError(str(error), type=CONVERSATION_LOST, non_retryable=True) from error

    async def _transact(self, attempt: _Attempt) -> Ran:
        folder = attempt.folder
        conversation = folder.conversations.load(attempt.request.head)
        begun = folder.store.entry(f"{attempt.key}/response") is not None
        paid, commit = await self._paid(attempt, conversation)
        attempt = replace(attempt, request=attempt.request.model_copy(update={"commit": commit}))
        if (applied := await _already_applied(attempt, begun=begun)) is not None:
            outcome = _outcome(applied, paid)
            return Ran(outcome, partial(_journaled, attempt, outcome))
        return await self._apply(attempt, conversation, paid)

    async def _paid(self, attempt: _Attempt, conversation: Conversation) -> tuple[Paid, str]:
        """The response, and meanwhile the workspace, and its commit: neither is waited for when the other cannot be
        had."""

        async def answered() -> Paid | ModelError:
            try:
                return await self._response(attempt, conversation)
            except ModelError as error:
                # No reason to give the workspace up: the next attempt needs it.
                return error

        paid, commit = await side_by_side(answered(), _workspace_of(attempt))
        if isinstance(paid, ModelError):
            raise paid
        return paid, commit

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
        info, lock = activity.info(), attempt.place.lock.descriptor
        turn = place_of_turn(info.workflow_run_id, request.turn)
        lost = LostCalls(
            folder.store,
            f"{turn}{again}",
            lock,
            info.attempt,
            request.lost,
            turn=turn,
            number=request.turn,
            activity=info.activity_id,
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
        waits = OverloadWaits(
            folder.store, f"{attempt.key}{again}", info.attempt, due, attempt.place.beat, attempt.trace
        )
        attempt.trace.waited(*request.waited)
        waits.begun()
        attempt.place.beat.doing = MODEL
        attempt.trace.begin()
        try:
            progress = lost.watching(attempt.place.beat.report_tokens)
            response = await self._model.respond(asked, progress, prices, waits.waiting)
        except ModelCancelled as error:
            # Nobody hears of it from here: `close_agent` looks it up.
            lost.broke(error.spent)
            attempt.trace.model_cancelled(opening.model, error.spent)
            raise
        except ModelError as error:
            waits.failed(error.fault)
            lost.broke(error.spent)
            error.lost = lost.total()
            attempt.trace.model_failed(opening.model, error.fault, error.spent)
            raise
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        told = sum(notice.kind == "guidance" for notice in request.notices)
        seconds = attempt.trace.seconds
        paid = Paid(user=user, response=response, at=at, seconds=seconds, lost=lost.total(), guidance=told)
        paid = await _entered(attempt, paid, lost)
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

    async def _apply(self, attempt: _Attempt, conversation: Conversation, paid: Paid) -> Ran:
        """Run the calls."""
        folder, request, opening = attempt.folder, attempt.request, conversation.opening
        secrets, beat, lock = self._credentials.secrets(), attempt.place.beat, attempt.place.lock
        tools = workspace_tools(folder, request, opening, lock, self._sandbox, secrets, beat.report_sign)
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
                beat=beat,
                left=remaining(request.left, paid.response.usage + paid.lost),
            ),
            beat=beat,
            trace=attempt.trace,
            tree=tree,
        )
        work = await runner.run(paid.response)
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
        head = folder.conversations.grow(conversation, node, data)
        applied = _Applied(head=head, commit=request.commit, node=node)

        async def keep() -> TurnOutcome:
            await delivered()
            storing, commit = asyncio.to_thread(folder.store.put, data), request.commit
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
            return await _journaled(attempt, _outcome(replace(applied, commit=commit), paid))

        return Ran(_outcome(applied, paid), keep)


async def _workspace_of(attempt: _Attempt) -> str:
    """Have the workspace there, with the turn before kept: an agent's first turn makes it, and one that was deleted is
    made again. Returns the commit that the turn starts from."""
    request, before = attempt.request, attempt.before
    commit = request.commit if before is None else (await before.kept()).commit
    branch = request.workspace if attempt.writes else None
    await attempt.folder.repository.open_workspace(request.workspace, commit, branch)
    return commit


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


async def _entered(attempt: _Attempt, paid: Paid, lost: LostCalls) -> Paid:
    """The journal's entry of the response, made once the turn before is kept: sooner, and a kill could leave it behind
    a turn whose calls run again and come to another head. The disk is waited for aside: other agents go on."""
    store, name, data = attempt.folder.store, f"{attempt.key}/response", paid.model_dump_json().encode()
    try:
        if attempt.before is not None:
            await attempt.before.kept()
        return Paid.model_validate_json(await asyncio.to_thread(store.enter, name, data))
    except BaseException as error:
        if attempt.before is not None and not attempt.before.is_kept:
            lost.broke(paid.response.usage)
            attempt.trace.model_cancelled(paid.response.model, paid.response.usage)
        elif isinstance(error, asyncio.CancelledError):
            # While it waits for a thread it goes with us; what was paid for must not. Both may write: the first counts.
            store.enter(name, data)
        raise


async def _journaled(attempt: _Attempt, outcome: TurnOutcome) -> TurnOutcome:
    """The journal's outcome of a turn that is applied."""
    # The disk is not waited for: without this entry the checkpoint tells the same; where the turn made none, its calls
    # run again. That could not be told to a turn that has been paid for since.
    durable = attempt.request.ahead is not None and not attempt.writes
    store, data = attempt.folder.store, outcome.model_dump_json().encode()
    return TurnOutcome.model_validate_json(store.enter(f"{attempt.key}/outcome", data, durable=durable))


async def _found(outcome: TurnOutcome) -> TurnOutcome:
    return outcome

"""One turn of an agent as a transaction: never paid twice, never half applied, whenever it is killed.

Order of effects: the response is journaled before anything else happens; then tools run in the workspace; then the
node is stored, then the checkpoint names it, then the journal names the outcome. Each step finds what an earlier
attempt left and goes on from there. The workspace's lock is held throughout, so a second attempt waits for a first one
that still lives instead of paying for the same response.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pydantic import BaseModel
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.conversations import Conversation
from activities.model import Model, ModelError, ModelRequest
from activities.prompts import notice_text
from activities.pulse import Pulse, pulse
from activities.sandbox import Sandbox
from activities.store import LostBlobError
from activities.task_folder import TaskFolder, Tasks
from activities.tools import Tools
from activities.trace import Trace
from activities.workspace_lock import WorkspaceLock, workspace_lock
from activities.workspace_tools import workspace_tools
from baton.bookkeeping import JUDGES, Evidence, judge, unreadable_hand_off
from baton.conversation import (
    Block,
    Notice,
    Response,
    ToolCall,
    Turn,
    calls,
    messages,
    replayable,
    tool_result,
    unrun_results,
    user_content,
    with_cache_breakpoints,
)
from baton.facts import AgentFacts, TurnFacts
from baton.messages import TurnOutcome, TurnRequest
from baton.models import Stored
from baton.roles import SUBMISSION_TOOLS, WRITING_ROLES
from baton.tool_schemas import ToolFault, parse

TRAILER_AGENT, TRAILER_TURN, TRAILER_RESULT = "Baton-Agent", "Baton-Turn", "Baton-Result"
NOT_RUN_AFTER_END = "Not run: an earlier call of this response ended the work."


class _Paid(Stored):
    """A journaled response, with the user content that it answers."""

    user: tuple[Block, ...]
    response: Response


@dataclass
class _Work:
    """What the calls of one turn gave so far."""

    results: list[Block] = field(default_factory=list)
    facts: TurnFacts = field(default_factory=TurnFacts)
    so_far: AgentFacts = field(default_factory=AgentFacts)
    doing: str = ""

    @property
    def ended(self) -> bool:
        return self.facts.submission is not None

    def add(self, call: ToolCall, text: str, is_error: bool, facts: TurnFacts) -> None:
        self.results.append(tool_result(call.id, text, is_error))
        self.so_far = self.so_far.after(facts)
        self.facts = TurnFacts(
            items=(*self.facts.items, *facts.items),
            knowledge=(*self.facts.knowledge, *facts.knowledge),
            read=tuple(dict.fromkeys((*self.facts.read, *facts.read))),
            written=tuple(dict.fromkeys((*self.facts.written, *facts.written))),
            current_item=facts.current_item or self.facts.current_item,
            submission=facts.submission or self.facts.submission,
            refused_submissions=self.facts.refused_submissions + facts.refused_submissions,
        )


class Turns:
    """Turns of agents of every role."""

    def __init__(self, tasks: Tasks, model: Model, sandbox: Sandbox | None = None) -> None:
        self._tasks = tasks
        self._model = model
        self._sandbox = sandbox

    @activity.defn(name="plan")
    async def plan(self, request: TurnRequest) -> TurnOutcome:
        """One turn of a planner."""
        return await self._turn(request)

    @activity.defn(name="execute_step")
    async def execute_step(self, request: TurnRequest) -> TurnOutcome:
        """One turn of an executor."""
        return await self._turn(request)

    @activity.defn(name="review")
    async def review(self, request: TurnRequest) -> TurnOutcome:
        """One turn of a reviewer."""
        return await self._turn(request)

    @activity.defn(name="resolve")
    async def resolve(self, request: TurnRequest) -> TurnOutcome:
        """One turn of a resolver."""
        return await self._turn(request)

    @activity.defn(name="integrate")
    async def integrate(self, request: TurnRequest) -> TurnOutcome:
        """One turn of an integrator."""
        return await self._turn(request)

    async def _turn(self, request: TurnRequest) -> TurnOutcome:
        folder = self._tasks.folder(request.task_id)
        key = f"{activity.info().workflow_run_id}/{request.turn}/{request.head}"
        async with (
            pulse("waiting for the workspace") as beat,
            workspace_lock(folder.lock_path(request.workspace)) as lock,
        ):
            if (known := folder.store.entry(f"{key}/outcome")) is not None:
                return TurnOutcome.model_validate_json(known)
            try:
                outcome = await self._transact(folder, request, key, beat, lock)
            except LostBlobError as error:
                raise ApplicationError(str(error), type="ConversationLost", non_retryable=True) from error
            return TurnOutcome.model_validate_json(folder.store.enter(f"{key}/outcome", _json(outcome)))

    async def _transact(
        self, folder: TaskFolder, request: TurnRequest, key: str, beat: Pulse, lock: WorkspaceLock
    ) -> TurnOutcome:
        conversation = folder.conversations.load(request.head)
        trace = Trace(folder, request)
        paid = await self._response(folder, request, conversation, key, beat, trace)
        if (applied := await self._already_applied(folder, request)) is not None:
            return _outcome(request, *applied)
        work = await self._run_calls(folder, request, conversation, paid.response, beat, lock, trace)
        node = Turn(
            parent=request.head,
            turn=request.turn,
            user=paid.user,
            response=paid.response,
            replay=replayable(paid.response),
            results=tuple(work.results),
            facts=work.facts.model_dump(mode="json"),
        )
        head = folder.conversations.add(conversation, node)
        commit = request.commit
        if request.role in WRITING_ROLES and work.results:
            commit = await folder.repository.checkpoint(
                folder.workspace(request.workspace),
                f"{request.agent_id} · turn {request.turn}",
                {TRAILER_AGENT: request.agent_id, TRAILER_TURN: str(request.turn), TRAILER_RESULT: head},
            )
        return _outcome(request, head, commit, node)

    async def _response(
        self, folder: TaskFolder, request: TurnRequest, conversation: Conversation, key: str, beat: Pulse, trace: Trace
    ) -> _Paid:
        """The response of this turn: the journaled one, else a new one that is journaled before it is used."""
        if (known := folder.store.entry(f"{key}/response")) is not None:
            return _Paid.model_validate_json(known)
        notices = [Notice(kind=n.kind, text=n.text or notice_text(n.kind, request.role)) for n in request.notices]
        user = user_content(conversation.last, request.answers, notices)
        opening = conversation.opening
        beat.doing = "model"
        trace.begin()
        try:
            response = await self._model.respond(
                ModelRequest(
                    model=opening.model,
                    system=opening.system,
                    tools=opening.tools,
                    messages=with_cache_breakpoints(messages(opening, conversation.turns, user)),
                    max_tokens=request.max_tokens,
                    user_id=opening.user_id,
                    effort=opening.effort,
                ),
                beat.report_tokens,
                folder.record.opened.settings.prices,
            )
        except ModelError as error:
            trace.model_failed(opening.model, error.fault)
            raise error.fault.error() from error
        paid = _Paid.model_validate_json(
            folder.store.enter(f"{key}/response", _json(_Paid(user=user, response=response)))
        )
        trace.model_answered(paid.response)
        return paid

    async def _already_applied(self, folder: TaskFolder, request: TurnRequest) -> tuple[str, str, Turn] | None:
        """Node and checkpoint of this very turn, when an earlier attempt died after its checkpoint.

        Otherwise the workspace is brought back to where this turn starts.
        """
        if request.role not in WRITING_ROLES:
            return None
        workspace = folder.workspace(request.workspace)
        commit, trailers = await folder.repository.head(workspace)
        if commit != request.commit and trailers.get(TRAILER_AGENT) == request.agent_id:
            name = trailers.get(TRAILER_RESULT, "")
            node = folder.conversations.node(name) if name else None
            if isinstance(node, Turn) and node.parent == request.head and node.turn == request.turn:
                return name, commit, node
        if commit != request.commit or activity.info().attempt > 1:
            await folder.repository.reset(workspace, request.commit)
        return None

    async def _run_calls(
        self,
        folder: TaskFolder,
        request: TurnRequest,
        conversation: Conversation,
        response: Response,
        beat: Pulse,
        lock: WorkspaceLock,
        trace: Trace,
    ) -> _Work:
        work = _Work(so_far=conversation.facts)
        wanted = calls(response)
        if not wanted:
            work.results.extend(unrun_results(replayable(response), response))
            return work
        tools = workspace_tools(folder, request, conversation.opening, lock, self._sandbox)
        available = [tool["name"] for tool in conversation.opening.tools]
        for call in wanted:
            if work.ended:
                work.add(call, NOT_RUN_AFTER_END, True, TurnFacts())
                continue
            work.doing = _doing(call)
            beat.doing, beat.tokens = work.doing, 0
            trace.begin()
            await self._run_call(folder, request, conversation, call, available, tools, work)
            trace.called(call.name, is_error=bool(work.results[-1].get("is_error")))
        return work

    async def _run_call(
        self,
        folder: TaskFolder,
        request: TurnRequest,
        conversation: Conversation,
        call: ToolCall,
        available: Sequence[str],
        tools: Tools,
        work: _Work,
    ) -> None:
        arguments = (
            ToolFault(message=f"{call.name}: {call.fault}") if call.fault else parse(call.name, call.input, available)
        )
        if isinstance(arguments, ToolFault):
            facts = unreadable_hand_off(call.input) if call.name == "hand_off" else TurnFacts()
            if call.name == SUBMISSION_TOOLS[request.role]:
                facts = TurnFacts(refused_submissions=1)
            work.add(call, arguments.message, True, facts)
            return
        if call.name in JUDGES:
            judgement = judge(call.name, arguments, await self._evidence(folder, request, conversation, call, work))
            work.add(call, judgement.text, judgement.is_error, judgement.facts)
            return
        result = await tools.call(call.name, call.input)
        if result.whole is not None:
            folder.store.put(result.whole.encode())
        facts = TurnFacts(
            read=tuple(result.read_paths),
            written=tuple(result.changed_paths),
            current_item=_item_of(arguments, work.so_far),
        )
        work.add(call, result.content, result.is_error, facts)

    async def _evidence(
        self, folder: TaskFolder, request: TurnRequest, conversation: Conversation, call: ToolCall, work: _Work
    ) -> Evidence:
        changed: list[str] = []
        files: Sequence[str] = ()
        if call.name == "complete_item":
            start = conversation.opening.start_commit
            changes = await folder.repository.changed_paths(folder.workspace(request.workspace), start)
            changed = [change.path for change in changes]
        elif call.name == "submit_plan":
            files = await folder.repository.list_files(folder.record.opened.base_commit)
        return Evidence(
            facts=work.so_far,
            agent_id=request.agent_id,
            at=datetime.now(UTC),
            changed=frozenset(changed),
            files=frozenset(files),
            task_id=request.task_id,
        )


def _outcome(request: TurnRequest, head: str, commit: str, node: Turn) -> TurnOutcome:
    facts = TurnFacts.model_validate(node.facts)
    wanted = calls(node.response)
    return TurnOutcome(
        head=head,
        commit=commit,
        ending=node.response.ending,
        usage=node.response.usage,
        submitted=facts.submission.tool if facts.submission else None,
        refused_submissions=facts.refused_submissions,
        items_finished=len(facts.items),
        files_changed=len(facts.written),
        recorded=len(facts.knowledge),
        calls=len(wanted),
        doing=_doing(wanted[-1]) if wanted else "",
    )


def _doing(call: ToolCall) -> str:
    """`edit src/a.py`: what a person sees."""
    arguments = call.input if isinstance(call.input, dict) else {}
    for key in ("file_path", "item", "pattern", "command"):
        if isinstance(arguments.get(key), str):
            return f"{call.name} {' '.join(arguments[key].split())}"[:120]
    return call.name


def _item_of(arguments: BaseModel, facts: AgentFacts) -> str | None:
    path = getattr(arguments, "file_path", None)
    return path if path in facts.items and path not in facts.records else None


def _json(value: Stored) -> bytes:
    return value.model_dump_json().encode()

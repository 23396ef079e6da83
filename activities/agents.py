"""The beginning and the end of an agent: the first message and workspace, the verified manifest and what is left."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from temporalio import activity

from activities.agent_numbers import agent_number
from activities.artifacts import Artifacts
from activities.conversations import Conversations
from activities.credentials import Credentials
from activities.inheritance import inherit
from activities.known_tree import KnownTree
from activities.model import Model, ModelError
from activities.predecessor import Predecessor
from activities.prompts import system_prompt
from activities.pulse import Pulse, pulse
from activities.sandbox import Sandbox
from activities.store import LostBlobError
from activities.task_folder import TaskFolder, Tasks
from activities.task_telemetry import AgentBeginning, AgentEnding, agent_began, agent_ended
from activities.telemetry import working
from activities.text_files import cut_middle
from activities.trace import TaskTrace
from activities.turn_journal import cost_so_far, unheard
from activities.workspaces import prepare_workspace
from baton.agent import remaining
from baton.conversation import Opening
from baton.facts import AgentFacts
from baton.first_message import assignment_fields, assignment_message
from baton.knowledge import Entry, Knowledge, entries
from baton.manifest import FromAgent, Handing, HandoffReason, ToAgent, complete, missing_context, with_remaining_work
from baton.merging import conflict_ownership
from baton.messages import Assignment, CloseAgent, ClosedAgent, OpenedAgent, TurnOutcome
from baton.plan import Plan
from baton.pricing import Usage
from baton.redaction import is_key_file, is_secret_file, masked_value, redacted
from baton.roles import WRITING_ROLES, Role, agent_id
from baton.step_outputs import SHOWN_CHARACTERS, address, output_of
from baton.tool_schemas import tools_for

CHANGED_KEPT = 300
"""Changed paths that the workflow gets to know of a chain."""


class Agents:
    """Opens and closes agents."""

    def __init__(self, tasks: Tasks, model: Model, credentials: Credentials, sandbox: Sandbox | None = None) -> None:
        self._tasks = tasks
        self._model = model
        self._sandbox = sandbox
        self._credentials = credentials

    @activity.defn(name="open_agent")
    async def open_agent(self, assignment: Assignment) -> OpenedAgent:
        """Prepare the workspace, where it is needed already, and store the conversation's root node."""
        folder = self._tasks.folder(assignment.task_id)
        folder.require()
        trace = TaskTrace(folder)
        asked_for, run_id = assignment, activity.info().workflow_run_id or ""
        number = await asyncio.to_thread(agent_number, folder.store, assignment.name, assignment.generation, run_id)
        assignment = assignment.model_copy(update={"generation": number})
        await asyncio.to_thread(agent_began, folder, _beginning(assignment))
        async with pulse("preparing the workspace") as beat, folder.locked(assignment.workspace):
            assignment = await asyncio.to_thread(_with_kept_knowledge, folder, assignment)
            commit = await self._workspace(folder, asked_for)
            with working(folder, _id(assignment)):
                try:
                    assignment, asked = await self._with_context(folder, assignment, beat)
                except ModelError as error:
                    raise error.fault.error() from error
                left = remaining(assignment.allowance, asked)
                inheritance = await inherit(folder, self._model, assignment.knowledge, _id(assignment), beat, left)
        kind = folder.record.agent_type(assignment.agent_type)
        tools = tools_for(
            assignment.role,
            has_predecessor=assignment.predecessor_head is not None,
            agent_tools=kind.tools if kind else None,
            disallowed=kind.disallowed_tools if kind else (),
        )
        guidance = folder.record.guidance
        secrets = await self._secrets(folder, assignment)
        context, diff = await _context(folder, assignment), await self._diff(folder, assignment, secrets)
        # Guidance and answers come from people, as other clients than ours sent them.
        told = masked_value(assignment_fields(assignment, inheritance.lines, context, diff), secrets)
        texts = [guidance, assignment_message(told)]
        owned, owns = _owned(folder, assignment)
        opening = Opening(
            agent_id=_id(assignment),
            model=assignment.model,
            user_id=f"{assignment.task_id}/{_id(assignment)}",
            system=system_prompt(assignment.role, kind.prompt if kind else ""),
            tools=tuple(tools),
            content=tuple({"type": "text", "text": text} for text in texts if text.strip()),
            effort=assignment.effort,
            agent_type=assignment.agent_type,
            items=assignment.items,
            owned=owned,
            owns=owns,
            also_owned=assignment.also_owned,
            step=assignment.step.step if assignment.step else None,
            start_commit=assignment.start_commit,
            predecessor_head=assignment.predecessor_head,
            conflicted=assignment.conflict.names if assignment.conflict else (),
        )
        head = await asyncio.to_thread(folder.conversations.start, opening)
        gaps = _gaps(assignment, datetime.now(UTC))
        step = assignment.step.step if assignment.step else None
        trace.waited(assignment.waited, agent=_id(assignment), role=assignment.role, step=step)
        trace.write("started", agent=_id(assignment), role=assignment.role, step=step, model=assignment.model)
        usage = inheritance.usage + asked
        return OpenedAgent(head=head, commit=commit, usage=usage, knowledge=gaps, generation=number)

    @activity.defn(name="close_agent")
    async def close_agent(self, request: CloseAgent) -> ClosedAgent:
        """Complete and verify the manifest from facts, and tell what the agent submitted.

        It is written for people where work is left: for a successor, and where the chain was stopped.
        """
        assignment = request.assignment
        folder = self._tasks.folder(assignment.task_id)
        trace = TaskTrace(folder)
        async with pulse("writing the manifest"), folder.locked(assignment.workspace):
            run_id = activity.info().workflow_run_id
            turns = unheard(folder.store, run_id, request.turns, request.head)
            request = _after(request, turns)
            facts, corrections = await asyncio.to_thread(_facts, folder.conversations, request)
            changed = await _changed(folder, request) if assignment.role in WRITING_ROLES else []
            if not (request.successor or request.evidence) and assignment.role is Role.EXECUTOR:
                # The branch has everything; with many shards the files of all of them would not fit a disk.
                await folder.repository.close_workspace(assignment.workspace)
        manifest = complete(_handing(request), facts, changed, corrections)
        if not request.evidence:
            trace.waited(request.waited, agent=_id(assignment), role=assignment.role)
            trace.write(
                "ended",
                agent=_id(assignment),
                role=assignment.role,
                step=assignment.step.step if assignment.step else None,
                turn=request.turns,
                outcome=str(request.reason),
                successor=manifest.to_agent.id if manifest.to_agent else "",
            )
            await asyncio.to_thread(agent_ended, folder, _ending(request, manifest.to_agent))
        file = None
        unfinished = request.successor or request.reason is not HandoffReason.SUBTASK_COMPLETE
        if unfinished and folder.record.opened.settings.persist_state:
            artifacts = Artifacts(folder.artifacts, await self._secrets(folder, assignment))
            file = await asyncio.to_thread(artifacts.write_handoff, manifest)
        usage = cost_so_far(folder.store, run_id, request.turns + 1, request.head)
        closed = ClosedAgent(manifest=manifest, file=file, unheard=turns, usage=usage)
        submission = facts.submission
        if submission is not None and submission.tool == "submit_plan":
            return closed.model_copy(update={"plan": Plan.model_validate(submission.input)})
        kept = () if request.successor else tuple(changed[:CHANGED_KEPT])
        return closed.model_copy(update={"submission": submission, "changed": kept})

    async def _secrets(self, folder: TaskFolder, assignment: Assignment) -> frozenset[str]:
        return await self._credentials.secrets_around(folder.workspace(assignment.workspace), folder.checkout)

    async def _diff(self, folder: TaskFolder, assignment: Assignment, secrets: frozenset[str]) -> str:
        """What a reviewer is to judge, with secrets masked; empty for other roles."""
        if assignment.subject is None:
            return ""
        text = await folder.repository.diff(assignment.subject.since, assignment.start_commit)
        return cut_middle(redacted(text, secrets), hint="read the files").text

    async def _with_context(self, folder: TaskFolder, assignment: Assignment, beat: Pulse) -> tuple[Assignment, Usage]:
        """The assignment with what its manifest must say; asked of the predecessor where it does not."""
        manifest = assignment.manifest
        question = missing_context(manifest) if manifest is not None else None
        if manifest is None or question is None:
            return assignment, Usage()
        predecessor = Predecessor(
            folder=folder,
            model=self._model,
            head=assignment.predecessor_head,
            journal_key=f"{assignment.predecessor_head}/context",
            agent=_id(assignment),
            turn=0,
            beat=beat,
            left=assignment.allowance,
        )
        answer = await predecessor.ask(question, "remaining work")
        whole = with_remaining_work(manifest, None if answer.is_error else answer.text)
        return assignment.model_copy(update={"manifest": whole}), answer.usage

    async def _workspace(self, folder: TaskFolder, assignment: Assignment) -> str:
        """A workspace ready to work in, or one that the first turn can make; returns its checkpoint.

        A chain begins where its assignment says, and a successor where its predecessor ended: what else is on the
        branch comes from a chain of an earlier run, or from turns that a reset took back, and is put aside.
        """
        if await _may_come_later(folder, assignment):
            return assignment.start_commit
        is_new = not folder.workspace(assignment.workspace).is_dir()
        branch = assignment.workspace if assignment.role in WRITING_ROLES else None
        workspace = await folder.repository.open_workspace(assignment.workspace, assignment.start_commit, branch)
        tree = None
        if branch is not None and (wanted := _begins_at(assignment)):
            tree = await folder.repository.put_back(workspace, wanted)
        if assignment.generation == 1 or is_new:
            await prepare_workspace(folder, workspace, self._sandbox, self._credentials.secrets())
            tree = None if tree is None else KnownTree()
        commit = await folder.repository.last_checkpoint(workspace)
        if tree is not None:
            folder.repository.keep_tree(workspace, commit, tree)
        return commit


async def _may_come_later(folder: TaskFolder, assignment: Assignment) -> bool:
    """Whether the first turn may make the workspace while its model answers: nothing but files at a commit is needed,
    and what the model is told first needs none of them."""
    settings = folder.record.opened.settings
    is_first = assignment.generation == 1 and folder.repository.is_unknown(assignment.workspace)
    if not is_first or assignment.subject is not None or settings.setup or settings.copy_files:
        return False
    # What the model is told first is masked by the secrets that lie in the workspace.
    files = await folder.repository.list_files(assignment.start_commit)
    return not any(path == ".gitmodules" or is_secret_file(path) or is_key_file(path) for path in files)


def _owned(folder: TaskFolder, assignment: Assignment) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the agent's own paths and patterns are: those of its step; of a resolver, those of all who take part."""
    if assignment.conflict is not None:
        plan, conflict = folder.plan, assignment.conflict
        own = conflict_ownership(conflict.names, plan.plan if plan else (), conflict.owners)
        return own.items, own.owns
    return (assignment.step.items, assignment.step.owns) if assignment.step else ((), ())


def _beginning(assignment: Assignment) -> AgentBeginning:
    return AgentBeginning(
        agent=_id(assignment),
        role=assignment.role,
        step=assignment.step.step if assignment.step else None,
        model=assignment.model,
        began=datetime.now(UTC),
    )


def _after(request: CloseAgent, turns: Sequence[TurnOutcome]) -> CloseAgent:
    """The end of an agent that took these turns too."""
    if not turns:
        return request
    return request.model_copy(
        update={
            "head": turns[-1].head,
            "commit": turns[-1].commit,
            "turns": request.turns + len(turns),
            "usage": sum((turn.usage for turn in turns), request.usage),
            "records": (*request.records, *(record for turn in turns for record in turn.items)),
            "knowledge": (*request.knowledge, *(entry for turn in turns for entry in turn.knowledge)),
        }
    )


def _ending(request: CloseAgent, successor: ToAgent | None) -> AgentEnding:
    assignment = request.assignment
    return AgentEnding(
        agent=_id(assignment),
        role=assignment.role,
        step=assignment.step.step if assignment.step else None,
        model=assignment.model,
        reason=request.reason,
        successor=successor.id if successor else "",
        turns=request.turns,
        usage=request.usage,
        records=request.records,
        knowledge=request.knowledge,
        run=activity.info().workflow_run_id or "",
    )


def _with_kept_knowledge(folder: TaskFolder, assignment: Assignment) -> Assignment:
    """The assignment with everything that is known."""
    progress = folder.state.current() if assignment.knowledge_kept else None
    if progress is None:
        return assignment
    known = Knowledge(entries=progress.knowledge)
    subjects = {entry.subject for entry in progress.knowledge}
    new = [entry for entry in assignment.knowledge.entries if entry.subject not in subjects]
    return assignment.model_copy(update={"knowledge": known.with_entries(new)})


def _begins_at(assignment: Assignment) -> str:
    """The commit at which this agent finds its workspace; empty where it takes it as it is."""
    if assignment.manifest is not None:
        return assignment.manifest.chain[-1].commit or "" if assignment.manifest.chain else ""
    return assignment.start_commit if assignment.generation == 1 else ""


async def _context(folder: TaskFolder, assignment: Assignment) -> dict[str, Any] | None:
    """What the step's `input_context` holds, as far as it fits the first message."""
    named = assignment.step.input_context if assignment.step else None
    if not named:
        return None
    found = await asyncio.to_thread(folder.outputs().beginning, named)
    if found is None and output_of(named) is None:
        data = await folder.repository.read_file(assignment.start_commit, named)
        text = data.decode("utf-8", "replace")
        found = text[:SHOWN_CHARACTERS], max(0, len(text) - SHOWN_CHARACTERS)
    if found is None:
        return {"path": address(named), "content": None, "note": "No step wrote it. Find out what you need yourself."}
    shown: dict[str, Any] = {"path": address(named), "content": found[0]}
    return shown | ({"note": f"{found[1]} more characters: read it for the rest."} if found[1] else {})


def _gaps(assignment: Assignment, at: datetime) -> tuple[Entry, ...]:
    """What the manifest could not say, as issues that people see too."""
    before = assignment.knowledge.entries
    known = {(entry.text, entry.file) for entry in before}
    issues = assignment.manifest.issues_encountered if assignment.manifest else ()
    return entries(_id(assignment), at, issues=[i for i in issues if (i.issue, i.file) not in known])


def _facts(conversations: Conversations, request: CloseAgent) -> tuple[AgentFacts, tuple[str, ...]]:
    """What the agent did: items and knowledge as the workflow holds them, the rest from its conversation."""
    corrections: tuple[str, ...] = ()
    try:
        facts = conversations.load(request.head).facts
    except LostBlobError as error:
        facts = AgentFacts(items=request.assignment.items)
        corrections = (f"the agent's conversation is lost ({error}); what it said is lost with it",)
    records = {record.item: record for record in request.records}
    return facts.model_copy(update={"records": records, "knowledge": request.knowledge}), corrections


async def _changed(folder: TaskFolder, request: CloseAgent) -> list[str]:
    """Paths that differ from where the step started, with the workspace at the agent's last checkpoint."""
    assignment = request.assignment
    repository = folder.repository
    workspace = await repository.open_workspace(assignment.workspace, request.commit, assignment.workspace)
    tree = repository.tree_after(workspace, request.head)
    if not await repository.is_clean(workspace, request.commit, tree):
        await repository.reset(workspace, request.commit)
        tree = KnownTree()
    changes = await repository.changed_paths(workspace, assignment.start_commit, tree)
    repository.keep_tree(workspace, request.commit, tree)
    return [change.path for change in changes]


def _handing(request: CloseAgent) -> Handing:
    assignment = request.assignment
    return Handing(
        agent_id=_id(assignment),
        successor_id=agent_id(assignment.name, assignment.generation + 1) if request.successor else None,
        task_id=assignment.task_id,
        task=assignment.task,
        reason=request.reason,
        from_agent=FromAgent(
            id=_id(assignment),
            output_tokens=request.usage.output_tokens,
            turns=request.turns,
            model=assignment.model,
        ),
        step=assignment.step,
        completed_steps=assignment.completed_steps,
        done_before=assignment.done,
        inherited=assignment.manifest,
        chain=assignment.chain,
        commit=request.commit,
        at=request.at,
        trip=request.trip,
    )


def _id(assignment: Assignment) -> str:
    return agent_id(assignment.name, assignment.generation)

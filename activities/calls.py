"""The tool calls of one response: run in order, one result per call, nothing believed without evidence.

A response that was cut off runs nothing; what it had written of a long file is saved all the same.
"""

import asyncio
import posixpath
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel

from activities import submodule_writes
from activities.call_telemetry import tool_called
from activities.conversations import Conversation
from activities.known_tree import ChangeKind, KnownTree
from activities.predecessor import Predecessor
from activities.pulse import Pulse
from activities.secret_guard import remark as remark_on_secrets
from activities.task_folder import TaskFolder
from activities.text_files import count_lines
from activities.tool_result import ToolResult
from activities.tools import Tools
from activities.trace import TurnTrace
from activities.working_tree import Change
from activities.workspace_tools import ownership_of
from baton.bookkeeping import JUDGES, Evidence, asked, judge, unreadable_hand_off
from baton.conversation import Block, Response, ToolCall, calls, replayable, tool_result, unrun_results
from baton.facts import AgentFacts, SavedPart, TurnFacts
from baton.knowledge import Entry, Issue, entries
from baton.messages import TurnRequest
from baton.ownership import Allowed, Refused
from baton.partial_writes import STATE_KEPT_CHARACTERS, PartialWrite, partial_write
from baton.plan import HandoffStrategy, PlanStep
from baton.pricing import Usage
from baton.questions import answered_before
from baton.redaction import is_secret_file
from baton.roles import SUBMISSION_TOOLS, WRITING_ROLES
from baton.step_outputs import PREFIX, expected
from baton.tool_inputs import AskUser
from baton.tool_schemas import ToolFault, parse
from baton.wording import counted

FOREIGN_TOLD = 20
KEPT_BYTES = 10_000_000
"""What a command did to a file of somebody else is kept up to this size."""

TOOL_SECONDS = 15 * 60
"""After so long no further call of a response is begun; with the longest command it still fits the turn's limit."""
NOT_RUN_NO_TIME = "Not run: the calls before it took all the time of this turn. Send it again if it is still needed."
NOT_RUN_AFTER_END = "Not run: an earlier call of this response ended the work."

READING_TOOLS = frozenset({"read", "glob", "grep"})
"""What was found to differ still holds after these."""


@dataclass
class Work:
    """What the calls of one turn gave so far."""

    so_far: AgentFacts
    results: list[Block] = field(default_factory=list)
    facts: TurnFacts = field(default_factory=TurnFacts)
    extra_usage: Usage = field(default_factory=Usage)
    noted: dict[str, bool] = field(default_factory=dict)
    """What the trace tells of the current call beside its outcome."""
    command_began: int = 0
    changed: frozenset[str] | None = None
    """What differs from where the step began; None until it is asked for, and again once a tool may have written."""

    def add(self, facts: TurnFacts) -> None:
        """Take what one call established."""
        self.so_far = self.so_far.after(facts)
        self.facts = self.facts.with_more(facts)

    def answer(self, call: ToolCall, text: str, *, is_error: bool, facts: TurnFacts | None = None) -> None:
        """Give one call its result."""
        self.results.append(tool_result(call.id, text, is_error))
        self.add(facts or TurnFacts())


@dataclass(frozen=True)
class Calls:
    """Runs the calls of one turn."""

    folder: TaskFolder
    request: TurnRequest
    conversation: Conversation
    tools: Tools
    predecessor: Predecessor
    beat: Pulse
    trace: TurnTrace
    tree: KnownTree

    async def run(self, response: Response) -> Work:
        """All calls of the response."""
        work = Work(so_far=self.conversation.facts)
        wanted = calls(response)
        if not wanted:
            work.results.extend(unrun_results(replayable(response), response))
            if (part := partial_write(response)) is not None and self.request.role in WRITING_ROLES:
                work.add(await self._save(part))
            return work
        started = time.monotonic()
        for call in wanted:
            if work.facts.submission is not None:
                work.answer(call, NOT_RUN_AFTER_END, is_error=True)
                continue
            if time.monotonic() - started > TOOL_SECONDS:
                work.answer(call, NOT_RUN_NO_TIME, is_error=True)
                continue
            self.beat.doing, self.beat.tokens = doing(call), 0
            self.trace.begin()
            began = datetime.now(UTC)
            work.noted.clear()
            await self._run_one(call, work)
            result = work.results[-1]
            error = str(result.get("content")) if result.get("is_error") else None
            self.trace.called(call.name, call.input, error=error, **work.noted)
            refused, number = work.noted.get("refused", False), len(work.results)
            tool_called(call, result, began, refused=refused, number=number, attempt=self.trace.attempt)
            if call.name == "bash" and self.request.role in WRITING_ROLES:
                await self._judge_what_commands_changed(work)
                await self._tell_what_is_in_submodules(work)
        return work

    async def _run_one(self, call: ToolCall, work: Work) -> None:
        available = [tool["name"] for tool in self.conversation.opening.tools]
        arguments = parse(call.name, call.input, available)
        if call.fault is not None:
            arguments = ToolFault(message=f"{call.name}: {call.fault}")
        if isinstance(arguments, ToolFault):
            work.answer(call, arguments.message, is_error=True, facts=self._faulty(call))
        elif call.name in JUDGES:
            judgement = judge(call.name, arguments, await self._evidence(call, work))
            work.answer(call, judgement.text, is_error=judgement.is_error, facts=judgement.facts)
        elif call.name == "ask_predecessor":
            answer = await self.predecessor.answer(call, work.so_far.questions, work.extra_usage)
            opening = self.conversation.opening.content
            work.noted["answered"] = answered_before(str(call.input["question"]), opening)
            work.extra_usage += answer.usage
            work.answer(call, answer.text, is_error=answer.is_error, facts=TurnFacts(questions=1))
        elif isinstance(arguments, AskUser):
            judgement = asked(call.id, arguments, work.so_far)
            work.answer(call, judgement.text, is_error=judgement.is_error, facts=judgement.facts)
        else:
            await self._run_tool(call, arguments, work)

    async def _run_tool(self, call: ToolCall, arguments: BaseModel, work: Work) -> None:
        if call.name not in READING_TOOLS:
            work.changed = None
        result = await (
            self._run_command(call, work) if call.name == "bash" else self.tools.call(call.name, call.input)
        )
        self.tree.wrote(result.changed_paths)
        work.noted["refused"] = result.refused
        if result.whole is not None:
            self.folder.store.put(result.whole.encode())
        facts = TurnFacts(
            read=result.read_paths, written=result.changed_paths, current_item=_item_of(arguments, work.so_far)
        )
        work.answer(call, result.content, is_error=result.is_error, facts=facts)

    async def _run_command(self, call: ToolCall, work: Work) -> ToolResult:
        repository, workspace = self.folder.repository, self.folder.workspace(self.request.workspace)
        last = await repository.last_checkpoint(workspace)
        await repository.settle(workspace, self.tree)
        self.tree.anything_changed()
        if await self.tools.submodules():
            work.command_began = submodule_writes.now(workspace)
        result = await self.tools.call(call.name, call.input)
        await repository.hold(workspace, last)
        return result

    def _faulty(self, call: ToolCall) -> TurnFacts:
        """A submission that cannot be read counts against its bound; a hand-off ends the agent all the same."""
        if call.name == "hand_off":
            return unreadable_hand_off(None if call.fault else call.input)
        return TurnFacts(refused_submissions=1 if call.name == SUBMISSION_TOOLS[self.request.role] else 0)

    async def _evidence(self, call: ToolCall, work: Work) -> Evidence:
        changed: frozenset[str] = frozenset()
        files: Sequence[str] = ()
        unresolved: Sequence[str] = ()
        repository = self.folder.repository
        if call.name in {"complete_item", "finish_step"}:
            changed = await self._changed(work)
        elif call.name == "submit_resolution":
            workspace, opening = self.folder.workspace(self.request.workspace), self.conversation.opening
            unresolved = await repository.resolutions().marked(workspace, opening.start_commit, opening.conflicted)
        elif call.name == "submit_plan":
            files = await repository.list_files(self.conversation.opening.start_commit)
        missing, written = self._outputs() if call.name == "finish_step" else ([], [])
        return Evidence(
            facts=work.so_far,
            agent_id=self.request.agent_id,
            at=datetime.now(UTC),
            changed=changed,
            files=frozenset(files),
            task_id=self.request.task_id,
            missing_outputs=frozenset(missing),
            outputs=frozenset(written),
            unresolved=unresolved,
        )

    async def _changed(self, work: Work) -> frozenset[str]:
        """What the step changed, asked of git once for all items that are completed in a row."""
        if work.changed is None:
            workspace = self.folder.workspace(self.request.workspace)
            start = self.conversation.opening.start_commit
            changes = await self.folder.repository.changed_paths(workspace, start, self.tree)
            work.changed = frozenset(change.path for change in changes)
        return work.changed

    def _outputs(self) -> tuple[list[str], list[str]]:
        """What later steps want from this one: not written yet, and written; shards do not answer for each other."""
        plan, number = self.folder.plan, self.conversation.opening.step
        if plan is None or number is None or any(step.step == number and _is_cut(step) for step in plan.plan):
            return [], []
        outputs = self.folder.outputs()
        names = {f"{PREFIX}{number}/{name}": outputs.has(number, name) for name in expected(plan.plan, number)}
        return [name for name, there in names.items() if not there], [name for name, there in names.items() if there]

    async def _judge_what_commands_changed(self, work: Work) -> None:
        """Commands write past the file tools: what they changed of others' files is taken back, kept, and told."""
        repository, opening = self.folder.repository, self.conversation.opening
        workspace = self.folder.workspace(self.request.workspace)
        there = await repository.changes_there(workspace, opening.start_commit, self.tree)
        ownership = ownership_of(self.folder, self.request, opening)
        foreign = ownership.foreign({change.path: known for change, known in there.items()})
        refused_paths = {refused.path for refused in foreign}
        away = [change for change in there if change.path in refused_paths]
        changes = [change for change in there if change.path not in refused_paths]
        for change in away:
            if change.kind is ChangeKind.DELETED:
                # What may be there is behind a link.
                continue
            place = workspace / change.name
            if place.is_file() and not place.is_symlink() and place.stat().st_size <= KEPT_BYTES:
                self.folder.store.put(self.tools.without_secrets(change.path, place.read_bytes()))
        if foreign:
            await repository.restore(workspace, away, self.tree)
            self.trace.restored([refused.path for refused in foreign])
        told = "\n".join(refused.message for refused in foreign[:FOREIGN_TOLD])
        known = self._issue_of("changes to files of others were taken back", refused_paths)
        remark = f"A command changed files that are not yours; they are as they were before.\n{told}"
        kept, barred = await self._without_secrets(changes)
        written = tuple(change.path for change in changes if change not in barred)
        work.add(kept.with_more(TurnFacts(written=written, knowledge=known, remarks=(remark,) if foreign else ())))

    async def _tell_what_is_in_submodules(self, work: Work) -> None:
        """What the last command wrote where no commit of the task holds it: it stays there, and is told."""
        workspace, submodules = self.folder.workspace(self.request.workspace), await self.tools.submodules()
        if not submodules:
            return
        written = submodule_writes.written_since
        found = await asyncio.to_thread(written, workspace, submodules, work.command_began)
        if found:
            named = [self.tools.guard.clean(path) for path in found]
            remark = (
                f"A command changed {named[0]}{_and_more(named)} in a submodule; nothing of that gets into the result."
            )
            known = self._issue_of("left out of the result, because it is in a submodule", found)
            work.add(TurnFacts(knowledge=known, remarks=(remark,)))

    def _issue_of(self, what: str, paths: Collection[str]) -> tuple[Entry, ...]:
        """What a person is to know of files that commands changed and the result does not have; nothing without any."""
        if not paths:
            return ()
        shown = sorted(self.tools.guard.clean(path) for path in paths)
        more = f" and {len(shown) - FOREIGN_TOLD} more" if len(shown) > FOREIGN_TOLD else ""
        step = self.conversation.opening.step
        whose = f"step {step}" if step is not None else self.request.role
        issue = f"{whose}: {what}: {', '.join(shown[:FOREIGN_TOLD])}{more}"
        file = shown[0] if len(shown) == 1 else None
        return entries(self.request.agent_id, datetime.now(UTC), issues=[Issue(issue=issue, file=file)])

    async def _without_secrets(self, changes: Sequence[Change]) -> tuple[TurnFacts, frozenset[Change]]:
        """Take back what commands wrote of secrets, and say which changes it was; a person gets to know it too."""
        written = {change.name: change for change in changes if change.kind is not ChangeKind.DELETED}
        barred = [written[name] for name in await self.tools.guard.barred_paths(written)]
        if not barred:
            return TurnFacts(), frozenset()
        # A new `.env` is no copy of a secret but its home: it stays on the disk and is not committed.
        away = [change for change in barred if not (change.kind is ChangeKind.ADDED and is_secret_file(change.path))]
        await self.folder.repository.restore(self.folder.workspace(self.request.workspace), away, self.tree)
        self.trace.restored([change.path for change in barred])
        named = [self.tools.guard.clean(change.path) for change in barred]
        told = f"a command wrote a secret into {named[0]}{_and_more(named)}; it is in no commit"
        known = entries(self.request.agent_id, datetime.now(UTC), issues=[Issue(issue=told)])
        return TurnFacts(remarks=(remark_on_secrets(named[:FOREIGN_TOLD]),), knowledge=known), frozenset(barred)

    async def _save(self, part: PartialWrite) -> TurnFacts:
        """Put the whole lines of a cut write on disk, by the same tools and rules as any other write."""
        lines, rest = part.whole_lines, part.rest[:STATE_KEPT_CHARACTERS]
        if (refused := await self._refusal(part.file_path)) is not None:
            return TurnFacts(remarks=(_not_kept(refused.message),))
        exists, end = await asyncio.to_thread(_end_of, self.folder.workspace(self.request.workspace) / part.file_path)
        start = end if part.at_line is None or (not exists and part.at_line == 1) else part.at_line
        if part.tool == "write" and exists:
            saved = SavedPart(file=part.file_path, line_number=0, replaces=True)
            return TurnFacts(saved_part=saved, remarks=(_remark(saved),))
        if not lines:
            return TurnFacts(saved_part=SavedPart(file=part.file_path, line_number=start, rest=rest))
        result = await self.tools.call("append", {"file_path": part.file_path, "content": lines, "at_line": start})
        self.tree.wrote(result.changed_paths)
        if result.is_error:
            return TurnFacts(remarks=(_not_kept(result.content),))
        saved = SavedPart(file=part.file_path, line_number=start + lines.count("\n"), rest=rest)
        return TurnFacts(saved_part=saved, written=result.changed_paths, remarks=(_remark(saved),))

    async def _refusal(self, path: str) -> Refused | None:
        """Why the agent may not write there, if it may not; nobody is told to go on with such a file."""
        opening = self.conversation.opening
        path = path.removeprefix(f"{self.folder.workspace(self.request.workspace)}/")
        owned = ownership_of(self.folder, self.request, opening)
        verdict = owned.may_write(path, exists=False)
        if isinstance(verdict, Allowed):
            there = posixpath.normpath(path) in await self.folder.repository.list_files(opening.start_commit)
            verdict = owned.may_write(path, exists=there)
        return verdict if isinstance(verdict, Refused) else None


def _is_cut(step: PlanStep) -> bool:
    return step.handoff_strategy is HandoffStrategy.PARALLEL


def doing(call: ToolCall) -> str:
    """`edit src/a.py`: what a person sees."""
    arguments = call.input if isinstance(call.input, dict) else {}
    for key in ("file_path", "item", "pattern", "command"):
        if isinstance(arguments.get(key), str):
            return f"{call.name} {' '.join(arguments[key].split())}"[:120]
    return call.name


def _end_of(file: Path) -> tuple[bool, int]:
    """Whether there is such a file, and how many lines it has."""
    if not file.is_file():
        return False, 0
    return True, count_lines(file.read_bytes().decode("utf-8", "replace"))


def _and_more(paths: Sequence[str]) -> str:
    return f" and {counted(len(paths) - 1, 'other file')}" if len(paths) > 1 else ""


def _not_kept(why: str) -> str:
    return f"Your last call was cut off, and its beginning could not be kept: {why}"


def _remark(saved: SavedPart) -> str:
    if saved.replaces:
        return (
            f"Your write of {saved.file} was cut off at the token limit. The file is as it was before. "
            "Change it with edit, in small pieces."
        )
    return (
        f"Your last call was cut off at the token limit. Its whole lines are saved: {saved.file} now ends at line "
        f"{saved.line_number}. Whoever goes on appends at_line {saved.line_number}."
    )


def _item_of(arguments: BaseModel, facts: AgentFacts) -> str | None:
    path = getattr(arguments, "file_path", None)
    return path if path in facts.items and path not in facts.records else None

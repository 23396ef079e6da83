"""Steps without a model: a command per item, or one for all, in the step's workspace.

Every batch of items is a checkpoint whose trailer names their records, so an attempt that follows a kill goes on
behind the last one. What a failed command did to its item is taken back, as is what any command did to files that
the step does not own.
"""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from temporalio import activity

from activities import commands, submodule_writes
from activities.allowed_commands import AllowedCommands
from activities.credentials import Credentials
from activities.known_tree import ChangeKind
from activities.pulse import Pulse, pulse
from activities.python_origin import command_environment
from activities.repository import Change
from activities.sandbox import Sandbox
from activities.secret_guard import SecretGuard
from activities.submodule_writes import submodule_paths
from activities.task_folder import TaskFolder, Tasks, sandbox_for
from activities.task_telemetry import items_finished
from activities.tool_result import CallRefused
from activities.trace import TaskTrace
from activities.working_tree import TRAILER_AGENT, TRAILER_RESULT
from activities.workspace_lock import WorkspaceLock
from activities.workspaces import prepare_workspace
from baton.bookkeeping import has_diff
from baton.ledger import ItemRecord, ItemStatus
from baton.messages import CommandsRun, RunCommands
from baton.models import Stored
from baton.ownership import Ownership
from baton.permissions import Permissions
from baton.run_commands import command_for, last_lines, per_item
from baton.schedule import others_paths

COMMAND_LIMIT = timedelta(minutes=15)
"""For one command; the activity's own limit is this and a slice."""
SLICE_SECONDS = 10 * 60
"""After so long no further item is begun; the workflow asks again, so that pauses and limits are heard."""
BATCH_ITEMS = 50
BATCH_SECONDS = 1.0
CHECKPOINT_SHARE = 0.1
"""A batch is closed after a second, or later where checkpoints would take more than this part of the time."""
FOREIGN_TOLD = 5


class RunSteps:
    """The activity of `run` steps, on the host where the task's folder is."""

    def __init__(self, tasks: Tasks, credentials: Credentials, sandbox: Sandbox | None = None) -> None:
        self._tasks = tasks
        self._credentials = credentials
        self._sandbox = sandbox

    @activity.defn(name="run_commands")
    async def run_commands(self, request: RunCommands) -> CommandsRun:
        """Run the step's command for the items that have no record yet, for a while; tells what is recorded so far.

        With `only_tell` nothing is run.
        """
        folder = self._tasks.folder(request.task_id)
        folder.require()
        trace = TaskTrace(folder)
        where = {"agent": request.agent_id, "role": "run", "step": request.step.step}
        trace.waited(request.waited, **where)
        trace.goes_on("command", **where)
        async with pulse("preparing the workspace") as beat, folder.locked(request.workspace) as lock:
            workspace = await folder.repository.open_workspace(
                request.workspace, request.start_commit, request.workspace
            )
            await folder.repository.reset(workspace)
            told = await _recorded(folder, workspace, request)
            if request.only_tell:
                return told
            own = _Slice(folder, request, trace)
            if told.finished:
                own.found_done(told)
                return told
            own.begins(told)
            if told.commit == request.start_commit:
                await prepare_workspace(folder, workspace, self._sandbox, self._credentials.secrets())
            guard = SecretGuard(
                workspace,
                git=folder.repository.git_command(workspace),
                environment=folder.record.environment,
                base_commit=request.start_commit,
                commit=told.commit,
                credentials=self._credentials.secrets(),
                readable=[folder.checkout] if folder.checkout else [],
            )
            await guard.learn()
            run = _Run(folder, request, workspace, lock, beat, sandbox_for(folder, self._sandbox), guard, told)
            trace.begin()
            try:
                await run.some()
            except CallRefused as refused:
                return run.told.model_copy(update={"refused": guard.clean(str(refused))})
            own.ends(run.told)
            return run.told


@dataclass(frozen=True)
class _Slice:
    """What one activity ran, in all of its attempts: told once, also where one died before it could."""

    folder: TaskFolder
    request: RunCommands
    trace: TaskTrace

    def begins(self, told: CommandsRun) -> None:
        """Keep how much there was before the first attempt."""
        self.folder.store.enter(self._key, str(len(told.records)).encode())

    def found_done(self, told: CommandsRun) -> None:
        """Nothing is left to run; an earlier attempt may have run it."""
        if activity.info().attempt > 1 and self.folder.store.entry(self._key) is not None:
            self.trace.begin()
            self.ends(told)

    def ends(self, told: CommandsRun) -> None:
        """Tell what was run."""
        new = told.records[int(self.folder.store.entry(self._key) or b"0") :]
        bad = bool(told.failure) or any(record.status is ItemStatus.FAILED for record in new)
        self.trace.write(
            "command",
            agent=self.request.agent_id,
            role="run",
            step=self.request.step.step,
            outcome="failed" if bad else "ok",
            calls=len(new) or 1,
        )
        items_finished(self.folder, new, self._key)

    @property
    def _key(self) -> str:
        info = activity.info()
        return f"commands/{info.workflow_run_id}/{info.activity_id}/before"


class _Batch(Stored):
    """What one checkpoint of a run step recorded."""

    records: tuple[ItemRecord, ...] = ()
    remarks: tuple[str, ...] = ()
    failure: str = ""
    finished: bool = False


@dataclass
class _Run:
    """One attempt to run what is left."""

    folder: TaskFolder
    request: RunCommands
    workspace: Path
    lock: WorkspaceLock
    beat: Pulse
    sandbox: Sandbox | None
    guard: SecretGuard
    told: CommandsRun
    records: dict[str, ItemRecord] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    since: int | None = None
    """When the first command after the last checkpoint began, by the clock of files."""

    async def some(self) -> None:
        """All that is left, or as much as fits a slice. Raises `CallRefused` before a command that may not run."""
        command = self.request.step.run or ""
        if not per_item(command):
            await self._once(command)
            return
        done = {record.item for record in self.told.records}
        left = [item for item in self.request.step.items if item not in done]
        allowed = self._allowed()
        for item in left:
            allowed.require(command_for(command, item))
        started = committed = time.monotonic()
        pause = BATCH_SECONDS
        for number, item in enumerate(left, 1):
            self.beat.doing = f"{item} ({number}/{len(left)})"
            await self._one(item, command_for(command, item))
            now, last = time.monotonic(), number == len(left)
            if last or len(self.records) >= BATCH_ITEMS or now - committed > pause:
                await self._checkpoint(finished=last)
                committed = time.monotonic()
                pause = max(BATCH_SECONDS, (committed - now) / CHECKPOINT_SHARE)
            if now - started > SLICE_SECONDS:
                break
        if self.records or not left:
            await self._checkpoint(finished=not left)

    async def _once(self, command: str) -> None:
        """One command for all items, or for none."""
        self._allowed().require(command)
        self.beat.doing = command[:120]
        failure = await self._failure(command)
        if failure:
            await self.folder.repository.reset(self.workspace)
        for item in self.request.step.items:
            status = ItemStatus.FAILED if failure else ItemStatus.UNCHANGED
            self.records[item] = self._record(item, status, failure)
        await self._checkpoint(finished=True, failure=failure)

    async def _one(self, item: str, command: str) -> None:
        failure = await self._failure(command)
        self.records[item] = self._record(item, ItemStatus.FAILED if failure else ItemStatus.UNCHANGED, failure)
        if failure:
            others = frozenset(self.request.step.items) - {item}
            changes = await self.folder.repository.changed_paths(self.workspace)
            own = [c for c in changes if c.path not in others and has_diff(item, (c.path,))]
            await self.folder.repository.restore(self.workspace, own)

    async def _failure(self, command: str) -> str:
        """Why the command failed, with the end of its output; empty when it did not."""
        if self.since is None:
            self.since = submodule_writes.now(self.workspace)
        last = await self.folder.repository.last_checkpoint(self.workspace)
        done = await commands.run(
            command,
            cwd=self.workspace,
            environment=command_environment(self.folder.record.environment, self.workspace, self.folder.checkout),
            time_limit=COMMAND_LIMIT,
            on_start=self.lock.remember,
            sandbox=self.sandbox,
        )
        await self.folder.repository.hold(self.workspace, last)
        if not done.timed_out and done.exit_code == 0:
            return ""
        how = f"time limit of {COMMAND_LIMIT} reached" if done.timed_out else f"exit code {done.exit_code}"
        output = await self.guard.clean_printed(done.output.replace(f"{self.workspace}/", ""))
        return f"{how}: {last_lines(output) or 'no output'}"

    def _record(self, item: str, status: ItemStatus, note: str) -> ItemRecord:
        return ItemRecord(item=item, status=status, agent_id=self.request.agent_id, note=note or None)

    async def _checkpoint(self, *, finished: bool, failure: str = "") -> None:
        """Commit what the commands since the last one did, and who did not need to change."""
        repository = self.folder.repository
        changes = await repository.changed_paths(self.workspace)
        taken_back = [*await self._take_back_foreign(changes), *await self._take_back_secrets(changes)]
        taken_back += await self._in_submodules()
        since_start = await repository.changed_paths(self.workspace, self.request.start_commit)
        changed = [change.path for change in since_start]
        records = tuple(_judged(record, changed) for record in self.records.values())
        batch = _Batch(records=records, remarks=tuple(taken_back), failure=failure, finished=finished)
        name = await asyncio.to_thread(self.folder.store.put, batch.model_dump_json().encode())
        trailers = {TRAILER_AGENT: self.request.agent_id, TRAILER_RESULT: name}
        count = len(self.told.records) + len(records)
        commit = await repository.checkpoint(
            self.workspace, f"{self.request.agent_id} · {count} items", trailers, self.guard.barred_paths
        )
        self.told = _with_batch(self.told, batch, commit)
        self.records = {}

    async def _take_back_foreign(self, changes: Sequence[Change]) -> tuple[str, ...]:
        """Undo what commands did to files that the step does not own; says what."""
        plan, step = self.folder.plan, self.request.step
        also = self.request.also_owned
        others = others_paths(plan.plan, step.step, (*step.items, *also)) if plan is not None else {}
        ownership = Ownership(items=step.items, owns=step.owns, also=also, others=others)
        there = (
            frozenset(await self.folder.repository.list_files(self.request.start_commit)) if changes else frozenset()
        )
        refused = {refused.path for refused in ownership.foreign({c.path: c.path in there for c in changes})}
        await self.folder.repository.restore(self.workspace, [change for change in changes if change.path in refused])
        shown = sorted(refused)[:FOREIGN_TOLD]
        more = f" and {len(refused) - len(shown)} more" if len(refused) > len(shown) else ""
        return (f"changes to files of others were taken back: {', '.join(shown)}{more}",) if refused else ()

    async def _in_submodules(self) -> tuple[str, ...]:
        """What commands since the last checkpoint wrote where no commit of the task holds it."""
        paths = await submodule_paths(self.folder.repository.git(), self.request.start_commit, self.workspace)
        since, self.since = self.since, None
        if not paths or since is None:
            return ()
        found = await asyncio.to_thread(submodule_writes.written_since, self.workspace, paths, since)
        shown = ", ".join(self.guard.clean(path) for path in found[:FOREIGN_TOLD])
        more = f" and {len(found) - FOREIGN_TOLD} more" if len(found) > FOREIGN_TOLD else ""
        return (f"left out of the result, because it is in a submodule: {shown}{more}",) if found else ()

    async def _take_back_secrets(self, changes: Sequence[Change]) -> tuple[str, ...]:
        """Undo what commands wrote of secrets; says what."""
        self.guard.changed()
        written = {change.name: change for change in changes if change.kind is not ChangeKind.DELETED}
        barred = [written[name] for name in await self.guard.barred_paths(written)]
        await self.folder.repository.restore(self.workspace, barred)
        shown = ", ".join(self.guard.clean(change.path) for change in barred[:FOREIGN_TOLD])
        more = f" and {len(barred) - FOREIGN_TOLD} more" if len(barred) > FOREIGN_TOLD else ""
        return (f"changes that held secrets were taken back: {shown}{more}",) if barred else ()

    def _allowed(self) -> AllowedCommands:
        record = self.folder.record
        settings = record.opened.settings
        permissions = Permissions(**record.permissions.model_dump(), project_root=record.opened.source)
        gates = frozenset(gate.command.strip() for gate in record.opened.gates)
        return AllowedCommands(permissions, self.workspace, self.sandbox, settings.sandbox, gates)


async def _recorded(folder: TaskFolder, workspace: Path, request: RunCommands) -> CommandsRun:
    """What earlier attempts recorded, from the checkpoints since the step's start."""
    told = CommandsRun(commit=request.start_commit)
    for commit, trailers in await folder.repository.checkpoints(workspace, request.start_commit):
        if trailers.get(TRAILER_AGENT) == request.agent_id and (name := trailers.get(TRAILER_RESULT)):
            told = _with_batch(told, _Batch.model_validate(json.loads(folder.store.get(name))), commit)
    return told


def _with_batch(told: CommandsRun, batch: _Batch, commit: str) -> CommandsRun:
    records = tuple(record.model_copy(update={"commit": commit}) for record in batch.records)
    return told.model_copy(
        update={
            "commit": commit,
            "records": (*told.records, *records),
            "remarks": tuple(dict.fromkeys((*told.remarks, *batch.remarks))),
            "failure": batch.failure,
            "finished": batch.finished,
        }
    )


def _judged(record: ItemRecord, changed: Sequence[str]) -> ItemRecord:
    """A command that succeeded changed its item when the diff shows it."""
    if record.status is ItemStatus.UNCHANGED and has_diff(record.item, changed):
        return record.model_copy(update={"status": ItemStatus.CHANGED})
    return record

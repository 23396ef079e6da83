"""The folder of one task on this host: its record, private repository, workspaces, store and locks.

Everything Baton keeps of a task is below this folder; removing it removes the task.
"""

import os
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from activities.conversations import Conversations
from activities.disk_secrets import SecretFiles
from activities.outputs import Outputs
from activities.repository import PrivateRepository
from activities.sandbox import Sandbox
from activities.state_file import StateFile
from activities.store import Store
from activities.workspace_lock import WorkspaceLock, workspace_lock
from baton.agent_types import AgentType
from baton.layout import RECORD, task_folder, task_lock
from baton.messages import OpenedTask, TaskInput
from baton.models import Stored
from baton.names import task_id_fault
from baton.ownership import Ownership
from baton.plan import Plan
from baton.settings import PermissionRules

GIT_CONFIGURATION = "gitconfig"
"""What git inside the sandbox knows of the user: name and address."""


class TaskRecord(Stored):
    """What `open_task` settled once and for all; `task.json`."""

    task_id: str
    run_id: str = ""
    input: TaskInput
    opened: OpenedTask
    environment: dict[str, str]
    permissions: PermissionRules = PermissionRules()
    guidance: str = ""
    agent_types: tuple[AgentType, ...] = ()

    def agent_type(self, name: str | None) -> AgentType | None:
        """The type of this name; None for a general agent."""
        return next((one for one in self.agent_types if one.name == name), None)


class UnknownTaskError(Exception):
    """The task has no folder on this host."""


class TaskFolder:
    """Access to what a task keeps."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = Store(path / "store")
        self.conversations = Conversations(self.store)
        self.repository = PrivateRepository(path)
        self.state = StateFile(path, self.store)
        self.ownerships: OrderedDict[str, tuple[Plan, Ownership]] = OrderedDict()
        """What agents may change, by whose it is, with the plan that says so; kept from turn to turn."""
        self.secret_files = SecretFiles()
        self._record: TaskRecord | None = None
        self._plan: Plan | None = None

    @property
    def record(self) -> TaskRecord:
        """The task's record. Raises `UnknownTaskError` when there is none."""
        if self._record is None:
            try:
                self._record = TaskRecord.model_validate_json((self.path / RECORD).read_bytes())
            except FileNotFoundError:
                raise UnknownTaskError(f"the task {self.path.name} has no folder on this host") from None
        return self._record

    def require(self) -> None:
        """Raise `UnknownTaskError` when what the task needs on this host is not there, and cannot come back."""
        if not self.repository.path.is_dir():
            raise UnknownTaskError(f"the private repository of the task is gone: {self.repository.path}")

    def write_record(self, record: TaskRecord) -> None:
        """Settle the record."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = self.path / f".task.json.{os.getpid()}"
        temporary.write_text(record.model_dump_json(indent=1), encoding="utf-8")
        temporary.replace(self.path / RECORD)
        self._record = record

    def write_plan(self, plan: Plan) -> None:
        """Settle the plan that runs."""
        temporary = self.path / f".plan.json.{os.getpid()}"
        temporary.write_text(plan.model_dump_json(), encoding="utf-8")
        temporary.replace(self.path / "plan.json")
        self._plan = plan

    @property
    def plan(self) -> Plan | None:
        """The plan that runs; None before there is one."""
        if self._plan is None and (self.path / "plan.json").exists():
            self._plan = Plan.model_validate_json((self.path / "plan.json").read_bytes())
        return self._plan

    def workspace(self, name: str) -> Path:
        """Where the workspace of this name is."""
        return self.repository.workspace_path(name)

    def lock_path(self, name: str) -> Path:
        """The lock file of a workspace."""
        folder = self.path / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / name

    @asynccontextmanager
    async def locked(self, name: str) -> AsyncIterator[WorkspaceLock]:
        """Hold the lock of a workspace, with all gits that work in it: one that outlives us keeps it until it ends."""
        async with workspace_lock(self.lock_path(name)) as lock:
            with self.repository.under_lock(name, lock.descriptor):
                yield lock

    @property
    def downloads(self) -> Path:
        """What set-up commands fetched, for the next workspace; gone with the task's end."""
        return self.path / "downloads"

    def outputs(self, step: int | None = None) -> Outputs:
        """What steps left for later ones, as an agent of `step` may use it."""
        keeps = self.record.opened.settings.persist_state
        return Outputs(self.path / "outputs", step, self.artifacts / "outputs" if keeps else None)

    @property
    def artifacts(self) -> Path:
        """The folder of the files for people; never the current folder, where a record names none."""
        return Path(self.record.opened.artifacts or self.path / "artifacts")

    @property
    def checkout(self) -> Path | None:
        """The user's repository, where it is a folder on this host."""
        source = Path(self.record.opened.source)
        return source if source.is_absolute() and source.is_dir() else None


def sandbox_for(folder: TaskFolder, sandbox: Sandbox | None) -> Sandbox | None:
    """The host's sandbox with what this task's commands need to read; None where the task runs without one."""
    if sandbox is None or folder.record.opened.settings.sandbox == "off":
        return None
    readable = [folder.repository.path, *([folder.checkout] if folder.checkout else [])]
    hidden = (*sandbox.hidden, folder.path.parent.parent)
    return replace(
        sandbox,
        readable=(*sandbox.readable, *readable),
        hidden=hidden,
        git_configuration=folder.path / GIT_CONFIGURATION,
    )


class Tasks:
    """All tasks of this host."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self._known: dict[str, TaskFolder] = {}

    def folder(self, task_id: str) -> TaskFolder:
        """The folder of a task, existing or not. ValueError for a malformed id, so that no path can lead elsewhere."""
        if (fault := task_id_fault(task_id)) is not None:
            raise ValueError(fault)
        if (known := self._known.get(task_id)) is None:
            known = self._known[task_id] = TaskFolder(task_folder(self.state, task_id))
        return known

    def lock_path(self, task_id: str) -> Path:
        """The lock for making and removing a task's folder; beside it, since the folder itself comes and goes."""
        self.folder(task_id)
        return task_lock(self.state, task_id)

    def forget(self, task_id: str) -> None:
        """Drop what is cached of a task."""
        self._known.pop(task_id, None)

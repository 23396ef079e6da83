"""Opening a task: everything the user gave is checked before anything is made, so bad input leaves nothing behind."""

import asyncio
import logging
import os
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities import lfs
from activities.agent_type_files import agent_types_at
from activities.artifacts import Artifacts
from activities.child_environment import child_environment
from activities.credentials import Credentials
from activities.gates import discover
from activities.guidance_files import guidance_for
from activities.locking import exclusive_file
from activities.model import Model
from activities.model_checks import ModelChecks, ModelRefused
from activities.outside_parts import warnings_about
from activities.preparing import faults as copy_faults
from activities.pulse import pulse
from activities.reopening import CannotResume, reopen
from activities.repository import BadRepository, SourceFacts
from activities.settings_files import confirmed_at, layers_for
from activities.survey import survey
from activities.task_folder import GIT_CONFIGURATION, TaskFolder, TaskRecord, Tasks
from activities.task_telemetry import task_ended
from baton.findings import GateKind, GateSpec
from baton.given_secrets import given_texts
from baton.messages import (
    OpenedTask,
    OpenTask,
    TaskInput,
    TaskRef,
)
from baton.names import BAD_INPUT
from baton.permissions import Permissions
from baton.redaction import redacted
from baton.secret_forms import known
from baton.settings import Layer, Settings, SettingsFaults, permissions_of, resolve
from baton.settings_view import without_effect
from baton.traceparent import caller_of
from baton.trust import project_commands, refusal, without_rules

logger = logging.getLogger("baton.opening")


class BadInputError(ApplicationError):
    """What the user gave cannot be used."""

    def __init__(self, message: str) -> None:
        super().__init__(message, type=BAD_INPUT, non_retryable=True)


UNFIT_TEXT = (
    "{where} holds a value that is a secret here (of a .env-like file, a private key, or the worker's environment), "
    "and its text is stored: take it out and name the setting instead; what needs it can read it from the environment, "
    "or in a script that the command starts"
)


class Opening:
    """Activities that make a task and remove it. `host_queue` is this host's task queue."""

    def __init__(
        self, tasks: Tasks, model: Model, credentials: Credentials, host_queue: str, home: Path, *, searchable: bool
    ) -> None:
        self._tasks = tasks
        self._model = model
        self._credentials = credentials
        self._host_queue = host_queue
        self._home = home
        self._searchable = searchable

    @activity.defn(name="open_task")
    async def open_task(self, request: OpenTask) -> OpenedTask:
        """Check the input, clone the repository, survey it, and settle the task's record."""
        folder = self._tasks.folder(request.task_id)
        run_id = request.first_run_id
        # A first attempt that outlived its heartbeat must not undo what a second one completes.
        async with pulse("opening the task"), self._alone(folder):
            if (folder.path / "task.json").exists() and folder.record.run_id == run_id:
                return folder.record.opened
            if request.input.resume:
                return await self._reopen(folder, request)
            facts = await self._inspect(folder, request.input)
            await self._refuse_secrets(request.input, facts.top_level)
            settings, layers = self._settings(request.input, facts)
            artifacts = _artifacts_path(facts, settings, request.task_id, folder)
            self._refuse_used_id(folder, artifacts)
            try:
                limits = await ModelChecks(self._model, settings).roles()
                return await self._make(folder, request, facts, settings, layers, artifacts, limits, run_id)
            except BaseException as error:
                self._tasks.forget(request.task_id)
                await asyncio.to_thread(shutil.rmtree, folder.path, ignore_errors=True)
                if isinstance(error, ModelRefused | BadRepository):
                    raise BadInputError(str(error)) from error
                raise

    @asynccontextmanager
    async def _alone(self, folder: TaskFolder) -> AsyncIterator[None]:
        """Nobody else makes or removes the task's folder meanwhile. Where there is none then, no lock stays either."""
        lock = self._tasks.lock_path(folder.path.name)
        async with exclusive_file(lock):
            try:
                yield
            finally:
                if not folder.path.exists():
                    lock.unlink(missing_ok=True)

    async def _refuse_secrets(self, given: TaskInput, checkout: Path | None) -> None:
        """Raise `BadInputError` where a text that would be stored holds a secret that is known here."""
        secrets = known(await self._credentials.secrets_around(checkout))
        for where, text in given_texts(given):
            if secrets.found_in(text):
                raise BadInputError(UNFIT_TEXT.format(where=where))

    async def _reopen(self, folder: TaskFolder, request: OpenTask) -> OpenedTask:
        if (folder.path / "task.json").exists():
            await self._refuse_secrets(request.input, folder.checkout)
        try:
            return await reopen(
                folder, request.input, request.first_run_id, self._host_queue, searchable=self._searchable
            )
        except (CannotResume, SettingsFaults) as error:
            raise BadInputError(str(error)) from error

    @activity.defn(name="discard_task")
    async def discard_task(self, request: TaskRef) -> None:
        """Remove everything of a task that turned out not to be usable, before anything was done for it."""
        folder = self._tasks.folder(request.task_id)
        async with pulse("discarding the task"), self._alone(folder):
            await asyncio.to_thread(task_ended, folder, None)
            await asyncio.to_thread(Artifacts(folder.artifacts).remove)
            await asyncio.to_thread(shutil.rmtree, folder.path, ignore_errors=True)
        self._tasks.forget(request.task_id)

    async def _inspect(self, folder: TaskFolder, given: TaskInput) -> SourceFacts:
        try:
            return await folder.repository.inspect(given.repository, given.base)
        except BadRepository as error:
            raise BadInputError(str(error)) from error

    def _settings(self, given: TaskInput, facts: SourceFacts) -> tuple[Settings, list[Layer]]:
        try:
            layers = layers_for(self._home, facts.top_level)
            layers.append(Layer(source="the command line", orchestration=given.settings))
            settings = resolve(layers)
        except SettingsFaults as faults:
            raise BadInputError(str(faults)) from faults
        if not settings.enabled:
            named = next(layer.source for layer in reversed(layers) if "enabled" in layer.orchestration)
            raise BadInputError(f"orchestration is switched off (enabled: false in {named})")
        return settings, self._trusted(layers, given, facts.top_level)

    def _trusted(self, layers: list[Layer], given: TaskInput, top_level: Path | None) -> list[Layer]:
        """The layers, without rules of the project that nobody confirmed; commands of it are refused then."""
        if given.trust_project_commands:
            return layers
        confirmed = {*given.confirmed_commands, *confirmed_at(self._tasks.state, top_level)}
        new = [command for command in project_commands(layers) if command.fingerprint not in confirmed]
        if any(command.runs for command in new):
            raise BadInputError(refusal([command for command in new if command.runs]))
        return without_rules(layers, new)

    def _refuse_used_id(self, folder: TaskFolder, artifacts: Path) -> None:
        used = (folder.path / "task.json").exists() or (artifacts.is_dir() and any(artifacts.iterdir()))
        if used:
            raise BadInputError(
                f"the task id {folder.path.name!r} is already used: choose another with --task-id, "
                f"or look at that task with: orchestrate status {folder.path.name}"
            )

    async def _make(
        self,
        folder: TaskFolder,
        request: OpenTask,
        facts: SourceFacts,
        settings: Settings,
        layers: list[Layer],
        artifacts: Path,
        limits: tuple[dict[str, int], dict[str, int]],
        run_id: str,
    ) -> OpenedTask:
        await folder.repository.create(facts)
        repository = folder.repository
        files = await repository.list_files(facts.base_commit)

        async def read(path: str) -> bytes:
            return await repository.read_file(facts.base_commit, path)

        permissions = permissions_of(layers)
        types, type_warnings = await agent_types_at(files, read, self._home)
        guidance, guidance_warnings = await guidance_for(files, read, self._home, facts.top_level)
        warnings = [
            *Permissions(**permissions.model_dump()).warnings(),
            *without_effect(layers, settings),
            *type_warnings,
            *guidance_warnings,
            *copy_faults(settings.copy_files, facts.top_level),
        ]
        warnings += await warnings_about(repository.git(), facts.base_commit, files, facts.top_level)
        warnings += await lfs.borrow(repository.git(), facts.base_commit, files, read, facts.top_level)
        if facts.modified or facts.untracked or facts.conflicted or facts.operation:
            warnings.insert(0, facts.describe())
        opened = OpenedTask(
            host_queue=self._host_queue,
            source=str(facts.top_level or facts.source),
            base_commit=facts.base_commit,
            base_name=facts.branch or facts.base_commit[:12],
            settings=settings,
            gates=_configured_gates(settings) if settings.gates is not None else tuple(await discover(files, read)),
            survey=redacted(await survey(repository, facts.base_commit)),
            artifacts=str(artifacts),
            private_repository=str(repository.path),
            warnings=tuple(warnings),
            searchable=self._searchable,
            context_tokens=limits[0],
            most_output_tokens=limits[1],
            agent_types=await ModelChecks(self._model, settings).types(types),
        )
        record = TaskRecord(
            task_id=request.task_id,
            run_id=run_id,
            input=request.input,
            opened=opened,
            environment=_environment(request.input.environment),
            permissions=permissions,
            guidance=redacted(guidance),
            agent_types=types,
        )
        try:
            Artifacts(artifacts).create()
        except OSError as error:
            raise BadInputError(f"the artifacts folder {artifacts} cannot be made: {error.strerror}") from error
        (folder.path / GIT_CONFIGURATION).write_text(facts.identity.as_configuration(), encoding="utf-8")
        folder.write_record(record)
        if request.input.traceparent and caller_of(request.input.traceparent) is None:
            logger.warning("the traceparent of %s is no W3C header; its trace is its own", request.task_id)
        return opened


def _environment(given: Mapping[str, str] | None) -> dict[str, str]:
    """What gates and commands see: the caller's environment, else this worker's, as far as it is allowed."""
    return child_environment(given if given is not None else os.environ)


def _configured_gates(settings: Settings) -> tuple[GateSpec, ...]:
    return tuple(
        GateSpec(name=gate.name, command=gate.command, kind=GateKind(gate.kind), timeout=gate.timeout)
        for gate in settings.gates or ()
    )


def _artifacts_path(facts: SourceFacts, settings: Settings, task_id: str, folder: TaskFolder) -> Path:
    if facts.top_level is None:
        return folder.path / "artifacts"
    path = facts.top_level / settings.state_directory / task_id
    if not path.resolve().is_relative_to(facts.top_level.resolve()):
        raise BadInputError(f"stateDirectory {settings.state_directory!r} leads out of the repository")
    return path

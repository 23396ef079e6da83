"""The work of a task outside its agents: planning aids, gates, publishing, files for people."""

import asyncio

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.artifacts import Artifacts
from activities.closed_tasks import tell_end
from activities.credentials import Credentials
from activities.disk_secrets import secrets_below
from activities.folders import remove_tree
from activities.gate_checks import GateChecks, Place, restore_configuration, suite_changes
from activities.gate_workspace import GateWorkspace
from activities.gates import Gates
from activities.lfs import give_objects
from activities.measuring import sizes_of
from activities.opening import BadInputError
from activities.pulse import pulse
from activities.salvage import salvage
from activities.sandbox import Sandbox
from activities.side_by_side import side_by_side
from activities.task_folder import TaskFolder, Tasks, sandbox_for
from activities.task_telemetry import Closed
from activities.telemetry import delivered
from activities.trace import TaskTrace
from activities.workspaces import prepare_workspace
from baton.expansion import expand
from baton.gate_configuration import scripts_of
from baton.integrity import with_asked
from baton.messages import (
    Artifact,
    GateResults,
    OpenTask,
    Publish,
    Published,
    RunGates,
    SettlePlan,
    TaskRef,
)
from baton.names import OTHER_REVISION
from baton.plan import Plan, PlanFaults
from baton.progress import LoadedProgress, LoadProgress, OtherRevisionError, Progress, SaveProgress
from baton.redaction import without_secrets
from baton.report import progress_artifacts


class TaskWork:
    """Activities of the orchestration, on the host where the task's folder is."""

    def __init__(self, tasks: Tasks, credentials: Credentials, sandbox: Sandbox | None = None) -> None:
        self._tasks = tasks
        self._credentials = credentials
        self._sandbox = sandbox

    @activity.defn(name="expand_plan")
    async def expand_plan(self, request: OpenTask) -> Plan:
        """The user's own plan, checked and expanded. Bad input when it has faults."""
        folder = self._tasks.folder(request.task_id)
        draft = request.input.plan
        if draft is None:
            raise BadInputError("no plan is given")
        async with pulse("checking the plan"):
            files = await folder.repository.list_files(folder.record.opened.base_commit)
        try:
            return expand(draft, request.task_id, frozenset(files))
        except PlanFaults as faults:
            raise BadInputError(f"the plan has faults:\n{faults}") from faults

    @activity.defn(name="settle_plan")
    async def settle_plan(self, request: SettlePlan) -> None:
        """Make the plan that runs known to this host, and to people; an earlier one keeps a number."""
        folder = self._tasks.folder(request.task_id)
        secrets = await self._credentials.secrets_around(folder.checkout)
        await asyncio.to_thread(folder.write_plan, request.plan)
        if folder.record.opened.settings.persist_state:
            artifacts = Artifacts(folder.artifacts, secrets)
            await asyncio.to_thread(artifacts.write_plan, request.plan)
            task = Artifact(name="task.md", form="text", value=folder.record.input.task + "\n")
            await asyncio.to_thread(artifacts.write, task)

    @activity.defn(name="run_gates")
    async def run_gates(self, request: RunGates) -> GateResults:
        """Run the gates on one commit, in a workspace of their own, one after the other."""
        folder = self._tasks.folder(request.task_id)
        record, trace = folder.record, TaskTrace(folder)
        trace.goes_on("gate", workspace=request.workspace)
        async with pulse("preparing the gates") as beat, folder.locked(request.workspace) as lock:
            place_for = GateWorkspace(folder.repository, request.workspace, record.opened.settings.setup)
            if request.keep:
                workspace, is_set_up = await place_for.used_again(request.commit)
            else:
                workspace, is_set_up = await place_for.fresh(request.commit), False
            base, repository = record.opened.base_commit, folder.repository
            changed = await repository.changed_between(base, request.commit) if request.commit != base else []
            plan = folder.plan.plan if folder.plan is not None else ()
            scripts = scripts_of(gate.command for gate in request.gates)
            integrity = await restore_configuration(repository, workspace, base, request.commit, changed, plan, scripts)
            changes = with_asked(
                await suite_changes(repository, base, request.commit, changed), record.input.task, plan
            )
            if not is_set_up:
                untracked = await repository.all_untracked(workspace) if request.keep else frozenset()
                await prepare_workspace(folder, workspace, self._sandbox, self._credentials.secrets())
                if request.keep:
                    await place_for.remember(workspace, request.commit, untracked)
            secrets = await self._credentials.secrets_around(workspace, folder.checkout)
            place = Place(
                workspace,
                record.environment,
                folder.checkout,
                sandbox_for(folder, self._sandbox),
                lock.remember,
            )
            checks, results = GateChecks(Gates(secrets), place, folder.store), []
            before = {result.name: result for result in request.baseline}
            for gate in request.gates:
                beat.doing = f"gate {gate.name}"
                trace.begin()
                done = await checks.run(gate, before.get(gate.name), watched=request.watched, changes=changes)
                done = done.model_copy(update={"integrity": (*integrity, *done.integrity)})
                trace.write("gate", name=gate.name, workspace=request.workspace, outcome=str(done.outcome))
                secrets |= await asyncio.to_thread(secrets_below, workspace)
                results.append(without_secrets(done, secrets))
            sizes = await asyncio.to_thread(sizes_of, workspace, request.sizes)
            if not request.keep:
                await folder.repository.close_workspace(request.workspace)
        return GateResults(results=tuple(results), sizes=sizes)

    @activity.defn(name="publish")
    async def publish(self, request: Publish) -> Published:
        """Give the result to the user's repository as one branch."""
        folder = self._tasks.folder(request.task_id)
        async with pulse("publishing"):
            notes = await give_objects(folder.repository.git(), folder.checkout, request.commit)
            ref = await folder.repository.publish(folder.checkout, request.task_id, request.commit)
        return Published(ref=ref, repository=str(folder.repository.path), notes=notes)

    @activity.defn(name="write_artifacts")
    async def write_artifacts(self, request: SaveProgress) -> None:
        """Keep what is new of the progress, and write files for people."""
        folder = self._tasks.folder(request.task_id)
        settings = folder.record.opened.settings
        wanted = list(request.artifacts)
        async with pulse("writing"):
            secrets = await self._credentials.secrets_around(folder.checkout)
            artifacts = Artifacts(folder.artifacts, secrets)
            if request.progress is not None:
                wanted += progress_artifacts(await asyncio.to_thread(_kept, folder, request, secrets))
                await delivered()
            for artifact in wanted:
                if settings.persist_state or artifact.name.startswith(("report", "integration-report")):
                    await asyncio.to_thread(artifacts.write, artifact)

    @activity.defn(name="load_progress")
    async def load_progress(self, request: LoadProgress) -> LoadedProgress:
        """What the next run of a task starts from, or another start of it."""
        folder = self._tasks.folder(request.task_id)
        folder.require()
        async with pulse("reading the progress"):
            opened, given = folder.record.opened, folder.record.input
            if not request.revision:
                newest = await asyncio.to_thread(folder.state.current)
                found = await salvage(folder, newest) if newest is not None else ()
                return LoadedProgress(opened=opened, input=given, progress=newest, salvaged=found)
            kept = await asyncio.to_thread(folder.state.kept, request.revision)
        if kept is None:
            raise ApplicationError(f"the progress {request.revision} of the task is lost", non_retryable=True)
        return LoadedProgress(opened=opened, input=given, progress=kept)

    @activity.defn(name="put_away")
    async def put_away(self, request: TaskRef) -> None:
        """Put the workspaces away; branches and checkpoints stay in the private repository."""
        async with pulse("putting the workspaces away"):
            await _put_away(self._tasks.folder(request.task_id))

    @activity.defn(name="close_task")
    async def close_task(self, request: TaskRef) -> None:
        """Put workspaces away that are still there, draw the timeline and tell the end."""
        folder = self._tasks.folder(request.task_id)
        async with pulse("closing"):
            secrets = await self._credentials.secrets_around(folder.checkout)
            await side_by_side(_put_away(folder), asyncio.to_thread(_draw, folder, secrets))
        progress = await asyncio.to_thread(folder.state.current)
        await tell_end(folder, Closed(str(progress.status.state) if progress is not None else "over"))
        self._tasks.forget(request.task_id)


async def _put_away(folder: TaskFolder) -> None:
    """Close the workspaces, and remove what only they needed."""
    workspaces = folder.path / "workspaces"
    names = sorted(path.name for path in workspaces.iterdir() if path.is_dir()) if workspaces.is_dir() else []
    for name in names:
        async with folder.locked(name):
            await folder.repository.close_workspace(name)
    await asyncio.to_thread(remove_tree, folder.downloads)
    await folder.repository.remove_spares()


def _draw(folder: TaskFolder, secrets: frozenset[str]) -> None:
    """Draw the timeline, from what is told of the task so far."""
    if folder.record.opened.settings.persist_state and folder.artifacts.is_dir():
        Artifacts(folder.artifacts, secrets).write_timeline(folder.path.name)


def _kept(folder: TaskFolder, request: SaveProgress, secrets: frozenset[str]) -> Progress:
    if request.progress is None:
        raise ValueError("there is no progress to keep")
    if waits := request.progress.status.waits:
        # Before they are kept: whoever comes after a kill tells them again.
        before = folder.state.current()
        told = frozenset(before.status.waits) if before is not None else frozenset()
        TaskTrace(folder).attended([wait for wait in waits if wait not in told])
    try:
        return folder.state.take(request.progress, for_next_run=request.for_next_run, secrets=secrets)
    except OtherRevisionError as error:
        raise ApplicationError(str(error), type=OTHER_REVISION, non_retryable=True) from error

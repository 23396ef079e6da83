"""Merges of steps and the conflicts they meet: one merge at a time, and nothing half-done is ever kept.

Merges are computed from commits alone and move the result in one atomic step, so what was killed is simply done
again. A conflict is laid out in a workspace of its own, where an agent or a person resolves it.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from temporalio import activity

from activities.credentials import Credentials
from activities.git import path_text
from activities.merge_train import MergeKind, MergeTrain
from activities.pulse import pulse
from activities.result_branch import Folded
from activities.secret_guard import SecretGuard
from activities.task_folder import TaskFolder, Tasks
from activities.trace import TaskTrace
from activities.working_tree import commit_message
from baton.layout import TRAILER_CONFLICT, TRAILER_STEP, TRAILER_TASK
from baton.merging import (
    PATHS_KEPT,
    Conflict,
    PrepareConflict,
    PreparedConflict,
    SettleConflict,
    SettledConflict,
    Side,
    beside_the_conflict,
    conflict_ownership,
)
from baton.messages import MergedStep, MergeStep, MergeSteps

TOGETHER_SECONDS = 30.0
"""No further merge is put on a train after this: an activity has its time limit."""
logger = logging.getLogger("baton.merging")

_TAKE_IT_OUT = (
    "holds a secret (a credential, a token, a private key, a value of a .env-like file) or the mask of one, and would "
    "be published with the result: take it out there"
)


class Merging:
    """Activities of the merge queue."""

    def __init__(self, tasks: Tasks, credentials: Credentials) -> None:
        self._tasks = tasks
        self._credentials = credentials

    @activity.defn(name="merge_step")
    async def merge_step(self, request: MergeStep) -> MergedStep:
        """Put a workspace's checkpoints on the result as one commit, or say what they conflict with."""
        (merged,) = await self._merged((request,))
        return merged

    @activity.defn(name="merge_steps")
    async def merge_steps(self, request: MergeSteps) -> tuple[MergedStep, ...]:
        """The same for several, in their order, each on top of the one before; the result moves once, to the last.

        Gives what became of the first ones, of one at least: a merge that fails (git does, or the disk) ends the train
        before it, as does time; whoever asked asks again for the rest. Where the first one fails, so does this.
        """
        return await self._merged(request.merges)

    async def _merged(self, requests: Sequence[MergeStep]) -> tuple[MergedStep, ...]:
        folder, onto = self._tasks.folder(requests[0].task_id), requests[0].onto
        done: list[MergedStep] = []
        seconds: list[float] = []
        async with pulse("merging"), folder.locked("result"):
            trace = TaskTrace(folder)
            trace.goes_on("merge", step=requests[0].step)
            # A first attempt finds what the task knows, or what a reset left behind; a later one perhaps its own merge.
            if onto and activity.info().attempt == 1:
                await folder.repository.set_result(onto)
            async with folder.repository.merging(onto or None) as train:
                for request in requests:
                    trace.begin()
                    try:
                        done.append(await _on_top(folder, train, request))
                    except Exception:
                        if not done:
                            raise
                        logger.exception("a merge failed and is tried again by itself: step %s", request.step)
                        break
                    seconds.append(trace.seconds)
                    if sum(seconds) > TOGETHER_SECONDS:
                        break
                await train.move()
        for request, merged, took in zip(requests, done, seconds, strict=False):
            told = "merged" if merged.merged else "conflict" if merged.conflicts else "nothing to merge"
            trace.waited(request.waited, step=request.step)
            trace.write("merge", step=request.step, outcome=told, paths=merged.conflicts[:50], seconds=took)
        return tuple(done)

    @activity.defn(name="prepare_conflict")
    async def prepare_conflict(self, request: PrepareConflict) -> PreparedConflict:
        """Lay the conflict of these branches out in a workspace, afresh whatever an earlier attempt left there."""
        folder = self._tasks.folder(request.task_id)
        repository = folder.repository
        async with pulse("laying out a conflict"), folder.locked(request.workspace):
            resolutions = repository.resolutions()
            folded = await resolutions.fold(request.branches)
            if not folded.conflicts:
                return PreparedConflict()
            await repository.close_workspace(request.workspace)
            commit = await resolutions.lay_out(folded, f"refs/heads/{request.workspace}")
            path = await repository.open_workspace(request.workspace, commit, request.workspace)
            conflict = await _conflict(folder, folded, request.step)
        return PreparedConflict(conflict=conflict, commit=commit, path=str(path), rest=folded.rest)

    @activity.defn(name="settle_conflict")
    async def settle_conflict(self, request: SettleConflict) -> SettledConflict:
        """Commit what resolves the conflict on the workspace's branch, or say what is missing; safe to repeat."""
        folder = self._tasks.folder(request.task_id)
        repository = folder.repository
        async with pulse("settling a conflict"), folder.locked(request.workspace):
            workspace = await repository.open_workspace(request.workspace, request.commit, request.workspace)
            resolutions, secret = repository.resolutions(), dict[str, str]()
            if request.choice in {"ours", "theirs"}:
                await repository.reset(workspace, request.commit)
                index = repository.git_in(workspace)
                side: Side = "ours" if request.choice == "ours" else "theirs"
                tree = await resolutions.by_side(request.commit, request.branch, side, index)
                message = commit_message(f"Resolved: {side}", {TRAILER_CONFLICT: request.branch})
                commit = await index.text("commit-tree", tree, "-p", request.commit, "-F", "-", stdin=message.encode())
                await repository.reset(workspace, commit)
            elif request.choice == "edit":
                guard = self._guard(folder, workspace, request.commit)
                written = [change.name for change in await repository.changed_paths(workspace, request.commit)]
                secret = {name: f"{name} {_TAKE_IT_OUT}" for name in await guard.barred_paths(written)}
                trailers = {TRAILER_CONFLICT: request.branch}
                commit = await repository.checkpoint(workspace, "Resolved by hand", trailers, guard.barred_paths)
            else:
                commit, _ = await repository.head(workspace)
            foreign = await _foreign(folder, request, commit) if request.choice in {"agent", "edit"} else {}
            refused = foreign | secret
            faults = await resolutions.faults(request.commit, request.branch, commit, refused)
            gave_way = () if faults else await resolutions.gave_way(request.commit, request.branch, commit)
        return SettledConflict(commit=commit, faults=faults, gave_way=gave_way)

    def _guard(self, folder: TaskFolder, workspace: Path, commit: str) -> SecretGuard:
        """Against secrets that neither side of the conflict laid out at `commit` has."""
        return SecretGuard(
            workspace,
            git=folder.repository.git_command(workspace),
            environment=folder.record.environment,
            base_commit=commit,
            commit=commit,
            credentials=self._credentials.secrets(),
            readable=[folder.checkout] if folder.checkout else [],
        )


async def _on_top(folder: TaskFolder, train: MergeTrain, request: MergeStep) -> MergedStep:
    """One merge on top of those before it."""
    step = "integration" if request.step is None else str(request.step)
    trailers = {TRAILER_TASK: request.task_id, TRAILER_STEP: step}
    outcome = await train.add(request.branches, request.subject, trailers)
    conflict = await _conflict(folder, outcome.folded, request.step) if outcome.folded is not None else None
    return MergedStep(
        commit=train.head,
        merged=outcome.kind in {MergeKind.MERGED, MergeKind.ALREADY},
        files_changed=tuple(change.path for change in outcome.changes),
        conflicts=outcome.conflicts,
        conflict=conflict.without_versions() if conflict is not None else None,
        undoes=outcome.undoes,
    )


async def _conflict(folder: TaskFolder, folded: Folded, step: int | None) -> Conflict:
    resolutions = folder.repository.resolutions()
    return Conflict(
        step=step,
        branch=folded.branch,
        head=folded.head,
        others=tuple(number for number in await resolutions.others(folded) if number != step),
        paths=await resolutions.shown(folded.conflicts),
        paths_left_out=max(0, len(folded.conflicts) - PATHS_KEPT),
    )


async def _foreign(folder: TaskFolder, request: SettleConflict, commit: str) -> dict[str, str]:
    """What a resolver or a person changed beside the conflict and the files of the steps that take part in it."""
    resolutions = folder.repository.resolutions()
    conflicts = await resolutions.conflicts_of(request.commit, request.branch)
    names = [path_text(name) for conflict in conflicts for name in (conflict.path, *conflict.others)]
    owned = conflict_ownership(names, folder.plan.plan if folder.plan else (), request.owners)
    there = frozenset(await folder.repository.list_files(request.commit))
    changes = {change.path: change.path in there for change in await resolutions.changes(request.commit, commit)}
    found = owned.foreign(changes)
    if request.choice == "edit":
        return {refused.path: beside_the_conflict(refused.path, request.commit) for refused in found}
    return {refused.path: refused.message for refused in found}

"""Where gates run: in a fresh workspace, or, between merges, in one that is used again without paying for set-up again.

What set-up left in a kept workspace stays, all else that git does not track goes, so that no gate is green by what an
earlier run built. Set-up runs again, from nothing, once a file changed that it may read. The gates that decide about
the result always run in a fresh workspace.
"""

import asyncio
from pathlib import Path

from pydantic import ValidationError

from activities.repository import PrivateRepository
from baton.gate_configuration import may_change_set_up, scripts_of
from baton.models import Stored

NOTE = "baton-set-up.json"
MOST_LEFT = 1_000
"""Paths, folders counting as one; a set-up that leaves more runs every time."""


class SetUp(Stored):
    """What set-up left in a workspace: paths that git does not track. `commit`: where it ran."""

    commit: str
    left: tuple[str, ...] = ()


class GateWorkspace:
    """One workspace for gates. Callers hold its lock."""

    def __init__(self, repository: PrivateRepository, name: str, setup: tuple[str, ...]) -> None:
        self._repository, self._name, self._setup = repository, name, setup

    async def fresh(self, commit: str) -> Path:
        """The workspace at this commit with nothing else in it, whatever a killed attempt left there."""
        await self._repository.close_workspace(self._name)
        return await self._repository.open_workspace(self._name, commit)

    async def used_again(self, commit: str) -> tuple[Path, bool]:
        """The workspace at this commit, and whether what set-up left is there."""
        repository = self._repository
        workspace = repository.workspace_path(self._name)
        done = await asyncio.to_thread(self._done, workspace)
        if done is None or await self._is_stale(done, commit):
            return await self.fresh(commit), False
        await repository.reset(workspace, commit)
        # Remade just now: what was noted of it is gone.
        if await asyncio.to_thread(self._done, workspace) is None:
            return workspace, False
        await repository.clean(workspace, done.left)
        return workspace, True

    async def remember(self, workspace: Path, commit: str, before: frozenset[str]) -> None:
        """Set-up is through; what git does not track now, and did not track `before`, is its work."""
        left = tuple(sorted(await self._repository.all_untracked(workspace) - before))
        if len(left) > MOST_LEFT:
            return
        note = self._repository.note_path(workspace, NOTE)
        await asyncio.to_thread(note.write_text, SetUp(commit=commit, left=left).model_dump_json(), "utf-8")

    def _done(self, workspace: Path) -> SetUp | None:
        if not workspace.is_dir():
            return None
        try:
            return SetUp.model_validate_json(self._repository.note_path(workspace, NOTE).read_text("utf-8"))
        except (FileNotFoundError, ValidationError):
            return None

    async def _is_stale(self, done: SetUp, commit: str) -> bool:
        """Whether set-up would perhaps leave something else now."""
        if (self._repository.workspace_path(self._name) / ".gitmodules").is_file():
            return True
        scripts = scripts_of(self._setup)
        changed = await self._repository.changed_between(done.commit, commit)
        return any(may_change_set_up(change.path, scripts) for change in changed)

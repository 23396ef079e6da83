"""A private repository with one workspace, and plain git to look at it."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from activities.inner_git import InnerGit, LinkedWorktree
from activities.known_tree import ChangeKind, KnownTree
from activities.repository import PrivateRepository

REF = "refs/heads/step-1"
TRAILERS = {"Baton-Turn": "1"}


def git(folder: Path, *arguments: str, index: Path | None = None) -> bytes:
    """What plain git prints."""
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    if index is not None:
        environment["GIT_INDEX_FILE"] = str(index)
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, check=True).stdout


@dataclass(frozen=True)
class Place:
    """A private repository with a workspace."""

    repository: PrivateRepository
    workspace: Path

    @property
    def worktree(self) -> LinkedWorktree:
        return LinkedWorktree(self.workspace, self.repository.path / "worktrees" / "step-1")

    def compared(self, *paths: bytes) -> dict[bytes, bool]:
        """The files as against the last checkpoint."""
        last = git(self.repository.path, "rev-parse", REF).decode().strip()
        return InnerGit(self.repository.path).compared(self.worktree, last, paths)

    def commit(self, parent: str, changes: dict[bytes, ChangeKind], ref: str = REF) -> str | None:
        return InnerGit(self.repository.path).commit(self.worktree, ref, parent, changes, "turn\n")

    async def known(self) -> KnownTree:
        """What is known after a look at all of it."""
        tree = KnownTree()
        assert await self.repository.changed_paths(self.workspace, tree=tree) == []
        return tree


async def place(folder: Path, files: dict[str, bytes], *init: str) -> Place:
    """With these files in the base commit."""
    source = folder / "source"
    for name, content in files.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(content)
    git(source, "init", "-q", *init)
    git(source, "config", "user.name", "Ada")
    git(source, "config", "user.email", "ada@example.org")
    git(source, "add", "-A")
    git(source, "commit", "-qm", "as it was")
    repository = PrivateRepository(folder / "task", {"PATH": os.environ["PATH"], "HOME": str(folder)})
    facts = await repository.inspect(str(source))
    await repository.create(facts)
    return Place(repository, await repository.open_workspace("step-1", facts.base_commit, "step-1"))

"""The private repository of one task: creation, workspaces, checkpoints, merges, and reading.

It is a bare clone below the task's folder, has no remote, and ignores the configuration of user and system. Every
method may be killed at any point and called again. The user's repository is touched by `inspect` (reads) and
`publish` (one ref) only.
"""

import asyncio
import logging
import os
import re
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from pathlib import Path

from activities.cloning import clone
from activities.folders import remove_tree
from activities.git import BadRepository, Git, GitError, path_text, split
from activities.inner_git import InnerGit
from activities.known_tree import KnownTree
from activities.left_out import LeftOut
from activities.lfs import filter_options
from activities.locking import exclusive
from activities.merge_train import MergeKind, MergeOutcome, MergeTrain
from activities.resolution import Resolutions
from activities.result_branch import ASIDE, ResultBranch
from activities.sealed_config import seal, seal_as_made, unseal
from activities.source_repository import Identity, SourceFacts, SourceRepository
from activities.spare_checkouts import SpareCheckouts
from activities.working_tree import (
    TRAILER_RESULT,
    Barred,
    Change,
    WorkingTree,
    commit_message,
    ignore_rule,
    trailers_of,
)
from baton.breakers import StepChanges
from baton.layout import PRIVATE_REPOSITORY

__all__ = [
    "BadRepository",
    "Change",
    "GitError",
    "Identity",
    "LeftOut",
    "MergeKind",
    "MergeOutcome",
    "PrivateRepository",
    "SourceFacts",
]

logger = logging.getLogger("baton.repository")

THROWAWAY = "refs/baton/workspaces"
GONE = "gone"
"""In the task's folder: workspaces that are closed, while their files are removed."""
DIFF_LIMIT_BYTES = 200_000
TREES_KEPT = 64
"""So many workspaces are known well enough that a turn need not look at all of their files."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def remove_left(tasks: Path) -> None:
    """Remove what processes that are gone left of closed workspaces, in the folders of all tasks below `tasks`."""
    for directory in tasks.iterdir() if tasks.is_dir() else ():
        _remove(directory / GONE)


def _remove(path: Path) -> None:
    """What cannot be removed costs nothing but its room, and is told."""
    try:
        remove_tree(path)
    except OSError:
        logger.exception("the files of a closed workspace cannot be removed: %s", path)


class PrivateRepository:
    """Everything git does for one task. `environment` is this process's, as far as git may see it."""

    def __init__(self, task_directory: Path, environment: Mapping[str, str] | None = None) -> None:
        self._directory = task_directory
        self._environment = dict(os.environ if environment is None else environment)
        self._source = SourceRepository(self._environment)
        self.path = task_directory / PRIVATE_REPOSITORY
        self._inner = InnerGit(self.path)
        self._contents: dict[str, StepChanges] = {}
        self._spares = SpareCheckouts(task_directory / "spares")
        self._removals: set[asyncio.Task[None]] = set()
        self._locks: dict[str, int] = {}
        self._kept: OrderedDict[str, tuple[str, KnownTree]] = OrderedDict()

    async def inspect(self, source: str, base: str | None = None) -> SourceFacts:
        """Facts of the user's repository; needs no private one. Raises BadRepository with what to do about it."""
        return await self._source.inspect(source, base)

    async def create(self, facts: SourceFacts) -> None:
        """Clone the source and set `result` to the base commit. Does nothing when that was done before."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        async with self._lock() as lock:
            if self.path.exists():
                return
            partial = self._directory / "repository.partial"
            await asyncio.to_thread(remove_tree, partial)
            await clone(facts, partial, self._environment, lock)
            await asyncio.to_thread(seal_as_made, partial, self._directory)
            partial.rename(self.path)

    def workspace_path(self, name: str) -> Path:
        """Where the workspace of this name is, open or not. ValueError for a name that could lead elsewhere."""
        if not _NAME.fullmatch(name) or name.endswith((".lock", ".")) or ".." in name:
            raise ValueError(f"{name!r} is no name of a workspace: letters, digits, '.', '_' and '-'")
        return self._directory / "workspaces" / name

    @contextmanager
    def under_lock(self, name: str, lock: int) -> Iterator[None]:
        """Have every git that works in this workspace keep its lock, whose descriptor this is."""
        self._locks[name] = lock
        try:
            yield
        finally:
            del self._locks[name]

    async def open_workspace(self, name: str, at_commit: str, branch: str | None = None) -> Path:
        """The workspace `name`: a healthy one as it is, else a new one from the branch's last checkpoint.

        A branch that does not exist yet starts at `at_commit`. Without a branch the workspace is a throwaway one, whose
        checkpoints go when it is closed.
        """
        path = self.workspace_path(name)
        ref = f"refs/heads/{self.workspace_path(branch).name}" if branch else f"{THROWAWAY}/{name}"
        await self._open(path, ref, at_commit)
        return path

    def is_unknown(self, name: str) -> bool:
        """Whether there is neither a workspace of this name nor anything that it would begin at."""
        refs = (f"refs/heads/{name}", f"{THROWAWAY}/{name}")
        return not self.workspace_path(name).exists() and not any(map(self._may_have, refs))

    async def close_workspace(self, name: str) -> None:
        """Remove the workspace; its branch stays, a throwaway one's checkpoints go."""
        path = self.workspace_path(name)
        self._kept.pop(name, None)
        async with exclusive(self._directory / "locks" / f"open-{name}"), self._lock() as lock:
            await asyncio.to_thread(self._spares.take_in, path, self._tree(path).administration)
            self._remove_aside(path)
            await self._discard(path)
            if self._may_have(f"{THROWAWAY}/{name}"):
                await self.git().holding(lock).output("update-ref", "-d", f"{THROWAWAY}/{name}")

    async def remove_spares(self) -> None:
        """Have what is kept of closed workspaces gone, too: its files are removed while others go on."""
        async with self._lock():
            self._remove_aside(self._spares.folder)

    async def checkpoint(
        self,
        workspace: Path,
        subject: str,
        trailers: Mapping[str, str],
        barred: Barred | None = None,
        tree: KnownTree | None = None,
    ) -> str:
        """Commit modified, deleted and new files of the workspace, even when there are none; returns the commit.

        Not committed: ignored files, caches, nested repositories, links that lead outside (see `left_out`), and what
        `barred` names of the changed paths.
        A `tree` that the caller vouches for saves work, and is kept for whoever goes on from here (`tree_after`).
        """
        self._kept.pop(workspace.name, None)
        commit = await self._tree(workspace).commit(commit_message(subject, trailers), barred, tree)
        if tree is not None and (result := trailers.get(TRAILER_RESULT)):
            self.keep_tree(workspace, result, tree)
        return commit

    def keep_tree(self, workspace: Path, after: str, tree: KnownTree) -> None:
        """Vouch for the workspace: after this result or commit nothing was written in it but what is known."""
        self._kept[workspace.name] = (after, tree)
        self._kept.move_to_end(workspace.name)
        while len(self._kept) > TREES_KEPT:
            self._kept.popitem(last=False)

    def vouches_for(self, workspace: Path, *after: str) -> bool:
        """Whether this process vouches for the workspace as it is after one of these results or commits."""
        kept = self._kept.get(workspace.name)
        return kept is not None and kept[0] in after

    def tree_after(self, workspace: Path, *after: str) -> KnownTree:
        """What is known of the workspace after one of these results or commits; nothing where this process does not
        vouch for it. It is given once: whoever takes it keeps it up to date."""
        kept = self._kept.pop(workspace.name, None)
        return kept[1] if kept is not None and kept[0] in after else KnownTree()

    async def head(self, workspace: Path) -> tuple[str, dict[str, str]]:
        """The last checkpoint of the workspace and its trailers."""
        commit = await self._tree(workspace).last()
        return commit, trailers_of(await self.git().text("log", "-1", "--format=%B", commit))

    async def last_checkpoint(self, workspace: Path) -> str:
        """The commit of the last checkpoint, without asking git where that can be."""
        return await self._tree(workspace).last()

    async def checkpoints(self, workspace: Path, since: str) -> list[tuple[str, dict[str, str]]]:
        """The checkpoints of the workspace after the commit `since` with their trailers, oldest first."""
        ref = self._tree(workspace).ref
        log = await self.git().output("log", "-z", "--reverse", "--format=%H%n%B", f"{since}..{ref}", "--")
        entries = (entry.decode("utf-8", "replace").partition("\n") for entry in split(log))
        return [(commit, trailers_of(text)) for commit, _, text in entries]

    async def reset(self, workspace: Path, commit: str | None = None) -> None:
        """Make `commit`, else the last checkpoint, the state of the workspace; ignored files stay.

        A workspace that somebody deleted is made again first.
        """
        await self._open(workspace, self._tree(workspace).ref, None)
        self._kept.pop(workspace.name, None)
        await self._tree(workspace).reset(commit)

    async def settle(self, workspace: Path, tree: KnownTree) -> None:
        """Have git in the workspace find everything at the last checkpoint, for a command that calls it."""
        await self._tree(workspace).settle(tree)

    async def hold(self, workspace: Path, commit: str) -> None:
        """Have this still be the last checkpoint after a command, which may have moved the branch."""
        await self._tree(workspace).hold(commit)

    async def is_clean(self, workspace: Path, commit: str, tree: KnownTree) -> bool:
        """Whether it is known that the workspace stands at this checkpoint, and a look at all of it finds no more.

        It does not make sure of it where nothing is known: then the workspace is to be reset.
        """
        if tree.commit != commit or tree.found is None:
            return False
        return not await self._tree(workspace).anything(tree)

    async def changed_paths(
        self, workspace: Path, since: str | None = None, tree: KnownTree | None = None
    ) -> list[Change]:
        """What differs on disk from `since`, else from the last checkpoint; uncommitted changes included."""
        return await self._tree(workspace).changes(since, tree)

    async def changes_there(self, workspace: Path, start: str, tree: KnownTree) -> dict[Change, bool]:
        """What differs on disk from the last checkpoint, and whether the commit `start` has that path."""
        return await self._tree(workspace).changes_there(start, tree)

    async def restore(self, workspace: Path, changes: Iterable[Change], tree: KnownTree | None = None) -> None:
        """Take changes since the last checkpoint back."""
        await self._tree(workspace).restore(changes, tree)

    async def untracked(self, workspace: Path) -> frozenset[str]:
        """What git neither tracks nor ignores: files, and folders of which nothing is tracked as `name/`."""
        return await self._tree(workspace).untracked()

    async def all_untracked(self, workspace: Path) -> frozenset[str]:
        """What git does not track, ignored or not: files, and folders of which nothing is tracked as `name/`."""
        return await self._tree(workspace).all_untracked()

    async def clean(self, workspace: Path, keep: Iterable[str]) -> None:
        """Remove what git does not track in the workspace, ignored or not, but for these paths."""
        await self._tree(workspace).clean(keep)

    def note_path(self, workspace: Path, name: str) -> Path:
        """Where something may be noted of a workspace; it goes when the workspace is made anew."""
        return self._tree(workspace).administration / name

    async def left_out(self, workspace: Path) -> list[LeftOut]:
        """What a checkpoint would not hold, and why."""
        return await self._tree(workspace).left_out()

    async def exclude(self, paths: Iterable[str]) -> None:
        """Never commit these paths of the workspaces unless they are tracked: what was copied in from outside."""
        async with self._lock():
            unseal(self.path, self.path)
            rules = self.path / "info" / "exclude"
            # Names need not be UTF-8; one with a line end cannot be said in this file.
            known = rules.read_text("utf-8", "surrogateescape").splitlines()
            wanted = [ignore_rule(path.strip("/")) for path in sorted(paths) if "\n" not in path]
            new = [rule for rule in wanted if rule not in known]
            if new:
                text = "\n".join([*known, *new, ""])
                seal(self.path, self._directory, "info/exclude", text.encode("utf-8", "surrogateescape"))

    def git_in(self, workspace: Path) -> Git:
        """Git with the files and the index of this workspace; callers hold its lock, and it with them."""
        return self._tree(workspace).git

    def git_command(self, workspace: Path) -> tuple[str, ...]:
        """The git that reads this workspace whatever a command did to its `.git` file."""
        return ("git", *self._tree(workspace).git.options)

    async def changed_between(self, before: str, after: str) -> list[Change]:
        """What differs between two commits, sorted by path."""
        return await self._result.changes(before, after)

    async def diff(self, before: str, after: str, limit_bytes: int = DIFF_LIMIT_BYTES) -> str:
        """The patch between two commits; its end is cut, and the number of bytes told, when it is over the limit."""
        arguments = ("diff", "--no-color", "--no-ext-diff", "--no-textconv", before, after, "--")
        captured = await self.git().call(*arguments, output_limit_bytes=limit_bytes)
        if captured.exit_code != 0:
            raise GitError(arguments, captured)
        text = captured.stdout.decode("utf-8", "replace")
        return f"{text}\n[… {captured.left_out_bytes} bytes left out …]\n" if captured.left_out_bytes else text

    async def result(self) -> str:
        """The head of the result."""
        return await self._result.head()

    async def merge_step(
        self,
        branches: Sequence[str],
        subject: str,
        trailers: Mapping[str, str],
        author: Identity | None = None,
        onto: str | None = None,
    ) -> MergeOutcome:
        """Put what `branches` changed on the result as one commit; see `MergeTrain.add`."""
        async with self.merging(onto) as train:
            outcome = await train.add(branches, subject, trailers, author)
            await train.move()
        return outcome

    @asynccontextmanager
    async def merging(self, onto: str | None = None) -> AsyncIterator[MergeTrain]:
        """Hold the lock of merges; what is put on the train comes onto the result when it moves."""
        async with exclusive(self._directory / "locks" / "merge") as lock:
            yield await MergeTrain.on(ResultBranch(self.git().holding(lock), self._inner), onto, self._contents)

    async def set_result(self, commit: str) -> None:
        """Bring the result to this commit; what was on it beyond is put aside."""
        async with exclusive(self._directory / "locks" / "merge") as lock:
            await ResultBranch(self.git().holding(lock)).set_to(commit)

    async def put_back(self, workspace: Path, commit: str) -> KnownTree:
        """Bring a workspace and its branch to this commit; what was on the branch beyond is put aside.

        What a turn left that nobody took up again goes. Returns what is known of the workspace.
        """
        reached = await self.last_checkpoint(workspace)
        if reached == commit and self.vouches_for(workspace, commit):
            return self.tree_after(workspace, commit)
        if reached != commit:
            await self.git().output("update-ref", f"{ASIDE}/{workspace.name}-{reached[:12]}", reached)
        await self.reset(workspace, commit)
        return KnownTree()

    def resolutions(self, lock: int | None = None) -> Resolutions:
        """The conflicts of this repository; git's processes keep `lock` where one is given."""
        return Resolutions(self.git() if lock is None else self.git().holding(lock))

    async def publish(self, source_top_level: Path | None, task_id: str, commit: str) -> str | None:
        """Give `commit` to the user's repository as `baton/<task_id>`; returns the branch's name.

        None for a URL: nothing is pushed, the result stays in `path`.
        """
        if source_top_level is None:
            return None
        return await self._source.publish(source_top_level, self.path, task_id, commit)

    async def list_files(self, commit: str) -> list[str]:
        """Paths of all files of a commit, sorted as git does; submodules are not files."""
        entries = split(await self.git().output("ls-tree", "-r", "-z", commit))
        return [path_text(entry.partition(b"\t")[2]) for entry in entries if not entry.startswith(b"160000")]

    async def read_file(self, commit: str, path: str, limit_bytes: int = 1_000_000) -> bytes:
        """The beginning of a file of a commit. FileNotFoundError when the commit has no such file."""
        captured = await self.git().call("cat-file", "blob", f"{commit}:{path}", output_limit_bytes=limit_bytes)
        if captured.exit_code != 0:
            raise FileNotFoundError(f"{path} is no file of commit {commit[:12]}")
        return captured.stdout

    def git(self) -> Git:
        """Git in the private repository, for other readers of it."""
        return Git(self.path, self._environment, options=(f"--git-dir={self.path}",))

    @property
    def _result(self) -> ResultBranch:
        return ResultBranch(self.git())

    def _may_have(self, ref: str) -> bool:
        """Whether there may be such a ref; False for sure where no file names it."""
        packed = self.path / "packed-refs"
        return (self.path / ref).exists() or (packed.exists() and ref.encode() in packed.read_bytes())

    def _lock(self) -> AbstractAsyncContextManager[int]:
        return exclusive(self._directory / "locks" / "repository")

    def _tree(self, workspace: Path) -> WorkingTree:
        administration = self.path / "worktrees" / workspace.name
        options = (f"--git-dir={administration}", f"--work-tree={workspace}", *filter_options(self.path))
        held = (self._locks[workspace.name],) if workspace.name in self._locks else ()
        git = Git(workspace, self._environment, options=options, keep_open=held)
        return WorkingTree(workspace, administration, git, self._inner)

    async def _open(self, path: Path, ref: str, at_commit: str | None) -> None:
        """Make the workspace unless a healthy one is there."""
        tree = self._tree(path)
        async with exclusive(self._directory / "locks" / f"open-{path.name}") as lock:
            if tree.healthy(ref):
                return
            self._kept.pop(path.name, None)
            if not await self._make(path, ref, at_commit, lock, from_spare=True):
                await self._make(path, ref, at_commit, lock, from_spare=False)

    async def _make(self, path: Path, ref: str, at_commit: str | None, lock: int, *, from_spare: bool) -> bool:
        """Make a workspace; False when it was begun with the files of a spare one that are of no use."""
        tree = self._tree(path)
        async with self._lock() as repository_lock:
            git = self.git().holding(lock, repository_lock)
            await self._discard(path)
            start = await self._start(git, ref, at_commit)
            path.parent.mkdir(exist_ok=True)
            # Adding worktrees side by side races inside git; the checkout itself, which takes long, does not.
            await git.output("worktree", "add", "--detach", "--no-checkout", "--quiet", str(path), start)
            used = from_spare and await asyncio.to_thread(self._spares.hand_out, path, tree.administration)
        try:
            await tree.furnish(ref, start, lock, used=used)
        except GitError:
            if not used:
                raise
            return False
        self.keep_tree(path, start, KnownTree())
        return True

    async def _start(self, git: Git, ref: str, at_commit: str | None) -> str:
        if (checkpoint := await git.commit(ref)) is not None:
            return checkpoint
        if at_commit is None:
            raise BadRepository(f"the workspace's last checkpoint {ref} is gone from {self.path}")
        (self.path / f"{ref}.lock").unlink(missing_ok=True)
        await git.output("update-ref", ref, at_commit)
        return at_commit

    def _remove_aside(self, path: Path) -> None:
        """Have a folder gone at once, and its files removed while others go on: thousands of them take long. What a
        process that is killed leaves of them goes when a worker starts (`remove_left`)."""
        gone = self._directory / GONE / secrets.token_hex(8)
        gone.parent.mkdir(exist_ok=True)
        with suppress(FileNotFoundError):
            path.rename(gone)
            removal = asyncio.create_task(asyncio.to_thread(_remove, gone))
            self._removals.add(removal)
            removal.add_done_callback(self._removals.discard)

    async def _discard(self, path: Path) -> None:
        await asyncio.to_thread(remove_tree, path)
        await asyncio.to_thread(remove_tree, self._tree(path).administration)

"""Index, HEAD and ref of one workspace.

The truth is the workspace's own ref in the private repository. HEAD is detached and the index is brought back to the
last checkpoint before it is used, so that nothing a model's command does with git (add, commit, checkout, a stale
lock) counts. Both may stay behind the last checkpoint until git or a command needs them (`settle`).
"""

from dataclasses import dataclass
from pathlib import Path

from activities.file_stamp import stamp_of
from activities.git import BlockingGit, Git, GitError, split
from activities.inner_git import InnerGit, LinkedWorktree
from activities.known_tree import KnownTree
from activities.refs import loose
from activities.sealed_config import unseal

REF_FILE = "baton-ref"
"""In the administrative folder of a workspace: the ref that holds its last checkpoint."""
_PLAIN = (b"H ", b"M ")
"""Of `ls-files -v`: a file that is neither assumed to be unchanged nor skipped, merged or not."""


@dataclass(frozen=True)
class IndexedWorktree(LinkedWorktree):
    """A workspace whose index follows its ref. Callers hold its lock."""

    git: Git
    inner: InnerGit

    @property
    def index(self) -> Path:
        """The index file, which git replaces whole."""
        return self.administration / "index"

    @property
    def ref(self) -> str:
        """The ref of the last checkpoint; that of the branch with the workspace's name when git lost the workspace."""
        try:
            return (self.administration / REF_FILE).read_text("utf-8").strip()
        except FileNotFoundError:
            return f"refs/heads/{self.path.name}"

    async def last(self) -> str:
        """The last checkpoint."""
        ref = self.ref
        if (commit := loose(self.administration.parents[1], ref)) is not None:
            return commit
        return await self.git.text("rev-parse", "--verify", f"{ref}^{{commit}}")

    async def settle(self, tree: KnownTree) -> None:
        """Have the index and HEAD at the last checkpoint, as whoever calls git in the workspace expects them."""
        if not self._is_head(await self.last()):
            await self.synchronise(tree)

    async def hold(self, commit: str) -> None:
        """Have this still be the last checkpoint, whatever a command that knows the ref's name did to it."""
        place = self.administration.parents[1] / self.ref
        if loose(self.administration.parents[1], self.ref) == commit and not place.is_symlink():
            return
        self.remove_stale_lock_of_ref()
        moving = f"option no-deref\nupdate {self.ref} {commit}\n".encode()
        await self.git.output("update-ref", "--stdin", stdin=moving)

    async def synchronise(self, tree: KnownTree) -> None:
        """Have the index hold the last checkpoint, and HEAD name it; it is what is known of the tree from now on."""
        tree.about(await self.last())
        unseal(self.administration.parents[1], self.administration)
        self.remove_stale_locks()
        is_foreign = not tree.index or tree.index != stamp_of(self.index)
        if is_foreign:
            tree.found = None
        if is_foreign or tree.indexed != tree.commit or not self._is_head(tree.commit):
            await self.git.in_a_thread(
                lambda git: self._have_indexed(git, tree.commit, None if is_foreign else tree.indexed)
            )
            tree.index, tree.indexed = stamp_of(self.index), tree.commit

    def _have_indexed(self, git: BlockingGit, commit: str, before: str | None) -> None:
        """`before`: what the index surely holds."""
        if before is None or not self.inner.settle(self, before, commit):
            self.have_usable_index(git)
            # Keeps what git knows of unchanged files, so that they are not read again.
            git.output("read-tree", "--reset", commit)
            if not self._is_head(commit):
                git.output("update-ref", "--stdin", stdin=self.moving(commit, commit))

    def have_usable_index(self, git: BlockingGit) -> None:
        """An empty index is better than one that git cannot read, or where files are marked as not to be looked at."""
        if self.index.is_symlink():
            # Git would write where it leads.
            self.index.unlink()
        try:
            marked = [entry for entry in split(git.output("ls-files", "-v", "-z")) if not entry.startswith(_PLAIN)]
        except GitError:
            marked = [b""]
        if marked:
            # In one step: a workspace without an index counts as broken.
            git.output("read-tree", "--empty")

    def _is_head(self, commit: str) -> bool:
        """Whether HEAD names this commit. Where it does the index was brought there too, unless a command wrote it, or
        a reset was killed, which is done again."""
        return loose(self.administration, "HEAD") == commit

    def remove_stale_locks(self) -> None:
        """Locks of a git that was killed: under the workspace's lock nobody else can hold them."""
        for name in ("index.lock", "HEAD.lock"):
            (self.administration / name).unlink(missing_ok=True)

    def remove_stale_lock_of_ref(self) -> None:
        """As `remove_stale_locks`, for the last checkpoint."""
        (self.administration.parents[1] / f"{self.ref}.lock").unlink(missing_ok=True)

    def moving(self, new: str, old: str) -> bytes:
        """The transaction that makes `new` the last checkpoint, for `update-ref --stdin`."""
        self.remove_stale_lock_of_ref()
        transaction = f"option no-deref\nupdate HEAD {new}\n"
        if new != old:
            transaction += f"update {self.ref} {new} {old}\n"
        return transaction.encode()

"""The result of a task in its private repository: a line of commits, one per merged step.

A merge needs no worktree and moves the result in one atomic step, so a kill leaves either all of it or nothing. A
step that is on the result already is never merged twice.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from activities.git import Git, GitError, path_text, split
from activities.source_repository import Identity
from activities.working_tree import Change, commit_message, parse_raw, trailers_of
from baton.models import Stored

RESULT = "refs/heads/result"
BASE = "refs/baton/base"
TRAILER_TASK, TRAILER_STEP = "Baton-Task", "Baton-Step"


class MergeKind(StrEnum):
    """How the merge of a step ended."""

    MERGED = "merged"
    ALREADY = "already"
    NOTHING = "nothing"
    CONFLICT = "conflict"


class MergeOutcome(Stored):
    """`commit` is the step's commit (merged, already) or the unmoved head of the result (nothing, conflict)."""

    kind: MergeKind
    commit: str
    changes: tuple[Change, ...] = ()
    conflicts: tuple[str, ...] = ()


class ResultBranch:
    """Reads and moves the result. Callers of `merge` hold the lock of merges."""

    def __init__(self, git: Git) -> None:
        self._git = git

    async def head(self) -> str:
        """The newest commit of the result."""
        return await self._git.text("rev-parse", "--verify", RESULT)

    async def changes(self, before: str, after: str) -> list[Change]:
        """What differs between two commits, sorted by path."""
        raw = await self._git.output("diff-tree", "-r", "--raw", "-z", "--no-renames", before, after, "--")
        return [Change(path=path_text(path), kind=kind) for path, kind in sorted(parse_raw(raw).items())]

    async def merge(
        self, branches: Sequence[str], subject: str, trailers: Mapping[str, str], author: Identity | None = None
    ) -> MergeOutcome:
        """Put what `branches` changed on the result as one commit; a conflict leaves the result as it is.

        `trailers` must hold `Baton-Task` and `Baton-Step`. The author is the user unless another one is given.
        """
        head = await self.head()
        if done := await self._merged_before(trailers):
            return MergeOutcome(kind=MergeKind.ALREADY, commit=done, changes=await self._changes_of(done))
        tree, reached = await self._git.text("rev-parse", f"{head}^{{tree}}"), head
        for branch in branches:
            tree, conflicts = await self._merged_tree(reached, f"refs/heads/{branch}")
            if conflicts:
                return MergeOutcome(kind=MergeKind.CONFLICT, commit=head, conflicts=conflicts)
            # Merging needs commits: one in between for each further branch, which nothing refers to afterwards. Both
            # its parents are named, so that what two branches have in common is not merged twice.
            reached = await self._commit(tree, (reached, f"refs/heads/{branch}"), subject, author)
        if tree == await self._git.text("rev-parse", f"{head}^{{tree}}"):
            return MergeOutcome(kind=MergeKind.NOTHING, commit=head)
        commit = await self._commit(tree, (head,), commit_message(subject, trailers), author)
        # A lock of a git that was killed; under the lock of merges nobody else can hold it.
        (self._git.cwd / f"{RESULT}.lock").unlink(missing_ok=True)
        await self._git.output("update-ref", RESULT, commit, head)
        return MergeOutcome(kind=MergeKind.MERGED, commit=commit, changes=await self._changes_of(commit))

    async def _changes_of(self, commit: str) -> tuple[Change, ...]:
        return tuple(await self.changes(f"{commit}^", commit))

    async def _merged_before(self, trailers: Mapping[str, str]) -> str | None:
        wanted = (trailers[TRAILER_TASK], trailers[TRAILER_STEP])
        log = await self._git.output("log", "-z", "--format=%H%n%B", f"{BASE}..{RESULT}", "--")
        for entry in split(log):
            commit, _, text = entry.decode("utf-8", "replace").partition("\n")
            found = trailers_of(text)
            if (found.get(TRAILER_TASK), found.get(TRAILER_STEP)) == wanted:
                return commit
        return None

    async def _merged_tree(self, head: str, branch: str) -> tuple[str, tuple[str, ...]]:
        arguments = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", head, branch)
        captured = await self._git.call(*arguments)
        # Exit code 1 means conflicts, but also an unknown branch: then there is no output.
        complete = captured.stdout and not captured.timed_out and not captured.left_out_bytes
        if captured.exit_code not in (0, 1) or not complete:
            raise GitError(arguments, captured)
        tree, *paths = split(captured.stdout)
        return tree.decode(), tuple(path_text(path) for path in paths) if captured.exit_code == 1 else ()

    async def _commit(self, tree: str, parents: Sequence[str], text: str, author: Identity | None) -> str:
        named = [argument for parent in parents for argument in ("-p", parent)]
        identity = ("-c", f"author.name={author.name}", "-c", f"author.email={author.email}") if author else ()
        return await self._git.text(*identity, "commit-tree", tree, *named, "-F", "-", stdin=text.encode())

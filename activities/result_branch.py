"""The result of a task in its private repository: a line of commits, one per merged step.

A merge needs no worktree and moves the result in one atomic step, so a kill leaves either all of it or nothing.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from activities.git import Git, GitError, split
from activities.inner_git import InnerGit
from activities.inner_merge import Difference, Entry
from activities.known_tree import parse_raw
from activities.refs import loose
from activities.source_repository import Identity
from activities.working_tree import Change, trailers_of
from baton.layout import BASE, RESULT, TRAILER_STEP
from baton.merge_tree import ConflictedPath, MergedTree, parse_merge_tree

_MERGE_SETTINGS = tuple(
    part
    for setting in ("merge.conflictStyle=zdiff3", "core.attributesFile=/dev/null", "attr.tree=refs/baton/no-attributes")
    for part in ("-c", setting)
)
"""No attributes of a project take part: `merge=union` would hide conflicts, other markers would not be known again."""
ASIDE = "refs/baton/aside"
"""Below it stands what a reset or a resume took back; nothing is lost."""


@dataclass(frozen=True)
class Folded:
    """Branches merged one after the other onto the result, up to the first conflict; nothing refers to it yet.

    `reached` is the merge of all before the last one, `tree` what came out last: with markers where `conflicts` says.
    `branch` is the one in conflict, `rest` those that come after it.
    """

    head: str
    reached: str
    tree: str
    conflicts: tuple[ConflictedPath, ...] = ()
    branch: str = ""
    rest: tuple[str, ...] = ()


class ResultBranch:
    """Reads and moves the result. Whoever moves it holds the lock of merges. `inner` does what it is sure of, else git
    does."""

    def __init__(self, git: Git, inner: InnerGit | None = None) -> None:
        self._git, self._inner = git, inner

    async def head(self) -> str:
        """The newest commit of the result."""
        return await self._named(RESULT)

    async def base(self) -> str:
        """The commit that the result began at."""
        return await self._named(BASE)

    async def changes(self, before: str, after: str) -> list[Change]:
        """What differs between two commits, sorted by path."""
        return [Change(path, kind) for path, kind in sorted(parse_raw(await self._raw(before, after)).items())]

    async def difference(self, commit: str) -> Difference:
        """What a commit changed."""
        found = await asyncio.to_thread(self._inner.changes_of, commit) if self._inner else None
        return _parsed(await self._raw(f"{commit}^", commit)) if found is None else found

    async def line(self, since: str, head: str) -> list[tuple[str, Mapping[str, str]]]:
        """The commits between two and their trailers, newest first; `since` is not among them."""
        found = await asyncio.to_thread(self._inner.line, since, head) if self._inner else None
        if found is None:
            log = await self._git.output("log", "-z", "--format=%H%n%B", f"{since}..{head}", "--")
            entries = (entry.decode("utf-8", "replace").partition("\n") for entry in split(log))
            found = [(commit, text) for commit, _, text in entries]
        return [(commit, trailers_of(text)) for commit, text in found]

    async def tree_of(self, commit: str) -> str:
        """The tree of a commit."""
        found = await asyncio.to_thread(self._inner.tree_of, commit) if self._inner else None
        return found or await self._git.text("rev-parse", "--verify", f"{commit}^{{tree}}")

    async def commit(self, tree: str, parent: str, message: str, author: Identity | None) -> str:
        """Commit a tree on top of a commit of the result, which stays where it is."""
        by = (author.name, author.email) if author else None
        made = await asyncio.to_thread(self._inner.commit_tree, parent, tree, message, by) if self._inner else None
        return made or await self._commit(tree, (parent,), message, author)

    async def move(self, before: str, commits: Sequence[str]) -> None:
        """Bring the result from its head `before` to the last of these new commits, in one atomic step."""
        # A lock of a git that was killed; under the lock of merges nobody else can hold it.
        (self._git.cwd / f"{RESULT}.lock").unlink(missing_ok=True)
        inner = self._inner
        # A thread that outlives a cancellation would move it when the lock is gone.
        if inner is None or not await self._git.in_a_thread(lambda _: inner.move(RESULT, before, commits)):
            await self._git.output("update-ref", RESULT, commits[-1], before)

    async def set_to(self, commit: str) -> None:
        """Bring the result to this commit; what was beyond it is kept by a ref of its own."""
        if (head := await self.head()) == commit:
            return
        await self.keep_aside(head)
        (self._git.cwd / f"{RESULT}.lock").unlink(missing_ok=True)
        await self._git.output("update-ref", RESULT, commit, head)

    async def keep_aside(self, head: str) -> None:
        """Have a ref name what the result is brought back from."""
        await self._git.output("update-ref", f"{ASIDE}/result-{head[:12]}", head)

    async def fold(
        self, head: str, branches: Sequence[str], subject: str = "", author: Identity | None = None
    ) -> Folded:
        """Merge the branches in their order onto a commit of the result, without moving it."""
        tree, reached = await self.tree_of(head), head
        for position, branch in enumerate(branches):
            merged = await self._merged(reached, branch)
            if merged.conflicts:
                rest = tuple(branches[position + 1 :])
                return Folded(head, reached, merged.tree, merged.conflicts, branch, rest)
            # Merging needs commits: one in between for each further branch, which nothing refers to afterwards. Both
            # its parents are named, so that what two branches have in common is not merged twice.
            tree = merged.tree
            if position + 1 < len(branches):
                reached = await self._commit(tree, (reached, f"refs/heads/{branch}"), subject, author)
        return Folded(head, reached, tree)

    async def _merged(self, head: str, branch: str) -> MergedTree:
        tree = None
        if self._inner is not None:
            tree = await asyncio.to_thread(self._inner.merged_tree, await self.base(), head, branch)
        return await self.merged_tree(head, branch) if tree is None else MergedTree(tree)

    async def merged_tree(self, head: str, branch: str) -> MergedTree:
        """The merge of a branch into a commit: pure, so that doing it again gives the same."""
        arguments = ("merge-tree", "--write-tree", "-z", "--messages", head, f"refs/heads/{branch}")
        captured = await self._git.call(*_MERGE_SETTINGS, *arguments)
        # Exit code 1 means conflicts, but also an unknown branch: then there is no output.
        complete = captured.stdout and not captured.timed_out and not captured.left_out_bytes
        if captured.exit_code not in (0, 1) or not complete:
            raise GitError(arguments, captured)
        merged = parse_merge_tree(captured.stdout, clean=captured.exit_code == 0)
        if captured.exit_code == 1 and not merged.conflicts:
            raise GitError(arguments, captured)
        return merged

    async def steps_that_touched(self, since: str, head: str, paths: Sequence[bytes]) -> tuple[int, ...]:
        """Numbers of the steps whose commits between two commits of the result touched these paths."""
        names = [path.decode("utf-8", "surrogateescape") for path in paths]
        log = await self._git.output("log", "-z", "--format=%B", f"{since}..{head}", "--", *names)
        steps = {trailers_of(entry.decode("utf-8", "replace")).get(TRAILER_STEP, "") for entry in split(log)}
        return tuple(sorted(int(step) for step in steps if step.isdigit()))

    async def _named(self, ref: str) -> str:
        return loose(self._git.cwd, ref) or await self._git.text("rev-parse", "--verify", ref)

    async def _raw(self, before: str, after: str) -> bytes:
        flags = ("-r", "--raw", "-z", "--no-renames", "--no-abbrev")
        return await self._git.output("diff-tree", *flags, before, after, "--")

    async def _commit(self, tree: str, parents: Sequence[str], text: str, author: Identity | None) -> str:
        named = [argument for parent in parents for argument in ("-p", parent)]
        identity = ("-c", f"author.name={author.name}", "-c", f"author.email={author.email}") if author else ()
        return await self._git.text(*identity, "commit-tree", tree, *named, "-F", "-", stdin=text.encode())


def _parsed(raw: bytes) -> Difference:
    entries = split(raw)
    found: Difference = {}
    for description, path in zip(entries[::2], entries[1::2], strict=True):
        old_mode, mode, old, new = description.decode().lstrip(":").split()[:4]
        found[path] = (_entry(old_mode, old), _entry(mode, new))
    return found


def _entry(mode: str, name: str) -> Entry | None:
    """Git writes only zeros where there is nothing."""
    return Entry(int(mode, 8), name) if name.strip("0") else None

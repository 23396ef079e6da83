"""The result of a task in its private repository: a line of commits, one per merged step.

A merge needs no worktree and moves the result in one atomic step, so a kill leaves either all of it or nothing. A
step that is on the result already is never merged twice.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pydantic import Field

from activities.git import Git, GitError, path_text, split
from activities.inner_git import InnerGit
from activities.known_tree import parse_raw
from activities.refs import loose
from activities.side_by_side import side_by_side
from activities.source_repository import Identity
from activities.working_tree import Change, commit_message, trailers_of
from baton.breakers import StepChanges, undone
from baton.layout import BASE, RESULT, TRAILER_STEP, TRAILER_TASK
from baton.merge_tree import ConflictedPath, MergedTree, parse_merge_tree
from baton.models import Stored

_MERGE_SETTINGS = tuple(
    part
    for setting in ("merge.conflictStyle=zdiff3", "core.attributesFile=/dev/null", "attr.tree=refs/baton/no-attributes")
    for part in ("-c", setting)
)
"""No attributes of a project take part: `merge=union` would hide conflicts, other markers would not be known again."""
ASIDE = "refs/baton/aside"
"""Below it stands what a reset or a resume took back; nothing is lost."""


class MergeKind(StrEnum):
    """How the merge of a step ended."""

    MERGED = "merged"
    ALREADY = "already"
    NOTHING = "nothing"
    CONFLICT = "conflict"


class MergeOutcome(Stored):
    """`commit` is the step's commit (merged, already) or the unmoved head of the result (nothing, conflict).

    `undoes`: by earlier step, the paths that this one gave back the content they had before that step.
    """

    kind: MergeKind
    commit: str
    changes: tuple[Change, ...] = ()
    conflicts: tuple[str, ...] = ()
    undoes: dict[int, tuple[str, ...]] = Field(default_factory=dict)


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
    """Reads and moves the result. Callers of `merge` hold the lock of merges."""

    def __init__(self, git: Git, contents: dict[str, StepChanges] | None = None) -> None:
        """`contents`: what commits of the result changed, as far as it was looked at; it is added to."""
        self._git = git
        self._known = {} if contents is None else contents

    async def head(self) -> str:
        """The newest commit of the result."""
        return loose(self._git.cwd, RESULT) or await self._git.text("rev-parse", "--verify", RESULT)

    async def changes(self, before: str, after: str) -> list[Change]:
        """What differs between two commits, sorted by path."""
        return _changes_in(await self._raw(before, after))

    async def merge(
        self,
        inner: InnerGit,
        branches: Sequence[str],
        subject: str,
        trailers: Mapping[str, str],
        author: Identity | None = None,
        onto: str | None = None,
    ) -> MergeOutcome:
        """Put what `branches` changed on the result as one commit; a conflict leaves the result as it is.

        `trailers` must hold `Baton-Task` and `Baton-Step`. The author is the user unless another one is given. `onto`:
        the head of which the caller knows; only what came after it can be this very merge, done before.
        """
        head = await self.head()
        if onto != head and (done := await self._merged_before(trailers, onto or BASE)):
            return await self._merged(MergeKind.ALREADY, done)
        folded = await self.fold(branches, subject, author)
        if folded.conflicts:
            conflicts = tuple(path_text(conflict.path) for conflict in folded.conflicts)
            return MergeOutcome(kind=MergeKind.CONFLICT, commit=head, conflicts=conflicts)
        unchanged = f"{head}^{{tree}}"
        before = await asyncio.to_thread(inner.tree_of, head) or await self._git.text("rev-parse", unchanged)
        if folded.tree in {unchanged, before}:
            return MergeOutcome(kind=MergeKind.NOTHING, commit=head)
        commit = await self._move(inner, head, folded.tree, commit_message(subject, trailers), author)
        return await self._merged(MergeKind.MERGED, commit)

    async def _move(self, inner: InnerGit, head: str, tree: str, message: str, author: Identity | None) -> str:
        """Commit a tree on top of the result."""
        # A lock of a git that was killed; under the lock of merges nobody else can hold it.
        (self._git.cwd / f"{RESULT}.lock").unlink(missing_ok=True)
        by = (author.name, author.email) if author else None
        made = await self._git.in_a_thread(lambda _: inner.move(RESULT, head, tree, message, by))
        if made is None:
            made = await self._commit(tree, (head,), message, author)
            await self._git.output("update-ref", RESULT, made, head)
        return made

    async def _merged(self, kind: MergeKind, commit: str) -> MergeOutcome:
        raw, before = await side_by_side(self._raw(f"{commit}^", commit), self._steps_before(commit))
        own = self._known[commit] = _contents_in(raw)
        undoes = undone([(step, await self._contents(name)) for name, step in before], own)
        return MergeOutcome(kind=kind, commit=commit, changes=tuple(_changes_in(raw)), undoes=undoes)

    async def set_to(self, commit: str) -> None:
        """Bring the result to this commit; what was beyond it is kept by a ref of its own."""
        if (head := await self.head()) == commit:
            return
        await self._git.output("update-ref", f"{ASIDE}/result-{head[:12]}", head)
        (self._git.cwd / f"{RESULT}.lock").unlink(missing_ok=True)
        await self._git.output("update-ref", RESULT, commit, head)

    async def fold(self, branches: Sequence[str], subject: str = "", author: Identity | None = None) -> Folded:
        """Merge the branches in their order onto the result, without moving it."""
        head = await self.head()
        tree, reached = f"{head}^{{tree}}", head
        for position, branch in enumerate(branches):
            merged = await self.merged_tree(reached, branch)
            if merged.conflicts:
                rest = tuple(branches[position + 1 :])
                return Folded(head, reached, merged.tree, merged.conflicts, branch, rest)
            # Merging needs commits: one in between for each further branch, which nothing refers to afterwards. Both
            # its parents are named, so that what two branches have in common is not merged twice.
            tree = merged.tree
            if position + 1 < len(branches):
                reached = await self._commit(tree, (reached, f"refs/heads/{branch}"), subject, author)
        return Folded(head, reached, tree)

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

    async def _steps_before(self, commit: str) -> list[tuple[str, int]]:
        """The commits of earlier steps, newest first, with their numbers."""
        log = await self._git.output("log", "-z", "--format=%H%n%B", f"{BASE}..{commit}^", "--")
        found = []
        for entry in split(log):
            name, _, text = entry.decode("utf-8", "replace").partition("\n")
            step = trailers_of(text).get(TRAILER_STEP, "")
            found += [(name, int(step))] if step.isdigit() else []
        return found

    async def _contents(self, commit: str) -> StepChanges:
        """By path the names of the contents before and after a commit; empty where there is no file."""
        if commit not in self._known:
            self._known[commit] = _contents_in(await self._raw(f"{commit}^", commit))
        return self._known[commit]

    async def _raw(self, before: str, after: str) -> bytes:
        flags = ("-r", "--raw", "-z", "--no-renames", "--no-abbrev")
        return await self._git.output("diff-tree", *flags, before, after, "--")

    async def _merged_before(self, trailers: Mapping[str, str], since: str) -> str | None:
        wanted = (trailers[TRAILER_TASK], trailers[TRAILER_STEP])
        log = await self._git.output("log", "-z", "--format=%H%n%B", f"{since}..{RESULT}", "--")
        for entry in split(log):
            commit, _, text = entry.decode("utf-8", "replace").partition("\n")
            found = trailers_of(text)
            if (found.get(TRAILER_TASK), found.get(TRAILER_STEP)) == wanted:
                return commit
        return None

    async def _commit(self, tree: str, parents: Sequence[str], text: str, author: Identity | None) -> str:
        named = [argument for parent in parents for argument in ("-p", parent)]
        identity = ("-c", f"author.name={author.name}", "-c", f"author.email={author.email}") if author else ()
        return await self._git.text(*identity, "commit-tree", tree, *named, "-F", "-", stdin=text.encode())


def _changes_in(raw: bytes) -> list[Change]:
    return [Change(path, kind) for path, kind in sorted(parse_raw(raw).items())]


def _contents_in(raw: bytes) -> StepChanges:
    entries = split(raw)
    names = {
        path_text(path): entry.decode().split()[2:4] for entry, path in zip(entries[::2], entries[1::2], strict=True)
    }
    return {path: (_content(old), _content(new)) for path, (old, new) in names.items()}


def _content(name: str) -> str:
    """The name of a content; git writes only zeros where there is none."""
    return name if name.strip("0") else ""

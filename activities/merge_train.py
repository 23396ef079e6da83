"""Merges that are each computed on top of the one before, and come onto the result together.

Until then nothing refers to them: the result moves once, in one atomic step, so a kill leaves all of them or none. A
step that is on the result already is never merged twice.
"""

import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from activities.git import path_text
from activities.inner_merge import Difference, Entry
from activities.known_tree import ChangeKind
from activities.result_branch import Folded, ResultBranch
from activities.source_repository import Identity
from activities.working_tree import Change, commit_message
from baton.breakers import StepChanges, undone
from baton.layout import TRAILER_STEP, TRAILER_TASK


class MergeKind(StrEnum):
    """How the merge of a step ended."""

    MERGED = "merged"
    ALREADY = "already"
    NOTHING = "nothing"
    CONFLICT = "conflict"


@dataclass(frozen=True)
class MergeOutcome:
    """`commit` is the step's commit (merged, already) or the head that the step met (nothing, conflict).

    `undoes`: by earlier step, the paths that this one gave back the content they had before that step. `folded`: the
    merge as far as it came, where it met a conflict.
    """

    kind: MergeKind
    commit: str
    changes: tuple[Change, ...] = ()
    undoes: dict[int, tuple[str, ...]] = field(default_factory=dict)
    folded: Folded | None = None

    @property
    def conflicts(self) -> tuple[str, ...]:
        """The paths in conflict."""
        return tuple(path_text(conflict.path) for conflict in self.folded.conflicts) if self.folded else ()


class MergeTrain:
    """Merges in a row. `head`: what the next one is put on top of."""

    def __init__(self, result: ResultBranch, before: str, onto: str | None, contents: dict[str, StepChanges]) -> None:
        """`contents`: what commits of the result changed, as far as it was looked at; it is added to."""
        self._result, self._before, self._onto = result, before, onto
        self.head = onto or before
        self._known = contents
        self._done: dict[tuple[str, str], str] = {}
        self._passed = [self.head]
        self._made: list[str] = []

    @classmethod
    async def on(cls, result: ResultBranch, onto: str | None, contents: dict[str, StepChanges]) -> "MergeTrain":
        """Begin one. `onto`: the head of which the caller knows; only what came after it can be one of these merges,
        done before. Without it they follow what is there."""
        train = cls(result, await result.head(), onto, contents)
        if onto != train._before:
            since = await result.line(onto or await result.base(), train._before)
            train._done = {_whose(trailers): commit for commit, trailers in reversed(since)}
        return train

    async def add(
        self, branches: Sequence[str], subject: str, trailers: Mapping[str, str], author: Identity | None = None
    ) -> MergeOutcome:
        """Put what `branches` changed on top as one commit; a conflict leaves everything as it is.

        `trailers` must hold `Baton-Task` and `Baton-Step`. The author is the user unless another one is given.
        """
        if (done := self._done.get(_whose(trailers))) is not None:
            if self._onto is not None:
                self._passes(done)
            return await self._outcome(MergeKind.ALREADY, done)
        folded = await self._result.fold(self.head, branches, subject, author)
        if folded.conflicts:
            return MergeOutcome(MergeKind.CONFLICT, self.head, folded=folded)
        if folded.tree == await self._result.tree_of(self.head):
            return MergeOutcome(MergeKind.NOTHING, self.head)
        commit = await self._result.commit(folded.tree, self.head, commit_message(subject, trailers), author)
        outcome = await self._outcome(MergeKind.MERGED, commit)
        self._made.append(commit)
        self._passes(commit)
        return outcome

    async def move(self) -> None:
        """Bring the result to the last commit, if there is a new one. What else came after `onto` is from before a
        reset, and is put aside."""
        if not self._made:
            return
        if self._before not in self._passed:
            await self._result.keep_aside(self._before)
        await self._result.move(self._before, self._made)

    def _passes(self, commit: str) -> None:
        self.head = commit
        self._passed.append(commit)

    async def _outcome(self, kind: MergeKind, commit: str) -> MergeOutcome:
        changed = await self._result.difference(commit)
        own = self._known[commit] = _contents(changed)
        undoes = undone([(step, await self._contents_of(name)) for name, step in await self._steps_before(commit)], own)
        changes = tuple(Change(path, _kind(*entries)) for path, entries in sorted(changed.items()))
        return MergeOutcome(kind, commit, changes, undoes)

    async def _steps_before(self, commit: str) -> list[tuple[str, int]]:
        """The commits of earlier steps, newest first, with their numbers."""
        line = await self._result.line(await self._result.base(), commit)
        steps = ((name, trailers.get(TRAILER_STEP, "")) for name, trailers in line[1:])
        return [(name, int(step)) for name, step in steps if step.isdigit()]

    async def _contents_of(self, commit: str) -> StepChanges:
        if commit not in self._known:
            self._known[commit] = _contents(await self._result.difference(commit))
        return self._known[commit]


def _whose(trailers: Mapping[str, str]) -> tuple[str, str]:
    return trailers.get(TRAILER_TASK, ""), trailers.get(TRAILER_STEP, "")


def _contents(changed: Difference) -> StepChanges:
    return {path_text(path): (old.name if old else "", new.name if new else "") for path, (old, new) in changed.items()}


def _kind(old: Entry | None, new: Entry | None) -> ChangeKind:
    if old is None or new is None:
        return ChangeKind.ADDED if old is None else ChangeKind.DELETED
    return ChangeKind.MODIFIED if stat.S_IFMT(old.mode) == stat.S_IFMT(new.mode) else ChangeKind.TYPE

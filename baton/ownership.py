"""Which paths one step may change; the pure side of the rule that only a step's owner changes its files.

A step owns its items, paths in an item's folder with the item's stem, what its `owns` globs name, and new
paths that nobody else owns. A more exact claim wins over a wider one, whoever holds it.
"""

import posixpath
from collections.abc import Mapping
from enum import IntEnum
from functools import cached_property
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from baton.path_patterns import fold, is_pattern, matches


class Allowed(BaseModel):
    """The step may write the path."""

    model_config = ConfigDict(frozen=True)
    kind: Literal["allowed"] = "allowed"


class Refused(BaseModel):
    """The step may not write the path; `message` tells the model why and what to do instead."""

    model_config = ConfigDict(frozen=True)
    kind: Literal["refused"] = "refused"
    path: str
    owner: str | None = Field(default=None, description="who owns the path, where somebody does")
    message: str


class Claim(IntEnum):
    """How exactly somebody claims a path; the higher claim wins."""

    NONE = 0
    GLOB = 1
    STEM = 2
    EXACT = 3


class Ownership(BaseModel):
    """The paths of one step. Paths are relative to the repository, with `/` between components.

    `others` maps an item path or an `owns` glob of another step or shard to a name for its owner. `also`: single paths
    given to the step beside its own. A step with neither items nor `owns` may write whatever nobody else owns. Two
    claims of the same rank go to this step: the plan keeps those apart, and a folder's files of one stem together.
    """

    model_config = ConfigDict(frozen=True)
    items: tuple[str, ...] = ()
    owns: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    others: Mapping[str, str] = Field(default_factory=dict)
    read_only: bool = False

    def may_write(self, path: str, exists: bool) -> Allowed | Refused:
        """Whether the step may create (`exists` false), change or delete `path`."""
        if path.startswith("/") or ".." in path.split("/"):
            message = f"{path} is outside the repository. Give a path relative to the repository root."
            return Refused(path=path, message=message)
        path = posixpath.normpath(path)
        if self.read_only:
            message = f"{path} was not written: this role only reads. Report what should change instead."
            return Refused(path=path, message=message)
        mine = self._own_claim(path)
        theirs, owner = self._strongest_other(path)
        if theirs > mine:
            return Refused(path=path, owner=owner, message=_belongs_to(path, owner))
        if mine or not exists or not (self.items or self.owns):
            return Allowed()
        return Refused(path=path, message=self._not_ours(path))

    def foreign(self, changes: Mapping[str, bool]) -> list[Refused]:
        """What a diff holds that the step may not change, in order of path.

        `changes` maps each changed path to whether it existed before the change.
        """
        verdicts = [self.may_write(path, existed) for path, existed in sorted(changes.items())]
        return [verdict for verdict in verdicts if isinstance(verdict, Refused)]

    def _own_claim(self, path: str) -> Claim:
        if path in self._item_set or path in self.also:
            return Claim.EXACT
        if posixpath.splitext(path)[0] in self._item_stems:
            return Claim.STEM
        return Claim.GLOB if any(matches(glob, path) for glob in self.owns) else Claim.NONE

    def _strongest_other(self, path: str) -> tuple[Claim, str | None]:
        """The best claim of another step; case and Unicode form of a name do not count."""
        folded = fold(path)
        if folded in self._others_exact:
            return Claim.EXACT, self._others_exact[folded]
        stem = posixpath.splitext(folded)[0]
        if stem in self._others_stems:
            return Claim.STEM, self._others_stems[stem]
        for glob, owner in self._others_globs:
            if matches(glob, folded):
                return Claim.GLOB, owner
        return Claim.NONE, None

    @cached_property
    def _item_set(self) -> frozenset[str]:
        return frozenset(posixpath.normpath(item) for item in self.items)

    @cached_property
    def _item_stems(self) -> frozenset[str]:
        return frozenset(posixpath.splitext(item)[0] for item in self._item_set)

    @cached_property
    def _others_exact(self) -> dict[str, str]:
        # A file may really be called `[id].tsx`, so every key counts as a path before it counts as a glob.
        return {fold(posixpath.normpath(path)): owner for path, owner in self.others.items()}

    @cached_property
    def _others_globs(self) -> tuple[tuple[str, str], ...]:
        # Thousands of items are no globs: they would cost a regular expression each for every path that is judged.
        return tuple((fold(path), owner) for path, owner in self.others.items() if is_pattern(path))

    @cached_property
    def _others_stems(self) -> dict[str, str]:
        return {posixpath.splitext(path)[0]: owner for path, owner in self._others_exact.items()}

    def _not_ours(self, path: str) -> str:
        own = [*self.items, *self.owns]
        shown = ", ".join(own[:5]) + (f" and {len(own) - 5} more" if len(own) > 5 else "")
        return (
            f"{path} is not one of this step's files and was not changed. This step may change: {shown}, "
            "files beside an item with the same stem, and new files. If the work needs a change elsewhere, "
            "report it as an issue and go on."
        )


def _belongs_to(path: str, owner: str | None) -> str:
    return (
        f"{path} belongs to {owner} and was not changed. If your work needs a change there, call record with needs: "
        f'[{{"file": "{path}", "need": "…"}}], saying precisely what; its owner gets it. Go on with your own files.'
    )

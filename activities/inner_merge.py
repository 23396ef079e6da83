"""Merges that need no git, by libgit2's objects alone: those in which nothing could be decided one way or the other.

Where neither side removed a path, changed the kind of one or has one in common with what the other changed, nothing can
be taken for renamed, no content is merged, and git's answer is the sum of both. Everything else is git's to merge.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pygit2
from pygit2.enums import DiffOption, FileMode

from activities.known_tree import folders_above

_FILES = frozenset((FileMode.BLOB, FileMode.BLOB_EXECUTABLE))


class Entry(NamedTuple):
    """What a tree holds at a path."""

    mode: int
    name: str


Difference = dict[bytes, tuple[Entry | None, Entry | None]]
"""By path what was there before and after; None for nothing."""


def line(repository: pygit2.Repository, since: str, head: str) -> list[pygit2.Commit] | None:
    """The commits from `head` back to `since`, which is not among them; None where they are no line."""
    found, commit = list[pygit2.Commit](), repository[head].peel(pygit2.Commit)
    while str(commit.id) != since:
        if len(commit.parent_ids) != 1:
            return None
        found.append(commit)
        commit = repository[commit.parent_ids[0]].peel(pygit2.Commit)
    return found


def difference(before: pygit2.Tree, after: pygit2.Tree) -> Difference:
    """What differs between two trees, as git's `diff-tree -r --no-renames` has it."""
    found: Difference = {}
    for delta in before.diff_to_tree(after, flags=DiffOption.INCLUDE_TYPECHANGE).deltas:
        old, new = (Entry(file.mode, str(file.id)) if file.mode else None for file in (delta.old_file, delta.new_file))
        found[delta.new_file.raw_path] = (old, new)
    return found


def merge_base(repository: pygit2.Repository, since: str, head: str, branch: str) -> pygit2.Commit | None:
    """Where a branch left the line from `since` to `head`, when both are lines: then there is no other base."""
    ours = line(repository, since, head)
    if ours is None:
        return None
    known, commit = {since, *(str(one.id) for one in ours)}, repository[branch].peel(pygit2.Commit)
    while str(commit.id) not in known:
        if len(commit.parent_ids) != 1:
            return None
        commit = repository[commit.parent_ids[0]].peel(pygit2.Commit)
    return commit


def sum_of(ours: Difference, theirs: Difference) -> Mapping[str, tuple[pygit2.Oid, FileMode]] | None:
    """The files that `theirs` sets, to be set on top of `ours`; None where git has to merge."""
    for old, new in (*ours.values(), *theirs.values()):
        if new is None or new.mode not in _FILES or (old is not None and old.mode not in _FILES):
            return None
    if ours.keys() & _with_folders(theirs) or theirs.keys() & _with_folders(ours):
        return None
    return {path.decode(): (pygit2.Oid(hex=new.name), FileMode(new.mode)) for path, (_, new) in theirs.items() if new}


def _with_folders(paths: Iterable[bytes]) -> set[bytes]:
    return {one for path in paths for one in (path, *folders_above(path))}

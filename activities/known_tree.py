"""What is known of a workspace's files, so that git is asked only what may have changed since.

Whoever keeps it from one call to the next vouches that nothing else wrote in the workspace in between, or says
what did: `wrote` for single files, `anything_changed` after a command. A fresh one knows nothing, and all is looked at.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from activities.file_stamp import Stamp
from activities.git import split

MOST_NAMED = 100
"""More paths than these are not named to git one by one: it looks at everything."""


class ChangeKind(StrEnum):
    """What happened to a path. `TYPE`: a file became a link or the other way round."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"
    TYPE = "type"


_KINDS = {b"A": ChangeKind.ADDED, b"D": ChangeKind.DELETED, b"T": ChangeKind.TYPE}


def folders_above(path: bytes) -> list[bytes]:
    """The folders that a path stands in, the outermost first; not the root."""
    parts = path.split(b"/")
    return [b"/".join(parts[:end]) for end in range(1, len(parts))]


@dataclass
class KnownTree:
    """Of one workspace: `found` differs on disk from `commit`, its last checkpoint (None: unknown), but for the paths
    in `unsure`; `changed_since_start` is what differs between the commits `start` and `commit`, but for those in
    `changed_twice`, which may be as they were: the one has their first change, the other their last. `index` tells the
    index file that holds the commit `indexed` from any other; empty where that is unknown."""

    commit: str = ""
    index: Stamp = ()
    indexed: str = ""
    found: dict[bytes, ChangeKind] | None = None
    left_out: dict[bytes, str] = field(default_factory=dict)
    unsure: set[bytes] = field(default_factory=set)
    start: str = ""
    changed_since_start: dict[bytes, ChangeKind] = field(default_factory=dict)
    changed_twice: dict[bytes, ChangeKind] = field(default_factory=dict)

    def wrote(self, paths: Iterable[str]) -> None:
        """These paths, relative to the workspace and without links, may have changed."""
        for path in paths:
            if is_rule(path):
                # Other files may count now, or count no more.
                self.anything_changed()
            self.unsure.add(os.fsencode(path))

    def anything_changed(self) -> None:
        """A command ran: any file may have changed. Whether the index did, `index` tells."""
        self.found = None

    def about(self, commit: str) -> None:
        """The last checkpoint is `commit`: what is known of another one is worth nothing."""
        if commit == self.commit:
            return
        self.commit = self.start = commit
        self.found, self.index = None, ()
        self.left_out, self.unsure = {}, set()
        self.changed_since_start, self.changed_twice = {}, {}

    def named(self) -> list[bytes] | None:
        """The paths that git has to be asked about; None for all."""
        if self.found is None or len(self.unsure) > MOST_NAMED:
            return None
        return sorted(self.unsure)

    def listed(
        self, found: Mapping[bytes, ChangeKind], left_out: Mapping[bytes, str], named: list[bytes] | None
    ) -> None:
        """What git answered about `named`."""
        kept = {} if named is None or self.found is None else self.found
        still_out = {} if named is None else self.left_out
        self.found = {path: kind for path, kind in kept.items() if path not in self.unsure} | dict(found)
        self.left_out = {path: why for path, why in still_out.items() if path not in self.unsure} | dict(left_out)
        self.unsure.clear()

    def was_at_start(self, path: bytes, kind: ChangeKind) -> bool:
        """Whether the commit `start` has this path, which changed since the last checkpoint."""
        return self.changed_since_start.get(path, kind) is not ChangeKind.ADDED

    def committed(self, changes: Mapping[bytes, ChangeKind], commit: str) -> None:
        """These of the found changes are in the new checkpoint `commit`."""
        for path, kind in changes.items():
            if path in self.changed_since_start:
                self.changed_twice[path] = kind
            else:
                self.changed_since_start[path] = kind
        self.found = {path: kind for path, kind in (self.found or {}).items() if path not in changes}
        self.commit = commit


def is_rule(path: str) -> bool:
    """Whether a file says what is ignored or converted."""
    return os.path.basename(path).startswith(".git")  # noqa: PTH119 (a path of git, not of this system)


def parse_raw(output: bytes) -> dict[bytes, ChangeKind]:
    """Paths and kinds of `--raw -z` output."""
    entries = split(output)
    return {
        path: _KINDS.get(description.split()[-1][:1], ChangeKind.MODIFIED)
        for description, path in zip(entries[::2], entries[1::2], strict=True)
    }


def parse_status(output: bytes) -> dict[bytes, ChangeKind]:
    """What differs on disk from the index, untracked paths included, of `status --porcelain=v2 -z` without renames."""
    found = {}
    for entry in split(output):
        match entry[:1]:
            case b"1" if entry[3:4] != b".":
                found[entry.split(b" ", 8)[8]] = _KINDS.get(entry[3:4], ChangeKind.MODIFIED)
            case b"u":
                found[entry.split(b" ", 10)[10]] = ChangeKind.MODIFIED
            case b"?":
                found[entry[2:]] = ChangeKind.ADDED
    return found


def contents_before(output: bytes) -> dict[bytes, str]:
    """By path the object that the index has, of `status --porcelain=v2 -z`: where only the content differs on disk."""
    entries = (entry.split(b" ", 8) for entry in split(output) if entry[:1] == b"1" and entry[3:4] == b"M")
    return {fields[8]: fields[7].decode() for fields in entries if fields[4] == fields[5]}

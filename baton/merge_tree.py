"""What `git merge-tree --write-tree -z --messages` says of a merge: the tree, and every path that is in conflict.

Half of all kinds of conflict leave no markers in any file: they show in the stages of a path and in git's messages
only, so both are read. Paths stay bytes here; git's need not be text.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from baton.models import Stored

SUBMODULE_MODE, LINK_MODE = "160000", "120000"
MESSAGE_CHARACTERS = 300
_STAGE = re.compile(rb"(\d{6}) ([0-9a-f]{40,64}) ([123])\t(.+)", re.DOTALL)
_MARKER = re.compile(rb"(?:<{7,}|>{7,}|\|{7,})(?: .*)?|={7,}")


class ConflictKind(StrEnum):
    """How two sides disagree about a path, in the words of git where it has one."""

    SUBMODULE = "submodule"
    BINARY = "binary"
    FILE_DIRECTORY = "file_directory"
    TYPE = "type"
    LINK = "link"
    RENAME_RENAME = "rename_rename"
    RENAME_DELETE = "rename_delete"
    RENAME_COLLISION = "rename_collision"
    DIRECTORY_RENAME = "directory_rename"
    MODIFY_DELETE = "modify_delete"
    MODE = "mode"
    BOTH_ADDED = "both_added"
    CONTENT = "content"
    OTHER = "other"


_KINDS = {
    "CONFLICT (file/directory)": ConflictKind.FILE_DIRECTORY,
    "CONFLICT (distinct modes)": ConflictKind.TYPE,
    "CONFLICT (rename/rename)": ConflictKind.RENAME_RENAME,
    "CONFLICT (rename/delete)": ConflictKind.RENAME_DELETE,
    "CONFLICT (rename involved in collision)": ConflictKind.RENAME_COLLISION,
    "CONFLICT (modify/delete)": ConflictKind.MODIFY_DELETE,
    "CONFLICT (binary)": ConflictKind.BINARY,
    "CONFLICT (contents)": ConflictKind.CONTENT,
}
_STRONGEST_FIRST = tuple(ConflictKind)


class Version(Stored):
    """One side's entry of a path: the file mode as git writes it, and the object's name."""

    mode: str
    blob: str


@dataclass(frozen=True)
class ConflictedPath:
    """A path in conflict. `stages`: 1 the common ancestor, 2 the result, 3 the step. `others`: paths it came from."""

    path: bytes
    kind: ConflictKind
    stages: Mapping[int, Version] = field(default_factory=dict)
    others: tuple[bytes, ...] = ()
    message: str = ""


@dataclass(frozen=True)
class MergedTree:
    """The tree, with markers where git writes them, and what is in conflict; nothing when the merge is clean."""

    tree: str
    conflicts: tuple[ConflictedPath, ...] = ()


def parse_merge_tree(output: bytes, *, clean: bool) -> MergedTree:
    """The merge in git's output. ValueError when it is no such output."""
    fields = output.split(b"\0")
    tree = fields[0].decode("ascii")
    if not re.fullmatch(r"[0-9a-f]{40,64}", tree):
        raise ValueError(f"no tree in the output of merge-tree: {tree[:80]!r}")
    if clean:
        return MergedTree(tree)
    end = fields.index(b"", 1)
    stages: dict[bytes, dict[int, Version]] = {}
    for entry in fields[1:end]:
        found = _STAGE.fullmatch(entry)
        if found is None:
            raise ValueError(f"no entry of merge-tree: {entry[:200]!r}")
        version = Version(mode=found[1].decode(), blob=found[2].decode())
        stages.setdefault(found[4], {})[int(found[3])] = version
    messages = [message for message in _messages(fields[end + 1 :]) if message.kind.startswith("CONFLICT")]
    # A conflict of folders as a whole has a message but no entry.
    paths = dict.fromkeys([*stages, *(message.paths[0] for message in messages if message.paths)])
    return MergedTree(tree, tuple(_conflicted(path, stages.get(path, {}), messages) for path in paths))


def left_markers(text: bytes, known: Collection[bytes]) -> tuple[int, ...]:
    """Numbers, from 1, of the lines that are conflict markers as git writes them and that no side had before.

    `known`: all lines of the versions that were merged, without line ends.
    """
    lines = text.replace(b"\r\n", b"\n").split(b"\n")
    return tuple(n for n, line in enumerate(lines, 1) if _MARKER.fullmatch(line) and line not in known)


@dataclass(frozen=True)
class _Message:
    paths: tuple[bytes, ...]
    kind: str
    text: str


def _messages(fields: list[bytes]) -> Iterator[_Message]:
    position = 0
    # Advice about submodules, in a form of its own, may follow the messages.
    while position < len(fields) and fields[position].isdigit():
        count = int(fields[position])
        paths = tuple(fields[position + 1 : position + 1 + count])
        kind, text = fields[position + 1 + count : position + 3 + count]
        yield _Message(paths, kind.decode("utf-8", "replace"), text.decode("utf-8", "replace").strip())
        position += 3 + count


def _conflicted(path: bytes, stages: Mapping[int, Version], messages: list[_Message]) -> ConflictedPath:
    own = [message for message in messages if path in message.paths]
    kinds = {*_kinds_of_stages(stages), *(_kind(message.kind) for message in own)}
    kind = next((kind for kind in _STRONGEST_FIRST if kind in kinds), ConflictKind.OTHER)
    if kind is ConflictKind.CONTENT and 1 not in stages:
        kind = ConflictKind.BOTH_ADDED
    others = dict.fromkeys(other for message in own for other in message.paths if other != path)
    text = "; ".join(dict.fromkeys(message.text for message in own))
    return ConflictedPath(path, kind, stages, tuple(others), text[:MESSAGE_CHARACTERS])


def _kind(described: str) -> ConflictKind:
    if "submodule" in described:
        return ConflictKind.SUBMODULE
    if "directory rename" in described:
        return ConflictKind.DIRECTORY_RENAME
    return _KINDS.get(described, ConflictKind.OTHER)


def _kinds_of_stages(stages: Mapping[int, Version]) -> Iterator[ConflictKind]:
    if any(version.mode == SUBMODULE_MODE for version in stages.values()):
        yield ConflictKind.SUBMODULE
    ours, theirs = stages.get(2), stages.get(3)
    if ours and theirs and ours.mode == theirs.mode == LINK_MODE:
        yield ConflictKind.LINK
    if ours and theirs and ours.blob == theirs.blob and ours.mode != theirs.mode:
        yield ConflictKind.MODE

"""What turns and merges ask of git, inside this process by libgit2: one start of git costs more than all of it.

Files are compared with a commit's tree, and a checkpoint's tree is made from its parent's, so neither needs the index;
`settle` brings it up to them. libgit2 is used only where its answer is sure to be git's own: for files that no
attribute converts, in repositories whose format it knows. Where it is not, nothing was done, and git itself has to be
asked.
"""

import os
import stat
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pygit2
from pygit2.enums import ConfigLevel, DeltaStatus, FileMode

from activities.inner_merge import Difference, difference, line, merge_base, sum_of
from activities.known_tree import ChangeKind, folders_above
from activities.store import sync

_CONVERTING = ("filter", "ident", "working-tree-encoding", "text", "eol", "crlf")
_LINE_ENDS = frozenset(("text", "eol", "crlf"))
"""They convert nothing in a file without carriage returns."""
_EXECUTABLE = {FileMode.BLOB: False, FileMode.BLOB_EXECUTABLE: True}
MOST_BYTES = 4_000_000
_SYNCED_TOGETHER = 64
"""Files open at once."""
_ATTRIBUTES = b".gitattributes"
_READ_OTHERWISE = (b'"', b"\\")
"""Patterns with these are none to libgit2, or others."""
_FAULTS = (pygit2.GitError, OSError, KeyError, ValueError)
"""What libgit2 says to anything that it does not find or know."""


@dataclass(frozen=True)
class LinkedWorktree:
    """A workspace, and git's folder for it."""

    path: Path
    administration: Path


class _File(NamedTuple):
    content: bytes
    mode: FileMode


class InnerGit:
    """One private repository, opened when it is first needed. All methods block. Callers hold the lock of the
    workspace that they name, or that of merges, so nobody else moves its ref meanwhile; others may ask at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened: pygit2.Repository | None = None
        self._lock = threading.Lock()

    def compared(self, worktree: LinkedWorktree, commit: str, paths: Iterable[bytes]) -> dict[bytes, bool]:
        """Whether files differ from those of a commit; without those of which it is not sure, such as new ones."""
        with self._lock, suppress(*_FAULTS):
            rules = _Rules(worktree, self._tree(commit))
            return {path: found for path in paths if (found := _differs(rules, path)) is not None}
        return {}

    def commit(
        self, worktree: LinkedWorktree, ref: str, parent: str, changes: Mapping[bytes, ChangeKind], message: str
    ) -> str | None:
        """Commit these changes of the workspace on top of `parent`; `ref` names the commit, which is returned.

        Index and HEAD stay as they are (`settle`). None where that can't be done: then `ref` is as it was. OSError
        where it was moved, and the disk refused it.
        """
        moved = None
        with suppress(*_FAULTS):
            with self._lock:
                repository, tree = self._repository(), self._tree(parent)
                made: list[pygit2.Oid] = []
                files = self._files(_Rules(worktree, tree), changes, made)
                root = _rebuilt(repository, tree, files, made) or repository.TreeBuilder().write()
                new = self._committed(root, parent, message, None)
            moved = self._moved(ref, parent, new, made)
        return self._with_ref_on_disk(ref, moved)

    def tree_of(self, commit: str) -> str | None:
        """The tree of a commit."""
        with self._lock, suppress(*_FAULTS):
            return str(self._tree(commit).id)
        return None

    def line(self, since: str, head: str) -> list[tuple[str, str]] | None:
        """The commits between two and their messages, newest first; `since` is not among them. None where git has to be
        asked."""
        with self._lock, suppress(*_FAULTS):
            found = line(self._repository(), since, head)
            if found is not None:
                return [(str(one.id), one.raw_message.decode("utf-8", "replace")) for one in found]
        return None

    def changes_of(self, commit: str) -> Difference | None:
        """What a commit changed; None where git has to be asked."""
        with self._lock, suppress(*_FAULTS):
            (parent,) = self._repository()[commit].peel(pygit2.Commit).parents
            return difference(parent.tree, self._tree(commit))
        return None

    def merged_tree(self, since: str, head: str, branch: str) -> str | None:
        """The merge of a branch into `head`, which follows `since` in a line; None where git has to merge."""
        with suppress(*_FAULTS):
            made: list[pygit2.Oid] = []
            with self._lock:
                repository = self._repository()
                tip = str(repository.lookup_reference(f"refs/heads/{branch}").target)
                if (base := merge_base(repository, since, head, tip)) is None:
                    return None
                ours = self._tree(head)
                files = sum_of(difference(base.tree, ours), difference(base.tree, self._tree(tip)))
                if files is None:
                    return None
                tree = _rebuilt(repository, ours, files, made) or ours.id
            self._have_on_disk(made)
            return str(tree)
        return None

    def commit_tree(self, parent: str, tree: str, message: str, author: tuple[str, str] | None) -> str | None:
        """Commit a tree on top of `parent`, and nothing names the commit yet. `author`: name and address, where it is
        another than who commits. None where that can't be done."""
        with self._lock, suppress(*_FAULTS):
            return str(self._committed(pygit2.Oid(hex=tree), parent, message, author))
        return None

    def move(self, ref: str, before: str, commits: Iterable[str]) -> bool:
        """Have `ref`, which is at `before`, name the last of these new commits. False where that can't be done: then it
        is as it was. OSError where it was moved, and the disk refused it."""
        moved = None
        with suppress(*_FAULTS):
            made = [pygit2.Oid(hex=commit) for commit in commits]
            moved = self._moved(ref, before, made[-1], made[:-1])
        return self._with_ref_on_disk(ref, moved) is not None

    def settle(self, worktree: LinkedWorktree, indexed: str, commit: str) -> bool:
        """Have an index that holds the commit `indexed` hold `commit`, and HEAD name it. Whether that could be done."""
        with self._lock, suppress(*_FAULTS):
            deltas = list(self._tree(indexed).diff_to_tree(self._tree(commit)).deltas)
            workspace = _workspace(worktree)
            for delta in deltas:
                if delta.status is not DeltaStatus.ADDED:
                    workspace.index.remove(delta.old_file.raw_path.decode())
            for delta in deltas:
                if delta.status is not DeltaStatus.DELETED:
                    new = delta.new_file
                    workspace.index.add(pygit2.IndexEntry(new.raw_path.decode(), new.id, FileMode(new.mode)))
            workspace.index.write()
            workspace.set_head(pygit2.Oid(hex=commit))
            return True
        return False

    def _repository(self) -> pygit2.Repository:
        """Raises GitError for formats that libgit2 does not know."""
        if self._opened is None:
            _only_own_configuration()
            self._opened = pygit2.Repository(str(self._path))
        return self._opened

    def _tree(self, commit: str) -> pygit2.Tree:
        return self._repository()[commit].peel(pygit2.Tree)

    def _committed(self, tree: pygit2.Oid, parent: str, message: str, author: tuple[str, str] | None) -> pygit2.Oid:
        """A commit that nothing names yet."""
        committer = self._repository().default_signature
        by = pygit2.Signature(*author, committer.time, committer.offset) if author else committer
        return self._repository().create_commit(None, by, committer, message, tree, [parent])

    def _moved(self, ref: str, parent: str, commit: pygit2.Oid, made: Iterable[pygit2.Oid]) -> str | None:
        """Have a commit, and the new objects of its tree, on the disk, and then `ref` name it."""
        # Not under our lock: nobody else has to wait for the disk.
        self._have_on_disk([*made, commit])
        with self._lock:
            reference = self._repository().lookup_reference(ref)
            if str(reference.target) != parent:
                return None
            reference.set_target(commit)
            return str(commit)

    def _with_ref_on_disk(self, ref: str, commit: str | None) -> str | None:
        """The commit that `ref` was moved to, once that is on the disk. Where it is refused, the move was made."""
        if commit is not None:
            sync(self._path / ref)
            sync((self._path / ref).parent)
        return commit

    def _files(
        self, rules: "_Rules", changes: Mapping[bytes, ChangeKind], made: list[pygit2.Oid]
    ) -> dict[str, tuple[pygit2.Oid, FileMode] | None]:
        """By path what a commit gets, None for what it loses. ValueError where git has to be asked."""
        files: dict[str, tuple[pygit2.Oid, FileMode] | None] = {}
        for path, kind in changes.items():
            name = path.decode()
            if kind is ChangeKind.DELETED:
                files[name] = None
                continue
            is_new = kind is ChangeKind.ADDED
            file = _file(rules, path, None if is_new else rules.tree[name].filemode)
            if file is None or (is_new and not self._repository().config.get_bool("core.fileMode")):
                raise ValueError(name)
            made.append(blob := self._repository().create_blob(file.content))
            files[name] = (blob, file.mode)
        return files

    def _have_on_disk(self, objects: Iterable[pygit2.Oid]) -> None:
        """Wait until new objects are on the disk; what is packed already is."""
        names = list(map(str, objects))
        for begin in range(0, len(names), _SYNCED_TOGETHER):
            self._sync(names[begin : begin + _SYNCED_TOGETHER])

    def _sync(self, names: Iterable[str]) -> None:
        with ExitStack() as stack:
            descriptors = []
            for name in names:
                with suppress(FileNotFoundError):
                    place = self._path / "objects" / name[:2] / name[2:]
                    descriptors.append(os.open(place, os.O_RDONLY | os.O_CLOEXEC))
                    stack.callback(os.close, descriptors[-1])
            if sys.platform == "linux":
                # It begins to write what is not needed any more: then the first wait is nearly all.
                for descriptor in descriptors:
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            for descriptor in descriptors:
                os.fsync(descriptor)


class _Rules:
    """What converts the files of a workspace whose last checkpoint, or another commit of it, has this tree."""

    def __init__(self, worktree: LinkedWorktree, tree: pygit2.Tree) -> None:
        self.root = os.path.realpath(os.fsencode(worktree.path))
        self.tree = tree
        self._worktree = worktree
        self._attributes: pygit2.Repository | None = None
        self._in_folder: dict[bytes, bool | None] = {}

    def convert(self, path: bytes, content: bytes) -> bool:
        """Whether they convert this file, or may do so."""
        found = [self._found(folder) for folder in _folders_of(path)]
        if None in found:
            return True
        return True in found and self._are_converting(path, content)

    def _found(self, folder: bytes) -> bool | None:
        """Whether a folder has rules; None for such as libgit2 reads otherwise than git."""
        if folder not in self._in_folder:
            self._in_folder[folder] = self._look(folder + _ATTRIBUTES)
        return self._in_folder[folder]

    def _look(self, name: bytes) -> bool | None:
        try:
            descriptor = os.open(os.path.join(self.root, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)  # noqa: PTH118
        except FileNotFoundError:
            # Git would ask the index then.
            return None if name.decode() in self.tree else False
        with os.fdopen(descriptor, "rb") as file:
            rules = file.read(MOST_BYTES)
        is_strange = len(rules) == MOST_BYTES or any(sign in rules for sign in _READ_OTHERWISE)
        return None if is_strange else True

    def _are_converting(self, path: bytes, content: bytes) -> bool:
        self._attributes, name = self._attributes or _workspace(self._worktree), path.decode()
        removed = (folder + _ATTRIBUTES for folder in _folders_of(path) if not self._found(folder))
        if any(rules.decode() in self._attributes.index for rules in removed):
            # An index that stayed behind has them still, and libgit2 asks it.
            return True
        attributes = {attribute for attribute in _CONVERTING if self._attributes.get_attr(name, attribute)}
        return bool(attributes - _LINE_ENDS) or (bool(attributes) and b"\r" in content)


def _workspace(worktree: LinkedWorktree) -> pygit2.Repository:
    """ValueError where git's folder for the workspace names another place."""
    workspace = pygit2.Repository(str(worktree.administration))
    if not workspace.workdir or os.path.realpath(workspace.workdir) != os.path.realpath(worktree.path):
        raise ValueError(workspace.workdir)
    return workspace


def _differs(rules: _Rules, path: bytes) -> bool | None:
    """Whether a file differs from the tree's; None where git has to be asked."""
    try:
        entry = rules.tree[path.decode()]
        file = _file(rules, path, entry.filemode)
        return None if file is None else bool(pygit2.hash(file.content) != entry.id)
    except _FAULTS:
        return None


def _file(rules: _Rules, path: bytes, mode: int | None) -> _File | None:
    """A file as a commit would hold it, of this mode, else of its own; None where it has another, is no plain file, is
    long, or is converted or part of git's rules."""
    place = os.path.join(rules.root, path)  # noqa: PTH118 (bytes: names need not be UTF-8)
    folder, name = os.path.split(place)
    if mode not in {None, *_EXECUTABLE} or name.startswith(b".git") or os.path.realpath(folder) != folder:
        return None
    descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES:
            return None
        content = file.read()
    own = FileMode.BLOB_EXECUTABLE if found.st_mode & stat.S_IXUSR else FileMode.BLOB
    return None if mode not in (None, own) or rules.convert(path, content) else _File(content, own)


def _rebuilt(
    repository: pygit2.Repository,
    tree: pygit2.Tree | None,
    files: Mapping[str, tuple[pygit2.Oid, FileMode] | None],
    made: list[pygit2.Oid],
) -> pygit2.Oid | None:
    """The tree with these files set or removed; None when nothing is left. New trees are added to `made`."""
    builder = repository.TreeBuilder(tree) if tree is not None else repository.TreeBuilder()
    below: dict[str, dict[str, tuple[pygit2.Oid, FileMode] | None]] = {}
    for name, file in files.items():
        folder, slash, rest = name.partition("/")
        if slash:
            below.setdefault(folder, {})[rest] = file
        elif file is None:
            builder.remove(name)
    for folder, inside in below.items():
        there = tree[folder] if tree is not None and folder in tree else None
        subtree = there if isinstance(there, pygit2.Tree) else None
        if (new := _rebuilt(repository, subtree, inside, made)) is not None:
            builder.insert(folder, new, FileMode.TREE)
        elif subtree is not None:
            builder.remove(folder)
    for name, file in files.items():
        if file is not None and "/" not in name:
            builder.insert(name, *file)
    if len(builder) == 0:
        return None
    made.append(written := builder.write())
    return written


def _folders_of(path: bytes) -> Iterator[bytes]:
    """The folders above a file as prefixes of its path, the root's `b""` first."""
    yield b""
    yield from (folder + b"/" for folder in folders_above(path))


@cache
def _only_own_configuration() -> None:
    """As for git: the private repository's own configuration and attributes, and nobody else's."""
    for level in (ConfigLevel.SYSTEM, ConfigLevel.XDG, ConfigLevel.GLOBAL, ConfigLevel.PROGRAMDATA):
        pygit2.settings.search_path[level] = ""

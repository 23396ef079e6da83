"""What a turn asks of git, inside this process by libgit2: one start of git costs more than all of it.

libgit2 is used only where its answer is sure to be git's own: for files that no attribute converts, in repositories
whose format it knows. Where it is not, nothing was done, and git itself has to be asked.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pygit2
from pygit2.enums import ConfigLevel, FileMode

_CONVERTING = ("filter", "ident", "working-tree-encoding", "text", "eol", "crlf")
_LINE_ENDS = frozenset(("text", "eol", "crlf"))
"""They convert nothing in a file without carriage returns."""
_MODES = {FileMode.BLOB: 0, FileMode.BLOB_EXECUTABLE: stat.S_IXUSR}
MOST_BYTES = 4_000_000
_ATTRIBUTES = b".gitattributes"
_READ_OTHERWISE = (b'"', b"\\")
"""Patterns with these are none to libgit2, or others."""


class InnerGit:
    """One workspace. All methods block, and are called under the workspace's lock."""

    def __init__(self, repository: pygit2.Repository) -> None:
        self._repository = repository
        self._index = repository.index
        self._root = os.path.realpath(os.fsencode(repository.workdir))

    @classmethod
    def of(cls, workspace: Path, administration: Path) -> "InnerGit | None":
        """The workspace, and git's folder for it. None for formats that libgit2 does not know, and where that folder
        names another place than the workspace's."""
        _only_own_configuration()
        try:
            repository = pygit2.Repository(str(administration))
            if not repository.workdir or os.path.realpath(repository.workdir) != os.path.realpath(workspace):
                return None
            return cls(repository)
        except (pygit2.GitError, OSError):
            return None

    def compared(self, paths: Iterable[bytes]) -> dict[bytes, bool]:
        """Whether files differ from the index; without those of which it is not sure, such as new ones."""
        return {path: found for path in paths if (found := self._differs(path)) is not None}

    def stage(self, paths: Iterable[bytes]) -> frozenset[bytes]:
        """Put changed files into the index; those are returned that are in it now."""
        try:
            done = [path for path in paths if self._differs(path)]
            for path in done:
                self._index.add(path.decode())
            if done:
                self._index.write()
        except (pygit2.GitError, OSError):
            return frozenset()
        return frozenset(done)

    def commit(self, ref: str, parent: str, message: str, *, changed: bool) -> str | None:
        """Commit the index (`changed`; else the files of `parent`) on top of `parent`; HEAD and `ref` name the commit,
        which is returned. None where that can't be done: then `ref` is as it was."""
        try:
            reference = self._repository.lookup_reference(ref)
            if str(reference.target) != parent:
                return None
            self._index.read(force=False)
            tree = self._index.write_tree() if changed else self._repository[parent].peel(pygit2.Tree).id
            signature = self._repository.default_signature
            commit = self._repository.create_commit(None, signature, signature, message, tree, [parent])
            # The truth is the ref: whoever comes after a crash in between sees the turn as not done.
            self._repository.set_head(commit)
            reference.set_target(commit)
        except (pygit2.GitError, OSError):
            return None
        return str(commit)

    def _differs(self, path: bytes) -> bool | None:
        """Whether a file differs from the index; None where git has to be asked."""
        try:
            name = path.decode()
            entry = self._index[name]
            content = self._content(path, entry.mode)
            if content is None or self._is_converted(name, content) or self._has_strange_rules(path):
                return None
            return bool(pygit2.hash(content) != entry.id)
        except (KeyError, ValueError, pygit2.GitError, OSError):
            return None

    def _content(self, path: bytes, mode: int) -> bytes | None:
        """The bytes of a file of the same kind and mode as in the index, and not too long; None for any other."""
        place = os.path.join(self._root, path)  # noqa: PTH118 (bytes: names need not be UTF-8)
        if mode not in _MODES or os.path.realpath(os.path.dirname(place)) != os.path.dirname(place):  # noqa: PTH120
            return None
        descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            is_alike = stat.S_ISREG(found.st_mode) and found.st_mode & stat.S_IXUSR == _MODES[FileMode(mode)]
            return file.read() if is_alike and found.st_size <= MOST_BYTES else None

    def _has_strange_rules(self, path: bytes) -> bool:
        """Whether attributes may hold for the file that libgit2 reads otherwise than git."""
        for folder in _folders_of(path):
            name = folder + _ATTRIBUTES
            try:
                descriptor = os.open(os.path.join(self._root, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)  # noqa: PTH118
            except FileNotFoundError:
                if name.decode() in self._index:
                    return True
                continue
            with os.fdopen(descriptor, "rb") as file:
                rules = file.read(MOST_BYTES)
            if len(rules) == MOST_BYTES or any(sign in rules for sign in _READ_OTHERWISE):
                return True
        return False

    def _is_converted(self, name: str, content: bytes) -> bool:
        attributes = {attribute for attribute in _CONVERTING if self._repository.get_attr(name, attribute)}
        return bool(attributes - _LINE_ENDS) or (bool(attributes) and b"\r" in content)


def _folders_of(path: bytes) -> Iterator[bytes]:
    """The folders above a file as prefixes of its path, the root's `b""` first."""
    parts = path.split(b"/")
    return (b"".join(part + b"/" for part in parts[:number]) for number in range(len(parts)))


@cache
def _only_own_configuration() -> None:
    """As for git: the private repository's own configuration and attributes, and nobody else's."""
    for level in (ConfigLevel.SYSTEM, ConfigLevel.XDG, ConfigLevel.GLOBAL, ConfigLevel.PROGRAMDATA):
        pygit2.settings.search_path[level] = ""

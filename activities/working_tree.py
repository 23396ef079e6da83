"""One workspace as git sees it: what was changed in it, checkpoints, and the way back to one.

What a model's command does with git (add, commit, checkout, a stale lock) does not count (`workspace_index.py`), and
what must not be committed stays out (`left_out.py`).
"""

import asyncio
import hashlib
import os
import re
import stat
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass

from activities.file_stamp import stamp_of
from activities.folders import remove_tree
from activities.git import BlockingGit, GitError, path_text, split
from activities.known_tree import (
    MOST_NAMED,
    ChangeKind,
    KnownTree,
    contents_before,
    folders_above,
    is_rule,
    parse_raw,
    parse_status,
)
from activities.left_out import LeftOut, why_not
from activities.sealed_config import unseal
from activities.spare_checkouts import remember
from activities.workspace_index import REF_FILE, IndexedWorktree

TRAILER_AGENT, TRAILER_TURN, TRAILER_RESULT = "Baton-Agent", "Baton-Turn", "Baton-Result"
"""Of checkpoints: who made it, in which turn, and the node or blob that holds what it came with."""
READY_FILE = "baton-ready"
"""There once the checkout was complete."""
MOST_COMPARED_BYTES = 16_000_000
"""A larger file counts as changed wherever git says so."""
_SHA1_DIGITS = 40
_REMOVED_RULES = re.compile(rb"^Removing .*\.gitignore", re.MULTILINE)
_GLOB = re.compile(r"[\\*?\[\]!# ]")
_RAW = ("--raw", "-z", "--abbrev=64", "--no-renames", "--no-ext-diff", "--ignore-submodules=all")
_STATUS = ("status", "--porcelain=v2", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=all", "--")

Barred = Callable[[Iterable[str]], Awaitable[Iterable[str]]]
"""Which of these changed paths must not be committed."""


@dataclass(frozen=True)
class Change:
    """One changed path, relative to the root of the repository: `raw` as git has it, `path` as people are told."""

    raw: bytes
    kind: ChangeKind

    @property
    def path(self) -> str:
        """As text that may be stored; bytes that are no UTF-8 are told as `\\xNN`."""
        return path_text(self.raw)

    @property
    def name(self) -> str:
        """As functions for files take it; it may hold surrogates, which can be neither told nor stored."""
        return os.fsdecode(self.raw)


@dataclass(frozen=True)
class WorkingTree(IndexedWorktree):
    """A workspace. Callers hold its lock: two of these must not work in one workspace at a time."""

    def healthy(self, ref: str) -> bool:
        """Whether the workspace is complete; a `.git` file that a command removed or replaced is put back."""
        complete = (self.administration / READY_FILE).is_file() and self.index.is_file()
        if not (complete and self.path.is_dir() and self.ref == ref):
            return False
        link, wanted = self.path / ".git", f"gitdir: {self.administration}\n"
        if link.is_dir() and not link.is_symlink():
            remove_tree(link)
        if not link.is_file() or link.is_symlink() or link.read_text("utf-8", "replace") != wanted:
            link.unlink(missing_ok=True)
            link.write_text(wanted, "utf-8")
        return True

    async def furnish(self, ref: str, commit: str, lock: int, *, used: bool = False) -> None:
        """Check out `commit` in a workspace that git just added, and mark it complete.

        `used`: there are files of another workspace, and the index of its checkout. GitError when they stay.
        """
        (self.administration / REF_FILE).write_text(ref, "utf-8")
        git = self.git.holding(lock)
        if used:
            # First, so that no folder is a link that leads to files which go.
            await git.output("clean", "-ffdxq")
        await git.output("read-tree", "--reset", "-u", commit)
        if used:
            await git.output("diff-files", "--quiet", "--ignore-submodules=all")
        await asyncio.to_thread(remember, self.path, self.administration)
        (self.administration / READY_FILE).touch()

    async def changes(self, since: str | None = None, tree: KnownTree | None = None) -> list[Change]:
        """What differs on disk from the commit `since` (the last checkpoint when absent), sorted by path."""
        tree = tree or KnownTree()
        found = await self._listed(tree)
        if since is not None and since != tree.commit:
            found = await self._since(since, found, tree)
        return [Change(path, kind) for path, kind in sorted(found.items())]

    async def anything(self, tree: KnownTree) -> bool:
        """Whether anything differs on disk from the last checkpoint, whoever wrote it."""
        tree.found = None
        return bool(await self._listed(tree) or tree.left_out)

    async def untracked(self) -> frozenset[str]:
        """Names of files, and of whole folders as `name/`, that git neither tracks nor ignores."""
        await self.synchronise(KnownTree())
        flags = ("-z", "--others", "--exclude-standard", "--directory", "--no-empty-directory")
        return frozenset(os.fsdecode(path) for path in split(await self.git.output("ls-files", *flags)))

    async def changes_there(self, start: str, tree: KnownTree) -> dict[Change, bool]:
        """What differs on disk from the last checkpoint, and whether the commit `start` has that path."""
        found = await self._listed(tree)
        if found:
            await self._begin(start, tree)
        return {Change(path, kind): tree.was_at_start(path, kind) for path, kind in sorted(found.items())}

    async def all_untracked(self) -> frozenset[str]:
        """Files, and whole folders as `name/`, that git does not track, ignored or not."""
        flags = ("-z", "--others", "--directory", "--no-empty-directory")
        return frozenset(path_text(path) for path in split(await self.git.output("ls-files", *flags)))

    async def clean(self, keep: Iterable[str]) -> None:
        """Remove what git does not track, ignored or not, but for these paths."""
        kept = [f"--exclude={ignore_rule(path)}" for path in sorted(keep)]
        await self.git.output("clean", "-ffdxq", *kept)

    async def left_out(self) -> list[LeftOut]:
        """What the next checkpoint will not hold though git does not ignore it."""
        tree = KnownTree()
        await self._listed(tree)
        return [LeftOut(path=path_text(path), reason=reason) for path, reason in sorted(tree.left_out.items())]

    async def commit(self, message: str, barred: Barred | None = None, tree: KnownTree | None = None) -> str:
        """Commit what was changed on top of the last checkpoint, empty or not, and return the new checkpoint.

        With a `tree` that the caller vouches for, index and HEAD may stay behind.
        """
        known = tree or KnownTree()
        changes = dict(await self._listed(known))
        if changes and barred is not None:
            # A removal puts nothing anywhere.
            put = {os.fsdecode(path): path for path, kind in changes.items() if kind is not ChangeKind.DELETED}
            for path in await barred(put):
                del changes[put[path]]
        self.remove_stale_lock_of_ref()
        last = known.commit
        new = await self.git.in_a_thread(lambda _: self.inner.commit(self, self.ref, last, changes, message))
        if new is None:
            await self.synchronise(known)
            new = await self.git.in_a_thread(lambda git: self._commit(git, changes, last, message))
            known.index, known.indexed = stamp_of(self.index), new
        known.committed(changes, new)
        if tree is None:
            await self.settle(known)
        return new

    def _commit(self, git: BlockingGit, changes: Mapping[bytes, ChangeKind], last: str, message: str) -> str:
        gone = [path for path in changes if changes[path] is ChangeKind.DELETED]
        if beyond := self._beyond_links(gone):
            # Git refuses to look for them there, and need not.
            git.output("update-index", "--force-remove", "-z", "--stdin", stdin=_lines(beyond))
        # Removals first: a folder may have become a file.
        if ordered := [*sorted({*gone} - {*beyond}), *sorted(changes.keys() - {*gone})]:
            flags = ("--add", "--remove", "--replace", "-z", "--stdin")
            git.output("update-index", *flags, stdin=_lines(ordered))
        tree = git.text("write-tree") if changes else f"{last}^{{tree}}"
        new = git.text("commit-tree", tree, "-p", last, "-F", "-", stdin=message.encode())
        git.output("update-ref", "--stdin", stdin=self.moving(new, last))
        return new

    async def reset(self, commit: str | None = None) -> None:
        """Bring tracked and unignored files back to `commit` (the last checkpoint when absent); ignored files stay."""
        last = await self.last()
        wanted = commit or last
        unseal(self.administration.parents[1], self.administration)
        self.remove_stale_locks()
        moving = self.moving(wanted, last)
        await self.git.output("update-ref", "--stdin", stdin=moving)
        await self.git.in_a_thread(self.have_usable_index)
        for path in split(await self.git.output("ls-files", "-z", "--others", "--exclude-standard")):
            if path.rpartition(b"/")[2] == b".gitattributes":
                # Git would write files as these have it.
                (self.path / os.fsdecode(path)).unlink(missing_ok=True)
        await self.git.output("read-tree", "--reset", "-u", wanted)
        try:
            # A second look finds what only such rules ignored as have gone now.
            while _REMOVED_RULES.search(await self.git.output("clean", "-f", "-d")):
                pass
        except GitError:
            # Folders so deep that git cannot name what is in them.
            for name in await self.untracked():
                await asyncio.to_thread(remove_tree, self.path / name)
        # Through a link in the place of a folder its files looked as if they were there.
        await self.git.output("checkout-index", "--all", "--force", "--index", "--quiet")

    async def restore(self, changes: Iterable[Change], tree: KnownTree | None = None) -> None:
        """Take these changes back: files as the last checkpoint has them, new ones gone."""
        tree = tree or KnownTree()
        await self.synchronise(tree)
        back = {change.raw: change for change in changes}
        await self.git.in_a_thread(lambda git: self._restore(git, back, tree))

    def _restore(self, git: BlockingGit, back: Mapping[bytes, Change], tree: KnownTree) -> None:
        beyond = {*self._beyond_links([*back])}
        for raw, change in back.items():
            place = self.path / change.name
            # Git counts as removed what now is behind a link; what is there is not ours.
            if raw not in beyond:
                if place.is_dir() and not place.is_symlink():
                    remove_tree(place)
                    tree.found = None
                with suppress(FileNotFoundError, NotADirectoryError):
                    place.unlink()
            if is_rule(change.name) or (tree.found and any(folder in tree.found for folder in folders_above(raw))):
                tree.found = None
            if tree.found is not None:
                tree.found.pop(raw, None)
        if known := [raw for raw, change in back.items() if change.kind is not ChangeKind.ADDED]:
            git.output("checkout-index", "-f", "-z", "--stdin", stdin=_lines(known))

    async def _listed(self, tree: KnownTree) -> dict[bytes, ChangeKind]:
        """Changed paths, without those that are left out."""
        tree.about(await self.last())
        if tree.index and tree.index != stamp_of(self.index):
            tree.anything_changed()
        if tree.named() != []:
            differing, before, named = await self._differing(tree)
            found, left_out = await asyncio.to_thread(self._sorted_out, differing, before) if differing else ({}, {})
            tree.listed(found, left_out, named)
        return tree.found or {}

    async def _differing(self, tree: KnownTree) -> tuple[dict[bytes, ChangeKind], dict[bytes, str], list[bytes] | None]:
        """What differs on disk from the last checkpoint, as git says; by path what the index has where only attributes
        may make that difference; and of which paths all this is said, None for all."""
        named = tree.named()
        sure = await asyncio.to_thread(self.inner.compared, self, tree.commit, named) if named else {}
        if named is None or len(sure) < len(named):
            await self.synchronise(tree)
            # An index that somebody changed: all has to be looked at.
            named = tree.named()
        found = {path: ChangeKind.MODIFIED for path, differs in sure.items() if differs}
        left = [path for path in named or () if path not in sure]
        if named and not left:
            return found, {}, named
        output = await self.git.output(*_STATUS, *map(os.fsdecode, left))
        return found | parse_status(output), contents_before(output), named

    def _sorted_out(
        self, differing: Mapping[bytes, ChangeKind], before: Mapping[bytes, str]
    ) -> tuple[dict[bytes, ChangeKind], dict[bytes, str]]:
        """What of it was changed and is to be committed, and what is left out, and why. Reads files: blocks."""
        unchanged = {path for path, blob in before.items() if self._has_bytes_of(path, blob)}
        changed = {path: kind for path, kind in differing.items() if path not in unchanged}
        root = os.fsencode(self.path)
        left_out = {path: why for path, kind in changed.items() if (why := why_not(root, path, kind))}
        return {path: kind for path, kind in changed.items() if path not in left_out}, left_out

    def _has_bytes_of(self, path: bytes, blob: str) -> bool:
        """Whether a file has the very bytes of an object: nobody wrote it, attributes that came later convert it."""
        place = os.path.join(os.fsencode(self.path), path)  # noqa: PTH118 (bytes: names need not be UTF-8)
        try:
            found = os.lstat(place)
            if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_COMPARED_BYTES:
                return False
            with open(place, "rb") as file:  # noqa: PTH123
                content = file.read()
        except OSError:
            return False
        algorithm = "sha1" if len(blob) == _SHA1_DIGITS else "sha256"
        named = hashlib.new(algorithm, b"blob %d\0" % len(content) + content, usedforsecurity=False)
        return named.hexdigest() == blob

    async def _begin(self, start: str, tree: KnownTree) -> None:
        """Have it known what differs from `start`."""
        if tree.start != start:
            raw = await self.git.output("diff-tree", "-r", *_RAW, start, tree.commit, "--")
            tree.start, tree.changed_since_start, tree.changed_twice = start, parse_raw(raw), {}

    async def _since(self, start: str, found: Mapping[bytes, ChangeKind], tree: KnownTree) -> dict[bytes, ChangeKind]:
        """What differs on disk from an earlier commit, given what differs from the last checkpoint."""
        await self._begin(start, tree)
        differing = {**tree.changed_since_start, **found}
        # Changed before the last checkpoint and after it: perhaps as it was at first.
        there: set[bytes] = set()
        for path in tree.changed_twice.keys() | (found.keys() & tree.changed_since_start.keys()):
            now = found.get(path) or tree.changed_twice.get(path)
            if tree.changed_since_start[path] is ChangeKind.ADDED:
                differing[path] = ChangeKind.ADDED
                if now is ChangeKind.DELETED:
                    del differing[path]
            elif now is ChangeKind.DELETED:
                differing[path] = ChangeKind.DELETED
            else:
                there.add(path)
        if there:
            differing = {path: kind for path, kind in differing.items() if path not in there}
            differing |= await self._now(start, there, tree)
        return differing

    async def _now(self, start: str, paths: AbstractSet[bytes], tree: KnownTree) -> dict[bytes, ChangeKind]:
        """Which of these paths, which are on disk and in an earlier commit, differ from it."""
        sure = await asyncio.to_thread(self.inner.compared, self, start, paths)
        found = {path: ChangeKind.MODIFIED for path, differs in sure.items() if differs}
        if left := sorted(paths - sure.keys()):
            await self.synchronise(tree)
            named = left if len(left) <= MOST_NAMED else []
            told = parse_raw(await self.git.output("diff", *_RAW, start, "--", *map(os.fsdecode, named)))
            for path in told.keys() & set(left):
                # The index lacks it: removed since then, and there again.
                is_again = told[path] is ChangeKind.DELETED
                found[path] = ChangeKind.MODIFIED if is_again else told[path]
        return found

    def _beyond_links(self, paths: Sequence[bytes]) -> list[bytes]:
        """Those of these paths where a folder has become a link."""
        root = os.fsencode(self.path)
        folders = {folder for path in paths for folder in folders_above(path)}
        links = {folder for folder in folders if os.path.islink(root + b"/" + folder)}  # noqa: PTH114
        return sorted(path for path in paths if links.intersection(folders_above(path))) if links else []


def ignore_rule(path: str) -> str:
    """The line of an ignore file that means this path and no other."""
    return "/" + _GLOB.sub(r"\\\g<0>", path)


def _lines(paths: Iterable[bytes]) -> bytes:
    return b"".join(path + b"\0" for path in paths)


def commit_message(subject: str, trailers: Mapping[str, str]) -> str:
    """A commit message. ValueError for a trailer that could not be read back."""
    for key, value in trailers.items():
        if not key.replace("-", "").isalnum() or "\n" in value or not value.strip():
            raise ValueError(f"trailer {key!r}: {value!r} must be one line")
    lines = [" ".join(subject.split()) or "(no subject)", ""]
    return "\n".join([*lines, *(f"{key}: {value.strip()}" for key, value in trailers.items())]) + "\n"


def trailers_of(text: str) -> dict[str, str]:
    """The trailers that `commit_message` wrote: the `Key: value` lines of the last paragraph after the subject."""
    paragraphs = text.strip().split("\n\n")
    pairs = [line.split(": ", 1) for line in paragraphs[-1].splitlines()] if len(paragraphs) > 1 else []
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}

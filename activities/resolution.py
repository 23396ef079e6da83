"""Conflicts as git has them: laid out as a commit, settled by taking a side, and verified when somebody resolved them.

The commit that lays a conflict out holds the files with their markers and has the result's head and the step's tip as
parents. What resolves it is committed on top, so merging the resolution into a result that went on meanwhile is an
ordinary merge. Such a commit never gets onto the result itself: a step is put there as one squashed commit, and only
once nothing of the conflict is left in what is committed (blobs, not files on disk).
"""

import asyncio
import posixpath
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from activities.git import Git, GitError, path_text, split
from activities.result_branch import Folded, ResultBranch
from activities.working_tree import Change, commit_message
from baton.layout import TRAILER_CONFLICT
from baton.merge_tree import SUBMODULE_MODE, ConflictedPath, ConflictKind, Version, left_markers
from baton.merging import PATHS_KEPT, PathConflict, Side

VERSION_CHARACTERS = 4_000
"""Of a version that the working tree does not show; the whole of all versions is in the repository."""
VERSIONS_SHOWN = 12
LINES_NAMED = 5
FAULTS_NAMED = 20
REGULAR_MODES = frozenset({"100644", "100755"})
SIDES: Mapping[int, Literal["base", "ours", "theirs"]] = {1: "base", 2: "ours", 3: "theirs"}
_MARKED = frozenset({ConflictKind.CONTENT, ConflictKind.BOTH_ADDED})
_BINARY_PROBE_BYTES = 8_000


class Resolutions:
    """Lays conflicts out and settles them in the private repository."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._result = ResultBranch(git)

    async def fold(self, branches: Sequence[str]) -> Folded:
        """The branches merged onto the result up to the first conflict."""
        return await self._result.fold(await self._result.head(), branches, "merged before a conflict")

    async def lay_out(self, folded: Folded, ref: str) -> str:
        """Commit the half-merged tree and have `ref` point to it, whatever an earlier attempt left there."""
        message = commit_message(f"Conflict of {folded.branch}", {TRAILER_CONFLICT: folded.branch})
        parents = ("-p", folded.reached, "-p", f"refs/heads/{folded.branch}")
        commit = await self._git.text("commit-tree", folded.tree, *parents, "-F", "-", stdin=message.encode())
        (self._git.cwd / f"{ref}.lock").unlink(missing_ok=True)
        await self._git.output("update-ref", ref, commit)
        return commit

    async def others(self, folded: Folded) -> tuple[int, ...]:
        """The steps whose commits on the result touched what is in conflict."""
        start = await self._git.text("merge-base", folded.head, f"refs/heads/{folded.branch}")
        paths = [name for conflict in folded.conflicts for name in (conflict.path, *conflict.others)]
        # Who renamed a folder touched its old files, not the new one in it.
        moved = [conflict for conflict in folded.conflicts if conflict.kind is ConflictKind.DIRECTORY_RENAME]
        paths += [posixpath.dirname(name) for conflict in moved for name in conflict.others if b"/" in name]
        return await self._result.steps_that_touched(start, folded.head, paths)

    async def shown(self, conflicts: Sequence[ConflictedPath]) -> tuple[PathConflict, ...]:
        """The conflicts as a resolver sees them; the text of each side where no markers show it."""
        return tuple([await self._one_shown(n, conflict) for n, conflict in enumerate(conflicts[:PATHS_KEPT])])

    async def conflicts_of(self, commit: str, branch: str) -> tuple[ConflictedPath, ...]:
        """What is in conflict in the merge that `commit` lays out; found again, since it is kept nowhere."""
        return (await self._result.merged_tree(await self._git.text("rev-parse", f"{commit}^1"), branch)).conflicts

    async def by_side(self, commit: str, branch: str, side: Side, index: Git) -> str:
        """The tree with one side's version of everything in conflict; `index` is git in a workspace of its own.

        In files of text only the places in conflict are decided; what merged cleanly in them stays merged.
        """
        conflicts = await self.conflicts_of(commit, branch)
        parent = f"{commit}^1" if side == "ours" else f"{commit}^2"
        entries: dict[bytes, Version | None] = {}
        for conflict in conflicts:
            entries |= await self._side_of(conflict, parent, side)
        await index.output("read-tree", "--reset", commit)
        # Removals first, for a folder may become a file; and without --remove these would be refused.
        ordered = sorted(entries.items(), key=lambda entry: (entry[1] is not None, entry[0]))
        rows = b"".join(_row(path, version, len(commit)) for path, version in ordered)
        await index.output("update-index", "--add", "--replace", "-z", "--index-info", stdin=rows)
        return await index.text("write-tree")

    async def faults(self, commit: str, branch: str, resolved: str, refused: Mapping[str, str]) -> tuple[str, ...]:
        """Why `resolved` does not resolve the conflict at `commit` yet. `refused`: changed paths nobody may change."""
        found = [*await self._left(commit, branch, resolved), *refused.values()]
        more = len(found) - FAULTS_NAMED
        return (*found[:FAULTS_NAMED], *((f"{more} more faults of these kinds",) if more > 0 else ()))

    async def gave_way(self, commit: str, branch: str, resolved: str) -> tuple[str, ...]:
        """Paths in conflict of which the resolution has just what the result had, though the step's differs."""
        ours, theirs, now = [await self._entries(one) for one in (f"{commit}^1", f"{commit}^2", resolved)]
        conflicts = await self.conflicts_of(commit, branch)
        names = dict.fromkeys(name for conflict in conflicts for name in (conflict.path, *conflict.others))
        lost = [name for name in names if now.get(name) == ours.get(name) != theirs.get(name)]
        return tuple(map(path_text, lost[:PATHS_KEPT]))

    async def marked(self, workspace: Path, commit: str, names: Sequence[str]) -> tuple[str, ...]:
        """Which of these files still hold markers on disk, with line numbers, before anything is committed."""
        found = []
        for name in names:
            place = workspace / name
            if place.is_symlink() or not place.is_file():
                continue
            known = await self._lines_before(commit, name.encode(), None)
            if lines := left_markers(await asyncio.to_thread(place.read_bytes), known):
                found.append(_marked(name, lines))
        return tuple(found[:FAULTS_NAMED])

    async def changes(self, before: str, after: str) -> list[Change]:
        """What differs between two commits."""
        return await self._result.changes(before, after)

    async def _left(self, commit: str, branch: str, resolved: str) -> list[str]:
        """Markers, and names that git made up, in what the resolution commits."""
        conflicts = await self.conflicts_of(commit, branch)
        made_up = await self._made_up_names(commit, conflicts)
        entries = await self._entries(resolved)
        found = [
            f"{path_text(path)} is a name that git made up for the conflict: give the file its right name, or remove it"
            for path in made_up
            if path in entries
        ]
        changed = {change.path for change in await self._result.changes(commit, resolved)}
        paths = {conflict.path: conflict for conflict in conflicts}
        candidates = [path for path in entries if path in paths or path_text(path) in changed]
        for path in candidates:
            if entries[path].mode not in REGULAR_MODES:
                continue
            known = await self._lines_before(commit, path, paths.get(path))
            lines = left_markers(await self._blob(entries[path].blob), known)
            if lines:
                found.append(_marked(path_text(path), lines))
        return found

    async def _made_up_names(self, commit: str, conflicts: Sequence[ConflictedPath]) -> list[bytes]:
        """Paths `name~label` that neither side has."""
        candidates = [conflict.path for conflict in conflicts if b"~" in conflict.path]
        if not candidates:
            return []
        sides = [await self._entries(f"{commit}^{n}") for n in (1, 2)]
        return [path for path in candidates if not any(path in side for side in sides)]

    async def _lines_before(self, commit: str, path: bytes, conflict: ConflictedPath | None) -> set[bytes]:
        """All lines of the versions that were merged; those of the two sides for a path that merged cleanly."""
        blobs = [version.blob for version in conflict.stages.values()] if conflict else []
        if not blobs:
            sides = [(await self._entries(f"{commit}^{n}")).get(path) for n in (1, 2)]
            blobs = [version.blob for version in sides if version is not None and version.mode in REGULAR_MODES]
        lines: set[bytes] = set()
        for blob in blobs:
            lines.update((await self._blob(blob)).replace(b"\r\n", b"\n").split(b"\n"))
        return lines

    async def _side_of(self, conflict: ConflictedPath, parent: str, side: Side) -> dict[bytes, Version | None]:
        """The entries with which one side wins at a path."""
        if conflict.kind in _MARKED and set(conflict.stages) >= {2, 3}:
            return {conflict.path: await self._merged_file(conflict, side)}
        added_by = "ours" if 2 in conflict.stages and 3 not in conflict.stages else "theirs"
        if conflict.kind is ConflictKind.DIRECTORY_RENAME and side != added_by:
            # Who renamed the folder wins: the file that the other side added goes where git suggests.
            return {}
        own = await self._entries(parent)
        names = [conflict.path, *conflict.others]
        return {name: own.get(name) for name in names}

    async def _merged_file(self, conflict: ConflictedPath, side: Side) -> Version:
        """A text file with the places in conflict decided for one side."""
        empty = await self._git.text("hash-object", "-w", "--stdin", stdin=b"")
        versions = [conflict.stages.get(number, Version(mode="100644", blob=empty)) for number in (2, 1, 3)]
        with tempfile.TemporaryDirectory(prefix="baton-merge-") as name:
            files = [Path(name) / label for label in ("ours", "base", "theirs")]
            for file, version in zip(files, versions, strict=True):
                await asyncio.to_thread(file.write_bytes, await self._blob(version.blob))
            arguments = ("merge-file", "-p", "-q", f"--{side}", *map(str, files))
            captured = await self._git.call(*arguments)
        if captured.exit_code != 0 or captured.left_out_bytes:
            raise GitError(arguments, captured)
        blob = await self._git.text("hash-object", "-w", "--stdin", stdin=captured.stdout)
        return Version(mode=conflict.stages[2 if side == "ours" else 3].mode, blob=blob)

    async def _one_shown(self, position: int, conflict: ConflictedPath) -> PathConflict:
        versions: dict[str, str] = {}
        if conflict.kind not in _MARKED and position < VERSIONS_SHOWN:
            for number, version in conflict.stages.items():
                if (text := await self._text(version)) is not None:
                    versions[SIDES[number]] = text
        return PathConflict(
            path=path_text(conflict.path),
            kind=conflict.kind,
            stages=tuple(side for number, side in SIDES.items() if number in conflict.stages),
            other_paths=tuple(path_text(other) for other in conflict.others),
            message=conflict.message,
            versions=versions,
        )

    async def _text(self, version: Version) -> str | None:
        if version.mode == SUBMODULE_MODE:
            return f"submodule at {version.blob}"
        data = await self._blob(version.blob)
        if b"\0" in data[:_BINARY_PROBE_BYTES]:
            return None
        text = data.decode("utf-8", "replace")
        left = len(text) - VERSION_CHARACTERS
        return text if left <= 0 else f"{text[:VERSION_CHARACTERS]}\n[… {left} characters left out …]"

    async def _blob(self, name: str) -> bytes:
        return await self._git.output("cat-file", "blob", name)

    async def _entries(self, commit: str) -> dict[bytes, Version]:
        return dict(_parsed(split(await self._git.output("ls-tree", "-r", "-z", "--full-tree", commit))))


def _parsed(rows: Iterable[bytes]) -> Iterable[tuple[bytes, Version]]:
    for row in rows:
        described, _, path = row.partition(b"\t")
        mode, _, blob = described.decode().split()
        yield path, Version(mode=mode, blob=blob)


def _marked(path: str, lines: Sequence[int]) -> str:
    numbers = ", ".join(map(str, lines[:LINES_NAMED])) + (" …" if len(lines) > LINES_NAMED else "")
    return f"{path} still holds conflict markers (line {numbers})"


def _row(path: bytes, version: Version | None, digits: int) -> bytes:
    if version is None:
        return b"0 " + b"0" * digits + b"\t" + path + b"\0"
    return f"{version.mode} {version.blob}".encode() + b"\t" + path + b"\0"

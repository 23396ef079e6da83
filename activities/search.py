"""`glob` and `grep` over what git takes for the project: tracked files and new ones that are not ignored.

Git does both searches, so an ignored folder of any size costs nothing. Only regular files that are reached without a
link are shown, and none that a caller's filter hides.
"""

import json
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from activities.confinement import Workspace
from activities.programs import Captured, capture
from activities.text_files import RESULT_LIMIT_BYTES
from activities.tool_result import CallRefused
from baton.path_patterns import matches
from baton.redaction import is_secret_file, masked_line

PATHS_SHOWN = 200
LINE_LIMIT_CHARACTERS = 2_000
TIME_LIMIT = timedelta(seconds=30)
GREP_LIMIT_BYTES = 20_000_000
LISTING_LIMIT_BYTES = 100_000_000
NO_MATCHES = "no matches"

_NOTHING_FOUND = 1
_HIT = re.compile(r"([^\0]+)\0(\d+)\0([^\n]*)\n")
"""One match as `git grep -z` prints it; a path may hold line ends, a matching line cannot."""

_SAFE_GIT = (
    "--literal-pathspecs",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "grep.column=false",
    "-c",
    "submodule.recurse=false",
)


class Found(NamedTuple):
    """What a search shows, everything it found, and how many bytes of that are not shown."""

    shown: str
    whole: str
    left_out_bytes: int


class Search:
    """Searches in one workspace. `git` is the command that reads its repository, with an explicit `--git-dir` where
    the workspace's own `.git` file is not to be trusted. `hidden` tells which paths a rule keeps from the model.
    """

    def __init__(
        self,
        root: Path,
        *,
        environment: Mapping[str, str],
        git: Sequence[str] = ("git",),
        hidden: Callable[[str], bool] = lambda path: False,
    ) -> None:
        self._root = root
        self._workspace = Workspace(root)
        self._environment = {**environment, "LC_ALL": "C.UTF-8", "GIT_OPTIONAL_LOCKS": "0"}
        self._git = (*git, *_SAFE_GIT)
        self._hidden = hidden

    async def glob(self, pattern: str, path: str | None) -> Found:
        """Paths below `path` that match the pattern, sorted, one per line. Raises `CallRefused`."""
        if pattern.startswith("/") or ".." in pattern.split("/"):
            raise CallRefused(
                f"{pattern}: give a pattern relative to the workspace root without `..`, for example src/**/*.py."
            )
        folder = self._folder(path)
        listed = await self._run("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", folder)
        names = sorted(set(listed.stdout.decode("utf-8", "replace").split("\0")) - {""})
        wanted = [name for name in names if matches(pattern, posixpath.relpath(name, folder)) and self._shows(name)]
        if not wanted:
            return Found(NO_MATCHES, NO_MATCHES, 0)
        rest = f"… and {len(wanted) - PATHS_SHOWN} more; narrow the pattern"
        lines = [_printable(name) for name in wanted]
        return _bounded(
            lines, PATHS_SHOWN, rest if len(wanted) > PATHS_SHOWN else f"of {len(wanted)} paths; narrow the pattern"
        )

    async def grep(self, pattern: str, path: str | None) -> Found:
        """Matching lines as `path:line:text`. Raises `CallRefused` for a pattern that is no regular expression."""
        if "\n" in pattern or "\0" in pattern:
            raise CallRefused("A pattern matches within one line of text, without NUL: search for a part of it.")
        place = self._folder(path)
        # A file that is named is searched even when git ignores it.
        ignored = "--no-exclude-standard" if self._workspace.is_plain_file(place) else "--exclude-standard"
        options = ("-n", "-I", "-z", "--no-color", "--full-name", "--untracked", ignored, "-P", "-e", pattern)
        found = await self._run("grep", *options, "--", place, limit_bytes=GREP_LIMIT_BYTES)
        lines = self._hits(found.stdout)
        if not lines:
            return Found(NO_MATCHES, NO_MATCHES, 0)
        total = f"{len(lines)}{'+' if found.left_out_bytes else ''}"
        return _bounded(lines, len(lines), f"of {total} matching lines; narrow the pattern or give a path")

    async def is_committed(self, commit: str, path: str) -> bool:
        """Whether a commit has this path; yes where that cannot be found out."""
        listed = await self._git_output("ls-tree", "-z", "--name-only", "--full-tree", commit, "--", path)
        return listed.exit_code != 0 or listed.stdout != b""

    def _folder(self, path: str | None) -> str:
        if path is None:
            return "."
        located = self._workspace.locate(path)
        if not self._workspace.exists(located):
            raise CallRefused(f"{path}: there is no such file or folder. Leave path out to search everywhere.")
        return located

    def _shows(self, path: str) -> bool:
        return not self._hidden(path) and self._workspace.is_plain_file(path)

    def _hits(self, output: bytes) -> list[str]:
        lines: list[str] = []
        shows: dict[str, bool] = {}
        for path, number, text in _HIT.findall(output.decode("utf-8", "replace")):
            if path not in shows:
                shows[path] = self._shows(path)
            if shows[path]:
                seen = masked_line(text) if is_secret_file(path) else text
                lines.append(f"{_printable(path)}:{number}:{_short(seen.removesuffix(chr(13)))}")
        return lines

    async def _git_output(self, *arguments: str, limit_bytes: int = LISTING_LIMIT_BYTES) -> Captured:
        return await capture(
            [*self._git, *arguments],
            cwd=self._root,
            environment=self._environment,
            time_limit=TIME_LIMIT,
            output_limit_bytes=limit_bytes,
        )

    async def _run(self, *arguments: str, limit_bytes: int = LISTING_LIMIT_BYTES) -> Captured:
        result = await self._git_output(*arguments, limit_bytes=limit_bytes)
        if result.timed_out:
            seconds = int(TIME_LIMIT.total_seconds())
            raise CallRefused(f"The search was ended after {seconds} s. Use a simpler pattern or give a path.")
        if result.exit_code > _NOTHING_FOUND or (result.exit_code and arguments[0] != "grep"):
            reason = result.stderr.replace(str(self._root), ".").strip().removeprefix("fatal: ")[:500]
            raise CallRefused(f"The search failed: {reason}. Correct the pattern, or give a path.")
        return result


def _bounded(lines: Sequence[str], limit: int, rest: str) -> Found:
    """As many lines as fit, then one that says how many bytes or lines are missing."""
    shown: list[str] = []
    used_bytes = 0
    for line in lines[:limit]:
        used_bytes += len(line.encode()) + 1
        if used_bytes > RESULT_LIMIT_BYTES:
            break
        shown.append(line)
    whole = "\n".join(lines)
    left_out = len(whole.encode()) - len("\n".join(shown).encode())
    if left_out:
        told = rest if rest.startswith("…") else f"… {len(lines) - len(shown)} left out ({left_out} bytes) {rest}"
        shown.append(told)
    return Found("\n".join(shown), whole, left_out)


def _printable(path: str) -> str:
    """A path on one line: names with control characters or quotes at the start are written as JSON strings."""
    return path if path.isprintable() and not path.startswith('"') else json.dumps(path, ensure_ascii=False)


def _short(text: str) -> str:
    if len(text) <= LINE_LIMIT_CHARACTERS:
        return text
    return f"{text[:LINE_LIMIT_CHARACTERS]}… [{len(text) - LINE_LIMIT_CHARACTERS} more characters]"

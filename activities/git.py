"""Git, called so that nothing of the surroundings takes part: the low level under the repositories.

No inherited `GIT_*`, no hooks, no file monitor, no signing, no automatic maintenance, no prompt, no line-end
conversion; output is read as bytes, separated by NUL.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from activities.programs import NOT_FOUND, Caller, Captured, Options, Result, capture, in_a_thread
from baton.requirements import OLDEST_GIT

TIME_LIMIT = timedelta(minutes=5)
ANY_COMMIT_UPLOAD = "git -c uploadpack.allowAnySHA1InWant=true upload-pack"
"""For fetches between two local repositories: any commit may be asked for, not only the tips of refs."""

_OVERRIDES = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.autocrlf=false",
    "core.safecrlf=false",
    "core.quotePath=false",
    "core.fsync=committed,loose-object,reference",  # a response may be journaled next, which stands on them
    "core.fsyncMethod=batch",
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "fetch.writeCommitGraph=false",
    "fetch.prune=false",
    "submodule.recurse=false",
    "clone.rejectShallow=false",
    "protocol.ext.allow=never",
    "log.showSignature=false",
)
_SETTINGS = tuple(part for override in _OVERRIDES for part in ("-c", override))
_OWN_SETTINGS = ("-c", "core.attributesFile=/dev/null")
"""The user's attributes are found without any configuration."""
# fmt: off
_PASSED_ON = frozenset((
    "PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "XDG_CONFIG_HOME", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
))
# fmt: on
_CREDENTIALS = re.compile(r"://[^/@\s]*@")


class GitError(Exception):
    """Git refused or failed: which command, and what it said."""

    def __init__(self, arguments: Sequence[str], captured: Captured) -> None:
        said = without_credentials(captured.stderr.strip()) or f"exit code {captured.exit_code}"
        if captured.timed_out:
            said = f"stopped at its time limit; {said}"
        self.stderr = said
        super().__init__(f"git {without_credentials(' '.join(arguments))[:300]}: {said[:2000]}")


class OutOfReach(Exception):  # noqa: N818 (no fault of anybody here)
    """The host of a repository cannot be reached, or cannot answer now: it is worth trying again."""


class BadRepository(ValueError):  # noqa: N818 (what the user gave, as people say it)
    """The repository cannot be used as it is; the message says what to do about it."""


@dataclass(frozen=True)
class Git:
    """Git in one place. `own` repositories ignore the user's and the system's configuration, the user's own do not."""

    cwd: Path
    environment: Mapping[str, str]
    own: bool = True
    options: tuple[str, ...] = ()
    keep_open: tuple[int, ...] = ()

    def holding(self, *locks: int) -> "Git":
        """The same, and its processes keep these locks until they end."""
        return replace(self, keep_open=(*self.keep_open, *locks))

    async def call(
        self,
        *arguments: str,
        stdin: bytes | None = None,
        time_limit: timedelta = TIME_LIMIT,
        output_limit_bytes: int | None = None,
    ) -> Captured:
        """Run git and give whatever comes. BadRepository when git itself is missing."""
        captured = await capture(self._argv(arguments), **self._options(stdin, time_limit, output_limit_bytes))
        return _with_git(captured)

    async def in_a_thread(self, work: Callable[["BlockingGit"], Result]) -> Result:
        """What `work` gives, which calls git several times: one change of threads instead of one for each call."""
        return await in_a_thread(lambda caller: work(BlockingGit(self, caller)))

    async def output(self, *arguments: str, stdin: bytes | None = None, time_limit: timedelta = TIME_LIMIT) -> bytes:
        """Stdout of a command that must succeed. GitError otherwise, or when there is more than memory should hold."""
        return _whole(arguments, await self.call(*arguments, stdin=stdin, time_limit=time_limit))

    async def text(self, *arguments: str, stdin: bytes | None = None) -> str:
        """One value of a command that must succeed, without the line end."""
        return (await self.output(*arguments, stdin=stdin)).decode("utf-8", "replace").strip()

    async def value(self, *arguments: str) -> str | None:
        """One value, or None when git answers that there is none."""
        captured = await self.call(*arguments)
        if captured.exit_code != 0:
            return None
        return captured.stdout.decode("utf-8", "replace").strip() or None

    async def commit(self, revision: str) -> str | None:
        """The commit that `revision` names, or None."""
        return await self.value("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")

    def _argv(self, arguments: Sequence[str]) -> list[str]:
        own = _OWN_SETTINGS if self.own else ()
        return ["git", "--no-pager", *_SETTINGS, *own, *self.options, *arguments]

    def _options(self, stdin: bytes | None, time_limit: timedelta, output_limit_bytes: int | None = None) -> Options:
        options = Options(
            cwd=self.cwd, environment=self._environment(), time_limit=time_limit, stdin=stdin, keep_open=self.keep_open
        )
        return options if output_limit_bytes is None else {**options, "output_limit_bytes": output_limit_bytes}

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in self.environment.items() if name in _PASSED_ON}
        kept |= {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "false"}
        kept |= {"GIT_SSH_COMMAND": "ssh -oBatchMode=yes", "GIT_LITERAL_PATHSPECS": "1"}
        if self.own:
            kept |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_ATTR_NOSYSTEM": "1"}
            # What a command put in the place of a commit counts for its own git only.
            kept |= {"GIT_NO_REPLACE_OBJECTS": "1"}
        return kept


@dataclass(frozen=True)
class BlockingGit:
    """Git for `Git.in_a_thread`."""

    git: Git
    caller: Caller

    def output(self, *arguments: str, stdin: bytes | None = None) -> bytes:
        """As `Git.output`."""
        options = self.git._options(stdin, TIME_LIMIT)
        return _whole(arguments, _with_git(self.caller.capture(self.git._argv(arguments), **options)))

    def text(self, *arguments: str, stdin: bytes | None = None) -> str:
        """As `Git.text`."""
        return self.output(*arguments, stdin=stdin).decode("utf-8", "replace").strip()


def _with_git(captured: Captured) -> Captured:
    if captured.exit_code == NOT_FOUND:
        raise BadRepository("git is not installed, or not on PATH: install it (Debian: apt-get install git)")
    return captured


def _whole(arguments: Sequence[str], captured: Captured) -> bytes:
    """All of the output of a command that succeeded. Raises GitError."""
    if captured.exit_code != 0 or captured.timed_out:
        raise GitError(arguments, captured)
    if captured.left_out_bytes:
        raise GitError(arguments, replace(captured, stderr=f"{captured.left_out_bytes} bytes too much output"))
    return captured.stdout


async def require_version(git: Git) -> None:
    """BadRepository when git is missing or older than `OLDEST_GIT`."""
    said = await git.text("version")
    found = re.search(r"(\d+)\.(\d+)", said)
    if found is None or (int(found[1]), int(found[2])) < OLDEST_GIT:
        needed = ".".join(map(str, OLDEST_GIT))
        raise BadRepository(f"git {needed} or newer is needed, this is {said!r}: update git")


def split(output: bytes) -> list[bytes]:
    """The entries of `-z` output."""
    return [entry for entry in output.split(b"\0") if entry]


def path_text(raw: bytes) -> str:
    """A path of git as text; bytes that are no UTF-8 become `\\xNN`, which no payload chokes on."""
    return raw.decode("utf-8", "backslashreplace")


def without_credentials(text: str) -> str:
    """`text` without the user part of URLs."""
    return _CREDENTIALS.sub("://…@", text)

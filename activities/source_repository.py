"""The user's repository: what is read from it at the start, and the one ref it receives at the end.

Everything else of it stays byte-identical: no lock, no index refresh, no hook, no maintenance, no FETCH_HEAD.
"""

import asyncio
import os
import re
from collections.abc import Mapping
from pathlib import Path

from activities.errors import git_passes
from activities.git import (
    ANY_COMMIT_UPLOAD,
    BadRepository,
    Git,
    GitError,
    OutOfReach,
    require_version,
    split,
    without_credentials,
)
from baton.layout import OPERATIONS, TRAILER_TASK, branch_name
from baton.models import Stored
from baton.sources import CHECKOUT_QUESTION, checkout_fault, is_url
from baton.wording import counted

FALLBACK_NAME, FALLBACK_EMAIL = "Baton", "baton@localhost"
MOST_NAMES = 50
"""Names tried for a result branch before giving up."""
_UNUSABLE_IN_IDENTITY = re.compile(r"[<>\n\0]")


class Identity(Stored):
    """Author and committer of what a task commits."""

    name: str = FALLBACK_NAME
    email: str = FALLBACK_EMAIL

    def as_configuration(self) -> str:
        """A configuration file of git that says it, beside what the system's says."""
        name, email = (value.replace("\\", "\\\\").replace('"', '\\"') for value in (self.name, self.email))
        return f'[include]\n\tpath = /etc/gitconfig\n[user]\n\tname = "{name}"\n\temail = "{email}"\n'


class SourceFacts(Stored):
    """The user's repository at the start. `top_level` is None for a URL; counts are of files git sees."""

    source: str
    top_level: Path | None = None
    base_commit: str
    branch: str | None = None
    modified: int = 0
    untracked: int = 0
    conflicted: int = 0
    operation: str | None = None
    shallow: bool = False
    identity: Identity = Identity()
    ignore_rules: str = ""

    def describe(self) -> str:
        """One sentence for people: what the run starts from, and what is not part of it."""
        place = f"branch {self.branch}" if self.branch else "no branch (detached HEAD)"
        text = f"The run starts from commit {self.base_commit[:12]}"
        text += f"; the checkout is on {place}" if self.top_level else ""
        counts = {"modified": self.modified, "untracked": self.untracked, "conflicted": self.conflicted}
        dirty = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        text += f" and has {dirty} files that are not part of the run and stay as they are" if dirty else ""
        return text + (f"; a {self.operation} is in progress there." if self.operation else ".")


class SourceRepository:
    """Reads and, at the very end, `publish`es. Every method can be repeated at any time."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = dict(os.environ if environment is None else environment)

    def git(self, folder: Path) -> Git:
        """Git in the user's repository, with the user's configuration (identity, safe.directory, credentials)."""
        return Git(folder, self._environment, own=False)

    async def inspect(self, source: str, base: str | None = None) -> SourceFacts:
        """Facts of a path (the repository around it) or a URL. BadRepository says what cannot be used and why;
        OutOfReach that the host of a URL does not answer now."""
        if is_url(source):
            return await self._inspect_url(source, base)
        folder = Path(source).expanduser()
        if not folder.is_dir():
            raise BadRepository(f"{source}: there is no such folder; name a git repository with --repo")
        git = self.git(folder.resolve())
        await require_version(git)
        top_level = await self._top_level(git, source)
        git = self.git(top_level)
        base_commit = await self._base(git, base, source)
        await self._require_whole(git, base_commit, source)
        if await git.value("show-ref", "--verify", "refs/heads/baton"):
            raise BadRepository(
                f"{source}: a branch named 'baton' exists and blocks the result branch baton/<task_id>: "
                "rename it (git branch -m baton another-name)"
            )
        dirt, branch, operation, shallow, identity, rules = await asyncio.gather(
            self._dirt(git),
            git.value("symbolic-ref", "--quiet", "--short", "HEAD"),
            self._operation(git),
            git.text("rev-parse", "--is-shallow-repository"),
            self._identity(git),
            self._ignore_rules(git),
        )
        modified, untracked, conflicted = dirt
        return SourceFacts(
            source=source,
            top_level=top_level,
            base_commit=base_commit,
            branch=branch,
            modified=modified,
            untracked=untracked,
            conflicted=conflicted,
            operation=operation,
            shallow=shallow == "true",
            identity=identity,
            ignore_rules=rules,
        )

    async def publish(self, top_level: Path, private: Path, task_id: str, commit: str) -> str:
        """Fetch `commit` from the private repository into `baton/<task_id>`; returns the name of the branch.

        A branch that is checked out, or that holds work which is not part of `commit`, is left alone and the next
        free of `baton/<task_id>-2` … is used. BadRepository when git refuses.
        """
        git = self.git(top_level)
        name = await self._free_name(git, task_id, commit)
        flags = ("--no-write-fetch-head", "--no-tags", "--no-auto-maintenance", "--no-recurse-submodules", "--quiet")
        refspec = f"+{commit}:refs/heads/{name}"
        try:
            await git.output(
                "fetch", *flags, "--no-show-forced-updates", f"--upload-pack={ANY_COMMIT_UPLOAD}", str(private), refspec
            )
        except GitError as error:
            raise BadRepository(f"the result could not be published as {name}: {error.stderr}") from error
        return name

    async def _free_name(self, git: Git, task_id: str, commit: str) -> str:
        listed = split(await git.output("worktree", "list", "--porcelain", "-z"))
        checked_out = {line[len(b"branch ") :].decode() for line in listed if line.startswith(b"branch ")}
        for number in range(1, MOST_NAMES + 1):
            name = branch_name(task_id, number)
            tip = await git.commit(f"refs/heads/{name}")
            if tip == commit:
                return name
            if f"refs/heads/{name}" not in checked_out and (tip is None or await self._is_ours(git, tip, task_id)):
                return name
        raise BadRepository(f"all of baton/{task_id} … baton/{task_id}-{MOST_NAMES} are taken: delete some of them")

    async def _is_ours(self, git: Git, tip: str, task_id: str) -> bool:
        """Whether the tip was made by this task, so that nobody's work is lost when the branch moves on."""
        return f"\n{TRAILER_TASK}: {task_id}\n" in await git.text("log", "-1", "--format=%B%n", tip) + "\n"

    async def _top_level(self, git: Git, source: str) -> Path:
        answer = await git.call(*CHECKOUT_QUESTION)
        if (fault := checkout_fault(source, answer.exit_code, answer.stdout, answer.stderr)) is not None:
            raise BadRepository(fault)
        # One line end belongs to git, all others to the path.
        return Path(os.fsdecode((await git.output("rev-parse", "--show-toplevel"))[:-1]))

    async def _base(self, git: Git, base: str | None, source: str) -> str:
        commit = await git.commit(base or "HEAD")
        if commit is None and base:
            raise BadRepository(f"{source}: the base {base!r} names no commit here; see git branch --all, git tag")
        if commit is None:
            raise BadRepository(f"{source} has no commits: commit what the task should start from (git commit)")
        return commit

    async def _require_whole(self, git: Git, commit: str, source: str) -> None:
        """BadRepository where a partial clone lacks objects of the commit: nothing but the user's own git fetches."""
        promised = ("config", "--get-regexp", r"^(remote\..*\.promisor|extensions\.partialclone)$")
        if await git.value(*promised) is None:
            return
        listed = await git.output("rev-list", "--objects", "--no-walk", "--missing=print", commit)
        missing = sum(line.startswith(b"?") for line in listed.splitlines())
        if missing:
            raise BadRepository(
                f"{source} is a partial clone: {counted(missing, 'object')} of the commit {commit[:12]} "
                f"{'is' if missing == 1 else 'are'} missing. Check that commit out there once, which fetches them "
                f"(git checkout {commit[:12]}), or clone without --filter"
            )

    async def _dirt(self, git: Git) -> tuple[int, int, int]:
        flags = ("--porcelain=v2", "-z", "--untracked-files=normal", "--no-renames", "--ignore-submodules=dirty")
        kinds = [entry[:1] for entry in split(await git.output("status", *flags))]
        return kinds.count(b"1"), kinds.count(b"?"), kinds.count(b"u")

    async def _operation(self, git: Git) -> str | None:
        git_directory = Path(os.fsdecode((await git.output("rev-parse", "--absolute-git-dir"))[:-1]))
        return next((word for name, word in OPERATIONS.items() if (git_directory / name).exists()), None)

    async def _identity(self, git: Git) -> Identity:
        name, email = [
            _UNUSABLE_IN_IDENTITY.sub("", await git.value("config", key) or "").strip()
            for key in ("user.name", "user.email")
        ]
        return Identity(name=name or FALLBACK_NAME, email=email or FALLBACK_EMAIL)

    async def _ignore_rules(self, git: Git) -> str:
        """What the user ignores beside `.gitignore` files: it must not be committed by an agent either."""
        own = await git.value("config", "--type=path", "core.excludesFile")
        configuration = self._environment.get("XDG_CONFIG_HOME") or "~/.config"
        everywhere = Path(own or f"{configuration}/git/ignore").expanduser()
        shared = Path(await git.text("rev-parse", "--path-format=absolute", "--git-common-dir")) / "info/exclude"
        return "\n".join(path.read_text("utf-8", "replace") for path in (everywhere, shared) if path.is_file())

    async def _inspect_url(self, source: str, base: str | None) -> SourceFacts:
        git = self.git(Path("/"))
        await require_version(git)
        shown = without_credentials(source)
        try:
            lines = (await git.output("ls-remote", "--quiet", "--", source)).decode("utf-8", "replace").splitlines()
        except GitError as error:
            told = f"{shown} cannot be read: {error.stderr}"
            raise (OutOfReach if git_passes(error.stderr) else BadRepository)(told) from error
        refs = {name: commit for commit, _, name in (line.partition("\t") for line in lines)}
        if not refs:
            raise BadRepository(f"{shown} has no commits")
        wanted = base or "HEAD"
        names = (f"refs/tags/{wanted}^{{}}", f"refs/heads/{wanted}", f"refs/tags/{wanted}", wanted)
        commit = next((refs[name] for name in names if name in refs), None)
        if commit is None and re.fullmatch(r"[0-9a-f]{40,64}", wanted):
            commit = wanted
        if commit is None:
            raise BadRepository(f"{shown}: the base {wanted!r} names no branch, tag or full commit id there")
        return SourceFacts(source=source, base_commit=commit, identity=await self._identity(git))

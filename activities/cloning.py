"""How a private repository is made: a bare clone without remotes, hooks or the user's configuration.

The user's branches become `refs/remotes/user/*`, readable for agents; `refs/heads` belongs to the task.
"""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from activities.errors import git_passes
from activities.git import ANY_COMMIT_UPLOAD, BadRepository, Git, GitError, OutOfReach, without_credentials
from activities.source_repository import SourceFacts
from baton.layout import BASE, RESULT

TIME_LIMIT = timedelta(minutes=30)
# fmt: off
CACHES = (
    "__pycache__/", "*.pyc", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/", ".hypothesis/", ".tox/", ".nox/",
    ".venv/", ".coverage", ".coverage.*", "htmlcov/", "*.egg-info/", ".eggs/", "node_modules/", ".npm/", ".yarn/cache/",
    ".pnpm-store/", ".parcel-cache/", ".nyc_output/", ".eslintcache", "*.tsbuildinfo", ".gradle/", ".DS_Store",
)
# fmt: on
"""Never committed when new, even where the project does not ignore them; its own `.gitignore` can say otherwise."""


async def clone(facts: SourceFacts, target: Path, environment: Mapping[str, str], lock: int) -> None:
    """Clone what `facts` describes to `target`, which must not exist, with `result` at the base commit.

    BadRepository when git refuses, OutOfReach when the other host does not answer. `lock` is held by every git that
    runs, even when this process is killed.
    """
    reader = Git(facts.top_level or target.parent, environment, own=False, keep_open=(lock,))
    source = str(facts.top_level or facts.source)
    kind = ("--local",) if facts.top_level else ()
    private = Git(target, environment, options=(f"--git-dir={target}",), keep_open=(lock,))
    settings = [part for name, value in _settings(facts).items() for part in ("--config", f"{name}={value}")]
    flags = ("--bare", *kind, "--template=", "--origin=user", "--quiet", *settings)
    try:
        await reader.output("clone", *flags, "--", source, str(target), time_limit=TIME_LIMIT)
        await private.output("remote", "remove", "user")
        if await private.commit(facts.base_commit) is None:
            await _fetch_base(facts, source, reader, target)
        await _arrange_refs(private, facts.base_commit)
    except GitError as error:
        told = f"{without_credentials(facts.source)} cannot be cloned: {error.stderr}"
        raise (OutOfReach if git_passes(error.stderr) else BadRepository)(told) from error
    (target / "info").mkdir(exist_ok=True)
    (target / "info" / "exclude").write_text("\n".join([*CACHES, facts.ignore_rules, ""]), "utf-8")


async def _fetch_base(facts: SourceFacts, source: str, reader: Git, target: Path) -> None:
    """A base that no branch or tag reaches: a detached HEAD, or a commit named by its id."""
    upload = (f"--upload-pack={ANY_COMMIT_UPLOAD}",) if facts.top_level else ()
    flags = ("--no-write-fetch-head", "--no-tags", "--quiet", *upload)
    await reader.output(f"--git-dir={target}", "fetch", *flags, "--", source, facts.base_commit, time_limit=TIME_LIMIT)


async def _arrange_refs(private: Git, base: str) -> None:
    await private.output("symbolic-ref", "HEAD", RESULT)
    listed = await private.text("for-each-ref", "--format=%(objectname) %(refname)", "refs/heads")
    orders = []
    for commit, _, name in (line.partition(" ") for line in listed.splitlines()):
        orders += [f"create refs/remotes/user/{name.removeprefix('refs/heads/')} {commit}", f"delete {name}"]
    # In two transactions: the user may have a branch `result`, too.
    await private.output("update-ref", "--stdin", stdin="\n".join([*orders, ""]).encode())
    await private.output("update-ref", "--stdin", stdin=f"create {BASE} {base}\ncreate {RESULT} {base}\n".encode())


def _settings(facts: SourceFacts) -> dict[str, str]:
    return {
        "user.name": facts.identity.name,
        "user.email": facts.identity.email,
        # For the git that models and gates call in a workspace, with the user's own configuration.
        "core.hooksPath": "/dev/null",
        "core.fsmonitor": "false",
        "core.autocrlf": "false",
        "commit.gpgSign": "false",
        "gc.auto": "0",
        "maintenance.auto": "false",
    }

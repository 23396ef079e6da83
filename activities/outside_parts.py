"""What a commit names but does not hold: submodules, filled from the user's own checkouts.

Nothing is fetched over the network, so nothing can wait for credentials. What is not on this host is a warning.
"""

import asyncio
from collections.abc import Collection, Mapping
from pathlib import Path

from activities.git import Git, GitError, path_text, split

DEEPEST = 5
"""Submodules of submodules."""
SHOWN = 5


async def fill_submodules(git: Git, workspace: Path, commit: str, source: Path | None, depth: int = 0) -> list[str]:
    """Check out the submodules of `commit` in the workspace; returns the paths of those that are not on this host.

    `git` reads the repository of `commit`; `source` is the user's checkout of it. One that is there stays as it is.
    """
    missing = []
    for path, wanted in await submodules(git, commit):
        place, there = workspace / path, source / path if source is not None else None
        if (place / ".git").exists():
            continue
        own = await _own(there, git.environment) if there is not None else None
        if own is None or there is None or await own.commit(wanted) is None or not _is_inside(place, workspace):
            missing.append(path)
            continue
        try:
            missing += [f"{path}/{name}" for name in await _check_out(there, place, wanted, git.environment, depth)]
        except GitError:
            missing.append(path)
    return missing


async def _check_out(there: Path, place: Path, wanted: str, environment: Mapping[str, str], depth: int) -> list[str]:
    """A clone in the workspace that borrows the objects of the user's checkout, which is only read."""
    place.mkdir(parents=True, exist_ok=True)
    flags = ("--quiet", "--shared", "--no-checkout", "--template=")
    await Git(place.parent, environment).output("clone", *flags, "--", str(there), str(place))
    inside = Git(place, environment)
    await inside.output("remote", "remove", "origin")
    await inside.output("checkout", "--quiet", "--detach", wanted)
    return await fill_submodules(inside, place, wanted, there, depth + 1) if depth < DEEPEST else []


async def warnings_about(git: Git, commit: str, files: Collection[str], source: Path | None) -> list[str]:
    """A sentence for submodules that are not on this host."""
    missing = []
    for path, wanted in await submodules(git, commit) if ".gitmodules" in files else ():
        own = await _own(source / path, git.environment) if source is not None else None
        if own is None or await own.commit(wanted) is None:
            missing.append(path)
    if not missing:
        return []
    named = ", ".join(missing[:SHOWN]) + (f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else "")
    told = f"submodules are empty in the workspaces, because their commits are not on this host: {named}"
    return [f"{told}. To have them: git submodule update --init --recursive"]


async def submodules(git: Git, commit: str) -> list[tuple[str, str]]:
    """Path and commit of every submodule."""
    entries = split(await git.output("ls-tree", "-r", "-z", commit))
    links = (entry.partition(b"\t") for entry in entries if entry.startswith(b"160000 "))
    return [(path_text(path), facts.split()[2].decode()) for facts, _, path in links]


async def _own(folder: Path, environment: Mapping[str, str]) -> Git | None:
    """Git in a checkout of a submodule; None where the folder is none of its own."""
    if not await asyncio.to_thread((folder / ".git").exists):
        return None
    git = Git(folder, environment)
    try:
        top_level = await git.text("rev-parse", "--show-toplevel")
    except GitError:
        return None
    return git if Path(top_level).resolve() == folder.resolve() else None


def _is_inside(place: Path, workspace: Path) -> bool:
    """Whether no link leads out of the workspace, and the place is free."""
    resolved = place.resolve()
    return resolved.is_relative_to(workspace.resolve()) and (not place.exists() or not any(place.iterdir()))

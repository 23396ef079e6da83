"""What people name for a new workspace: files to copy from their checkout, and set-up commands.

Set-up runs in the sandbox, which hides the home folder; so package managers get a cache that a task's workspaces share.
They copy from it and never link: one workspace's files must not be another's.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path, PurePosixPath

from activities.commands import Sandbox, run
from activities.gates import Runner
from baton.models import Stored

SETUP_TIME_LIMIT = timedelta(minutes=30)
_CACHES = {
    "XDG_CACHE_HOME": "all",
    "PIP_CACHE_DIR": "pip",
    "UV_CACHE_DIR": "uv",
    "npm_config_cache": "npm",
    "npm_config_store_dir": "pnpm",
    "YARN_CACHE_FOLDER": "yarn",
}
_COPIES = {"UV_LINK_MODE": "copy", "npm_config_package_import_method": "copy"}


class Preparation(Stored):
    """What was done to a workspace before its first use. `failure` is None when all went well."""

    copied: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    failure: str | None = None
    output: str = ""


def faults(copy: Sequence[str], source_top_level: Path | None) -> Iterator[str]:
    """What of `copy` cannot be brought along, as warnings."""
    for name in copy:
        fault = _fault(name, source_top_level) if source_top_level else "there is no checkout"
        if fault is not None:
            yield f"`copy` in the settings names {name}, which no workspace gets: {fault}"


async def prepare(
    workspace: Path,
    setup: Sequence[str],
    copy: Sequence[str],
    source_top_level: Path | None,
    environment: Mapping[str, str],
    *,
    runner: Runner = run,
    sandbox: Sandbox | None = None,
    downloads: Path | None = None,
    time_limit: timedelta = SETUP_TIME_LIMIT,
) -> Preparation:
    """Copy files from the user's checkout, then run the set-up commands in order, up to the first that fails.

    `copy` names files or folders relative to the checkout. Nothing in the workspace is overwritten, and no link leads
    out of the checkout; relative ones stay links, as package managers make them. Call `PrivateRepository.exclude(copy)`
    first: they must not be committed. `downloads`: a folder that keeps for the next workspace what package managers
    fetched; without a sandbox they use their own.
    """
    copied: list[str] = []
    refused: list[str] = []
    for name in copy if source_top_level else ():
        fault = _copy(name, source_top_level or workspace, workspace, copied)
        refused += [f"{name}: {fault}"] if fault else []
    if sandbox is not None and downloads is not None and setup:
        downloads.mkdir(exist_ok=True)
        sandbox = replace(sandbox, writable=(*sandbox.writable, downloads))
        environment = {**environment, **{name: str(downloads / folder) for name, folder in _CACHES.items()}, **_COPIES}
    for command in setup:
        done = await runner(command, cwd=workspace, environment=environment, time_limit=time_limit, sandbox=sandbox)
        if done.timed_out or done.exit_code != 0:
            how = "ran out of time" if done.timed_out else f"ended with exit code {done.exit_code}"
            failure = f"the set-up command `{command}` {how}"
            return Preparation(copied=tuple(copied), refused=tuple(refused), failure=failure, output=done.output)
    return Preparation(copied=tuple(copied), refused=tuple(refused))


def _copy(name: str, source: Path, workspace: Path, copied: list[str]) -> str | None:
    """Copy one file or folder; returns why not, if so."""
    if (fault := _fault(name, source)) is not None:
        return fault
    start = source / name
    # A link that is named itself may lead to a file inside the checkout.
    for file in sorted(start.rglob("*")) if start.is_dir() else [start]:
        relative = file.relative_to(source)
        target = workspace / relative
        as_link = file.is_symlink() and file != start
        if not (as_link or file.is_file()) or ".git" in relative.parts or target.exists() or target.is_symlink():
            continue
        leads = file.readlink() if as_link else Path()
        if leads.is_absolute() or not (_inside(file, source) and _inside(target.parent, workspace)):
            if as_link:
                continue
            return "a link that leads outside"
        target.parent.mkdir(parents=True, exist_ok=True)
        if as_link:
            target.symlink_to(leads)
        else:
            shutil.copy2(file, target)
        copied.append(str(relative))
    return None


def _fault(name: str, source: Path) -> str | None:
    parts = PurePosixPath(name).parts
    if not parts or PurePosixPath(name).is_absolute() or ".." in parts or any(p.lower() == ".git" for p in parts):
        return "not a path inside the repository"
    return None if (source / name).exists() else "not there in the checkout"


def _inside(path: Path, root: Path) -> bool:
    return path.resolve().is_relative_to(root.resolve())

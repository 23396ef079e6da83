"""The sandbox for commands: bubblewrap, where the host has it and lets it work.

Inside, the workspace is writable, the rest of the file system is read-only, the home folder holds nothing but
toolchains, Baton's own state is hidden, `/tmp` and `/run` are private, and every process ends with the command. The
network stays: set-up commands fetch packages.
"""

import asyncio
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from baton.requirements import ISOLATION

PROBE_SECONDS = 10
# fmt: off
TOOLCHAINS = (
    ".local/bin", ".local/lib", ".local/share/uv", ".local/share/mise", ".local/share/pnpm", ".nvm",
    ".volta", ".fnm", ".pyenv", ".rbenv", ".asdf", ".sdkman", ".rustup", ".cargo/bin", ".cargo/registry",
    "go/bin", "go/pkg", "miniconda3", "anaconda3", ".m2/repository",
)
# fmt: on
"""Folders of the home folder that stay readable: programs and package caches, no configuration."""
_RUN_KEPT = ("/run/systemd/resolve", "/run/resolvconf", "/run/current-system")


@dataclass(frozen=True)
class Sandbox:
    """How to wrap a command. `readable` and `writable` name what it needs beside the workspace; `hidden` are folders
    that look empty but for these: where credentials and other tasks lie.

    `git_configuration` stands in for the system's, so that git knows who the user is though their own is hidden.

    Put the private repository and the user's checkout into `readable`: without them `git` and a project's own virtual
    environment do not work when they lie in the home folder.
    """

    program: Path
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    git_configuration: Path | None = None

    def argv(self, argv: Sequence[str], workspace: Path, environment: Mapping[str, str]) -> list[str]:
        """`argv`, to be run inside the sandbox with `workspace` as its writable working folder."""
        home = Path(environment.get("HOME") or "/nonexistent")
        private = [path for path in ("/tmp", "/var/tmp", "/run") if Path(path).is_dir()]  # noqa: S108
        wrapped = [str(self.program), *ISOLATION]
        for path in [*private, *([str(home)] if home.is_dir() and home != Path("/") else []), *map(str, self.hidden)]:
            wrapped += ["--tmpfs", path]
        for readable in [*_toolchains(home), *_programs(environment, home), *self.readable, *map(Path, _RUN_KEPT)]:
            wrapped += ["--ro-bind-try", str(readable), str(readable)]
        if self.git_configuration is not None and self.git_configuration.is_file():
            place = str(self.git_configuration)
            wrapped += ["--ro-bind", place, place, "--setenv", "GIT_CONFIG_SYSTEM", place]
        for writable in [*self.writable, workspace]:
            wrapped += ["--bind", str(writable), str(writable)]
        return [*wrapped, "--setenv", "TMPDIR", "/tmp", "--chdir", str(workspace), "--", *argv]  # noqa: S108


async def find_sandbox() -> Path | None:
    """The bubblewrap program when a command really runs in it here, else None. Ask once per worker."""
    found = shutil.which("bwrap")
    if found is None:
        return None
    program = Path(found).resolve()
    probe = Sandbox(program).argv(["true"], Path.cwd(), {"HOME": str(Path.home())})
    process = await asyncio.create_subprocess_exec(
        *probe,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        exit_code = await asyncio.wait_for(process.wait(), PROBE_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
        return None
    return program if exit_code == 0 else None


def programs_named(command: str) -> tuple[Path, ...]:
    """Programs that a command names by absolute path, as far as they must be readable: a virtual environment whole.

    For gates and set-up only, which people wrote: what a model names must not open a folder to it.
    """
    try:
        words = shlex.split(command)
    except ValueError:
        return ()
    named = [Path(word) for word in words if word.startswith("/")]
    found = [path for path in named if path.is_file() and os.access(path, os.X_OK)]
    return tuple(
        environment if (environment := path.parent.parent).joinpath("pyvenv.cfg").is_file() else path for path in found
    )


def _toolchains(home: Path) -> list[Path]:
    return [home / name for name in TOOLCHAINS if (home / name).exists()]


def _programs(environment: Mapping[str, str], home: Path) -> list[Path]:
    """Folders of PATH and the virtual environment, where they lie under what the sandbox hides."""
    hidden = (home, Path("/tmp"), Path("/var/tmp"), Path("/run"))  # noqa: S108
    named = [Path(name) for name in environment.get("PATH", "").split(os.pathsep) if name]
    named += [Path(environment["VIRTUAL_ENV"])] if environment.get("VIRTUAL_ENV") else []
    # A virtual environment's programs need its libraries, which lie beside its `bin`.
    whole = [path.parent if (path.parent / "pyvenv.cfg").is_file() else path for path in named]
    return [path for path in whole if any(path.is_relative_to(top) for top in hidden)]

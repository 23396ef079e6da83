"""The user's systemd: the unit of the service is checked, enabled, looked at and stopped."""

import shutil
import subprocess
from pathlib import Path

from cli.exits import ServiceError
from cli.systemd_unit import Unit

_LIMIT_SECONDS = 150
"""More than the unit's own limit for its start."""


def verify(unit: Unit) -> str | None:
    """What `systemd-analyze` objects to in a unit; None where it objects to nothing, or is not there."""
    if shutil.which("systemd-analyze") is None:
        return None
    done = _run("systemd-analyze", "--user", "verify", str(unit.path))
    told = [line for line in done.stderr.splitlines() if unit.name in line]
    return "\n".join(told) if told and done.returncode != 0 else None


def reload(unit: Unit) -> None:
    """Have systemd read the unit. Raises ServiceError where there is no systemd of this user."""
    _demand(unit, "daemon-reload")


def enable(unit: Unit) -> None:
    """Start it now and with every login. Raises ServiceError with what systemctl says."""
    _demand(unit, "enable", "--now", unit.name)


def enabled(path: Path) -> bool:
    """Whether the unit is there and starts with the next login."""
    if not path.is_file() or shutil.which("systemctl") is None:
        return False
    return _run("systemctl", "--user", "is-enabled", path.name).returncode == 0


def active(path: Path) -> bool:
    """Whether the unit is there and runs."""
    if not path.is_file() or shutil.which("systemctl") is None:
        return False
    return _run("systemctl", "--user", "is-active", path.name).returncode == 0


def stop(path: Path) -> bool:
    """Stop the unit where it runs; whether it did."""
    return active(path) and _run("systemctl", "--user", "stop", path.name).returncode == 0


def _demand(unit: Unit, *arguments: str) -> None:
    done = _run("systemctl", "--user", *arguments)
    if done.returncode != 0:
        said = done.stderr.strip() or f"exit code {done.returncode}"
        raise ServiceError(
            f"systemctl --user {' '.join(arguments)} failed: {said}\nThe unit is written ({unit.path}); "
            f"see journalctl --user -u {unit.name}, or use orchestrate up without systemd"
        )


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_LIMIT_SECONDS, check=False
        )
    except FileNotFoundError as error:
        raise ServiceError(f"{command[0]} is missing: this machine has no systemd; use orchestrate up") from error
    except subprocess.TimeoutExpired as error:
        raise ServiceError(f"{' '.join(command)} did not end within {_LIMIT_SECONDS} s") from error

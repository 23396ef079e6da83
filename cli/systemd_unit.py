"""The systemd unit of the service: its text, and whether the one on disk is ours.

The first line carries a checksum of the rest, so that a unit that somebody edited is never overwritten by accident.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cli.exits import Refused
from cli.service_record import write_private

_HEADER = "# Written by `orchestrate up --systemd`; checksum "
_SECRETS = ("TEMPORAL_API_KEY", "TEMPORAL_TLS_CLIENT_KEY_DATA")
_KEPT = (
    "PATH",
    "LANG",
    "TEMPORAL_CONFIG_FILE",
    "TEMPORAL_PROFILE",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
)
_TEXT = """[Unit]
Description=Baton: Temporal server and worker
Documentation=man:systemd.service(5)

[Service]
Type=notify
NotifyAccess=main
{environment}
ExecStart={command}
StandardOutput=append:{log}
StandardError=append:{log}
Restart=on-failure
RestartSec=5
# Another supervisor has the state directory; starting again would not help.
RestartPreventExitStatus=3
# The supervisor ends its processes in order; what is left after the limit is killed.
KillMode=mixed
TimeoutStopSec=60
TimeoutStartSec=120

[Install]
WantedBy=default.target
"""


@dataclass(frozen=True)
class Unit:
    """A user unit: its name, where it lies, and the text it should have."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        return self.path.name


def unit_path(state: Path, default_state: Path, environment: Mapping[str, str]) -> Path:
    """Where the unit of a state directory lies: `baton.service`, with a suffix for other state directories."""
    configuration = environment.get("XDG_CONFIG_HOME")
    folder = Path(configuration) if configuration else Path.home() / ".config"
    suffix = "" if state == default_state else f"-{hashlib.sha256(os.fsencode(state)).hexdigest()[:8]}"
    return folder / "systemd" / "user" / f"baton{suffix}.service"


def make_unit(path: Path, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> Unit:
    """The unit that runs `command`. Raises `Refused` where the configuration holds a secret: units are not private."""
    secret = [name for name in _SECRETS if environment.get(name)]
    if secret:
        raise Refused(
            f"{', '.join(secret)} would have to be written into the unit, which others may read: put it into a profile "
            "of the Temporal client configuration (temporal config set), unset it, and set TEMPORAL_PROFILE"
        )
    kept = [f"Environment={_quoted(f'{name}={environment[name]}')}" for name in _KEPT if environment.get(name)]
    body = _TEXT.format(
        environment="\n".join(kept),
        command=" ".join(_quoted(word, dollars=True) for word in command),
        log=_escaped(str(log)),
    )
    return Unit(path, f"{_HEADER}{_checksum(body)}\n{body}")


def write_unit(unit: Unit, *, force: bool) -> bool:
    """Write it; whether anything changed. Raises `Refused` for a unit that was edited or is not ours, and where the
    folder cannot be written to."""
    try:
        there = unit.path.read_text(encoding="utf-8") if unit.path.exists() else None
        if there == unit.text:
            return False
        if there is not None and not force and not _is_untouched(there):
            raise Refused(
                f"{unit.path} was edited, or is not from here: move your changes to a drop-in (systemctl --user edit "
                f"{unit.name}), or overwrite it with: orchestrate up --systemd --force"
            )
        unit.path.parent.mkdir(parents=True, exist_ok=True)
        write_private(unit.path, unit.text)
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{unit.path} cannot be written: {error}") from error
    return True


def _is_untouched(text: str) -> bool:
    first, _, body = text.partition("\n")
    return first == f"{_HEADER}{_checksum(body)}"


def _checksum(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def _escaped(word: str) -> str:
    """`%` begins a specifier; a line end would begin another setting."""
    if "\n" in word or "\r" in word:
        raise Refused(f"{word!r} holds a line end, which no unit can hold")
    return word.replace("%", "%%")


def _quoted(word: str, *, dollars: bool = False) -> str:
    """One word of a command or an assignment, whatever characters it holds. In a command `$` would be expanded."""
    word = _escaped(word).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{word.replace("$", "$$") if dollars else word}"'

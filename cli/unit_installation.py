"""`up --systemd` and `down`: the unit of a state directory, written, enabled with consent, stopped."""

import os
import sys
from pathlib import Path

import typer

from cli import systemd
from cli.credentials import save_credentials
from cli.places import default_state_path
from cli.service import foreground_command, stop
from cli.service_record import ServiceFiles
from cli.systemd_unit import make_unit, unit_path, write_unit
from cli.terminal import Line, Tone, remark, show


def install(state: Path, *, enable: bool, force: bool) -> bool:
    """Write the unit, show it and its commands, enable it with consent; whether it was enabled.

    Raises `Refused` for an edited unit, ServiceError where systemd refuses.
    """
    unit = make_unit(
        _path(state), foreground_command(state), ServiceFiles(state).directory / "supervisor.log", os.environ
    )
    written = write_unit(unit, force=force)
    show([Line(f"{'Wrote' if written else 'Unchanged:'} {unit.path}", Tone.GOOD)])
    if (objection := systemd.verify(unit)) is not None:
        remark(f"systemd-analyze objects: {objection}")
    if not (enable or _agreed()):
        show([
            Line("Start it now and with every login:"),
            Line(f"systemctl --user daemon-reload && systemctl --user enable --now {unit.name}", indent=1),
            Line("Also without a login: loginctl enable-linger"),
        ])  # fmt: skip
        return False
    systemd.reload(unit)
    save_credentials(state, os.environ)
    if not systemd.active(unit.path):
        stop(state, keep_credentials=True)  # one supervisor holds a state directory; running tasks go on
    systemd.enable(unit)
    return True


def stop_all(state: Path) -> bool:
    """Stop the unit and the service; whether anything ran."""
    ran = systemd.stop(_path(state))
    return stop(state) or ran


def still_enabled(state: Path) -> str | None:
    """What a person should know of a unit that is left."""
    path = _path(state)
    if not systemd.enabled(path):
        return None
    return (
        f"The unit {path.name} is still enabled: it starts with the next login, and has no API key before the next "
        f"orchestrate command. Disable it with: systemctl --user disable {path.name}"
    )


def _path(state: Path) -> Path:
    return unit_path(state, default_state_path(), os.environ)


def _agreed() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and typer.confirm("Enable it, now and with every login?")

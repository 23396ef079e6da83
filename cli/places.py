"""Where a state directory would be, without making it: bad input must leave nothing behind."""

import os
import shlex
from pathlib import Path

CHOSEN_BY = "BATON_STATE_DIR"


def state_path() -> Path:
    """`$BATON_STATE_DIR`, else the user's state folder of the platform; it may be missing."""
    return _chosen("") or default_state_path()


def default_state_path() -> Path:
    """The user's state folder of the platform."""
    return _platform_folder("baton")


def demo_state_path() -> Path:
    """The demo's own state directory, beside the real one, so that a demo never touches a user's tasks."""
    return _chosen("-demo") or _platform_folder("baton-demo")


def command_for(state: Path) -> str:
    """The program as it must be called to find the tasks of this state directory."""
    return "orchestrate" if state == state_path() else f"{CHOSEN_BY}={shlex.quote(str(state))} orchestrate"


def _chosen(suffix: str) -> Path | None:
    chosen = os.environ.get(CHOSEN_BY)
    return Path(chosen.rstrip("/") + suffix).expanduser().resolve() if chosen else None


def _platform_folder(name: str) -> Path:
    import platformdirs

    return platformdirs.user_state_path(name).resolve()

"""The environment that commands get: an allow-list of what the caller has, and never a credential.

Commands come from a language model or a repository, so what they can read they may also print. What is not named
here does not reach them.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from baton.environment import allowed_environment

FIXED = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    # `false` makes `git commit` without a message and `crontab -e` fail at once instead of waiting for keys.
    "EDITOR": "false",
    "VISUAL": "false",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "DEBIAN_FRONTEND": "noninteractive",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    # Package managers look for newer versions of themselves and tell about it.
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "NO_UPDATE_NOTIFIER": "1",
    "npm_config_fund": "false",
}


def child_environment(base: Mapping[str, str], own_environment: Path | None = None) -> dict[str, str]:
    """What of `base` (the caller's environment) a command may see, with pagers, editors and prompts off.

    `own_environment` is the virtual environment Baton runs in, by default that of this interpreter; it is taken off
    PATH, so that a project's `python` and `pytest` are the caller's and not ours. `CI` is left to the gates.
    """
    own = own_environment or _own_environment()
    kept = allowed_environment(base)
    kept["PATH"] = os.pathsep.join(_search_path(base.get("PATH", os.defpath), own))
    if own is not None and _within(kept.get("VIRTUAL_ENV", ""), own):
        del kept["VIRTUAL_ENV"]
    return {**kept, **FIXED}


def _own_environment() -> Path | None:
    return Path(sys.prefix) if sys.prefix != sys.base_prefix else None


def _search_path(path: str, own: Path | None) -> list[str]:
    # An empty entry means the working folder, where the model writes: it is dropped too.
    return [entry for entry in path.split(os.pathsep) if entry and not (own and _within(entry, own))]


def _within(entry: str, folder: Path) -> bool:
    if not entry:
        return False
    return Path(entry).is_relative_to(folder) or Path(entry).resolve().is_relative_to(folder.resolve())

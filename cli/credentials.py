"""The credentials of the model API on their one way to the worker: a file of mode 0600 in the service's folder.

They never travel in a process's environment, which every child of the worker could read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from cli.service_record import ServiceFiles, write_private

NAMES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL")


def save_credentials(state: Path, environment: Mapping[str, str]) -> None:
    """Write what `environment` holds of NAMES to `service/credentials.json`, a JSON object by these names.

    The three belong together, so they replace an earlier set as a whole; where none is given, it stays.
    """
    given = {name: environment[name] for name in NAMES if environment.get(name)}
    if given:
        files = ServiceFiles(state)
        files.create()
        write_private(files.credentials, json.dumps(given))


def remove_credentials(state: Path) -> None:
    """Remove the file, and what a killed writer may have left beside it."""
    files = ServiceFiles(state)
    for path in files.directory.glob(f"{files.credentials.name}*"):
        path.unlink(missing_ok=True)

"""The credentials of the model API, and of an OpenTelemetry collector, on their one way to the worker: files of mode
0600 in the service's folder.

They never travel in a process's environment, which every child of the worker could read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from baton.environment import COLLECTOR_CREDENTIALS, MODEL_CREDENTIALS
from cli.service_record import ServiceFiles, write_private


def save_credentials(state: Path, environment: Mapping[str, str]) -> None:
    """Write what `environment` holds of MODEL_CREDENTIALS to `service/credentials.json`, a JSON object by these names.

    The three belong together, so they replace an earlier set as a whole; where none is given, it stays. The same goes
    for COLLECTOR_CREDENTIALS in `service/telemetry.json`.
    """
    files = ServiceFiles(state)
    for names, path in ((MODEL_CREDENTIALS, files.credentials), (COLLECTOR_CREDENTIALS, files.telemetry)):
        given = {name: environment[name] for name in names if environment.get(name)}
        if given:
            files.create()
            write_private(path, json.dumps(given))


def remove_credentials(state: Path) -> None:
    """Remove the files, and what a killed writer may have left beside them."""
    files = ServiceFiles(state)
    for kept in (files.credentials, files.telemetry):
        for path in files.directory.glob(f"{kept.name}*"):
            path.unlink(missing_ok=True)

"""The credentials of the model's API, read anew whenever they are needed, and every secret that must not be shown.

`orchestrate` leaves the caller's credentials in a file that only its owner can read; without it the worker's own
environment counts. Their values, and those of other credentials in the environment, are masked in every tool result.
"""

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path

from activities.disk_secrets import secrets_below
from activities.file_stamp import stamp_of
from activities.telemetry_wanted import header_values, saved_headers
from baton.environment import COLLECTOR_CREDENTIALS, MODEL_CREDENTIALS
from baton.redaction import is_secret_name, is_secret_value, url_password

_PLACES_OF_THE_SHELL = frozenset(("PWD", "OLDPWD"))
"""They sound like a password, and are the folders one works in."""


class Credentials:
    """Where this worker's credentials are. `environment`: the worker's own."""

    def __init__(self, file: Path, environment: Mapping[str, str] | None = None) -> None:
        self._file = file
        self._environment = os.environ if environment is None else environment
        self._known: tuple[object, tuple[str, ...]] = (None, ())

    def current(self) -> dict[str, str]:
        """The credentials that hold now, by the name of their environment variable."""
        try:
            return dict(json.loads(self._file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return {name: self._environment[name] for name in MODEL_CREDENTIALS if self._environment.get(name)}

    @property
    def _collector_file(self) -> Path:
        return self._file.with_name("telemetry.json")

    def _of_collector(self) -> list[str]:
        """What a collector of telemetry takes for credentials."""
        headers = {name: value for name, value in self._environment.items() if name in COLLECTOR_CREDENTIALS}
        headers |= saved_headers(self._collector_file)
        return [value for text in headers.values() for value in header_values(text)]

    def secrets(self) -> tuple[str, ...]:
        """Values that must never be stored or shown. They are asked for with every logged line, so files that are as
        they were are not read again."""
        files = tuple(stamp_of(file) for file in (self._file, self._collector_file))
        if self._known[0] != files:
            self._known = (files, self._secrets())
        return self._known[1]

    def _secrets(self) -> tuple[str, ...]:
        kept = self._environment.items()
        own = {name: value for name, value in kept if is_secret_name(name) and name not in _PLACES_OF_THE_SHELL}
        current = self.current()
        own |= {name: value for name, value in current.items() if not name.endswith("_URL")}
        own |= {name: url_password(value) or "" for name, value in current.items() if name.endswith("_URL")}
        own |= {value: value for value in self._of_collector()}
        return tuple(sorted({value for value in own.values() if is_secret_value(value)}))

    async def secrets_around(self, *folders: Path | None) -> frozenset[str]:
        """Those, and what lies in `.env`-like files and private keys below these folders."""
        return frozenset(self.secrets()) | await asyncio.to_thread(secrets_below, *folders)

"""Settings files where Claude Code keeps them, read for a task."""

from pathlib import Path

from baton.layout import confirmations_file, settings_files
from baton.settings import Layer, parse_layer
from baton.trust import confirmed_in


def layers_for(home: Path, top_level: Path | None) -> list[Layer]:
    """The settings layers of a repository in rising precedence. Raises `SettingsFaults` for a file that is no JSON."""
    user, *project = settings_files(home, top_level)
    return [
        parse_layer(str(path), path.read_text(encoding="utf-8"), project=path in project)
        for path in (user, *project)
        if path.is_file()
    ]


def confirmed_at(state: Path, top_level: Path | None) -> frozenset[str]:
    """Fingerprints of the repository's commands that this host's user confirmed."""
    record = confirmations_file(state, top_level) if top_level is not None else None
    return confirmed_in(record.read_text(encoding="utf-8")) if record is not None and record.is_file() else frozenset()

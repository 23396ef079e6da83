"""Settings files where Claude Code keeps them, read for a task."""

from pathlib import Path

from baton.layout import settings_files
from baton.settings import Layer, parse_layer


def layers_for(home: Path, top_level: Path | None) -> list[Layer]:
    """The settings layers of a repository in rising precedence. Raises `SettingsFaults` for a file that is no JSON."""
    paths = [path for path in settings_files(home, top_level) if path.is_file()]
    return [parse_layer(str(path), path.read_text(encoding="utf-8")) for path in paths]

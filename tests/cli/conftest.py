"""A home of its own for each test of the command line."""

import os
from pathlib import Path

import pytest


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, a state directory that is not there, and no configured Temporal or model."""
    for name in [name for name in os.environ if name.startswith(("TEMPORAL_", "ANTHROPIC_", "GIT_", "BATON_"))]:
        monkeypatch.delenv(name)
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("BATON_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", os.devnull)
    return folder

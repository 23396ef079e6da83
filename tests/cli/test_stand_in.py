"""The demo's stand-in model as a process: one per state directory, and it outlives nobody."""

import json
import os
import threading
import time
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from cli import processes, stand_in
from cli.service_record import ServiceFiles, private_directory, try_lock


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "state"
    yield folder
    stand_in.stop(folder)


def serves(url: str) -> bool:
    """Whether the Messages API answers there."""
    request = urllib.request.Request(
        f"{url}/v1/models/claude-opus-5-5", headers={"x-api-key": "stand-in", "anthropic-version": "2026-10-21"}
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        return bool(json.load(answer)["id"] == "claude-opus-5-5")


def test_it_starts_once_and_stops(state: Path) -> None:
    url = stand_in.start(state, 0)
    assert serves(url)
    first = stand_in.Record.model_validate_json((state / "stand-in.json").read_bytes())
    assert stand_in.start(state, 0) == url
    assert stand_in.start(state, 5_000) != url
    assert not processes.is_alive(first.process)
    second = stand_in.Record.model_validate_json((state / "stand-in.json").read_bytes())
    assert stand_in.stop(state)
    assert not processes.is_alive(second.process)
    assert not stand_in.stop(state)


def test_it_ends_when_its_service_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stand_in, "ALONE_LIMIT", timedelta(seconds=1))
    files = ServiceFiles(tmp_path / "state")
    private_directory(files.directory)
    lock = try_lock(files.supervisor_lock)
    assert lock is not None
    waiting = threading.Thread(target=stand_in.until_alone, args=(files, threading.Event()))
    waiting.start()
    time.sleep(2.5)
    assert waiting.is_alive()
    os.close(lock)
    waiting.join(timeout=10)
    assert not waiting.is_alive()

"""`orchestrate resume`: what this host knows to be needless is refused before anything is started."""

import json
from pathlib import Path

import pytest

from baton.layout import PRIVATE_REPOSITORY, task_folder
from cli.exits import Refused
from cli.resuming import refuse_needless


def known(state: Path, told: str, *, repository: bool = True) -> None:
    folder = task_folder(state, "t-1")
    (folder / PRIVATE_REPOSITORY if repository else folder).mkdir(parents=True)
    (folder / "state.json").write_text(json.dumps({"status": {"state": told}}))


def test_an_unknown_task_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("TEMPORAL_ADDRESS", raising=False)
    with pytest.raises(Refused, match="nothing is known of a task 't-1'"):
        refuse_needless("t-1", tmp_path)
    monkeypatch.setenv("TEMPORAL_ADDRESS", "temporal.example:7233")
    refuse_needless("t-1", tmp_path)


def test_a_task_that_is_done_is_refused(tmp_path: Path) -> None:
    known(tmp_path, "done")
    with pytest.raises(Refused, match="t-1 is done"):
        refuse_needless("t-1", tmp_path)


def test_a_task_without_its_private_repository_is_refused(tmp_path: Path) -> None:
    known(tmp_path, "partial", repository=False)
    with pytest.raises(Refused, match="--base baton/t-1"):
        refuse_needless("t-1", tmp_path)


def test_a_task_that_stopped_goes_on(tmp_path: Path) -> None:
    known(tmp_path, "partial")
    refuse_needless("t-1", tmp_path)

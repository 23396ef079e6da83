"""The desktop's notifications: the program that is there gets the text as arguments, never as a script."""

from pathlib import Path

import pytest

from activities.notifying import _desktop
from baton.messages import Notify

NOTICE = Notify(task_id="t", event="waiting", text='"; rm -rf $HOME `x`')


def test_notify_send_gets_the_text_as_an_argument(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "notify-send"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    assert _desktop(NOTICE) == [str(program), "--app-name=Baton", "--", "Baton: t", NOTICE.text]


def test_where_no_program_is_there_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _desktop(NOTICE) is None

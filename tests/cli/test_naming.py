"""Task ids from words, and words that were meant as commands."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.names import task_id_fault
from cli.naming import mistaken_command, task_ids

DAY = date(2026, 11, 30)
COMMANDS = ("run", "status", "watch", "list", "report", "cancel", "approve", "reject", "answer", "demo", "up", "down")


@pytest.mark.parametrize(
    ("task", "task_id"),
    [
        ("Modernise the string formatting", "modernise-string-formatting-2026-11-30"),
        ("Don't use `os.path`!", "dont-use-os-path-2026-11-30"),
        ("Überarbeite die Prüfung\nzweite Zeile", "uberarbeite-die-prufung-2026-11-30"),
        ("the", "the-2026-11-30"),
        ("整理代码", "task-2026-11-30"),
        ("x" * 200, "x" * 44 + "-2026-11-30"),
    ],
)
def test_an_id_is_made_of_the_words_and_the_date(task: str, task_id: str) -> None:
    assert next(task_ids(task, DAY)) == task_id


def test_further_ids_are_numbered() -> None:
    ids = list(task_ids("Fix it", DAY))
    assert ids[:3] == ["fix-it-2026-11-30", "fix-it-2026-11-30-2", "fix-it-2026-11-30-3"]
    assert len(ids) == len(set(ids)) == 99


@given(st.text())
def test_every_task_has_valid_ids(task: str) -> None:
    assert [task_id_fault(task_id) for task_id in task_ids(task, DAY)] == [None] * 99


@pytest.mark.parametrize(
    "words",
    [["do it"], ["fix", "the", "tests"], ["@task.md"], ["-"], [""], ["fix", "tests"], ["a\nb"]],
)
def test_a_task_needs_no_command(words: list[str]) -> None:
    assert mistaken_command(words, COMMANDS) is None


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["statsu"], "`orchestrate status`"),
        (["reprot"], "`orchestrate report`"),
        (["statuss", "migrate-2026-11-30"], "`orchestrate status`"),
        (["xyzzy"], "Commands are: answer, approve, cancel"),
    ],
)
def test_a_word_that_is_no_command_is_refused(words: list[str], meant: str) -> None:
    fault = mistaken_command(words, COMMANDS)
    assert fault is not None
    assert meant in fault
    assert "orchestrate run" in fault

"""Decisions about issues."""

from datetime import UTC, datetime

from baton.names import task_id_fault
from baton.reviewing import (
    Decision,
    decided,
    follow_up_id,
    follow_up_task,
    to_hand_on,
    undecided,
    with_decisions,
)

NOW = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)
ONE = {"id": "issue-1", "issue": "a fault", "files": ["a.py", "b.py"], "severity": "high"}
TWO = {"id": "issue-2", "issue": "another", "files": []}


def test_a_decision_stays_with_its_issue_when_the_report_is_written_anew() -> None:
    before = [decided(ONE, Decision.DISMISS, "no fault", NOW), TWO]
    again = [{**TWO, "id": "issue-1"}, {**ONE, "id": "issue-2", "files": ["b.py", "a.py"]}, {**ONE, "files": ["a.py"]}]
    found = with_decisions(again, before)
    assert [issue.get("decision") for issue in found] == [None, "dismiss", None]
    assert found[1]["comment"] == "no fault"
    assert [issue["id"] for issue in found] == ["issue-1", "issue-2", "issue-1"]
    assert len(undecided(found)) == 2


def test_what_is_handed_on_is_handed_on_once() -> None:
    handed = decided(ONE, Decision.NEW_STEP, "", NOW)
    assert to_hand_on([handed, decided(TWO, Decision.ACCEPT, "", NOW)]) == [handed]
    assert to_hand_on([{**handed, "follow_up": "t-follow-up-1"}]) == []
    assert follow_up_id("t", [{**handed, "follow_up": "t-follow-up-1"}, handed]) == "t-follow-up-2"
    long_id = follow_up_id("x" * 63, [])
    assert task_id_fault(long_id) is None
    assert long_id.endswith("-follow-up-1")


def test_the_task_says_what_is_wanted() -> None:
    text = follow_up_task("t", [decided({**ONE, "suggested_action": "mend"}, Decision.NEW_STEP, "rename", NOW), TWO])
    assert text.splitlines()[0] == "Mend 2 issues of t"
    assert "1. (high) a fault\n   Files: a.py, b.py\n   Wanted: rename\n" in text
    assert "mend\n" not in text

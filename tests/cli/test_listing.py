"""The list of tasks in columns."""

import re
from datetime import UTC, datetime, timedelta

from cli.listing import Row, table
from cli.terminal import plain


def test_the_table_fits_the_terminal_and_is_whole_when_piped() -> None:
    now = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)
    listed = [
        Row(
            task_id=f"task-{age}",
            state="done",
            started_at=now - timedelta(seconds=age),
            repository="/a/project",
            summary="a summary that is rather long for a terminal of eighty columns, is it not",
        )
        for age in (5, 300, 7_200, 400_000)
    ]
    piped = [plain(line) for line in table(listed, now, None)]
    assert piped[0].split() == ["TASK", "STATE", "AGE", "REPOSITORY", "SUMMARY"]
    assert [re.split(r"\s{2,}", row)[2] for row in piped[1:]] == ["5 s", "5 min", "2 h", "4 d"]
    assert all(row.endswith("is it not") for row in piped[1:])
    narrow = [plain(line) for line in table(listed, now, 60)]
    assert max(len(row) for row in narrow) <= 60
    assert "REPOSITORY" not in narrow[0]
    assert "orchestrate demo" in plain(table([], now, 80)[0])

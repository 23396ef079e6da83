"""Waits for a provider that has too much to do: told once each, whichever attempt lives to tell them."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from test_telemetry_told import opened_task

from activities.errors import ModelFault
from activities.overload_waits import OverloadWaits
from activities.pulse import Pulse
from activities.trace import Teller, TurnTrace
from baton import trace

OVERLOADED = ModelFault("slower", status=429, type="rate_limit_error")
BROKEN = ModelFault("the stream broke")


class Attempts:
    """The attempts of one turn, each in a process of its own."""

    def __init__(self, path: Path) -> None:
        self.folder = opened_task(path)

    def begin(self, number: int, due: datetime | None = None) -> OverloadWaits:
        teller = Teller("executor-1", "executor", 3)
        due = due or datetime.now(UTC) + timedelta(hours=1)
        trace_of_turn = TurnTrace(self.folder, teller, number)
        return OverloadWaits(self.folder.store, "run/3/head", number, due, Pulse(), trace_of_turn)

    @property
    def rows(self) -> int:
        file = self.folder.artifacts / trace.NAME
        return file.read_text().count("\n") if file.exists() else 0

    @property
    def told(self) -> list[trace.TraceLine]:
        return list(trace.parse((self.folder.artifacts / trace.NAME).read_text()).of("wait"))


@pytest.fixture
def attempts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Attempts:
    monkeypatch.setattr("activities.trace.SHORTEST_WAIT_SECONDS", 0.0)
    return Attempts(tmp_path)


def test_a_refusal_is_told_by_whoever_comes_to_the_call_next(attempts: Attempts) -> None:
    attempts.begin(1).failed(OVERLOADED)
    attempts.begin(2)  # died before it asked
    attempts.begin(3).begun()
    (wait,) = attempts.told
    assert (wait.name, wait.agent, wait.turn) == ("quota", "executor-1", 3)
    attempts.begin(4).begun()  # the third died after its telling, which it may have sent nowhere
    assert attempts.told == [wait.model_copy(update={"attempt": 4})]


def test_a_call_that_was_held_when_its_attempt_died_is_told_too(attempts: Attempts) -> None:
    attempts.begin(1).waiting(True)
    attempts.begin(2).begun()
    assert len(attempts.told) == 1


def test_each_wait_is_written_once_while_nobody_dies(attempts: Attempts) -> None:
    for number in range(1, 6):
        waits = attempts.begin(number)
        waits.begun()
        waits.waiting(True)
        waits.waiting(False)
        waits.failed(OVERLOADED if number != 3 else BROKEN)
    attempts.begin(6).begun()
    # One in each attempt, and one after each refusal.
    assert attempts.rows == len(attempts.told) == 5 + 4


def test_a_wait_lasts_until_the_next_attempt_was_due_and_not_until_a_worker_took_it(attempts: Attempts) -> None:
    attempts.begin(1).failed(OVERLOADED)
    due = datetime.now(UTC) + timedelta(milliseconds=1)
    time.sleep(0.02)
    attempts.begin(2, due).begun()
    (wait,) = attempts.told
    assert abs((wait.at - due).total_seconds()) <= 0.001
    # Without a time that can be right, it is over now.
    attempts.begin(2, datetime(1970, 1, 1, tzinfo=UTC)).failed(OVERLOADED)
    attempts.begin(3, datetime(1970, 1, 1, tzinfo=UTC)).begun()
    assert all(wait.seconds < 60 for wait in attempts.told)

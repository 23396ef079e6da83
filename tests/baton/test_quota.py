"""The shared view of the provider's limits: it opens slowly, heeds every figure, and no herd comes after a wall."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.quota import (
    FIRST_WINDOW,
    JITTER,
    LONGEST_BACK_OFF,
    LONGEST_PAUSE,
    WIDEST_WINDOW,
    WINDOW_AFTER_WALL,
    Left,
    Pause,
    RateView,
    account_hash,
    left_of,
    merged,
    usage_limit_until,
)

NOW = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
ACTS = st.lists(
    st.tuples(st.sampled_from(["begin", "end", "accept", "succeed", "refuse", "hear", "pause"]), st.integers(0, 400)),
    max_size=60,
)


def left(remaining: int, limit: int = 1_000, resets_in: int = 30, kind: str = "requests") -> Left:
    return Left(kind=kind, limit=limit, remaining=remaining, resets_at=NOW + resets_in * SECOND)


@given(ACTS)
def test_whatever_happens_a_call_may_begin_some_time_and_never_too_many(acts: list[tuple[str, int]]) -> None:
    view, now = RateView(), NOW
    for act, number in acts:
        now += timedelta(seconds=number / 10)
        match act:
            case "begin" if view.may_begin(now):
                view = view.begun()
            case "end":
                view = view.ended()
            case "accept":
                view = view.accepted()
            case "succeed":
                view = view.succeeded()
            case "refuse":
                view, delay = view.refused(number * SECOND if number % 2 else None, (), now, number / 400)
                assert timedelta() < delay == view.delay(now)
                assert not view.may_begin(now)
            case "hear":
                view = view.heard((left(number % 70, 100),), now)
            case "pause":
                view = view.resumed()
        assert 0 <= view.under_way <= WIDEST_WINDOW
        assert 1 <= view.window <= WIDEST_WINDOW
    emptied = view
    for _ in range(view.under_way):
        emptied = emptied.ended()
    assert emptied.may_begin(now + emptied.delay(now))


def test_it_opens_with_success_and_closes_with_refusals() -> None:
    view = RateView()
    for _ in range(20):
        view = view.succeeded()
    assert view.window == FIRST_WINDOW + 20
    once, _ = view.refused(None, (), NOW, 0)
    assert once.window == view.window / 2
    twice, _ = once.refused(None, (), NOW + LONGEST_BACK_OFF, 0)
    assert (twice.window, twice.threshold) == (1, WIDEST_WINDOW)
    assert twice.accepted().window == WINDOW_AFTER_WALL
    assert once.accepted().window == view.window / 2


def test_calls_that_were_under_way_count_as_one_refusal() -> None:
    view, _ = RateView().refused(None, (), NOW, 0)
    for _ in range(30):
        view, delay = view.refused(None, (), NOW + 0.1 * SECOND, 0)
    assert (view.refusals, delay) == (1, 0.9 * SECOND)


def test_after_a_refusal_one_call_tries() -> None:
    view, delay = RateView(window=10).refused(None, (), NOW, 0)
    assert not view.may_begin(NOW + delay - SECOND / 10)
    view = view.begun()
    assert not view.may_begin(NOW + delay)
    assert view.accepted().may_begin(NOW + delay)


def test_overloads_inside_streams_are_a_wall_too() -> None:
    view, now, delays = RateView(), NOW, []
    for _ in range(4):
        view, delay = view.accepted().refused(None, (), now, 0)
        now += delay
        delays.append(delay / SECOND)
    assert delays == [1, 2, 4, 8]


@pytest.mark.parametrize("dice", [0.0, 0.5, 1.0])
def test_the_back_off_grows_to_its_longest(dice: float) -> None:
    view, now, delays = RateView(), NOW, []
    for _ in range(10):
        view, delay = view.refused(None, (), now, dice)
        now += delay
        delays.append(delay / (1 + JITTER * dice))
    assert [round(delay / SECOND) for delay in delays] == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]


def test_the_provider_may_want_more_patience() -> None:
    _, delay = RateView().refused(17 * SECOND, (), NOW, 0)
    assert delay == 17 * SECOND


def test_what_is_left_is_heeded() -> None:
    view = RateView(window=40, threshold=40)
    assert view.heard((left(900),), NOW) == view
    assert view.heard((left(12, 100),), NOW).window == 12
    assert view.heard((left(30_000, 1_000_000, kind="input-tokens"),), NOW).window == 1
    used_up = view.heard((left(0),), NOW)
    assert used_up.delay(NOW) == 30 * SECOND
    assert used_up.may_begin(NOW + 30 * SECOND)


def test_headers() -> None:
    headers = {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": "2026-11-30T08:00:12Z",
        "anthropic-ratelimit-tokens-limit": "many",
        "anthropic-ratelimit-tokens-remaining": "3",
        "anthropic-ratelimit-output-tokens-limit": "8000",
        "anthropic-ratelimit-output-tokens-remaining": "7000",
        "anthropic-ratelimit-output-tokens-reset": "soon",
    }
    assert left_of(headers) == (
        left(0, 50, 12),
        Left(kind="output-tokens", limit=8_000, remaining=7_000, resets_at=None),
    )


@pytest.mark.parametrize(
    ("retry_after", "figures", "expected"),
    [
        (7 * SECOND, (), None),
        (None, (), None),
        (3_600 * SECOND, (), 3_600 * SECOND),
        (timedelta(days=900), (), LONGEST_PAUSE),
        (None, (left(0, resets_in=20),), None),
        (None, (left(0, resets_in=7_200),), 7_200 * SECOND),
        (None, (left(5, resets_in=7_200),), None),
        (9 * SECOND, (left(0, resets_in=7_200),), None),
    ],
)
def test_a_usage_limit_is_far_away(
    retry_after: timedelta | None, figures: tuple[Left, ...], expected: timedelta | None
) -> None:
    assert usage_limit_until(retry_after, figures, NOW) == (expected and NOW + expected)


def test_an_account_is_named_without_its_key() -> None:
    name = account_hash("sk-ant-0123456789abcdef", "https://api.example/")
    assert name == account_hash("sk-ant-0123456789abcdef", "https://api.example")
    assert len({name, account_hash("sk-ant-other", "https://api.example"), account_hash("", "https://other")}) == 3
    assert "sk" not in name
    assert len(name) == 16


def test_two_pauses_of_an_account_become_one() -> None:
    usage = Pause(kind="usage", reason="used up", since=NOW, until=NOW + 60 * SECOND)
    later = Pause(kind="usage", reason="used up", since=NOW + SECOND, until=NOW + 90 * SECOND)
    person = Pause(kind="person", reason="401", since=NOW + SECOND)
    assert merged(usage, later) == usage.model_copy(update={"until": later.until})
    assert merged(later, usage) == later
    assert merged(usage, person).model_dump() == {**person.model_dump(), "since": NOW}
    assert merged(person, later) == person

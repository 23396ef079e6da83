"""The breakers: each has a script that trips it, and a near twin that must not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.agent import AgentState, Ask, HandOff, Stop, next_move
from baton.breakers import (
    IDLE_SECONDS,
    IDLE_TURNS,
    IDLE_TURNS_WITHOUT_ITEMS,
    SAME_CALLS,
    SAME_EDITS,
    SAME_ERRORS,
    SAME_INPUTS,
    SAME_WORDS,
    TURNS_KEPT,
    Seen,
    TripKind,
    TurnSigns,
    remembered,
    signs_of,
    tripped,
    undone,
)
from baton.budget import Budget
from baton.conversation import Ending, NoticeKind, Response, tool_result
from baton.manifest import HandoffReason
from baton.messages import Assignment, ChainTotals, TurnOutcome
from baton.pricing import Usage
from baton.roles import Role


def seen(*signs: TurnSigns, progress: tuple[int, ...] = ()) -> tuple[Seen, ...]:
    """Turns from 1; those of `progress` did something."""
    return tuple(
        Seen(turn=number, doing="read a.py", progress=number in progress, signs=each)
        for number, each in enumerate(signs, 1)
    )


def other(number: int, **fields: Any) -> TurnSigns:
    """A turn unlike every other."""
    return TurnSigns(**{"calls": f"c{number}", "results": f"r{number}"} | fields)


SAME = TurnSigns(calls="c", results="r")


def test_the_same_calls_with_the_same_results_trip_and_with_a_change_in_between_do_not() -> None:
    trip = tripped(seen(*[SAME] * SAME_CALLS), has_items=True)
    assert trip is not None
    assert trip.kind is TripKind.LOOP_DETECTED
    assert "4 times" in trip.evidence
    assert "turns 1 to 4, last: read a.py" in trip.evidence
    assert trip.recommendation
    assert tripped(seen(*[SAME] * (SAME_CALLS - 1)), has_items=True) is None
    assert tripped(seen(*[SAME] * SAME_CALLS, progress=(2,)), has_items=True) is None


def test_a_loop_of_two_calls_trips_too() -> None:
    turns = [SAME, other(1)] * SAME_CALLS
    assert tripped(seen(*turns), has_items=True) is not None


def test_waiting_for_something_that_changes_is_allowed_for_a_while() -> None:
    waits = [TurnSigns(calls="check", results=f"r{number}") for number in range(SAME_INPUTS)]
    assert tripped(seen(*waits[:-1]), has_items=True) is None
    assert tripped(seen(*waits), has_items=True) is not None


def test_the_same_error_trips_whatever_was_tried_and_different_ones_do_not() -> None:
    same = [other(number, results="", error="e") for number in range(SAME_ERRORS)]
    assert tripped(seen(*same), has_items=True) is not None
    differing = [other(number, error=f"e{number}") for number in range(SAME_ERRORS)]
    assert tripped(seen(*differing), has_items=True) is None


def test_the_same_words_trip_where_they_find_nothing_new() -> None:
    stale = [TurnSigns(calls=f"c{number}", results="none", words="w") for number in range(SAME_WORDS)]
    assert tripped(seen(*stale), has_items=True) is not None
    fresh = [other(number, words="w") for number in range(SAME_WORDS)]
    assert tripped(seen(*fresh), has_items=True) is None


def test_the_same_edit_again_and_again_trips_even_though_it_changes_files() -> None:
    flip = [TurnSigns(calls=f"c{n % 2}", results="ok", edits=f"e{n % 2}") for n in range(2 * SAME_EDITS)]
    trip = tripped(seen(*flip, progress=tuple(range(1, 100))), has_items=True)
    assert trip is not None
    assert "taken back" in trip.evidence
    forward = [TurnSigns(calls=f"c{n}", results="ok", edits=f"e{n}") for n in range(2 * SAME_EDITS)]
    assert tripped(seen(*forward, progress=tuple(range(1, 100))), has_items=True) is None


def test_reading_for_long_trips_an_agent_with_items_sooner_than_one_that_is_to_look_around() -> None:
    reading = [other(number) for number in range(IDLE_TURNS)]
    trip = tripped(seen(*reading), has_items=True)
    assert trip is not None
    assert f"{IDLE_TURNS} turns without a change" in trip.evidence
    assert tripped(seen(*reading), has_items=False) is None
    more = [other(number) for number in range(IDLE_TURNS_WITHOUT_ITEMS)]
    assert tripped(seen(*more), has_items=False) is not None


def test_much_time_without_anything_done_is_a_timeout_and_slow_work_is_none() -> None:
    slow = [other(number, seconds=IDLE_SECONDS / 5) for number in range(6)]
    trip = tripped(seen(*slow), has_items=True)
    assert trip is not None
    assert trip.kind is TripKind.TIMEOUT
    assert tripped(seen(*slow, progress=(3,)), has_items=True) is None


@given(st.lists(st.integers(1, IDLE_TURNS - 1), min_size=1, max_size=5), st.floats(0, IDLE_SECONDS / IDLE_TURNS - 1))
def test_an_agent_that_does_something_now_and_then_is_never_tripped(pauses: list[int], seconds: float) -> None:
    turns: tuple[Seen, ...] = ()
    number = 0
    for pause in pauses:
        for last in [False] * (pause - 1) + [True]:
            number += 1
            turns = remembered(turns, Seen(turn=number, progress=last, signs=other(number, seconds=seconds)))
            assert tripped(turns, has_items=True) is None
    assert len(turns) <= TURNS_KEPT


@given(st.integers(0, 200))
def test_turns_of_an_older_version_left_no_signs_and_trip_nothing(count: int) -> None:
    turns: tuple[Seen, ...] = ()
    for number in range(count):
        turns = remembered(turns, Seen(turn=number))
    assert tripped(turns, has_items=True) is None


def response(*blocks: dict[str, Any], stop_reason: str = "tool_use") -> Response:
    return Response(id="m", model="m", stop_reason=stop_reason, content=blocks)


def use(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "t", "name": name, "input": fields}


def test_signs_tell_calls_results_errors_and_words_apart() -> None:
    read, edit = use("read", file_path="a.py"), use("edit", file_path="a.py", old_string="a", new_string="b")
    ok, bad = tool_result("t", "text"), tool_result("t", "no such file", is_error=True)
    assert signs_of(response(read), [ok]) == signs_of(response(read | {"id": "other"}), [ok | {"tool_use_id": "other"}])
    assert signs_of(response(read), [ok]).calls != signs_of(response(edit), [ok]).calls
    assert signs_of(response(read), [ok]).results != signs_of(response(read), [bad]).results
    assert (signs_of(response(read), [ok]).error, signs_of(response(edit), [bad]).edits) == ("", "")
    assert signs_of(response(edit), [ok]).edits
    assert signs_of(response(read), [bad]).error
    assert not signs_of(response({"type": "text", "text": "Go on."}, read), [ok]).words
    assert signs_of(
        response({"type": "text", "text": "I look at the very same file once more, and closely."}, read), [ok]
    ).words
    assert signs_of(response({"type": "text", "text": "x"}, stop_reason="end_turn"), []) == TurnSigns()


# --- what an agent makes of them --------------------------------------------------------------------------------------

ASSIGNMENT = Assignment(
    task_id="t",
    task="x",
    role=Role.EXECUTOR,
    name="executor-1-x",
    model="m",
    budget=Budget(tokens=10_000),
    workspace="step-1",
    start_commit="c",
    items=("a.py",),
)


def looping(state: AgentState, times: int = SAME_CALLS) -> AgentState:
    for _ in range(times):
        outcome = TurnOutcome(head="h", commit="c", ending=Ending.TOOLS, usage=Usage(), calls=1, signs=SAME)
        state = state.after(outcome)
    return state


def test_first_a_warning_then_a_fresh_agent_then_the_end_with_what_there_is() -> None:
    state = looping(AgentState(head="h", commit="c"))
    warning = next_move(ASSIGNMENT, state)
    assert isinstance(warning, Ask)
    assert warning.warned
    assert [notice.kind for notice in warning.notices] == [NoticeKind.NUDGE]
    assert "4 times" in warning.notices[0].text
    state = state.asked(warning)
    once_more = next_move(ASSIGNMENT, looping(state, 1))
    assert isinstance(once_more, Ask)
    assert not once_more.notices
    move = next_move(ASSIGNMENT, looping(state, SAME_CALLS))
    assert isinstance(move, HandOff)
    assert move.reason is HandoffReason.ERROR_RECOVERY
    assert move.trip is not None
    second = ASSIGNMENT.model_copy(update={"generation": 2, "totals": ChainTotals(trips=1)})
    end = next_move(second, looping(state, SAME_CALLS))
    assert isinstance(end, Stop)
    assert not end.blocked
    assert end.detail.startswith("loop_detected: the same calls")


def test_a_warned_agent_that_works_again_goes_on() -> None:
    state = looping(AgentState(head="h", commit="c"))
    warning = next_move(ASSIGNMENT, state)
    assert isinstance(warning, Ask)
    state = state.asked(warning)
    done = TurnOutcome(head="h", commit="c", ending=Ending.TOOLS, usage=Usage(), calls=1, files_changed=1, signs=SAME)
    for _ in range(5):
        state = looping(state, SAME_CALLS - 2).after(done)
        move = next_move(ASSIGNMENT, state)
        assert isinstance(move, Ask)
        assert move.notices == ()


# --- steps that undo each other --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "paths"),
    [
        (("old", "new"), ("new", "old"), ("a.py",)),
        (("old", "new"), ("new", "newer"), ()),
        (("", "new"), ("new", ""), ()),
        (("old", ""), ("", "old"), ()),
        (("old", "new"), ("old", "old"), ()),
    ],
)
def test_what_a_later_step_took_back(first: tuple[str, str], second: tuple[str, str], paths: tuple[str, ...]) -> None:
    found = undone([(1, {"a.py": first}), (2, {"b.py": ("x", "y")})], {"a.py": second, "c.py": ("1", "2")})
    assert found == ({1: paths} if paths else {})

"""Turns that an agent takes without asking its workflow: exactly such as the workflow would have asked for."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_agent import ASSIGNMENT

from baton.agent import AgentState, Ask, next_move, remaining
from baton.breakers import SAME_CALLS, TurnSigns
from baton.conversation import Ending
from baton.facts import Question
from baton.messages import Assignment, TurnLimits, TurnOutcome, TurnRequest
from baton.pricing import Usage
from baton.quick_turns import MOST_TURNS, ahead, next_request


def outcome(number: int = 0, output_tokens: int = 100, **fields: Any) -> TurnOutcome:
    usage = Usage(output_tokens=output_tokens, model_calls=1, input_tokens=fields.pop("input_tokens", 0))
    signs = TurnSigns(calls=f"call {number}", results="r")
    plain = {"ending": Ending.TOOLS, "calls": 1, "signs": signs, "files_changed": 1}
    return TurnOutcome(head=f"h{number}", commit=f"c{number}", usage=usage, **plain | fields)


def request(assignment: Assignment, state: AgentState) -> TurnRequest:
    """As the workflow asks for a turn."""
    ask = next_move(assignment, state)
    assert isinstance(ask, Ask)
    return TurnRequest(
        task_id=assignment.task_id,
        agent_id="executor-1-x",
        role=assignment.role,
        workspace=assignment.workspace,
        head=state.head,
        commit=state.commit,
        turn=state.turn + 1,
        max_tokens=ask.max_tokens,
        notices=ask.notices,
        left=remaining(assignment.allowance, state.usage + state.extra_usage),
        ahead=ahead(assignment, state, ask, 0),
    )


def begun(*more: TurnOutcome) -> AgentState:
    state = AgentState(head="root", commit="c").after(outcome(-1))
    for one in more:
        state = state.after(one)
    return state


def test_a_plain_turn_is_followed_by_one_as_the_workflow_would_ask_for() -> None:
    first = request(ASSIGNMENT, begun())
    further = next_request(first, [outcome(1)])
    assert further == request(ASSIGNMENT, begun(outcome(1))).model_copy(update={"ahead": first.ahead})


def test_the_first_turn_of_an_agent_is_told_at_once() -> None:
    assert request(ASSIGNMENT, AgentState(head="root", commit="c")).ahead is None


@pytest.mark.parametrize(
    "last",
    [
        outcome(1, ending=Ending.SILENT, calls=0),
        outcome(1, ending=Ending.CUT),
        outcome(1, ending=Ending.CONTEXT_FULL),
        outcome(1, calls=0),
        outcome(1, submitted="finish_step"),
        outcome(1, submitted="hand_off"),
        outcome(1, refused_submissions=1),
        outcome(1, asked=(Question(call_id="t", question="Which?", options=("a",)),)),
        outcome(1, output_tokens=ASSIGNMENT.budget.prepare_tokens),
    ],
)
def test_everything_else_is_for_the_workflow(last: TurnOutcome) -> None:
    assert next_request(request(ASSIGNMENT, begun()), [last]) is None


def test_turns_without_progress_are_few_in_a_row() -> None:
    first, done = request(ASSIGNMENT, begun(outcome(0, files_changed=0))), [outcome(1, files_changed=0)]
    while next_request(first, done) is not None:
        done.append(outcome(len(done) + 1, files_changed=0))
    # One more is idle since before.
    assert len(done) == SAME_CALLS - 1
    done[-1] = outcome(9)
    assert next_request(first, done) is not None


def test_an_edit_that_was_made_before_is_for_the_workflow() -> None:
    edit = {"signs": TurnSigns(calls="c", edits="e")}
    assert next_request(request(ASSIGNMENT, begun()), [outcome(1, **edit)]) is not None
    assert next_request(request(ASSIGNMENT, begun()), [outcome(1, **edit), outcome(2), outcome(3, **edit)]) is None
    assert next_request(request(ASSIGNMENT, begun(outcome(0, **edit))), [outcome(1, **edit)]) is None


def test_the_turns_of_one_activity_are_bounded() -> None:
    first, done = request(ASSIGNMENT, begun()), [outcome(1)]
    while next_request(first, done) is not None:
        done.append(outcome(len(done) + 1))
    assert len(done) == MOST_TURNS
    few = request(ASSIGNMENT.model_copy(update={"max_turns": 3}), begun())
    assert next_request(few, [outcome(1)]) is not None
    assert next_request(few, [outcome(1), outcome(2)]) is None


MARK = st.sampled_from(["", "a", "b"])
SIGNS = st.builds(TurnSigns, calls=MARK, results=MARK, edits=MARK, error=MARK, words=MARK)
TURN = st.tuples(
    st.integers(0, 3_000), st.integers(0, 60_000), st.decimals(0, 2, places=2), st.integers(0, 1), st.one_of(SIGNS)
)


@given(
    st.lists(TURN, max_size=40),
    st.lists(TURN, min_size=1),
    st.one_of(st.none(), st.integers(0, 12_000)),
    st.one_of(st.none(), st.integers(0, 20)),
    st.one_of(st.none(), st.decimals(0, 6, places=2)),
    st.one_of(st.none(), st.integers(1, 5_000)),
    st.booleans(),
)
def test_it_never_goes_where_the_workflow_would_not(
    before: list[tuple[int, int, Decimal, int, TurnSigns]],
    turns: list[tuple[int, int, Decimal, int, TurnSigns]],
    tokens: int | None,
    model_calls: int | None,
    cost: Decimal | None,
    most: int | None,
    has_items: bool,
) -> None:
    assignment = ASSIGNMENT.model_copy(
        update={
            "allowance": TurnLimits(output_tokens=tokens, model_calls=model_calls, cost_usd=cost),
            "context_tokens": 60_000,
            "most_output_tokens": most,
            "items": ("a",) if has_items else (),
        }
    )
    state = begun(*(_turn(n, (0, 0, Decimal(0), *turn[3:])) for n, turn in enumerate(before)))
    if not isinstance(next_move(assignment, state), Ask):
        return
    first, done = request(assignment, state), list[TurnOutcome]()
    for number, turn in enumerate(turns):
        done.append(_turn(number, turn))
        state = state.after(done[-1])
        move, further = next_move(assignment, state), next_request(first, done)
        if further is None:
            return
        assert isinstance(move, Ask)
        assert (move.max_tokens, move.notices, move.prepared, move.warned) == (further.max_tokens, (), False, False)
        assert further.left == remaining(assignment.allowance, state.usage + state.extra_usage)
        assert (further.head, further.commit, further.turn) == (state.head, state.commit, state.turn + 1)


def _turn(number: int, turn: tuple[int, int, Decimal, int, TurnSigns]) -> TurnOutcome:
    output, given_tokens, price, changed, signs = turn
    usage = Usage(output_tokens=output, input_tokens=given_tokens, model_calls=1, cost_usd=price)
    return outcome(number, files_changed=changed, signs=signs).model_copy(update={"usage": usage})

"""What an agent does next, after every kind of outcome."""

from decimal import Decimal
from typing import Any

import pytest

from baton.agent import MAX_NUDGES, AgentState, Ask, Finish, HandOff, Stop, exceeded, next_move, remaining
from baton.budget import Budget
from baton.conversation import Ending, NoticeKind
from baton.manifest import HandoffReason
from baton.messages import Assignment, TurnLimits, TurnOutcome
from baton.pricing import Usage
from baton.roles import Role

ASSIGNMENT = Assignment(
    task_id="t",
    task="x",
    role=Role.EXECUTOR,
    name="executor-1-x",
    model="m",
    budget=Budget(tokens=10_000),
    workspace="step-1",
    start_commit="c",
)


def outcome(ending: Ending = Ending.TOOLS, output_tokens: int = 100, **fields: Any) -> TurnOutcome:
    usage = Usage(output_tokens=output_tokens, model_calls=1)
    return TurnOutcome(head="h", commit="c", ending=ending, usage=usage, **{"calls": 1, **fields})


def after(*outcomes: TurnOutcome, **changes: Any) -> AgentState:
    state = AgentState(head="root", commit="c")
    for one in outcomes:
        state = state.after(one)
    return state.model_copy(update=changes)


def test_the_first_request_may_go_up_to_the_line() -> None:
    assert next_move(ASSIGNMENT, after()) == Ask(max_tokens=ASSIGNMENT.budget.line_tokens)


def test_the_notice_to_prepare_is_given_once() -> None:
    used = after(outcome(output_tokens=ASSIGNMENT.budget.prepare_tokens))
    move = next_move(ASSIGNMENT, used)
    assert isinstance(move, Ask)
    assert [n.kind for n in move.notices] == [NoticeKind.BUDGET_80]
    again = next_move(ASSIGNMENT, used.model_copy(update={"prepared": True}))
    assert isinstance(again, Ask)
    assert again.notices == ()


def test_a_cut_response_leads_to_one_request_for_a_hand_off_and_then_to_facts() -> None:
    cut = after(outcome(Ending.CUT, 8_000, calls=0))
    move = next_move(ASSIGNMENT, cut)
    assert isinstance(move, Ask)
    assert move.hand_off_asked
    assert move.max_tokens == 2_000
    assert [n.kind for n in move.notices] == [NoticeKind.BUDGET_95]
    ignored = cut.after(outcome(Ending.TOOLS, 100)).model_copy(update={"hand_off_asked": True})
    assert next_move(ASSIGNMENT, ignored) == HandOff(HandoffReason.OUTPUT_LIMIT)


def test_a_spent_budget_hands_off_from_facts() -> None:
    assert next_move(ASSIGNMENT, after(outcome(output_tokens=9_800))) == HandOff(HandoffReason.OUTPUT_LIMIT)


@pytest.mark.parametrize(
    ("last", "move"),
    [
        (outcome(submitted="finish_step"), Finish()),
        (outcome(submitted="hand_off"), HandOff(HandoffReason.OUTPUT_LIMIT)),
        (outcome(Ending.CONTEXT_FULL, calls=0), HandOff(HandoffReason.CONTEXT_LIMIT)),
        (outcome(Ending.REFUSED, calls=0), Stop(blocked=True, detail="the model refused to go on with this work")),
    ],
)
def test_what_ends_an_agent(last: TurnOutcome, move: object) -> None:
    assert next_move(ASSIGNMENT, after(last)) == move


def test_silence_is_nudged_a_bounded_number_of_times() -> None:
    silent = outcome(Ending.SILENT, calls=0)
    for count in range(1, MAX_NUDGES + 1):
        move = next_move(ASSIGNMENT, after(*[silent] * count))
        assert isinstance(move, Ask)
        assert [n.kind for n in move.notices] == [NoticeKind.NUDGE]
    assert isinstance(next_move(ASSIGNMENT, after(*[silent] * (MAX_NUDGES + 1))), Stop)
    recovered = after(silent, silent, outcome())
    assert next_move(ASSIGNMENT, recovered) == Ask(max_tokens=ASSIGNMENT.budget.line_tokens - 300)


def test_pauses_without_end_are_bounded_too() -> None:
    paused = outcome(Ending.PAUSED, calls=0)
    move = next_move(ASSIGNMENT, after(*[paused] * MAX_NUDGES))
    assert isinstance(move, Ask)
    assert move.notices == ()
    assert isinstance(next_move(ASSIGNMENT, after(*[paused] * (MAX_NUDGES + 1))), Stop)


def test_submissions_sent_back_are_bounded() -> None:
    sent_back = outcome(refused_submissions=1)
    assert isinstance(next_move(ASSIGNMENT, after(sent_back, sent_back)), Ask)
    assert isinstance(next_move(ASSIGNMENT, after(sent_back, sent_back, sent_back)), Stop)


def test_turns_are_bounded() -> None:
    short = ASSIGNMENT.model_copy(update={"max_turns": 2})
    assert next_move(short, after(outcome(), outcome())) == HandOff(HandoffReason.OUTPUT_LIMIT)


def test_guidance_goes_out_as_a_notice() -> None:
    move = next_move(ASSIGNMENT, after(), ("use f-strings",))
    assert isinstance(move, Ask)
    assert [(n.kind, n.text) for n in move.notices] == [(NoticeKind.GUIDANCE, "use f-strings")]


def test_zero_is_zero() -> None:
    for limits in (TurnLimits(cost_usd=Decimal(0)), TurnLimits(output_tokens=0), TurnLimits(model_calls=0)):
        assert exceeded(limits, Usage()) is not None
    assert exceeded(TurnLimits(), Usage(output_tokens=10**9)) is None


def test_what_remains_is_never_negative() -> None:
    used = Usage(output_tokens=50, model_calls=3, cost_usd=Decimal("1.5"))
    left = remaining(TurnLimits(cost_usd=Decimal(1), output_tokens=80, model_calls=2), used)
    assert (left.cost_usd, left.output_tokens, left.model_calls) == (Decimal(0), 30, 0)


def test_a_limit_stops_the_chain() -> None:
    limited = ASSIGNMENT.model_copy(update={"allowance": TurnLimits(model_calls=1)})
    move = next_move(limited, after(outcome()))
    assert isinstance(move, Stop)
    assert "model calls" in move.detail

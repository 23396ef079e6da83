"""The output budget: normal work never crosses the line, and there is always room to hand off."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from baton.budget import SMALLEST_REQUEST_TOKENS, Budget, Phase


def test_the_default_budget_has_the_published_thresholds() -> None:
    budget = Budget()
    assert (budget.reserve_tokens, budget.line_tokens, budget.prepare_tokens) == (1_600, 30_400, 25_600)


def test_a_small_budget_keeps_a_usable_reserve() -> None:
    assert (Budget(tokens=4_000).line_tokens, Budget(tokens=4_000).prepare_tokens) == (2_500, 1_476)


def test_a_budget_too_small_to_work_with_is_refused() -> None:
    with pytest.raises(ValidationError, match="4000"):
        Budget(tokens=3_999)


@given(st.integers(4_000, 128_000), st.integers(0, 128_000), st.booleans())
def test_a_request_never_runs_past_what_its_phase_allows(tokens: int, used: int, cut: bool) -> None:
    budget = Budget(tokens=tokens)
    phase = budget.phase(used, cut)
    if phase is Phase.SPENT:
        assert tokens - used < SMALLEST_REQUEST_TOKENS
        return
    asked = budget.max_tokens(used, phase)
    assert asked >= SMALLEST_REQUEST_TOKENS
    assert used + asked <= (tokens if phase is Phase.HANDING_OFF else budget.line_tokens)


@given(st.integers(4_000, 128_000))
def test_phases_follow_one_another(tokens: int) -> None:
    budget = Budget(tokens=tokens)
    order = [Phase.WORKING, Phase.PREPARING, Phase.HANDING_OFF, Phase.SPENT]
    seen = [order.index(budget.phase(used)) for used in range(0, tokens, 100)]
    assert seen == sorted(seen)
    assert set(seen) == {0, 1, 2, 3}

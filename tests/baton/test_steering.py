"""What a person may tell a running task, read from whatever a client sent."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from baton.settings import Limits, Settings
from baton.steering import LimitsChange, Remark, given_limits, given_object, given_remark, limit_from_comment


def test_only_named_limits_change() -> None:
    before = Settings(max_agents=7, limits=Limits(cost_usd=Decimal(3), output_tokens=500))
    after = given_limits({"max_cost_usd": "40", "max_output_tokens": None, "max_duration": "2h"}).applied(before)
    assert (after.limits.cost_usd, after.limits.output_tokens, after.max_agents) == (Decimal(40), None, 7)
    assert after.limits.duration == timedelta(hours=2)
    assert given_limits({"max_agents": 0}).applied(before).max_agents == 0


def test_a_change_is_told_with_what_was_named() -> None:
    change = {"max_duration": "10m", "max_cost_usd": 40, "max_model_calls": None, "max_output_tokens": 50000}
    assert given_limits(change).told() == (
        "max cost 40 USD, max output tokens 50 000, max model calls none, max duration 10 min"
    )
    assert given_limits({"max_cost_usd": "0", "max_duration": "0s"}).told() == "max cost 0 USD, max duration 0 s"


@pytest.mark.parametrize(
    ("payload", "named"),
    [
        ({}, "no limit is named"),
        ({"max_cost": 4}, "allowed are max_cost_usd"),
        ({"max_cost_usd": -1}, "max_cost_usd: Input should be greater"),
        ({"max_cost_usd": "NaN"}, "max_cost_usd"),
        ({"max_duration": "soon"}, "no duration; write for example"),
        ({"max_agents": None}, "max_agents"),
        ({"max_output_tokens": "many"}, "max_output_tokens"),
    ],
)
def test_limits_that_make_no_sense(payload: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match="set_limits") as raised:
        given_limits(payload)
    assert named in str(raised.value)


def test_remarks() -> None:
    assert given_remark({"text": " keep the names "}) == Remark(text="keep the names")
    assert given_remark({"text": "x", "step": 2}).step == 2
    for payload in ({}, {"text": " "}, {"text": 3}, {"text": "x", "step": "second"}, {"text": "x", "to": 1}):
        with pytest.raises(ValueError, match="guide"):
            given_remark(payload)


def test_a_payload_is_an_object() -> None:
    assert given_object("pause", None) == {}
    with pytest.raises(ValueError, match="must be a JSON object, not list"):
        given_object("pause", [])


def test_a_raise_says_the_new_limit() -> None:
    assert limit_from_comment("max_cost_usd", " 40 USD ", Decimal("39.99")) == LimitsChange(max_cost_usd=Decimal(40))
    assert limit_from_comment("max_duration", "2h", Decimal(3600)) == LimitsChange(max_duration=timedelta(hours=2))
    for which, comment, why in (
        ("max_cost_usd", "", "orchestrate limits --max-cost"),
        ("max_cost_usd", "40", "max cost 40 USD leaves nothing, 40 USD are used already"),
        ("max_duration", "soon", "no duration"),
        ("max_duration", "30m", "max duration 30 min leaves nothing"),
    ):
        with pytest.raises(ValueError, match=why):
            limit_from_comment(which, comment, Decimal(3600) if which == "max_duration" else Decimal(40))

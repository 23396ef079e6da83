"""What work is likely to cost."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from baton.estimates import limit_question, plan_estimate
from baton.ledger import ItemCounts
from baton.plan import Plan, PlanStep
from baton.pricing import Usage
from baton.settings import RoleModels, Settings

USED = Usage(output_tokens=30_000, cost_usd=Decimal(3), model_calls=9)


def test_the_rest_is_told_from_what_each_item_cost() -> None:
    text = limit_question("the cost limit of 3.00 USD is reached", USED, ItemCounts(total=30, changed=10, open=20))
    assert text == (
        "The cost limit of 3.00 USD is reached: 30 000 output tokens and 3.00 USD were used. 10 of 30 items are done, "
        "20 left: likely 6.00 USD and 60 000 output tokens more (0.300 USD for each so far)."
    )


def test_what_cannot_be_told_is_said() -> None:
    assert "cannot be told" in limit_question("x", USED, ItemCounts(total=3, open=3))
    assert limit_question("x", USED, ItemCounts()).endswith("3.00 USD were used.")
    assert "checks and the integration" in limit_question("x", USED, ItemCounts(total=3, changed=3))


def plan(*tokens: int | None, items: int = 0, run: str | None = None) -> Plan:
    names = tuple(f"{n}.py" for n in range(items))
    steps = (
        PlanStep(step=n, agent_type="x", description="d", items=names, estimated_output_tokens=amount, run=run)
        for n, amount in enumerate(tokens, 1)
    )
    return Plan(task_id="t", plan=tuple(steps))


def test_a_plan_is_told_with_how_far_off_it_may_be() -> None:
    found = plan_estimate(plan(10_000, 40_000), Settings(), integration=True)
    assert found is not None
    assert found.told() == (
        "Expected: 4 agents (4 to 8), 63 000 output tokens (38 000 to 128 000), 1.32 USD (0.59 to 4.10)"
    )


def test_commands_cost_nothing_and_unknown_prices_are_said() -> None:
    assert plan_estimate(plan(10_000, run="codemod"), Settings(), integration=True) is None
    unknown = Settings(models=RoleModels(executor="somebody-elses"))
    found = plan_estimate(plan(None, items=10), unknown, integration=False)
    assert found is not None
    assert (found.likely.output_tokens, found.likely.cost_usd) == (14_400, None)
    assert "a model has no price" in found.told()


@given(st.lists(st.integers(0, 200_000), min_size=1, max_size=20), st.booleans())
def test_low_is_never_above_likely_nor_likely_above_high(tokens: list[int], integration: bool) -> None:
    found = plan_estimate(plan(*tokens), Settings(), integration=integration)
    assert found is not None
    for name in ("agents", "output_tokens", "cost_usd"):
        low, likely, high = (getattr(case, name) for case in (found.low, found.likely, found.high))
        assert 0 <= low <= likely <= high

"""What work is likely to cost."""

from decimal import Decimal

from baton.estimates import limit_question
from baton.ledger import ItemCounts
from baton.pricing import Usage

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

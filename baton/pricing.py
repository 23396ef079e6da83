"""What model calls cost: usage of every kind of token, and prices as data.

Prices are USD per million tokens, as published by Anthropic in November 2026; `prices` in the settings replaces
or adds models. Money is `Decimal`.
"""

from collections.abc import Mapping
from decimal import Decimal

from pydantic import Field

from baton.models import Stored

MILLION = Decimal(1_000_000)


class Usage(Stored):
    """Tokens of one or many model calls. Total input is the sum of all four input kinds."""

    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    output_tokens: int = 0
    model_calls: int = 0
    cost_usd: Decimal = Decimal(0)
    unpriced_calls: int = 0

    @property
    def total_input_tokens(self) -> int:
        """Everything that was sent, cached or not."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_5m_tokens + self.cache_write_1h_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in Usage.model_fields})


class Price(Stored):
    """USD per million tokens of one model, for prompts up to `up_to_prompt_tokens`."""

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = Field(default=None, alias="cacheRead")
    cache_write: Decimal | None = Field(default=None, alias="cacheWrite")
    cache_write_1h: Decimal | None = Field(default=None, alias="cacheWrite1h")
    up_to_prompt_tokens: int | None = None


def _price(
    into: str,
    out: str,
    read: str | None = None,
    write: str | None = None,
    hour: str | None = None,
    up_to: int | None = None,
) -> Price:
    def money(text: str | None) -> Decimal | None:
        return None if text is None else Decimal(text)

    return Price(
        input=Decimal(into),
        output=Decimal(out),
        cacheRead=money(read),
        cacheWrite=money(write),
        cacheWrite1h=money(hour),
        up_to_prompt_tokens=up_to,
    )


PRICES: Mapping[str, tuple[Price, ...]] = {
    "claude-fable-5-2": (_price("8", "40"),),
    "claude-opus-5-5": (_price("4", "20", "0.20", "5", "8"),),
    "claude-opus-5": (_price("5", "25", "0.50", "6.25", "10"),),
    "claude-sonnet-5-5": (_price("2", "10", "0.20", "2.50", "4"),),
    "claude-sonnet-5": (_price("2", "10", "0.20", "2.50", "4"),),
    "claude-haiku-5-5": (
        _price("0.10", "0.50", None, "0.125", "0.20", up_to=100_000),
        _price("0.50", "2.50", None, "0.125", "0.20"),
    ),
    "claude-haiku-4-5": (_price("1", "5", "0.10", "1.25", "2"),),
}
"""Per model one price, or several by size of the prompt, smallest first. Where the source names no cache price,
a read counts as a tenth of the input price and a write as 1.25 times it (2 times for an hour)."""


def cost_usd(model: str, usage: Usage, prices: Mapping[str, Price] | None = None) -> Decimal | None:
    """What one call with this usage costs; None when the model has no price."""
    own = (prices or {}).get(model)
    tiers = (own,) if own is not None else PRICES.get(model)
    if tiers is None:
        return None
    price = next(
        tier
        for tier in tiers
        if tier.up_to_prompt_tokens is None or usage.total_input_tokens <= tier.up_to_prompt_tokens
    )
    read = price.cache_read if price.cache_read is not None else price.input / 10
    write = price.cache_write if price.cache_write is not None else price.input * Decimal("1.25")
    hour = price.cache_write_1h if price.cache_write_1h is not None else price.input * 2
    return (
        usage.input_tokens * price.input
        + usage.cache_read_tokens * read
        + usage.cache_write_5m_tokens * write
        + usage.cache_write_1h_tokens * hour
        + usage.output_tokens * price.output
    ) / MILLION


def priced(model: str, usage: Usage, prices: Mapping[str, Price] | None = None) -> Usage:
    """The usage of one call with its cost, counted as unpriced where there is no price."""
    cost = cost_usd(model, usage, prices)
    return usage.model_copy(update={"cost_usd": cost or Decimal(0), "unpriced_calls": 0 if cost is not None else 1})

"""What work is likely to cost: a plan before it runs, and what is left of a running task from what it cost so far.

A plan's estimate is a rule of thumb: the planner's output tokens (or so many for an item), and for each of them so many
input tokens, most of them read from the cache. How far off it may be is what low and high say.
"""

import math
from decimal import Decimal
from typing import NamedTuple

from baton.ledger import ItemCounts
from baton.models import Stored
from baton.plan import Plan
from baton.pricing import Usage, cost_usd
from baton.schedule import FILL, units, weight
from baton.settings import Settings
from baton.wording import counted, number

INTEGRATOR_TOKENS = 3_000
TOKENS_PER_CALL = 400
"""Output of an ordinary turn: a few edits, or a look around."""


class _Case(NamedTuple):
    """How one case differs: times the planner's tokens, cache reads and writes for each output token."""

    tokens: Decimal
    reads: int
    writes: int


_CASES = {
    "low": _Case(Decimal("0.7"), 15, 1),
    "likely": _Case(Decimal("1.2"), 30, 2),
    "high": _Case(Decimal("2.5"), 60, 4),
}


class Case(Stored):
    """One case of an estimate. `cost_usd`: None where a model has no price."""

    agents: int
    output_tokens: int
    cost_usd: Decimal | None


class Estimate(Stored):
    """What a plan will likely need, planning left out."""

    low: Case
    likely: Case
    high: Case

    def told(self) -> str:
        """In a sentence."""
        low, likely, high = self.low, self.likely, self.high
        text = (
            f"Expected: {likely.agents} agents ({low.agents} to {high.agents}), {number(likely.output_tokens)} output "
            f"tokens ({number(low.output_tokens)} to {number(high.output_tokens)})"
        )
        if low.cost_usd is None or likely.cost_usd is None or high.cost_usd is None:
            return f"{text}; the cost cannot be told: a model has no price"
        return f"{text}, {likely.cost_usd:.2f} USD ({low.cost_usd:.2f} to {high.cost_usd:.2f})"


def plan_estimate(plan: Plan, settings: Settings, *, integration: bool) -> Estimate | None:
    """The estimate of a plan; None where no step needs a model."""
    chains = [weight(step, unit) for step in plan.plan if step.run is None for unit in units(step, settings.budget)]
    if not chains:
        return None
    return Estimate(**{name: _case(chains, settings, one, integration) for name, one in _CASES.items()})


def _case(chains: list[int], settings: Settings, case: _Case, integration: bool) -> Case:
    per_agent = settings.budget.line_tokens * FILL
    tokens = [int(tokens * case.tokens) for tokens in chains]
    agents = sum(max(1, math.ceil(amount / per_agent)) for amount in tokens)
    costs = [_cost(sum(tokens), settings.models.of("executor"), settings, case)]
    if integration:
        costs.append(_cost(INTEGRATOR_TOKENS, settings.models.of("integrator"), settings, case))
    cost = None if None in costs else sum((one for one in costs if one is not None), Decimal(0))
    extra = INTEGRATOR_TOKENS if integration else 0
    return Case(agents=agents + integration, output_tokens=sum(tokens) + extra, cost_usd=cost)


def _cost(tokens: int, model: str, settings: Settings, case: _Case) -> Decimal | None:
    """Priced call by call, because a price may depend on the size of the prompt."""
    call = Usage(
        output_tokens=TOKENS_PER_CALL,
        cache_read_tokens=TOKENS_PER_CALL * case.reads,
        cache_write_5m_tokens=TOKENS_PER_CALL * case.writes,
    )
    each = cost_usd(model, call, settings.prices)
    return None if each is None else each * tokens / TOKENS_PER_CALL


def limit_question(reached: str, used: Usage, items: ItemCounts) -> str:
    """What a person needs to decide at a limit: what is done, what is left, what that would likely cost."""
    spent = f"{number(used.output_tokens)} output tokens and {used.cost_usd:.2f} USD were used"
    if not items.total:
        return f"{_sentence(reached)}: {spent}."
    left = items.total - items.done
    done = f"{items.done} of {counted(items.total, 'item')} {'is' if items.done == 1 else 'are'} done"
    if not left:
        return f"{_sentence(reached)}: {spent}. {done}; what is left are checks and the integration."
    return f"{_sentence(reached)}: {spent}. {done}, {left} left{_likely(used, items.done, left)}."


def _likely(used: Usage, done: int, left: int) -> str:
    """What the rest costs if each item costs what an item cost so far."""
    if not done:
        return "; what they would cost cannot be told before one is done"
    cost, tokens = used.cost_usd * left / Decimal(done), used.output_tokens * left // done
    each = used.cost_usd / Decimal(done)
    return f": likely {cost:.2f} USD and {number(tokens)} output tokens more ({each:.3f} USD for each so far)"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]

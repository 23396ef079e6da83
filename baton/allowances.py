"""What a task may still use: limits, what is settled, what running chains hold, and how many agents were started.

The sum of what is settled and what is held never exceeds the cap, so parallel chains cannot spend the same money
twice. Zero is zero, and no limit is None.
"""

from dataclasses import dataclass, field
from decimal import ROUND_DOWN, Decimal

from baton.agent import exceeded, remaining
from baton.messages import TurnLimits
from baton.pricing import Usage
from baton.wording import counted, number

SMALLEST_USD = Decimal("0.000001")
"""Parts are rounded down to it, so that no rounding adds up beyond the cap."""

SMALLEST_SHARE = Decimal("0.02")
"""Of the cap, at least so much goes out at once; so a chain asks at most some fifty times."""

NEAR = Decimal("0.8")
"""Of a limit; from here on a person is told."""


@dataclass
class Allowances:
    """The books of one task."""

    cap: TurnLimits = field(default_factory=TurnLimits)
    most_agents: int = 0
    kept_for_integrator: int = 1
    settled: Usage = field(default_factory=Usage)
    agents: int = 0
    _held: dict[str, TurnLimits] = field(default_factory=dict)

    def agents_left(self, *, for_integrator: bool = False) -> int:
        """How many executors, resolvers and integrators may still start."""
        return self.most_agents - self.agents - (0 if for_integrator else self.kept_for_integrator)

    def count_agent(self, *, for_integrator: bool = False) -> bool:
        """Count one more agent, if one is allowed."""
        if self.agents_left(for_integrator=for_integrator) < 1:
            return False
        self.agents += 1
        return True

    def return_agent(self) -> None:
        """An agent that was counted never started."""
        self.agents -= 1

    def hold(self, name: str, share: Decimal = Decimal(1), useful_tokens: int = 0) -> TurnLimits:
        """Give a chain its part: a share (0 to 1) of what is neither settled nor held.

        `useful_tokens`: so many output tokens at least, while there are some, because a smaller part only cuts work
        into pieces.
        """
        part = self._part(share, useful_tokens)
        self._held[name] = part
        return part

    def extend(self, name: str, used: Usage, share: Decimal = Decimal(1), useful_tokens: int = 0) -> TurnLimits | None:
        """What a chain may use in all since it began, after it used up its part; None when nothing is left.

        `used`: by the whole chain.
        """
        before = self._held.get(name)
        self._held[name] = _as_limits(used, self.cap)
        if exceeded(self.left(), Usage()) is not None:
            if before is not None:
                self._held[name] = before
            return None
        self._held[name] = _sum(self._held[name], self._part(share, useful_tokens))
        return self._held[name]

    def share_out(self, used: dict[str, Usage]) -> dict[str, TurnLimits]:
        """After the cap was changed: what each running chain may use in all. `used`: by chain, as far as known."""
        self._held = {name: _as_limits(used.get(name, Usage()), self.cap) for name in self._held}
        for count, name in enumerate(self._held):
            part = self._part(Decimal(1) / (len(self._held) - count), 0)
            self._held[name] = _sum(self._held[name], part)
        return dict(self._held)

    def _part(self, share: Decimal, useful_tokens: int) -> TurnLimits:
        """A share of what is left; never so small that asking again and again would cost more than it saves."""
        left, cap = self.left(), self.cap
        cost = tokens = calls = None
        if left.cost_usd is not None and cap.cost_usd is not None:
            cost = min(left.cost_usd, max(left.cost_usd * share, cap.cost_usd * SMALLEST_SHARE))
            cost = cost.quantize(SMALLEST_USD, ROUND_DOWN) or left.cost_usd
        if left.output_tokens is not None:
            tokens = min(left.output_tokens, max(int(left.output_tokens * share), useful_tokens, 1))
        if left.model_calls is not None and cap.model_calls is not None:
            calls = min(left.model_calls, max(int(left.model_calls * share), int(cap.model_calls * SMALLEST_SHARE), 1))
        return TurnLimits(cost_usd=cost, output_tokens=tokens, model_calls=calls)

    def settle(self, name: str, usage: Usage) -> None:
        """A chain ended: what it used counts, the rest of what it held is free again."""
        self._held.pop(name, None)
        self.settled += usage

    @property
    def running(self) -> int:
        """How many chains hold something now."""
        return len(self._held)

    def left(self) -> TurnLimits:
        """What is neither settled nor held."""
        left = remaining(self.cap, self.settled)
        for held in self._held.values():
            used = Usage(
                cost_usd=held.cost_usd or Decimal(0),
                output_tokens=held.output_tokens or 0,
                model_calls=held.model_calls or 0,
            )
            left = remaining(left, used)
        return left

    def reached(self) -> str | None:
        """Which limit leaves nothing for another chain, in a sentence. A running chain may still return something."""
        left, cap = self.left(), self.cap
        if left.model_calls is not None and left.model_calls <= 0:
            return f"the limit of {counted(cap.model_calls or 0, 'model call')} is reached"
        if left.output_tokens is not None and left.output_tokens <= 0:
            return f"the limit of {counted(cap.output_tokens or 0, 'output token')} is reached"
        if left.cost_usd is not None and left.cost_usd <= 0:
            return f"the cost limit of {cap.cost_usd or 0:.2f} USD is reached"
        return None

    def near(self, used: Usage) -> tuple[str, ...]:
        """Limits of which most is used, each in a sentence. `used`: by ended and running chains."""
        told = []
        cap = self.cap
        if cap.cost_usd and used.cost_usd >= cap.cost_usd * NEAR:
            told.append(f"{used.cost_usd / cap.cost_usd:.0%} of the cost limit of {cap.cost_usd:.2f} USD is used")
        if cap.output_tokens and used.output_tokens >= cap.output_tokens * NEAR:
            told.append(_share_told(used.output_tokens, cap.output_tokens, "output tokens"))
        if cap.model_calls and used.model_calls >= cap.model_calls * NEAR:
            told.append(_share_told(used.model_calls, cap.model_calls, "model calls"))
        if self.most_agents and self.agents >= self.most_agents * NEAR and self.agents < self.most_agents:
            told.append(_share_told(self.agents, self.most_agents, "agents"))
        return tuple(told)


def _share_told(used: int, cap: int, what: str) -> str:
    return f"{used / cap:.0%} of the limit of {number(cap)} {what} is used"


def _as_limits(used: Usage, cap: TurnLimits) -> TurnLimits:
    """Usage as an amount held, in what the cap limits."""
    return TurnLimits(
        cost_usd=None if cap.cost_usd is None else used.cost_usd,
        output_tokens=None if cap.output_tokens is None else used.output_tokens,
        model_calls=None if cap.model_calls is None else used.model_calls,
    )


def _sum(one: TurnLimits, other: TurnLimits) -> TurnLimits:
    return TurnLimits(
        cost_usd=None if one.cost_usd is None else one.cost_usd + (other.cost_usd or 0),
        output_tokens=None if one.output_tokens is None else one.output_tokens + (other.output_tokens or 0),
        model_calls=None if one.model_calls is None else one.model_calls + (other.model_calls or 0),
    )

"""What a task may still use: limits, what is settled, what running chains hold, and how many agents were started.

The sum of what is settled and what is held never exceeds the cap, so parallel chains cannot spend the same money
twice. Zero is zero, and no limit is None.
"""

from dataclasses import dataclass, field
from decimal import ROUND_DOWN, Decimal

from baton.agent import exceeded, remaining
from baton.messages import TurnLimits
from baton.pricing import Usage

SMALLEST_USD = Decimal("0.000001")
"""Parts are rounded down to it, so that no rounding adds up beyond the cap."""


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

    def hold(self, name: str, chains: int = 1) -> TurnLimits:
        """Give a chain its part: what is neither settled nor held, divided by the chains that may still join."""
        left = self.left()
        part = TurnLimits(
            cost_usd=None if left.cost_usd is None else (left.cost_usd / chains).quantize(SMALLEST_USD, ROUND_DOWN),
            output_tokens=None if left.output_tokens is None else left.output_tokens // chains,
            model_calls=None if left.model_calls is None else -(-left.model_calls // chains),
        )
        self._held[name] = part
        return part

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
        """Which limit leaves nothing for another chain, in a sentence."""
        return exceeded(self.left(), Usage())

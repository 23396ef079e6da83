"""The output budget of one agent: how many tokens the next request may ask for, and when to hand off.

Before the line a request can never run past it, so normal work leaves the reserve for the manifest untouched.
"""

from enum import StrEnum

from pydantic import Field

from baton.models import Stored

SMALLEST_BUDGET_TOKENS = 4_000
SMALLEST_RESERVE_TOKENS = 1_500
RESERVE_SHARE = 0.05
SMALLEST_REQUEST_TOKENS = 512
"""With less left there is no useful answer."""


class Phase(StrEnum):
    """Where an agent stands in its budget."""

    WORKING = "working"
    PREPARING = "preparing"
    HANDING_OFF = "handing_off"
    SPENT = "spent"


class Budget(Stored):
    """`tokens` an agent may produce, and the shares of it at which it prepares and hands off."""

    tokens: int = Field(default=32_000, ge=SMALLEST_BUDGET_TOKENS)
    prepare_share: float = Field(default=0.8, gt=0, lt=1)
    hand_off_share: float = Field(default=0.95, gt=0, lt=1)

    @property
    def reserve_tokens(self) -> int:
        """Kept for the manifest."""
        return max(int(self.tokens * RESERVE_SHARE), SMALLEST_RESERVE_TOKENS)

    @property
    def line_tokens(self) -> int:
        """Normal work ends here."""
        return min(int(self.tokens * self.hand_off_share), self.tokens - self.reserve_tokens)

    @property
    def prepare_tokens(self) -> int:
        """The notice to prepare goes out here: in proportion to the line, and one useful answer before its end."""
        in_proportion = int(self.line_tokens * min(1.0, self.prepare_share / self.hand_off_share))
        return min(in_proportion, self.line_tokens - 2 * SMALLEST_REQUEST_TOKENS)

    def phase(self, used_tokens: int, cut: bool = False) -> Phase:
        """Where an agent that used so much stands; `cut` when its last response ended at max_tokens."""
        if self.tokens - used_tokens < SMALLEST_REQUEST_TOKENS:
            return Phase.SPENT
        if cut or self.line_tokens - used_tokens < SMALLEST_REQUEST_TOKENS:
            return Phase.HANDING_OFF
        return Phase.PREPARING if used_tokens >= self.prepare_tokens else Phase.WORKING

    def max_tokens(self, used_tokens: int, phase: Phase) -> int:
        """What the next request may ask for: up to the line, or the reserve too when handing off."""
        return (self.tokens if phase is Phase.HANDING_OFF else self.line_tokens) - used_tokens

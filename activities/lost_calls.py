"""What model calls cost whose response never arrived whole: counted by estimate, once for each attempt of a turn.

A call that broke tells its own input and so much of its output as arrived; of one whose process was killed the last
heartbeat is left.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from activities.pulse import MODEL
from activities.store import Store
from baton.conversation import Turn
from baton.pricing import Price, Usage, priced


@dataclass(frozen=True)
class LostCalls:
    """The lost calls of one turn, or of one short call. `attempt`: the one that runs now. `before`: of earlier
    activities of this turn. `doing`: what the heartbeat says while the model answers."""

    store: Store
    key: str
    attempt: int
    before: Usage = field(default_factory=Usage)
    doing: str = MODEL

    def broke(self, spent: Usage | None) -> None:
        """This attempt's call broke; None where no answer had begun, which costs nothing."""
        if spent is not None:
            self._enter(self.attempt, spent)

    def was_killed(
        self, heartbeat: Sequence[Any], before: Turn | None, model: str, prices: Mapping[str, Price] | None
    ) -> Usage | None:
        """Count the attempt before this one, if it ended in the middle of a response; returns what is counted now.

        `before`: the turn before, whose input and output this call sent again.
        """
        told = heartbeat[0] if heartbeat and isinstance(heartbeat[0], dict) else {}
        tokens = told.get("tokens")
        if self.attempt < 2 or told.get("doing") != self.doing or not isinstance(tokens, int) or tokens < 1:
            return None
        last = before.response.usage if before is not None else Usage()
        spent = Usage(
            output_tokens=tokens, cache_read_tokens=last.total_input_tokens + last.output_tokens, model_calls=1
        )
        if self._known(self.attempt - 1) is not None:
            return None
        spent = priced(model, spent, prices)
        self._enter(self.attempt - 1, spent)
        return spent

    def total(self) -> Usage:
        """All of them so far."""
        return self.before + self._through(self.attempt - 1)

    def with_own(self) -> Usage:
        """All of them, this attempt's included."""
        return self.before + self._through(self.attempt)

    def _through(self, last: int) -> Usage:
        known = (self._known(attempt) for attempt in range(1, last + 1))
        return sum((usage for usage in known if usage is not None), Usage())

    def _known(self, attempt: int) -> Usage | None:
        found = self.store.entry(self._name(attempt))
        return None if found is None else Usage.model_validate_json(found)

    def _enter(self, attempt: int, spent: Usage) -> None:
        self.store.enter(self._name(attempt), spent.model_dump_json().encode())

    def _name(self, attempt: int) -> str:
        return f"{self.key}/lost-{attempt}"

"""What model calls cost whose response never arrived whole: counted by estimate, once for each attempt of a turn.

A call that broke or was cancelled tells its own input and so much of its output as arrived; of one whose process was
killed the last heartbeat is left.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from activities.pulse import MODEL
from activities.store import Store
from baton.conversation import Turn
from baton.pricing import Price, Usage, priced


@dataclass(frozen=True)
class LostCalls:
    """The lost calls of one turn, or of one short call. `attempt`: the one that runs now. `before`: of earlier
    activities of this turn. `doing`: what the heartbeat says while the model answers. `turn`: the key of the turn,
    under which they are listed too, however often it was asked for; empty for a short call."""

    store: Store
    key: str
    attempt: int
    before: Usage = field(default_factory=Usage)
    doing: str = MODEL
    turn: str = ""

    def broke(self, spent: Usage | None) -> None:
        """This attempt's call broke, or was cancelled; None where no answer had begun, which costs nothing."""
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
        name = self._name(attempt)
        self.store.enter(name, spent.model_dump_json().encode())
        if self.turn:
            _list(self.store, self.turn, name)

    def _name(self, attempt: int) -> str:
        return f"{self.key}/lost-{attempt}"


def lost_in_turn(store: Store, turn: str) -> Usage:
    """What all lost calls of the turn with this key cost, of every attempt of every time it was asked for."""
    found = (store.entry(name) for name in _listed(store, turn))
    return sum((Usage.model_validate_json(usage) for usage in found if usage is not None), Usage())


def _list(store: Store, turn: str, name: str) -> None:
    known = list(_listed(store, turn))
    if name not in known:
        store.enter(_place(turn, len(known)), name.encode())


def _listed(store: Store, turn: str) -> Iterator[str]:
    number = 0
    while (name := store.entry(_place(turn, number))) is not None:
        yield name.decode()
        number += 1


def _place(turn: str, number: int) -> str:
    return f"{turn}/lost/{number}"

"""How long calls wait because the provider had too much to do.

Within one attempt the gate waits; between attempts Temporal does. The journal keeps when each wait began and, once that
is told, when it ended: a wait whose attempt died is told by the next one that comes to its call, and by all the same.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from activities.errors import ModelFault
from activities.pulse import Pulse
from activities.store import Store
from activities.trace import TurnTrace
from baton.messages import Waited

REFUSED, HELD, BROKE = "refused", "held", "broke"
"""What the journal keeps of an attempt: the provider refused its call, the gate held it back, it failed otherwise."""


@dataclass
class OverloadWaits:
    """The waits of one call. `key` names it in the journal; `attempt`: the one that runs now, which was due at `due`;
    `beat` tells of it."""

    store: Store
    key: str
    attempt: int
    due: datetime
    beat: Pulse
    trace: TurnTrace
    _held: bool = field(default=False, init=False)

    def begun(self) -> None:
        """This attempt asks now: what the earlier ones waited for, and were not able to tell, is over."""
        for number in range(self.attempt - 1, 0, -1):
            came_to_an_end = self._entry(REFUSED, number) or self._entry(BROKE, number)
            if came_to_an_end is None:
                self._tell(HELD, number, self.due)
                continue
            # It told all that was before it.
            self._tell(REFUSED, number, self.due)
            return

    def waiting(self, waits: bool) -> None:
        """The gate makes the call wait, or not any longer."""
        self.beat.report_waiting(waits)
        if waits:
            self._held = True
            self._enter(HELD, self.attempt)
        elif self._held:
            self._held = False
            self._tell(HELD, self.attempt, datetime.now(UTC))
            # The model's own time begins when it is asked.
            self.trace.begin()

    def failed(self, fault: ModelFault) -> None:
        """The call brought nothing."""
        if self._held:
            self.waiting(False)
        self._enter(REFUSED if fault.is_overload else BROKE, self.attempt)

    def _tell(self, kind: str, attempt: int, until: datetime) -> None:
        if (begun := self._entry(kind, attempt)) is None:
            return
        since, now = datetime.fromisoformat(begun.decode()), datetime.now(UTC)
        # Clocks of hosts differ.
        ended = min(until, now) if until > since else now
        told = self.store.enter(f"{self._name(kind, attempt)}/until", ended.isoformat().encode())
        self.trace.waited(Waited(reason="quota", since=since, until=datetime.fromisoformat(told.decode())))

    def _entry(self, kind: str, attempt: int) -> bytes | None:
        return self.store.entry(self._name(kind, attempt))

    def _enter(self, kind: str, attempt: int) -> None:
        self.store.enter(self._name(kind, attempt), datetime.now(UTC).isoformat().encode())

    def _name(self, kind: str, attempt: int) -> str:
        return f"{self.key}/{kind}-{attempt}"

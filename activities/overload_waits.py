"""How long calls wait because the provider had too much to do.

Within one attempt the gate waits; between attempts Temporal does, and the next attempt finds in the journal when the
one before it was refused.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from activities.errors import ModelFault
from activities.pulse import Pulse
from activities.store import Store
from activities.trace import TurnTrace
from baton.messages import Waited


@dataclass
class OverloadWaits:
    """The waits of one call. `key` names it in the journal; `attempt`: the one that runs now; `beat` tells of it."""

    store: Store
    key: str
    attempt: int
    beat: Pulse
    trace: TurnTrace
    _since: datetime | None = field(default=None, init=False)

    def begun(self) -> None:
        """This attempt asks now."""
        if self.attempt > 1 and (refused := self.store.entry(self._name(self.attempt - 1))) is not None:
            self._tell(datetime.fromisoformat(refused.decode()))

    def waiting(self, waits: bool) -> None:
        """The gate makes the call wait, or not any longer."""
        self.beat.report_waiting(waits)
        if waits:
            self._since = datetime.now(UTC)
        elif self._since is not None:
            self._tell(self._since)
            self._since = None
            # The model's own time begins when it is asked.
            self.trace.begin()

    def failed(self, fault: ModelFault) -> None:
        """The call brought nothing."""
        if self._since is not None:
            self.waiting(False)
        if fault.is_overload:
            self.store.enter(self._name(self.attempt), datetime.now(UTC).isoformat().encode())

    def _tell(self, since: datetime) -> None:
        self.trace.waited(Waited(reason="quota", since=since, until=datetime.now(UTC)))

    def _name(self, attempt: int) -> str:
        return f"{self.key}/refused-{attempt}"

"""What becomes of an agent whose model falls silent: it waits, a fresh one goes on with a re-brief, or it is reported.

Silence is told by what did not come (`activities/model.py` cuts such a stream), never by how long the work takes. A
command that says nothing is no stall: it has a time limit of its own, at which its whole process group is ended.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from baton.breakers import Trip, TripKind
from baton.plan import PlanStep
from baton.pricing import Usage

WAITS = 2
"""So often in a row the same request is sent again; a silent model is often only a silent connection."""
CRITERIA_CHARACTERS = 300


class Decision(StrEnum):
    """What to do about a silence."""

    WAIT = "wait"
    REBRIEF = "rebrief"
    REPORT = "report"


@dataclass(frozen=True)
class Unanswered:
    """How often one turn ended without an answer, and `silent` times in a row by silence; what broken calls cost."""

    times: int = 0
    silent: int = 0
    lost: Usage = field(default_factory=Usage)

    def waited(self, lost: Usage) -> "Unanswered":
        """It had to wait for the provider."""
        return Unanswered(times=self.times + 1, lost=lost)

    def stalled(self, lost: Usage) -> "Unanswered":
        """The model fell silent."""
        return Unanswered(times=self.times + 1, silent=self.silent + 1, lost=lost)


def decide(in_a_row: int, trips_before: int) -> Decision:
    """`in_a_row`: silences without an answer in between. `trips_before`: agents of the chain replaced by a breaker."""
    if in_a_row <= WAITS:
        return Decision.WAIT
    return Decision.REPORT if trips_before else Decision.REBRIEF


def stall_trip(in_a_row: int, turn: int, doing: str, step: PlanStep | None) -> Trip:
    """Why a fresh agent goes on, or the chain ends: what was seen, and what the work is and should come to."""
    after = f" after {doing}" if doing else ""
    return Trip(
        kind=TripKind.TIMEOUT,
        evidence=f"the model fell silent {in_a_row} times in a row in turn {turn}{after}",
        recommendation=f"go on in smaller pieces, with shorter answers{_work(step)}",
    )


def _work(step: PlanStep | None) -> str:
    if step is None:
        return ""
    expected = "; ".join(step.success_criteria)
    if len(expected) > CRITERIA_CHARACTERS:
        expected = f"{expected[:CRITERIA_CHARACTERS]}…"
    work = f"; the work is step {step.step} (tasks/{step.step}.yaml)"
    return f"{work}, expected is: {expected}" if expected else work

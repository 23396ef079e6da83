"""A finding of a diagnosis."""

from baton.models import Stored
from baton.severity import Severity

EVIDENCE_SHOWN = 8


class Diagnosis(Stored):
    """What was found. `evidence`: a line per fact that shows it; `remedy`: what to do next time, or now."""

    id: str
    severity: Severity
    finding: str
    evidence: tuple[str, ...]
    remedy: str


def found(id_: str, severity: Severity, finding: str, evidence: list[str], remedy: str) -> Diagnosis:
    """A finding with as much evidence as can be read."""
    more = len(evidence) - EVIDENCE_SHOWN
    shown = [*evidence[:EVIDENCE_SHOWN], *([f"and {more} more"] if more > 0 else [])]
    return Diagnosis(id=id_, severity=severity, finding=finding, evidence=tuple(shown), remedy=remedy)

"""What went wrong in a run, or cost more than it should have: facts in, findings out, each with evidence and remedy."""

from baton.diagnosis.clashes import clashes
from baton.diagnosis.costs import costs
from baton.diagnosis.finding import Diagnosis
from baton.diagnosis.gates import gates
from baton.diagnosis.lost_context import lost_context
from baton.diagnosis.lost_work import lost_work
from baton.diagnosis.repeats import repeats
from baton.diagnosis.stragglers import stragglers
from baton.run_facts import RunFacts
from baton.severity import SEVERITIES

__all__ = ["Diagnosis", "diagnose"]

_LOOKS = (costs, lost_work, repeats, lost_context, clashes, stragglers, gates)


def diagnose(facts: RunFacts) -> tuple[Diagnosis, ...]:
    """All findings, the gravest first."""
    found = [finding for look in _LOOKS for finding in look(facts)]
    return tuple(sorted(found, key=lambda finding: -SEVERITIES.index(finding.severity)))

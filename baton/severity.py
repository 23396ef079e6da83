"""How much a finding matters, wherever something is judged."""

from enum import StrEnum


class Severity(StrEnum):
    """How much a finding matters."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


SEVERITIES = tuple(Severity)
"""From the least to the gravest."""


def at_least(severity: Severity, line: Severity) -> bool:
    """Whether a severity is as grave as `line`."""
    return SEVERITIES.index(severity) >= SEVERITIES.index(line)

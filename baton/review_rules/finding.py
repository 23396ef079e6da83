"""What a rule is and what it finds. The table of the rules stands here, for every language the same."""

from baton.models import Stored
from baton.severity import Severity


class UnreadableSource(ValueError):  # noqa: N818 - not a fault of the program
    """The text is not what its name says; the message says where."""


class Rule(Stored):
    """One rule: what it finds and how that is repaired."""

    id: str
    severity: Severity
    message: str
    fix: str


class Finding(Stored):
    """One place that breaks a rule. Lines and columns count from 1."""

    rule: str
    severity: Severity
    file: str
    line: int
    column: int
    message: str
    fix: str


def finding(rule: str, file: str, line: int, column: int) -> Finding:
    """A finding of the rule with this id."""
    named = RULES[rule]
    return Finding(
        rule=rule,
        severity=named.severity,
        file=file,
        line=line,
        column=column,
        message=named.message,
        fix=named.fix,
    )


def _rules(*rows: tuple[str, Severity, str, str]) -> dict[str, Rule]:
    return {row[0]: Rule(id=row[0], severity=row[1], message=row[2], fix=row[3]) for row in rows}


RULES = _rules(
    (
        "parallel-shared-state",
        Severity.HIGH,
        "parallel agents touch shared state",
        "give each agent a state channel of its own, or guard the state with a mutex",
    ),
    (
        "unbounded-recursion",
        Severity.CRITICAL,
        "an agent may call agents without a limit",
        "limit depth and calls, and add a circuit breaker",
    ),
    (
        "no-handoff-context",
        Severity.MEDIUM,
        "a handoff passes no explicit context",
        "pass the whole handoff context to the next agent",
    ),
    (
        "no-token-tracking",
        Severity.MEDIUM,
        "a flow of several agents does not count its tokens",
        "track tokens per agent and enforce budgets",
    ),
    (
        "no-orchestration-tracing",
        Severity.MEDIUM,
        "an orchestrator leaves no trace of what it does",
        "trace invocations, changes of state and handoffs",
    ),
    (
        "no-timeout-multi-agent",
        Severity.HIGH,
        "an agent is awaited without a time limit",
        "set an execution time-out",
    ),
    (
        "hardcoded-agent-selection",
        Severity.LOW,
        "an agent is chosen by comparing strings",
        "choose from a registry by capability",
    ),
    (
        "no-error-propagation",
        Severity.HIGH,
        "an error of the chain is swallowed",
        "propagate it with context, or fall back explicitly",
    ),
    (
        "missing-agent-id",
        Severity.LOW,
        "an agent class has no identifier",
        "give each agent a unique id",
    ),
    (
        "global-state-modification",
        Severity.HIGH,
        "an agent changes global state",
        "pass the state in instead",
    ),
)

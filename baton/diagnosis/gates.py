"""Gates that never ran, so that nobody knows whether the result works."""

from collections.abc import Iterator

from baton.diagnosis.finding import Diagnosis, found
from baton.findings import GateOutcome, VerdictStatus
from baton.run_facts import RunFacts
from baton.severity import Severity
from baton.wording import counted


def gates(facts: RunFacts) -> Iterator[Diagnosis]:
    """Gates that could not run, or that a result was never held against. Before the report nothing is missing yet."""
    if not facts.reported:
        return
    silent = [
        f"{verdict.name}: {verdict.detail or 'it could not run'}"
        for verdict in facts.verdicts
        if verdict.status is VerdictStatus.INCONCLUSIVE
    ]
    if silent:
        yield found(
            "gates-inconclusive",
            Severity.HIGH,
            "gates could not run on the result",
            silent,
            "make the command work in a fresh checkout: setup installs what it needs, copy brings files along",
        )
    if facts.verdicts:
        return
    merged = [line for line in facts.trace.of("merge") if line.outcome == "merged"]
    on_base = [f"{result.name}: {result.outcome} on the base commit" for result in facts.baseline]
    if merged and on_base:
        yield found(
            "gates-not-run",
            Severity.HIGH,
            "the gates ran on the base commit and never on the result",
            on_base,
            "run them on the result branch by hand; the report says why the task ended before them",
        )
    elif merged:
        yield found(
            "no-gates",
            Severity.MEDIUM,
            "the result was changed and no gate is known that could judge it",
            [f"{counted(len(merged), 'merge')}, 0 gates"],
            "name the project's checks under gates in the settings",
        )
    failing = [result.name for result in facts.baseline if result.outcome is GateOutcome.INCONCLUSIVE]
    if failing and merged:
        yield found(
            "baseline-inconclusive",
            Severity.LOW,
            "gates could not run on the base commit either",
            failing,
            "repair them first: without a baseline a failure of the result may be an old one",
        )

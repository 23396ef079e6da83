"""Time in which nobody worked because a worker was gone, and model calls that were paid and brought nothing."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal

from baton.diagnosis.finding import Diagnosis, found
from baton.durations import format_duration
from baton.gaps import Gap, gaps
from baton.run_facts import RunFacts
from baton.severity import Severity
from baton.timeline_rows import span
from baton.wording import counted

LEAST_TIME, MUCH_TIME = timedelta(seconds=5), timedelta(minutes=5)
LEAST_SHARE, MUCH = 0.01, 0.1
"""Shares of the run's time and cost; less money is not worth a finding."""
AGENTS_NAMED = 3
_MEANT = "cancelled"
"""How a call ends that somebody, or a limit, wanted to end."""


def lost_work(facts: RunFacts) -> Iterator[Diagnosis]:
    """Outages of a worker, and calls whose answer was lost."""
    yield from _outages(facts)
    yield from _paid(facts)


def _outages(facts: RunFacts) -> Iterator[Diagnosis]:
    outages = _together(_gaps(facts))
    lost = sum((_length(outage) for outage in outages), timedelta())
    if lost < LEAST_TIME:
        return
    begin, end = span(facts)
    run = end - begin
    evidence = [
        f"{_moment(outage[0].begin)} to {_moment(_end(outage))} UTC, {format_duration(_length(outage))}: {_who(outage)}"
        for outage in outages
    ]
    yield found(
        "worker-gone",
        Severity.MEDIUM if lost >= MUCH_TIME or lost / run >= MUCH else Severity.LOW,
        f"nothing was told {counted(len(outages), 'time')}, {format_duration(lost)} of {format_duration(run)}: a "
        "worker was gone, and what it had begun was done again",
        evidence,
        "see what ended the worker at these moments (orchestrate logs TASK_ID) and whether it stays up now "
        "(orchestrate doctor): memory, a shutdown, somebody's kill",
    )


def _gaps(facts: RunFacts) -> list[Gap]:
    """Those of all agents, without pauses after a call that failed: somebody was there to tell of that."""
    every = [gap for lines in facts.trace.by_agent().values() for gap in gaps(lines)]
    return sorted((gap for gap in every if not _after_failure(gap)), key=lambda gap: gap.begin)


def _after_failure(gap: Gap) -> bool:
    failed = gap.last.kind == "model" and not gap.last.response
    return failed and gap.last.turn == gap.again.turn and gap.again.attempt == gap.last.attempt + 1


def _together(every: list[Gap]) -> list[list[Gap]]:
    """Gaps that overlap are one outage, which several agents had."""
    outages: list[list[Gap]] = []
    for gap in every:
        if outages and gap.begin < _end(outages[-1]):
            outages[-1].append(gap)
        else:
            outages.append([gap])
    return outages


def _end(outage: list[Gap]) -> datetime:
    return max(gap.end for gap in outage)


def _length(outage: list[Gap]) -> timedelta:
    return _end(outage) - outage[0].begin


def _moment(moment: datetime) -> str:
    return f"{moment:%H:%M:%S}"


def _who(outage: list[Gap]) -> str:
    told = [f"{gap.again.agent} turn {gap.again.turn} (attempt {gap.again.attempt})" for gap in outage[:AGENTS_NAMED]]
    more = len(outage) - AGENTS_NAMED
    return ", ".join(told) + (f" and {more} more" if more > 0 else "")


def _paid(facts: RunFacts) -> Iterator[Diagnosis]:
    calls = facts.trace.of("model")
    lost = [line for line in calls if not line.response and line.cost_usd and line.outcome != _MEANT]
    cost = sum((line.cost_usd for line in calls), Decimal(0))
    wasted = sum((line.cost_usd for line in lost), Decimal(0))
    share = float(wasted / cost) if lost else 0.0
    if share < LEAST_SHARE:
        return
    evidence = [
        f"{line.agent} {line.name or f'turn {line.turn}'}: {line.outcome}, {line.cost_usd:.4f} USD, "
        f"{counted(line.output_tokens, 'output token')}"
        for line in sorted(lost, key=lambda line: -line.cost_usd)
    ]
    yield found(
        "lost-calls",
        Severity.MEDIUM if share >= MUCH else Severity.LOW,
        f"{counted(len(lost), 'model call')} paid and lost before the answer was whole: {wasted:.4f} of {cost:.4f} USD",
        evidence,
        "killed: let the worker finish what it does (orchestrate down and up wait for it); any other: the connection "
        "to the provider or a gateway broke it (orchestrate logs TASK_ID)",
    )

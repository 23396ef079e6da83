"""Stragglers: chains of agents that take far longer than their siblings, and calls that stand out."""

from collections.abc import Iterator
from datetime import timedelta
from statistics import median

from baton.diagnosis.finding import Diagnosis, found
from baton.durations import format_duration
from baton.run_facts import RunFacts
from baton.severity import Severity
from baton.trace import TraceLine

TIMES_LONGER = 2.0
CHAIN_SECONDS = 60.0
SIBLINGS = 3
CALL_TIMES_LONGER = 6.0
CALL_SECONDS = 60.0


def stragglers(facts: RunFacts) -> Iterator[Diagnosis]:
    """Chains and calls that all others waited for."""
    chains = [*_chains(facts)]
    if chains:
        yield found(
            "stragglers",
            Severity.MEDIUM,
            "a shard took far longer than the others of its step",
            chains,
            "cut the step by the size of its files, not by their number; look at what it did (orchestrate logs)",
        )
    slow = [*_calls(facts)]
    if slow:
        yield found(
            "slow-calls",
            Severity.LOW,
            "single calls took far longer than is usual in this run",
            slow,
            "for commands: run only what is needed; for the model: see the provider's status for that time",
        )


def _chains(facts: RunFacts) -> Iterator[str]:
    """A chain is an agent with its successors; siblings are the shards of one step."""
    lines: dict[str, list[TraceLine]] = {}
    steps: dict[str, int] = {}
    for line in facts.trace.lines:
        # What a chain waited for is not its own work.
        if line.agent and line.kind != "wait":
            chain = line.agent.partition("~")[0]
            lines.setdefault(chain, []).append(line)
            if line.step is not None:
                steps[chain] = line.step
    for step in sorted(set(steps.values())):
        seconds = {chain: _seconds(lines[chain]) for chain, own in steps.items() if own == step}
        usual = median(seconds.values())
        for chain, took in seconds.items():
            if len(seconds) >= SIBLINGS and took >= max(TIMES_LONGER * usual, CHAIN_SECONDS):
                yield f"{chain}: {_time(took)}, the middle of its {len(seconds)} siblings {_time(usual)}"


def _calls(facts: RunFacts) -> Iterator[str]:
    for kind in ("model", "tool"):
        calls = facts.trace.of(kind)
        usual = median(line.seconds for line in calls) if calls else 0.0
        for line in calls:
            if line.seconds >= max(CALL_TIMES_LONGER * usual, CALL_SECONDS):
                yield f"{line.agent} turn {line.turn}: {line.tool or line.model} took {_time(line.seconds)}"


def _seconds(lines: list[TraceLine]) -> float:
    return (max(line.at for line in lines) - min(line.began for line in lines)).total_seconds()


def _time(seconds: float) -> str:
    return format_duration(timedelta(seconds=seconds))

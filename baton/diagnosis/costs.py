"""What the run cost against one agent's doing it alone, and prompts that the provider's cache did not serve.

The single agent is an estimate: it reads its first prompt once, each further token of the executors' conversations
once, and writes what they wrote. Tokens served from the cache count for neither side.
"""

from collections.abc import Iterator
from itertools import pairwise

from baton.diagnosis.finding import Diagnosis, found
from baton.durations import format_duration
from baton.run_facts import RunFacts
from baton.severity import Severity
from baton.trace import TraceLine
from baton.wording import counted, number

EXPLOSION, GRAVE_EXPLOSION = 2.0, 4.0
FEWEST_TOKENS = 50_000
"""Below, a ratio says nothing that matters."""
CACHEABLE_TOKENS = 4_096
CACHE_SECONDS = 5 * 60
FEWEST_MISSES = 2


def costs(facts: RunFacts) -> Iterator[Diagnosis]:
    """Cost explosion and cache misses."""
    agents = _calls_by_agent(facts)
    yield from _explosion(agents)
    yield from _misses(agents)


def _calls_by_agent(facts: RunFacts) -> dict[str, list[TraceLine]]:
    agents: dict[str, list[TraceLine]] = {}
    for line in facts.trace.of("model"):
        # A call beside the turns is no part of the conversation.
        if line.response and not line.name:
            agents.setdefault(line.agent, []).append(line)
    return agents


def _explosion(agents: dict[str, list[TraceLine]]) -> Iterator[Diagnosis]:
    spent = {agent: sum(map(_fresh, calls)) for agent, calls in agents.items()}
    executors = [calls for calls in agents.values() if calls[0].role in ("executor", "")]
    if not executors or sum(spent.values()) < FEWEST_TOKENS:
        return
    alone = min(calls[0].input_tokens for calls in executors)
    alone += sum(max(calls[-1].input_tokens - calls[0].input_tokens, 0) for calls in executors)
    alone += sum(call.output_tokens for calls in executors for call in calls)
    ratio = sum(spent.values()) / max(alone, 1)
    if ratio < EXPLOSION:
        return
    dearest = sorted(spent, key=lambda agent: -spent[agent])
    evidence = [
        f"{number(sum(spent.values()))} tokens not from the cache; about {number(alone)} for one agent alone",
        *(f"{agent}: {number(spent[agent])} tokens in {counted(len(agents[agent]), 'call')}" for agent in dearest[:5]),
    ]
    yield found(
        "cost-explosion",
        Severity.HIGH if ratio >= GRAVE_EXPLOSION else Severity.MEDIUM,
        f"the run took {ratio:.1f} times the tokens of a single agent",
        evidence,
        "use fewer and larger shards, a larger outputBudget (fewer handoffs), or --mode single for work of this size",
    )


def _fresh(call: TraceLine) -> int:
    """Tokens that were paid in full."""
    return max(call.input_tokens - call.cache_read_tokens, 0) + call.output_tokens


def _misses(agents: dict[str, list[TraceLine]]) -> Iterator[Diagnosis]:
    causes: dict[tuple[str, str], list[str]] = {}
    lost = 0
    for agent, calls in agents.items():
        for before, call in pairwise(calls):
            if before.input_tokens >= CACHEABLE_TOKENS and call.cache_read_tokens < before.input_tokens / 2:
                told = f"{agent} turn {call.turn}: {number(call.cache_read_tokens)} of {number(before.input_tokens)}"
                causes.setdefault(_cause(before, call), []).append(f"{told} tokens were read from the cache")
                lost += before.input_tokens - call.cache_read_tokens
    for (cause, remedy), evidence in causes.items():
        if len(evidence) >= FEWEST_MISSES:
            severity = Severity.MEDIUM if lost >= FEWEST_TOKENS else Severity.LOW
            yield found("cache-misses", severity, f"the cache did not serve prompts: {cause}", evidence, remedy)


def _cause(before: TraceLine, call: TraceLine) -> tuple[str, str]:
    """The likely cause, and what helps against it."""
    pause = call.began - before.at
    if pause.total_seconds() > CACHE_SECONDS:
        long = format_duration(pause) if pause.days else "more than 5 minutes"
        return f"{long} passed between two calls", "shorten long commands and waits between turns; the cache forgets"
    if before.cache_write_tokens == 0 and before.cache_read_tokens == 0:
        return "nothing was put into it", "check that the model and the gateway in between support prompt caching"
    if before.model != call.model:
        return "the model changed in between", "name one exact model; each has a cache of its own"
    return "the beginning of the prompt changed", "check for a gateway that rewrites requests; Baton only appends"

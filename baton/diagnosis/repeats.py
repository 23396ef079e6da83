"""Loops: the same call or the same error again and again, with nothing done in between that could change its result."""

from collections import Counter
from collections.abc import Iterator, Sequence

from baton.diagnosis.finding import Diagnosis, found
from baton.run_facts import RunFacts
from baton.severity import Severity
from baton.trace import TraceLine

SAME_CALLS = 3
SAME_ERRORS = 3
_CHANGING = frozenset(("write", "append", "edit", "complete_item"))


def repeats(facts: RunFacts) -> Iterator[Diagnosis]:
    """Loops of calls and of errors."""
    agents: dict[str, list[TraceLine]] = {}
    for line in facts.trace.of("tool"):
        agents.setdefault(line.agent, []).append(line)
    calls = [told for agent, lines in agents.items() for told in _calls(agent, lines)]
    if calls:
        yield found(
            "loop-calls",
            Severity.HIGH,
            "the same call was made again and again, and nothing was changed in between",
            calls,
            "say in the task what the agent looks for and when it may stop; give it the answer with guidance",
        )
    errors = [told for agent, lines in agents.items() for told in _errors(agent, lines)]
    if errors:
        yield found(
            "loop-errors",
            Severity.HIGH,
            "the same error came back again and again",
            errors,
            "read the error in the agent's log (orchestrate logs) and remove its cause: a missing tool, a rule of "
            "permissions, a path outside the step",
        )


def _calls(agent: str, lines: Sequence[TraceLine]) -> Iterator[str]:
    """Calls with the same input between two changes."""
    since: Counter[tuple[str, str, str]] = Counter()
    most: dict[tuple[str, str, str], int] = {}
    for line in lines:
        if line.tool in _CHANGING and line.outcome == "ok":
            since.clear()
        elif line.input:
            key = (line.tool, line.path, line.input)
            since[key] += 1
            most[key] = max(most.get(key, 0), since[key])
    for (tool, path, _), times in most.items():
        if times >= SAME_CALLS:
            yield f"{agent}: {' '.join(filter(None, (tool, path)))} {times} times with the same input"


def _errors(agent: str, lines: Sequence[TraceLine]) -> Iterator[str]:
    same = Counter((line.tool, line.error) for line in lines if line.error)
    for (tool, error), times in same.items():
        if times >= SAME_ERRORS:
            turns = [line.turn for line in lines if (line.tool, line.error) == (tool, error)]
            yield f"{agent}: {tool} failed {times} times in the same way (turns {turns[0]} to {turns[-1]})"

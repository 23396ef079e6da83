"""Context that was lost on the way: questions that the manifest answers, and files that are read again and again."""

from collections.abc import Iterator

from baton.diagnosis.finding import Diagnosis, found
from baton.run_facts import RunFacts
from baton.severity import Severity
from baton.wording import counted

AGENTS_READING = 3
READS_BY_ONE = 4
_WRITING = frozenset(("write", "append", "edit"))


def lost_context(facts: RunFacts) -> Iterator[Diagnosis]:
    """Questions and readings that should not have been needed."""
    asked = [
        f"{line.agent} turn {line.turn} asked its predecessor what the manifest or the knowledge says"
        for line in facts.trace.of("tool")
        if line.tool == "ask_predecessor" and line.answered
    ]
    if asked:
        yield found(
            "lost-context-questions",
            Severity.LOW if len(asked) == 1 else Severity.MEDIUM,
            f"{counted(len(asked), 'question')} had been answered before it was asked",
            asked,
            "keep decisions short and worded as a successor looks for them; a stronger executor model reads them",
        )
    read = [*_by_successors(facts), *_by_one(facts)]
    if read:
        yield found(
            "lost-context-reading",
            Severity.MEDIUM,
            "files were read again and again",
            read,
            "let agents record what they learned of shared files (patterns, decisions), name it in the task, or give "
            "agents a larger outputBudget",
        )


def _by_successors(facts: RunFacts) -> Iterator[str]:
    """Files that agent after agent of one chain reads, though none of them writes it."""
    readers: dict[tuple[str, str], set[str]] = {}
    written = {(_chain(line.agent), line.path) for line in facts.trace.of("tool") if line.tool in _WRITING}
    for line in facts.trace.of("tool"):
        if line.tool == "read" and line.path and line.outcome == "ok":
            readers.setdefault((_chain(line.agent), line.path), set()).add(line.agent)
    for (chain, path), agents in readers.items():
        if len(agents) >= AGENTS_READING and (chain, path) not in written:
            yield f"{path}: read by {len(agents)} agents of {chain}, one after the other"


def _by_one(facts: RunFacts) -> Iterator[str]:
    """Files that one agent reads over and over without writing them."""
    times: dict[tuple[str, str], int] = {}
    most: dict[tuple[str, str], int] = {}
    for line in facts.trace.of("tool"):
        key = (line.agent, line.path)
        if line.tool in _WRITING:
            times[key] = 0
        elif line.tool == "read" and line.path and line.outcome == "ok":
            times[key] = times.get(key, 0) + 1
            most[key] = max(most.get(key, 0), times[key])
    for (agent, path), count in most.items():
        if count >= READS_BY_ONE:
            yield f"{path}: read {count} times by {agent}"


def _chain(agent: str) -> str:
    return agent.partition("~")[0]

"""State conflicts: merges that clashed, files of others that commands changed, writes that ownership refused."""

from collections import Counter
from collections.abc import Iterator

from baton.diagnosis.finding import Diagnosis, found
from baton.run_facts import RunFacts
from baton.severity import Severity


def clashes(facts: RunFacts) -> Iterator[Diagnosis]:
    """Everything in which steps got into each other's way."""
    merges = [line for line in facts.trace.of("merge") if line.outcome == "conflict"]
    if merges:
        yield found(
            "merge-conflicts",
            Severity.HIGH,
            "steps changed the same places",
            [f"{_step(line.step)}: {', '.join(line.paths) or 'paths unknown'}" for line in merges],
            "put these paths into one step, or let one of the steps depend on the other",
        )
    foreign = facts.trace.of("foreign")
    if foreign:
        yield found(
            "foreign-changes",
            Severity.MEDIUM,
            "commands changed files of other steps; they were restored",
            [f"{line.agent} turn {line.turn}: {', '.join(line.paths)}" for line in foreign],
            "let formatters and generators run once, in a step of their own that owns these files",
        )
    refused = Counter((line.agent, line.path) for line in facts.trace.of("tool") if line.refused)
    if refused:
        yield found(
            "ownership-refusals",
            Severity.MEDIUM if sum(refused.values()) >= 3 else Severity.LOW,
            "agents tried to write what other steps own",
            [f"{agent}: {path} ({times} times)" for (agent, path), times in refused.most_common()],
            "name these paths in the step's owns, or plan the change as a step of its own",
        )


def _step(step: int | None) -> str:
    return "integration" if step is None else f"step {step}"

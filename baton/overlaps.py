"""Steps that could change the same path side by side, and the order that keeps them apart (invariant 3)."""

import posixpath
import re
from collections.abc import Collection, Iterable, Sequence
from graphlib import TopologicalSorter

from baton.path_patterns import matches
from baton.plan import PlanStep


def in_sequence(steps: Sequence[PlanStep], files: Collection[str]) -> tuple[list[PlanStep], list[str]]:
    """Steps that own the same path and could run side by side are put in sequence (invariant 3)."""
    sequenced: list[PlanStep] = []
    notes: list[str] = []
    for step in sorted(steps, key=lambda step: step.step):
        for earlier in reversed(sequenced):
            before = steps_before([*sequenced, step, *(s for s in steps if s.step > step.step)])
            path = None if ordered(before, earlier.step, step.step) else _shared_path(earlier, step, files)
            if path is not None:
                step = step.model_copy(update={"depends_on": (*step.depends_on, earlier.step)})  # noqa: PLW2901
                notes.append(f"step {step.step} waits for step {earlier.step}: both own {path}")
        sequenced.append(step)
    return sequenced, notes


def _shared_path(one: PlanStep, other: PlanStep, files: Collection[str]) -> str | None:
    """A path that both steps could change, or None. Two steps without items and owns may each change anything."""
    if not (one.items or one.owns or other.items or other.owns):
        return "every file that no other step owns"
    common = set(one.items) & set(other.items)
    covered = [i for i in other.items if _any_matches(one.owns, i)] + [
        i for i in one.items if _any_matches(other.owns, i)
    ]
    if common or covered:
        return min((*common, *covered))
    for mine in one.owns:
        for theirs in other.owns:
            named = matches(mine, theirs) or matches(theirs, mine) or _nested(mine, theirs)
            if named or any(matches(mine, path) and matches(theirs, path) for path in files):
                return mine
    return None


def _nested(one: str, other: str) -> bool:
    """Whether files yet to be made could match both patterns: one's literal beginning leads into the other's."""
    mine, theirs = _literal(one), _literal(other)
    both_open = mine != one and theirs != other
    return both_open and (mine.startswith(theirs) or theirs.startswith(mine)) and _same_end(one, other)


def _literal(pattern: str) -> str:
    return re.split(r"[*?\[{]", pattern, maxsplit=1)[0]


def _same_end(one: str, other: str) -> bool:
    """Patterns that end in different suffixes (`*.md`, `*.py`) share no file."""
    mine, theirs = (posixpath.splitext(pattern.removesuffix("**"))[1] for pattern in (one, other))
    return not (mine and theirs) or mine == theirs


def steps_before(steps: Sequence[PlanStep]) -> dict[int, frozenset[int]]:
    """For each step all that it directly or indirectly waits for."""
    dependencies = {step.step: step.depends_on for step in steps}
    before: dict[int, frozenset[int]] = {}
    for number in TopologicalSorter(dependencies).static_order():
        direct = dependencies[number]
        before[number] = frozenset(direct).union(*(before[dependency] for dependency in direct))
    return before


def ordered(before: dict[int, frozenset[int]], one: int, other: int) -> bool:
    """Whether one of two steps waits for the other."""
    return one in before[other] or other in before[one]


def _any_matches(patterns: Iterable[str], path: str) -> bool:
    return any(matches(pattern, path) for pattern in patterns)

"""Which merge a new failure came in with: what each gate said of the result last, and what was merged since.

A failure belongs to a step only where a single step was merged between two runs of the gate.
"""

from collections.abc import Iterable, Mapping, Sequence

from pydantic import Field

from baton.findings import GateResult, GateVerdict, VerdictStatus, compare
from baton.models import Stored

INTEGRATOR = 0
"""In the place of a step's number: the integrator's merge."""
NOT_COMPARED = {"summary": "", "output_tail": "", "details": ()}
"""What of a result is not needed to compare another one with it."""


class GateTrail(Stored):
    """`merged`: steps in the order in which they came onto the result. `results`: the last ones on the result, by gate.
    `seen`: by gate, how many of the merges its last result covers."""

    merged: tuple[int, ...] = ()
    results: dict[str, GateResult] = Field(default_factory=dict)
    seen: dict[str, int] = Field(default_factory=dict)

    def with_merge(self, step: int | None) -> "GateTrail":
        """A step, or the integrator's work, is on the result."""
        return self.model_copy(update={"merged": (*self.merged, INTEGRATOR if step is None else step)})

    def known(self, names: Sequence[str], baseline: Sequence[GateResult]) -> tuple[GateResult, ...]:
        """The last results of these gates; those on the base commit where they did not run since."""
        base = {result.name: result for result in baseline}
        found = [self.results.get(name) or base.get(name) for name in names]
        return tuple(result for result in found if result is not None)

    def unseen(self, names: Iterable[str]) -> bool:
        """Whether a step was merged since one of these gates ran last."""
        return any(self.seen.get(name, 0) < len(self.merged) for name in names)

    def with_results(
        self, results: Sequence[GateResult], baseline: Sequence[GateResult]
    ) -> tuple["GateTrail", dict[int, tuple[GateVerdict, ...]]]:
        """Gates ran on the result as it is; with what they say of the one step that was merged since, by its number."""
        found: dict[int, tuple[GateVerdict, ...]] = {}
        for result in results:
            since = set(self.merged[self.seen.get(result.name, 0) :])
            before = self.known((result.name,), baseline)
            if len(since) == 1 and before:
                (step,) = since
                found[step] = (*found.get(step, ()), *compare(before, (result,))[:1])
        bare = {result.name: result.model_copy(update=NOT_COMPARED) for result in results}
        seen = dict.fromkeys(bare, len(self.merged))
        after = self.model_copy(update={"results": self.results | bare, "seen": self.seen | seen})
        return after, found


def came_in(after_merges: Mapping[int, Sequence[GateVerdict]]) -> dict[tuple[str, str], int]:
    """The step that a failure came in with last, by gate and failure; by the gate's name where it names no failures."""
    return {
        (verdict.name, failure): step
        for step, verdicts in after_merges.items()
        for verdict in verdicts
        if verdict.status is VerdictStatus.NEW_FAILURE
        for failure in verdict.new_failures or (unnamed(verdict.name),)
    }


def with_origin(verdict: GateVerdict, came: Mapping[tuple[str, str], int]) -> GateVerdict:
    """The verdict with the steps told that its new failures came in with, as far as gates saw that."""
    if verdict.status is not VerdictStatus.NEW_FAILURE:
        return verdict
    failures = verdict.new_failures or (unnamed(verdict.name),)
    steps = sorted({came.get((verdict.name, failure), INTEGRATOR) for failure in failures} - {INTEGRATOR})
    if not steps:
        return verdict
    told = f"came in with step {', '.join(map(str, steps))}"
    return verdict.model_copy(update={"detail": "; ".join(part for part in (verdict.detail, told) if part)})


def unnamed(gate: str) -> str:
    """What stands for a failure of a gate that names none."""
    return f"gate {gate}"

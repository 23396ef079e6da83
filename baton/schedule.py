"""What may start when: steps whose dependencies are merged, cut into shards of about one budget each.

A step starts the moment its own dependencies are done, not when a wave ends; shards wait in one queue, so that an
agent that finishes early takes the next one.
"""

import math
import posixpath
from collections.abc import Collection, Iterable, Mapping, Sequence

from baton.budget import Budget
from baton.messages import StepResult
from baton.models import Stored
from baton.plan import HandoffStrategy, Plan, PlanStep, dependants, execution_order
from baton.states import StepStatusWord

TOKENS_PER_ITEM = 1_200
"""Output for an ordinary file when the planner gave no estimate."""

FILL = 0.8
"""Of the budget's line a shard is meant to use so much."""

MOST_SHARDS = 150

USELESS = frozenset((StepStatusWord.FAILED, StepStatusWord.BLOCKED, StepStatusWord.NOT_ATTEMPTED))
"""How a step ended that others cannot build on."""


def branch_prefix(times: int) -> str:
    """Before a unit's label it makes the name of its workspace and branch; a step done again gets new ones."""
    return (f"again-{times}-" if times else "") + "step-"


class Unit(Stored):
    """What one chain of agents does: a step, or a shard of it."""

    step: int
    shard: int | None = None
    items: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """`2` or `2.3`: the part of names that says which."""
        return str(self.step) if self.shard is None else f"{self.step}.{self.shard}"


def units(step: PlanStep, budget: Budget) -> tuple[Unit, ...]:
    """The chains of a step: one, or one for each shard of a parallel step with more work than a budget holds."""
    groups = _by_stem(step.items)
    per_item = (step.estimated_output_tokens or TOKENS_PER_ITEM * len(step.items)) / max(1, len(step.items))
    items_per_shard = max(1, int(budget.line_tokens * FILL / max(1, per_item)))
    items_per_shard = max(items_per_shard, math.ceil(len(step.items) / MOST_SHARDS))
    if step.handoff_strategy is HandoffStrategy.SEQUENTIAL or len(step.items) <= items_per_shard:
        return (Unit(step=step.step, items=step.items),)
    shards: list[list[str]] = [[]]
    for group in groups:
        if shards[-1] and len(shards[-1]) + len(group) > items_per_shard:
            shards.append([])
        shards[-1] += group
    return tuple(Unit(step=step.step, shard=n, items=tuple(items)) for n, items in enumerate(shards, 1))


def weight(step: PlanStep, unit: Unit) -> int:
    """Output tokens that a chain is expected to need: the planner's estimate, else so many for each item."""
    if not step.items:
        return step.estimated_output_tokens or TOKENS_PER_ITEM
    whole = step.estimated_output_tokens or TOKENS_PER_ITEM * len(step.items)
    return max(1, whole * len(unit.items) // len(step.items))


def startable(plan: Plan, waiting: Iterable[int], results: Mapping[int, StepResult]) -> tuple[int, ...]:
    """Waiting steps whose dependencies all have a result, in plan order."""
    order = execution_order(plan)
    ready = {number for number in waiting if all(wanted in results for wanted in plan.step(number).depends_on)}
    return tuple(number for number in order if number in ready)


def blocked_by_failure(plan: Plan, number: int, results: Mapping[int, StepResult]) -> bool:
    """Whether a step that this one needs came to nothing."""
    return number in dependants(plan, [n for n, result in results.items() if result.status in USELESS])


def others_paths(plan: Sequence[PlanStep], step: int, own: Collection[str]) -> dict[str, str]:
    """Paths and globs that somebody else owns, by the name of the owner: other steps, other shards of this one."""
    mine = frozenset(own)
    found: dict[str, str] = {}
    # Steps of an earlier round are over; what they owned is free again.
    round_number = next((one.repair_round for one in plan if one.step == step), 0)
    for other in plan:
        if other.step != step and other.repair_round == round_number:
            found |= dict.fromkeys((*other.items, *other.owns), f"step {other.step}")
    for same in (one for one in plan if one.step == step):
        found |= {item: f"another agent of step {step}" for item in same.items if item not in mine}
    return {path: owner for path, owner in found.items() if path not in mine}


def _by_stem(items: Sequence[str]) -> list[list[str]]:
    """Items of one folder and stem stay together: they own the same neighbours."""
    groups: dict[str, list[str]] = {}
    for item in items:
        groups.setdefault(posixpath.splitext(item)[0], []).append(item)
    return list(groups.values())

"""The plan: what the planner submits, and what it is once code has expanded it (`baton/expansion.py`).

A `PlanDraft` is a model's or a person's word. A `Plan` is what runs: every item exists or is created by its step,
every dependency exists, and there is no cycle.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Literal

from pydantic import Field

from baton.models import Stored, Submitted


class HandoffStrategy(StrEnum):
    """`sequential`: one chain of agents through all items. `parallel`: shards side by side."""

    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"


class Selection(Submitted):
    """Items named by pattern; code expands it against the files of the base commit."""

    include: tuple[str, ...] = Field(description="Glob patterns, for example src/**/*.js")
    exclude: tuple[str, ...] = Field(default=(), description="Glob patterns to leave out")


class DraftStep(Submitted):
    """One step as submitted."""

    step: int = Field(ge=1, description="A number of its own, from 1")
    agent_type: str = Field(min_length=1, description="What kind of agent, for example typescript-converter")
    description: str = Field(min_length=1, description="What to do, in one to three sentences")
    success_criteria: tuple[str, ...] = Field(default=(), description="Facts that can be checked afterwards")
    depends_on: tuple[int, ...] = Field(default=(), description="Steps that must be merged before this one starts")
    items: tuple[str, ...] = Field(default=(), description="Files to work through, relative to the repository")
    select: Selection | None = Field(default=None, description="Instead of a long list of items")
    owns: tuple[str, ...] = Field(default=(), description="Further paths or globs this step may write or create")
    input_context: str | None = Field(
        default=None,
        description="What this step needs to know: an output of an earlier step, as <step>/<name>, or a file",
    )
    estimated_output_tokens: int | None = Field(default=None, ge=0)
    handoff_strategy: HandoffStrategy = HandoffStrategy.SEQUENTIAL
    run: str | None = Field(
        default=None,
        description="A shell command instead of an agent: once per item where {item} stands in it, else once for all",
    )
    failures_of: int | None = Field(
        default=None, description="Instead of items: those whose command failed in this earlier step with run"
    )


class PlanDraft(Submitted):
    """A plan as submitted by the planner, or given with `--plan`."""

    task_id: str | None = None
    mode: Literal["single", "orchestrated"] = "orchestrated"
    estimated_agents: int | None = Field(default=None, ge=0)
    execution_strategy: Literal["sequential", "parallel"] = "sequential"
    plan: tuple[DraftStep, ...] = Field(description="The steps; empty when there is nothing to do")


class PlanStep(Stored):
    """One step as it runs: `items` are complete, patterns are gone.

    `repairs`: names of the failures that a repair step has to mend; `settles`: subjects that a step brings in line;
    `repair_round`: from 1, 0 for planned steps.
    """

    step: int
    agent_type: str
    description: str
    success_criteria: tuple[str, ...] = ()
    depends_on: tuple[int, ...] = ()
    items: tuple[str, ...] = ()
    owns: tuple[str, ...] = ()
    input_context: str | None = None
    estimated_output_tokens: int | None = None
    handoff_strategy: HandoffStrategy = HandoffStrategy.SEQUENTIAL
    run: str | None = None
    failures_of: int | None = None
    repairs: tuple[str, ...] = ()
    repair_round: int = 0
    settles: tuple[str, ...] = ()
    only_needs: bool = False
    """Added for hub files: there is nothing to do unless other steps recorded what they need there."""


class Plan(Stored):
    """The plan as run; `plan.json` has this shape."""

    task_id: str
    mode: Literal["single", "orchestrated"] = "orchestrated"
    estimated_agents: int | None = None
    execution_strategy: Literal["sequential", "parallel"] = "sequential"
    plan: tuple[PlanStep, ...] = ()
    notes: tuple[str, ...] = ()

    def step(self, number: int) -> PlanStep:
        """The step with this number. KeyError when there is none."""
        for step in self.plan:
            if step.step == number:
                return step
        raise KeyError(number)


class PlanFaults(ValueError):  # noqa: N818 - the word of the contract
    """Everything that is wrong with a submitted plan, one sentence each."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(f"- {fault}" for fault in faults))


def execution_order(plan: Plan) -> tuple[int, ...]:
    """Step numbers so that every step comes after its dependencies; among equals the smaller number first."""
    remaining = {step.step: set(step.depends_on) for step in plan.plan}
    order: list[int] = []
    while remaining:
        number = min(step for step, waits_for in remaining.items() if waits_for <= set(order))
        order.append(number)
        del remaining[number]
    return tuple(order)


def dependants(plan: Plan, numbers: Iterable[int]) -> frozenset[int]:
    """All steps that directly or indirectly wait for one of `numbers`."""
    reached = set(numbers)
    for number in execution_order(plan):
        if reached & set(plan.step(number).depends_on):
            reached.add(number)
    return frozenset(reached - set(numbers))

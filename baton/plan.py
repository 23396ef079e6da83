"""The plan: what the planner submits, what is wrong with it, and what it becomes once code has expanded it.

A `PlanDraft` is a model's or a person's word. A `Plan` is what runs: every item exists or is created by its step,
every dependency exists, and there is no cycle. All faults are found at once, so that one answer can mend them all.
"""

import posixpath
import re
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from typing import Literal

from pydantic import Field

from baton.models import Stored, Submitted
from baton.path_patterns import matches
from baton.run_commands import faults_of_run

MAX_STEPS = 200
"""More steps than this is a sign of a plan that lists items as steps."""

FAULTS_SHOWN = 40


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
    input_context: str | None = Field(default=None, description="A file from an earlier step's outputs")
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
    """One step as it runs: `items` are complete, patterns are gone. `repairs`: what a repair step has to mend."""

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


def expand(draft: PlanDraft, task_id: str, files: Collection[str]) -> Plan:
    """The plan that runs, from a draft and the paths of the base commit.

    Raises `PlanFaults` with every fault named.
    """
    known = files if isinstance(files, set | frozenset) else frozenset(files)
    faults = [*_numbering_faults(draft), *_cycle_faults(draft), *_run_faults(draft)]
    steps = []
    for step in draft.plan:
        items, step_faults = _items(step, known)
        faults += step_faults
        steps.append(_step(step, items))
    if faults:
        shown = faults[:FAULTS_SHOWN]
        raise PlanFaults([*shown, f"and {len(faults) - len(shown)} more"] if len(faults) > len(shown) else shown)
    sequenced, notes = _sequence_overlaps(steps, known)
    return Plan(
        task_id=task_id,
        mode=draft.mode,
        estimated_agents=draft.estimated_agents,
        execution_strategy=draft.execution_strategy,
        plan=tuple(sequenced),
        notes=tuple(notes),
    )


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


def _step(draft: DraftStep, items: tuple[str, ...]) -> PlanStep:
    given_by = () if draft.failures_of is None else (draft.failures_of,)
    waits_for = tuple(dict.fromkeys((*draft.depends_on, *given_by)))
    return PlanStep(**draft.model_dump(exclude={"items", "select", "depends_on"}), items=items, depends_on=waits_for)


def _numbering_faults(draft: PlanDraft) -> list[str]:
    faults = []
    numbers = [step.step for step in draft.plan]
    if len(numbers) > MAX_STEPS:
        faults.append(
            f"the plan has {len(numbers)} steps, at most {MAX_STEPS} are allowed: put files into items, not steps"
        )
    faults += [
        f"step {number} is there {numbers.count(number)} times; every step needs a number of its own"
        for number in sorted(set(numbers))
        if numbers.count(number) > 1
    ]
    for step in draft.plan:
        faults += [
            f"step {step.step} depends on itself"
            if wanted == step.step
            else f"step {step.step} depends on step {wanted}, which does not exist"
            for wanted in step.depends_on
            if wanted == step.step or wanted not in numbers
        ]
    return faults


def _cycle_faults(draft: PlanDraft) -> list[str]:
    numbers = {step.step for step in draft.plan}
    graph = {
        step.step: [d for d in (*step.depends_on, step.failures_of) if d in numbers and d != step.step]
        for step in draft.plan
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return ["steps wait for each other in a circle: " + " -> ".join(str(number) for number in error.args[1])]
    return []


def _run_faults(draft: PlanDraft) -> list[str]:
    """What is wrong with steps that run commands, and with those that take what these could not do."""
    faults = []
    steps = {step.step: step for step in draft.plan}
    for step in draft.plan:
        has_items = bool(step.items) or step.select is not None
        if step.run is not None:
            faults += [f"step {step.step}: {fault}" for fault in faults_of_run(step.run, has_items=has_items)]
        if step.failures_of is None:
            continue
        giver = steps.get(step.failures_of)
        if giver is None or giver.run is None:
            faults.append(f"step {step.step}: failures_of names step {step.failures_of}, which is no step with run")
        if has_items or step.run is not None:
            faults.append(f"step {step.step} takes the failures of a step, so it has neither items, select nor run")
    takers = [step.failures_of for step in draft.plan if step.failures_of is not None]
    faults += [
        f"the failures of step {number} are given to {takers.count(number)} steps; give them to one"
        for number in sorted(set(takers))
        if takers.count(number) > 1
    ]
    return faults


def _items(step: DraftStep, files: Collection[str]) -> tuple[tuple[str, ...], list[str]]:
    faults = []
    for path in (*step.items, *step.owns):
        if fault := _path_fault(path):
            faults.append(f"step {step.step}: {path!r} {fault}")
    for item in step.items:
        if item not in files and not _named(step.owns, item) and not _path_fault(item):
            faults.append(
                f"step {step.step}: item {item!r} does not exist in the repository; "
                "remove it, or name it in owns if this step creates it"
            )
    if len(set(step.items)) < len(step.items):
        faults.append(f"step {step.step} names an item twice")
    selected: tuple[str, ...] = ()
    if step.select is not None:
        selected = tuple(
            sorted(
                path for path in files if _named(step.select.include, path) and not _named(step.select.exclude, path)
            )
        )
        if not selected:
            faults.append(f"step {step.step}: the selection {list(step.select.include)} matches no file")
    return tuple(dict.fromkeys((*step.items, *selected))), faults


def _named(patterns: Iterable[str], path: str) -> bool:
    return any(matches(pattern, path) for pattern in patterns)


def _path_fault(path: str) -> str | None:
    if not path or path.startswith("/") or "\0" in path:
        return "is not a path relative to the repository"
    parts = path.split("/")
    if ".." in parts or posixpath.normpath(path).startswith(".."):
        return "leads outside the repository"
    if any(part.lower() == ".git" for part in parts):
        return "is inside .git, which agents never touch"
    return None


def _sequence_overlaps(steps: Sequence[PlanStep], files: Collection[str]) -> tuple[list[PlanStep], list[str]]:
    """Steps that own the same path and could run side by side are put in sequence (invariant 3)."""
    sequenced: list[PlanStep] = []
    notes: list[str] = []
    for step in sorted(steps, key=lambda step: step.step):
        for earlier in reversed(sequenced):
            before = _reachability([*sequenced, step, *(s for s in steps if s.step > step.step)])
            path = None if _in_sequence(before, earlier.step, step.step) else _shared_path(earlier, step, files)
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
    covered = [i for i in other.items if _named(one.owns, i)] + [i for i in one.items if _named(other.owns, i)]
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


def _reachability(steps: Sequence[PlanStep]) -> dict[int, frozenset[int]]:
    dependencies = {step.step: step.depends_on for step in steps}
    before: dict[int, frozenset[int]] = {}
    for number in TopologicalSorter(dependencies).static_order():
        direct = dependencies[number]
        before[number] = frozenset(direct).union(*(before[dependency] for dependency in direct))
    return before


def _in_sequence(before: dict[int, frozenset[int]], one: int, other: int) -> bool:
    return one in before[other] or other in before[one]

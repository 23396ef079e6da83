"""From a draft to the plan that runs: faults, patterns, who owns what.

All faults are found at once, so that one answer can mend them all.
"""

import posixpath
from collections.abc import Collection, Iterable
from graphlib import CycleError, TopologicalSorter

from baton.hubs import with_hub_owners
from baton.overlaps import in_sequence
from baton.path_patterns import matches
from baton.plan import DraftStep, Plan, PlanDraft, PlanFaults, PlanStep
from baton.run_commands import faults_of_run
from baton.step_outputs import settled_context

MAX_STEPS = 200
"""More steps than this is a sign of a plan that lists items as steps."""

FAULTS_SHOWN = 40


def expand(draft: PlanDraft, task_id: str, files: Collection[str]) -> Plan:
    """The plan that runs, from a draft and the paths of the base commit.

    Raises `PlanFaults` with every fault named.
    """
    known = files if isinstance(files, set | frozenset) else frozenset(files)
    faults = [*_numbering_faults(draft), *_cycle_faults(draft), *_run_faults(draft)]
    steps = []
    by_number = {step.step: step for step in draft.plan}
    for step in draft.plan:
        items, step_faults = _items(step, known)
        context, context_fault = settled_context(step, by_number, known)
        faults += [*step_faults, *([context_fault] if context_fault else [])]
        steps.append(_step(step, items, context))
    if faults:
        shown = faults[:FAULTS_SHOWN]
        raise PlanFaults([*shown, f"and {len(faults) - len(shown)} more"] if len(faults) > len(shown) else shown)
    notes: list[str] = []
    if draft.execution_strategy == "parallel":
        steps, notes = with_hub_owners(steps, known)
    sequenced, order_notes = in_sequence(steps, known)
    return Plan(
        task_id=task_id,
        mode=draft.mode,
        estimated_agents=draft.estimated_agents,
        execution_strategy=draft.execution_strategy,
        plan=tuple(sequenced),
        notes=(*notes, *order_notes),
    )


def _step(draft: DraftStep, items: tuple[str, ...], context: str | None) -> PlanStep:
    given_by = () if draft.failures_of is None else (draft.failures_of,)
    waits_for = tuple(dict.fromkeys((*draft.depends_on, *given_by)))
    return PlanStep(
        **draft.model_dump(exclude={"items", "select", "depends_on", "input_context"}),
        items=items,
        input_context=context,
        depends_on=waits_for,
    )


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

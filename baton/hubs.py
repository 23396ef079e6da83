"""Hub files: what several steps side by side would have to change gets one owner; the others say what they need.

A path is a hub when steps that could run side by side name it in `owns`, or name a file that is one by its nature
(`package.json`, an index) at all. The step that has it as an item owns it and runs after the others; where there is
none, a small last step is added. So the others stay side by side.
"""

import posixpath
from collections.abc import Collection, Sequence
from itertools import combinations

from baton.overlaps import ordered, steps_before
from baton.plan import PlanStep

# fmt: off
KNOWN_HUBS = frozenset((
    "__init__.py", "package.json", "package-lock.json", "pyproject.toml", "requirements.txt", "tsconfig.json", "go.mod",
    "go.sum", "Cargo.toml", "Cargo.lock", "mod.rs", "lib.rs", "CMakeLists.txt", "CHANGELOG.md",
))
# fmt: on
TOKENS_PER_HUB = 1_500


def is_known_hub(path: str) -> bool:
    """Whether a file is a hub by its name: it only lists or joins what others hold."""
    name = posixpath.basename(path)
    return name in KNOWN_HUBS or posixpath.splitext(name)[0] == "index"


def with_hub_owners(steps: Sequence[PlanStep], files: Collection[str]) -> tuple[list[PlanStep], list[str]]:
    """The steps with one owner for each hub, and a sentence about each; `files` are those of the base commit."""
    changed = {step.step: step for step in steps}
    ownerless: dict[str, list[int]] = {}
    notes = []
    for path in sorted({path for step in steps for path in _claims(step)}):
        claimants = [step for step in changed.values() if path in _claims(step)]
        if not _is_hub(path, claimants, steps_before(list(changed.values()))):
            continue
        holders = [step for step in claimants if path in step.items]
        owner = holders[0] if len(holders) == 1 else None
        others = [step for step in claimants if step is not owner]
        if any(not _claims(_without(step, path)) for step in others):
            continue
        if owner is not None:
            before = steps_before(list(changed.values()))
            if any(owner.step in before[step.step] for step in others):
                continue
            waits = tuple(dict.fromkeys((*owner.depends_on, *(step.step for step in others))))
            changed[owner.step] = owner.model_copy(update={"depends_on": waits})
            notes.append(_note(path, [step.step for step in others], owner.step))
        else:
            ownerless[path] = [step.step for step in others]
        changed |= {step.step: _without(step, path) for step in others}
    if ownerless:
        added = _owner_of(ownerless, changed, files)
        changed[added.step] = added
        notes += [_note(path, needers, added.step) for path, needers in ownerless.items()]
    return list(changed.values()), notes


def _claims(step: PlanStep) -> tuple[str, ...]:
    return (*step.items, *step.owns)


def _is_hub(path: str, claimants: Sequence[PlanStep], before: dict[int, frozenset[int]]) -> bool:
    """Whether steps side by side name the path, and not each as work of its own. A command records no needs."""
    if any(step.run is not None for step in claimants):
        return False
    pairs = combinations((step.step for step in claimants), 2)
    if any(mark in path for mark in "*?[{") or all(ordered(before, one, other) for one, other in pairs):
        return False
    return is_known_hub(path) or sum(path in step.items for step in claimants) <= 1


def _without(step: PlanStep, path: str) -> PlanStep:
    kept = {"items": tuple(i for i in step.items if i != path), "owns": tuple(o for o in step.owns if o != path)}
    return step.model_copy(update=kept)


def _owner_of(hubs: dict[str, list[int]], steps: dict[int, PlanStep], files: Collection[str]) -> PlanStep:
    """The small step that is added for hubs without an owner."""
    needers = sorted({number for numbers in hubs.values() for number in numbers})
    return PlanStep(
        step=max(steps) + 1,
        agent_type=steps[needers[0]].agent_type,
        description=f"Make the changes to {', '.join(hubs)} that other steps recorded as needs.",
        success_criteria=("Every recorded need is met.",),
        depends_on=tuple(needers),
        items=tuple(path for path in hubs if path in files),
        owns=tuple(path for path in hubs if path not in files),
        estimated_output_tokens=TOKENS_PER_HUB * len(hubs),
        only_needs=True,
    )


def _note(path: str, needers: Sequence[int], owner: int) -> str:
    named = " and ".join(", ".join(map(str, needers)).rsplit(", ", 1))
    who = f"step {named} records what it needs" if len(needers) == 1 else f"steps {named} record what they need"
    return f"only step {owner} changes {path}: {who} there"

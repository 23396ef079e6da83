"""New failures become steps that repair them: who made them, what the step is told, and which files it may change.

A failure goes to the type of agent whose step it came in with, as gates between two merges saw it; else to that whose
step last changed what the failure names, the code before the test; where nobody can be found, to a general executor.
Failures whose repairs touch the same file are one step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from types import MappingProxyType

from baton.agent_types import GENERAL
from baton.bounds import REPAIR_ROUNDS
from baton.failures import Failure
from baton.findings import GateResult, GateVerdict, VerdictStatus
from baton.gate_trail import unnamed
from baton.messages import StepResult
from baton.plan import Plan, PlanStep
from baton.schedule import USELESS
from baton.suite_changes import is_test_file
from baton.wording import counted

FAILURES_TOLD = 10
OWNED_FILES = 100
"""A step that changed more files than this may change every file again."""
OUTPUT_TOLD_CHARACTERS = 1_200
_RULES = (
    "Repair the code that makes them fail. Do not delete, skip or weaken a test, and leave the gates' configuration as "
    "it is: the gates notice, and the result is not ready then. If a test itself is wrong, say so in finish_step."
)


@dataclass
class _Group:
    """Failures with one origin; None where nobody can be named."""

    origin: int | None
    gates: dict[str, None] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    files: dict[str, None] = field(default_factory=dict)


def watched(plan: Plan) -> tuple[str, ...]:
    """Everything that repair steps had to mend: none of it may simply vanish."""
    return tuple(dict.fromkeys(name for step in plan.plan for name in step.repairs))


def judged_by_gates(plan: Plan) -> frozenset[int]:
    """Steps whose success the gates tell, and not what their agents say."""
    return frozenset(step.step for step in plan.plan if step.repair_round)


def repair_steps(
    plan: Plan,
    results: Mapping[int, StepResult],
    verdicts: Sequence[GateVerdict],
    gates: Sequence[GateResult],
    came: Mapping[tuple[str, str], int] = MappingProxyType({}),
) -> tuple[PlanStep, ...]:
    """The steps of the next round; none where nothing fails newly, or after `REPAIR_ROUNDS`. `came`: by gate and
    failure the step that it came in with, where gates saw that."""
    if len({step.repair_round for step in plan.plan if step.repairs}) >= REPAIR_ROUNDS:
        return ()
    number = 1 + max((step.repair_round for step in plan.plan), default=0)
    made = _makers(plan, results)
    outputs = {gate.name: gate.summary for gate in gates}
    groups: list[_Group] = []
    for verdict in verdicts:
        if verdict.status is VerdictStatus.NEW_FAILURE:
            for failure in _failures(verdict, outputs.get(verdict.name, "")):
                origin = _origin(failure, made, came.get((verdict.name, failure.name)))
                _join(groups, verdict.name, failure, origin, made)
    first = 1 + max((step.step for step in plan.plan), default=0)
    return tuple(_step(plan, results, group, first + place, number) for place, group in enumerate(groups))


def _makers(plan: Plan, results: Mapping[int, StepResult]) -> dict[int, tuple[str, ...]]:
    """Files that each step changed, by its number, in plan order."""
    return {
        step.step: results[step.step].files_changed
        for step in plan.plan
        if step.step in results and results[step.step].files_changed
    }


def _failures(verdict: GateVerdict, output: str) -> list[Failure]:
    """The new failures of a gate; one that stands for the gate where it names none."""
    known = {failure.name: failure for failure in verdict.details}
    named = [known.get(name, Failure(name=name)) for name in verdict.new_failures]
    if named:
        return named
    text = output[-OUTPUT_TOLD_CHARACTERS:]
    return [Failure(name=unnamed(verdict.name), text=f"{verdict.detail}\n{text}".strip())]


def _origin(failure: Failure, made: Mapping[int, tuple[str, ...]], came_with: int | None) -> int | None:
    """The step that made a failure: it came in with its merge, else it changed a file that the failure names, or that
    its test is named after."""
    if came_with in made:
        return came_with
    for path in sorted(failure.files, key=is_test_file):
        makers = [number for number, files in made.items() if path in files]
        if makers:
            return makers[-1]
    for path in failure.files:
        words = PurePosixPath(path).name.split(".")[0].replace("-", "_").split("_")
        makers = [number for number, files in made.items() if any(PurePosixPath(f).stem in words for f in files)]
        if makers:
            return makers[-1]
    return next(iter(made)) if len(made) == 1 else None


def _join(
    groups: list[_Group], gate: str, failure: Failure, origin: int | None, made: Mapping[int, tuple[str, ...]]
) -> None:
    """Put a failure into the group it belongs to; groups that share a file become one."""
    theirs = made[origin] if origin is not None else [path for files in made.values() for path in files]
    files = dict.fromkeys((*failure.files, *theirs))
    touching = [group for group in groups if group.origin == origin or group.files.keys() & files.keys()]
    whole = touching[0] if touching else _Group(origin)
    for other in touching[1:]:
        groups.remove(other)
        whole.gates |= other.gates
        whole.failures += other.failures
        whole.files |= other.files
    if not touching:
        groups.append(whole)
    whole.gates[gate] = None
    whole.failures.append(failure)
    whole.files |= files


def _step(plan: Plan, results: Mapping[int, StepResult], group: _Group, number: int, round_number: int) -> PlanStep:
    origin = plan.step(group.origin) if group.origin is not None else None
    gates = ", ".join(group.gates)
    came = f"step {origin.step}" if origin is not None else "the plan's steps"
    told = group.failures[:FAILURES_TOLD]
    more = len(group.failures) - len(told)
    lines = [
        f"Repair {counted(len(group.failures), 'failure')} of gate {gates} since {came}",
        _RULES,
        *(f"\n{failure.name}\n{failure.text}".rstrip() for failure in told),
        *([f"\nand {more} more"] if more else []),
    ]
    follows = origin is not None and origin.step in results and results[origin.step].status not in USELESS
    return PlanStep(
        step=number,
        agent_type=origin.agent_type if origin is not None and origin.run is None else GENERAL,
        description="\n".join(lines),
        success_criteria=tuple(f"{failure.name} does not fail any more" for failure in told),
        depends_on=(origin.step,) if origin is not None and follows else (),
        owns=tuple(group.files) if 0 < len(group.files) <= OWNED_FILES else ("**",),
        repairs=tuple(failure.name for failure in group.failures),
        repair_round=round_number,
    )

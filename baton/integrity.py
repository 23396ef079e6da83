"""Whether gates still test what they tested: tests that are gone or skipped, and changed gate configuration.

A gate that is green because there is less to check is not green. Fewer tests than on the base commit, and a failing
test that vanished, keep the result from being ready; what may be a rename or was planned is told and left to people.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from baton.failures import Case, Outcome
from baton.models import Stored
from baton.path_patterns import matches
from baton.plan import PlanStep
from baton.suite_changes import SuiteChange
from baton.wording import counted

NAMES_KEPT = 30
IntegrityKind = Literal["configuration", "tests"]


class IntegrityFinding(Stored):
    """Something about the gates themselves that a person should look at. `names`: tests, at most `NAMES_KEPT`."""

    kind: IntegrityKind
    detail: str
    files: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    blocks: bool = False


def is_planned(path: str, plan: Sequence[PlanStep]) -> bool:
    """Whether a planned step names this file: as an item, or in `owns` by a pattern that says more than a folder.

    Steps that repair something never count: what they have to mend must not be mended by changing the gate.
    """
    for step in plan:
        if step.repairs:
            continue
        telling = (
            pattern for pattern in step.owns if not pattern.endswith(("/*", "/**")) and pattern not in {"*", "**"}
        )
        if path in step.items or any(matches(pattern, path) for pattern in telling):
            return True
    return False


def of_cases(
    before: Mapping[str, Outcome], now: Sequence[Case], watched: Collection[str], changes: Sequence[SuiteChange]
) -> list[IntegrityFinding]:
    """What became of the tests of the base commit. `before`: their outcomes by name; `watched`: earlier new failures.

    `changes` say in which files tests were taken out or skipped.
    """
    after = {case.name: case.outcome for case in now}
    came = {_function(name) for name in after.keys() - before.keys()}
    ran = {name for name, outcome in before.items() if outcome is not Outcome.SKIPPED} | set(watched)
    gone = sorted(name for name in ran if name not in after and _function(name) not in came)
    skipped = sorted(name for name in ran if after.get(name) is Outcome.SKIPPED)
    lost = [name for name in (*gone, *skipped) if name in watched]
    executed = sum(outcome is not Outcome.SKIPPED for outcome in before.values())
    executes = sum(outcome is not Outcome.SKIPPED for outcome in after.values())
    if not gone and not skipped:
        return []
    parts = [f"{counted(len(gone), 'test')} of the base commit did not run any more"] if gone else []
    parts += [f"{counted(len(skipped), 'test')} that ran on the base commit now skipped"] if skipped else []
    parts += [f"{', '.join(lost[:3])} failed earlier in this task"] if lost else []
    parts += [f"{executes} tests ran, {executed} on the base commit"]
    return [
        IntegrityFinding(
            kind="tests",
            detail="; ".join(parts),
            files=_files(changes, [*gone, *skipped]),
            names=tuple((*lost, *(name for name in (*gone, *skipped) if name not in lost))[:NAMES_KEPT]),
            blocks=bool(lost or skipped) or executes < executed,
        )
    ]


def of_changes(changes: Iterable[SuiteChange]) -> list[IntegrityFinding]:
    """What the changed test files say, for gates that do not list their tests."""
    changes = tuple(changes)
    added = {name for change in changes for name in change.added}
    removed = [(change.path, name) for change in changes for name in change.removed if name not in added]
    skipped = [(change.path, name) for change in changes for name in change.skipped]
    if not removed and not skipped:
        return []
    parts = [f"{counted(len(removed), 'test')} taken out"] if removed else []
    parts += [f"{counted(len(skipped), 'test')} marked to be skipped or to fail"] if skipped else []
    fewer = sum(len(change.removed) - len(change.added) for change in changes) > 0
    both = (*removed, *skipped)
    return [
        IntegrityFinding(
            kind="tests",
            detail="; ".join(parts),
            files=tuple(dict.fromkeys(path for path, _ in both)),
            names=tuple(name for _, name in both)[:NAMES_KEPT],
            blocks=bool(skipped) or fewer,
        )
    ]


def of_configuration(restored: Sequence[str], planned: Sequence[str]) -> list[IntegrityFinding]:
    """Changed gate configuration: the gates ran with the base commit's, or with the new one where the plan names it."""
    found = []
    if restored:
        detail = "the configuration of gates was changed; the gates ran with that of the base commit"
        found.append(IntegrityFinding(kind="configuration", detail=detail, files=tuple(restored)))
    if planned:
        detail = "the configuration of gates was changed as the plan says; the gates ran with the new one"
        found.append(IntegrityFinding(kind="configuration", detail=detail, files=tuple(planned)))
    return found


def _function(name: str) -> str:
    """A test's own name, without module, class and parameters: what stays when a test moves."""
    return re.split(r"::|\.| > ", name.partition("[")[0])[-1]


def _files(changes: Sequence[SuiteChange], names: Sequence[str]) -> tuple[str, ...]:
    wanted = {_function(name) for name in names}
    return tuple(
        change.path for change in changes if wanted & {_function(name) for name in (*change.removed, *change.skipped)}
    )

"""Whether gates still test what they tested: tests that are gone or skipped, and changed gate configuration.

A gate that is green because there is less to check is not green. Fewer tests than on the base commit, and a failing
test that vanished, keep the result from being ready; what may be a rename, was planned, or was asked for by the user is
told by name and left to people.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Literal

from baton.failures import Case, Outcome
from baton.models import Stored
from baton.path_patterns import matches
from baton.plan import PlanStep
from baton.suite_changes import SuiteChange, is_test_file
from baton.wording import counted

NAMES_KEPT = 30
_REMOVE = re.compile(
    r"\b(?:remov|delet|drop|prun|retir|eliminat|discard|clean(?:ing)? up|get(?:ting)? rid|tak(?:e|ing) out)",
    re.IGNORECASE,
)
_NEGATED = re.compile(r"\b(?:not|never|no|none|without|keep|nothing)\b|n't\b|n’t\b", re.IGNORECASE)
_TESTS = re.compile(r"\b(?:unit|spec)?(?:test|spec)s?\b", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.;!?](?:\s|$)|\n")
_WORD = re.compile(r"[\w./-]+")
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


def with_asked(changes: Iterable[SuiteChange], task: str, plan: Sequence[PlanStep]) -> tuple[SuiteChange, ...]:
    """The changes, with those marked whose tests were to be taken out: the user's own words ask for it, and a planned
    step has the file as an item. A step that repairs never counts."""
    items = {item for step in plan if not step.repairs for item in step.items}
    sentences = [one for one in _SENTENCE_END.split(task) if _REMOVE.search(one) and not _NEGATED.search(one)]
    return tuple(
        change.model_copy(update={"asked": True})
        if change.path in items and any(_means(sentence, change) for sentence in sentences)
        else change
        for change in changes
    )


def _means(sentence: str, change: SuiteChange) -> bool:
    """Whether a sentence that asks for a removal is about the tests of this file: it names the file or one of the tests
    that are gone, or speaks of tests and names no file of tests."""
    words = {word.rstrip(".,:;") for word in _WORD.findall(sentence)}
    file = PurePosixPath(change.path)
    if words & {change.path, file.name, file.stem, *(_function(name) for name in change.removed)}:
        return True
    return bool(_TESTS.search(sentence)) and not any(is_test_file(word) for word in words)


def of_cases(
    before: Mapping[str, Outcome], now: Sequence[Case], watched: Collection[str], changes: Sequence[SuiteChange]
) -> list[IntegrityFinding]:
    """What became of the tests of the base commit. `before`: their outcomes by name; `watched`: earlier new failures.

    `changes` say in which files tests were taken out or skipped. A test that is there under the same name elsewhere has
    moved; each new place counts for one.
    """
    after = {case.name: case.outcome for case in now}
    ran = {name for name, outcome in before.items() if outcome is not Outcome.SKIPPED} | set(watched)
    not_here = _not_moved(sorted(ran - after.keys()), [n for n in after if n not in before], after)
    asked = [name for name in not_here if name not in watched and _all_asked(name, changes)]
    gone = [name for name in not_here if name not in asked]
    skipped = sorted(name for name in ran if after.get(name) is Outcome.SKIPPED)
    lost = [name for name in (*gone, *skipped) if name in watched]
    executed = sum(outcome is not Outcome.SKIPPED for outcome in before.values())
    executes = sum(outcome is not Outcome.SKIPPED for outcome in after.values())
    told = _as_asked(asked, changes)
    if not gone and not skipped:
        return told
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
            blocks=bool(lost or skipped) or executes + len(asked) < executed,
        ),
        *told,
    ]


def _not_moved(gone: Sequence[str], new: Sequence[str], after: Mapping[str, Outcome]) -> list[str]:
    """Of tests that are not where they were those that run nowhere else."""
    places = Counter(_function(name) for name in new if after[name] is not Outcome.SKIPPED)
    left = []
    for name in gone:
        if places[_function(name)]:
            places[_function(name)] -= 1
        else:
            left.append(name)
    return left


def _all_asked(name: str, changes: Sequence[SuiteChange]) -> bool:
    """Whether every file that a test of this name was taken out of is one where that was asked for."""
    own = [change.asked for change in changes if _function(name) in map(_function, change.removed)]
    return bool(own) and all(own)


def _as_asked(names: Sequence[str], changes: Iterable[SuiteChange]) -> list[IntegrityFinding]:
    if not names:
        return []
    files = _files([change for change in changes if change.asked], names)
    detail = f"{counted(len(names), 'test')} taken out, as the task asks"
    return [IntegrityFinding(kind="tests", detail=detail, files=files, names=tuple(names)[:NAMES_KEPT])]


def of_changes(changes: Iterable[SuiteChange]) -> list[IntegrityFinding]:
    """What the changed test files say, for gates that do not list their tests."""
    changes = tuple(changes)
    added = {name for change in changes for name in change.added}
    asked = [name for change in changes if change.asked for name in change.removed if name not in added]
    told = _as_asked(asked, changes)
    others = [change for change in changes if not change.asked]
    removed = [(change.path, name) for change in others for name in change.removed if name not in added]
    skipped = [(change.path, name) for change in changes for name in change.skipped]
    if not removed and not skipped:
        return told
    parts = [f"{counted(len(removed), 'test')} taken out"] if removed else []
    parts += [f"{counted(len(skipped), 'test')} marked to be skipped or to fail"] if skipped else []
    fewer = sum(len(change.removed) - len(change.added) for change in others) > 0
    both = (*removed, *skipped)
    return [
        IntegrityFinding(
            kind="tests",
            detail="; ".join(parts),
            files=tuple(dict.fromkeys(path for path, _ in both)),
            names=tuple(name for _, name in both)[:NAMES_KEPT],
            blocks=bool(skipped) or fewer,
        ),
        *told,
    ]


def of_configuration(
    restored: Sequence[str],
    planned: Sequence[str],
    planned_scripts: Sequence[str] = (),
    new_scripts: Sequence[str] = (),
) -> list[IntegrityFinding]:
    """Changed gate configuration: the gates ran with the base commit's, or with the new one where the plan names it.

    Of a script that a gate's command starts, always with the base commit's, unless there was none.
    """
    told = {
        "the configuration of gates was changed; the gates ran with that of the base commit": restored,
        "the configuration of gates was changed as the plan says; the gates ran with the new one": planned,
        "a script that a gate starts was changed as the plan says; the gate ran it as the base commit has it, so the "
        "new one is not tried": planned_scripts,
        "a script that a gate starts is not on the base commit; this task wrote what the gate checks": new_scripts,
    }
    return [
        IntegrityFinding(kind="configuration", detail=detail, files=tuple(files))
        for detail, files in told.items()
        if files
    ]


def _function(name: str) -> str:
    """A test's own name, without module, class and parameters: what stays when a test moves."""
    return re.split(r"::|\.| > ", name.partition("[")[0])[-1]


def _files(changes: Sequence[SuiteChange], names: Sequence[str]) -> tuple[str, ...]:
    wanted = {_function(name) for name in names}
    return tuple(
        change.path for change in changes if wanted & {_function(name) for name in (*change.removed, *change.skipped)}
    )

"""The gates on one commit: with the base commit's configuration, with what fails newly run again alone, and with what
became of the tests.

A failure is flaky when it is gone in one of `RERUNS` further runs of it alone: that very test passed, or the run came
to its end with nothing that the base commit does not have. A name that is missing in a run that failed shows nothing.
Checkers that always say the same of the same files are not run again.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from activities.commands import ProcessGroup
from activities.gates import Examined, Gates
from activities.repository import PrivateRepository
from activities.sandbox import Sandbox
from activities.store import LostBlobError, Store
from activities.working_tree import Change
from baton.failures import Case, Observed, Outcome, details_of, failure_fields
from baton.findings import RERUNS, GateKind, GateOutcome, GateResult, GateSpec, suspects
from baton.gate_configuration import is_gate_configuration, with_base
from baton.integrity import IntegrityFinding, is_planned, of_cases, of_changes, of_configuration
from baton.missing_modules import weighed
from baton.plan import PlanStep
from baton.suite_changes import SuiteChange, is_test_file, suite_change
from baton.unstable_names import is_nothing_new, shape, steadied

MOST_RUN_AGAIN = 20
"""More new failures at once than this are not chance."""
FILES_LOOKED_AT = 400
_TESTING = frozenset((GateKind.TEST, GateKind.COVERAGE, GateKind.CUSTOM))


@dataclass(frozen=True)
class Place:
    """Where and how gates run: a workspace, the caller's environment, the user's checkout, the host's sandbox."""

    workspace: Path
    environment: Mapping[str, str]
    source: Path | None
    sandbox: Sandbox | None
    on_start: Callable[[ProcessGroup], None]


class GateChecks:
    """Runs gates at a place and says more of them than a single run can."""

    def __init__(self, gates: Gates, place: Place, store: Store) -> None:
        self._gates = gates
        self._place = place
        self._store = store

    async def run(
        self,
        spec: GateSpec,
        before: GateResult | None,
        *,
        watched: Sequence[str] = (),
        changes: Sequence[SuiteChange] = (),
    ) -> GateResult:
        """One gate. `before`: its result on the base commit, None when this is that run; `changes`: of test files."""
        done = await self._examine(spec)
        result = weighed(done.result, before, done.seen.cases or (), done.own)
        if result.outcome is GateOutcome.FAILED:
            result = await self._run_again(spec, before, done, result)
        integrity = await asyncio.to_thread(self._integrity, result, before, done, watched, changes)
        cases = None
        if done.seen.cases:
            outcomes = {case.name: str(case.outcome) for case in done.seen.cases}
            cases = await asyncio.to_thread(self._store.put, json.dumps(outcomes, sort_keys=True).encode())
        return result.model_copy(update={"cases": cases, "integrity": tuple(integrity)})

    async def _examine(self, spec: GateSpec, only: Sequence[str] = ()) -> Examined:
        place = self._place
        return await self._gates.examine(
            spec,
            place.workspace,
            place.environment,
            place.source,
            sandbox=place.sandbox,
            on_start=place.on_start,
            only=only,
        )

    async def _run_again(
        self, spec: GateSpec, before: GateResult | None, done: Examined, result: GateResult
    ) -> GateResult:
        """The result with what is flaky: new failures that are gone when they are run again; of a gate that names
        none, its own name. What changes its name with every run gets one that stays."""
        names = [failure.name for failure in done.seen.failures]
        suspected = dict.fromkeys(suspects(before, names))
        unnamed = not names and not (before is not None and before.outcome is GateOutcome.FAILED)
        if done.seen.repeats or len(suspected) > MOST_RUN_AGAIN or not (suspected or unnamed):
            return result
        flaky: dict[str, None] = {}
        failed: list[list[str]] = []
        explained = False
        for _ in range(RERUNS):
            left = [name for name in suspected if name not in flaky]
            if not left and not unnamed:
                break
            again = await self._examine(spec, left if done.seen.cases is not None else ())
            if unnamed and again.result.outcome is GateOutcome.PASSED:
                return result.model_copy(update={"flaky": (spec.name,)})
            named = [failure.name for failure in again.seen.failures]
            nothing_new = is_nothing_new(before, again.result.outcome, named)
            explained |= nothing_new
            if again.result.outcome is GateOutcome.FAILED:
                failed.append(named)
            flaky |= dict.fromkeys(name for name in left if _is_gone(name, done.seen, again, nothing_new=nothing_new))
        if len(flaky) == len(suspected) and flaky and not explained:
            # Each test passed alone, and yet the command failed every time: something else fails.
            whole = await self._examine(spec)
            named = [failure.name for failure in whole.seen.failures]
            flaky = flaky if is_nothing_new(before, whole.result.outcome, named) else {}
        result = result.model_copy(update={"flaky": tuple(sorted(flaky))})
        return _steadied(result, done, [name for name in suspected if name not in flaky], failed)

    def _integrity(
        self,
        result: GateResult,
        before: GateResult | None,
        done: Examined,
        watched: Sequence[str],
        changes: Sequence[SuiteChange],
    ) -> list[IntegrityFinding]:
        if before is None or result.kind not in _TESTING or result.outcome is GateOutcome.INCONCLUSIVE:
            return []
        if before.cases is None or done.seen.cases is None:
            return of_changes(changes)
        try:
            outcomes = {name: Outcome(word) for name, word in json.loads(self._store.get(before.cases)).items()}
        except LostBlobError:
            return of_changes(changes)
        return of_cases(outcomes, done.seen.cases, frozenset(watched), changes)


async def restore_configuration(
    repository: PrivateRepository,
    workspace: Path,
    base: str,
    commit: str,
    changed: Sequence[Change],
    plan: Sequence[PlanStep],
    scripts: frozenset[str] = frozenset(),
) -> list[IntegrityFinding]:
    """Put back in the workspace what changed of the gates' configuration, but for files that the plan names.

    `scripts` are files that the gates' commands start. One that the base commit has runs as it is there, whatever the
    plan says: it is a part of the command. One that is new is told, for nobody checked what it checks.
    """
    restored: list[str] = []
    planned: list[str] = []
    planned_scripts: list[str] = []
    new_scripts: list[str] = []
    for change in changed:
        is_script = change.path in scripts
        if not is_script and not is_gate_configuration(change.path):
            continue
        before = await _text(repository, base, change.path)
        now = await _text(repository, commit, change.path)
        if is_script and before is None:
            new_scripts.append(change.path)
            continue
        wanted = before if is_script else with_base(change.path, before, now)
        if wanted == now:
            continue
        is_named = is_planned(change.path, plan)
        if is_named and not is_script:
            planned.append(change.path)
            continue
        executable = is_script and await _is_executable(repository, base, change.path)
        await asyncio.to_thread(_put, workspace, change.path, wanted, executable=executable)
        (planned_scripts if is_named else restored).append(change.path)
    return of_configuration(restored, planned, planned_scripts, new_scripts)


async def suite_changes(
    repository: PrivateRepository, base: str, commit: str, changed: Sequence[Change]
) -> tuple[SuiteChange, ...]:
    """What the changed test files take out, add and skip."""
    found = []
    for change in [change for change in changed if is_test_file(change.path)][:FILES_LOOKED_AT]:
        before = await _text(repository, base, change.path)
        found.append(suite_change(change.path, before, await _text(repository, commit, change.path)))
    return tuple(found)


def _steadied(result: GateResult, done: Examined, fresh: Sequence[str], failed: Sequence[Sequence[str]]) -> GateResult:
    """The result with names that another run can be compared by. Tests have them, but for what only output names."""
    tests = {case.name for case in done.seen.cases or ()}
    if tests.issuperset(fresh):
        return result
    changing = [name for name in fresh if name not in tests]
    failures = steadied(result.name, result.exit_code, done.seen.failures, changing, failed)
    kept, left_out, fingerprint = failure_fields(failure.name for failure in failures)
    changes = {"failures": kept, "failures_left_out": left_out, "fingerprint": fingerprint}
    return result.model_copy(update={**changes, "details": details_of(failures)})


def _is_gone(name: str, seen: Observed, again: Examined, *, nothing_new: bool) -> bool:
    """Whether a failure did not come again in a run that would have shown it."""
    if again.result.outcome is GateOutcome.INCONCLUSIVE:
        return False
    if seen.cases is not None and again.seen.cases is not None and any(case.name == name for case in seen.cases):
        return _outcomes(again.seen.cases, name) == {Outcome.PASSED}
    named = {failure.name for failure in again.seen.failures}
    others = named - {failure.name for failure in seen.failures}
    return nothing_new and name not in named and shape(name) not in map(shape, others)


def _outcomes(cases: Sequence[Case], name: str) -> set[Outcome]:
    return {case.outcome for case in cases if case.name == name}


async def _text(repository: PrivateRepository, commit: str, path: str) -> str | None:
    try:
        return (await repository.read_file(commit, path)).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return None


async def _is_executable(repository: PrivateRepository, commit: str, path: str) -> bool:
    return (await repository.git().output("ls-tree", commit, "--", path)).startswith(b"100755")


def _put(workspace: Path, path: str, text: str | None, *, executable: bool = False) -> None:
    """Replace a file of the workspace. Never through a link, and not below what is no folder any more."""
    target = workspace / path
    if not target.parent.resolve().is_relative_to(workspace.resolve()):
        return
    if target.is_symlink() or target.is_file():
        target.unlink()
    if text is None:
        return
    with suppress(FileExistsError, NotADirectoryError, IsADirectoryError):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode("utf-8", "surrogateescape"))
        if executable:
            target.chmod(0o755)

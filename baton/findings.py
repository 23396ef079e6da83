"""What gates found: their results, and the comparison with the base commit that decides whether a result is ready.

A gate that fails in a new way, or that could run before and cannot now, keeps the result from being ready. A gate that
could not run is inconclusive, never passed. Failures that were there before are told apart from new ones one by one
wherever the gate's output names them.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from enum import StrEnum

from pydantic import Field

from baton.durations import Duration
from baton.failures import Failure
from baton.integrity import IntegrityFinding
from baton.models import Stored
from baton.settings import INTEGRITY_GATE
from baton.wording import counted

SUMMARY_CHARACTERS = 2_000
DETAILS_SHOWN = 10
RERUNS = 2
"""So often is a new failure run again, alone, before it counts."""


class GateKind(StrEnum):
    """What a gate looks at."""

    TEST = "test"
    BUILD = "build"
    LINT = "lint"
    TYPES = "types"
    COVERAGE = "coverage"
    SECURITY = "security"
    CUSTOM = "custom"


class GateOutcome(StrEnum):
    """How one run of a gate ended."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"


class VerdictStatus(StrEnum):
    """What a gate says about the result, seen against its baseline."""

    PASSED = "passed"
    FIXED = "fixed"
    KNOWN_FAILURE = "known_failure"
    NEW_FAILURE = "new_failure"
    FLAKY = "flaky"
    INTEGRITY = "integrity"
    INCONCLUSIVE = "inconclusive"


class GateSpec(Stored):
    """A command that must pass, run by a shell at the root of a workspace."""

    name: str
    command: str
    kind: GateKind = GateKind.CUSTOM
    timeout: Duration = timedelta(minutes=15)


class GateResult(Stored):
    """One run of a gate.

    `failures` names what failed (tests, diagnostics), sorted, without line numbers and durations; `fingerprint` covers
    all of them, also those over `FAILURES_KEPT`. `details`: what is known of them, of bounded size. `reason` says why a
    run is inconclusive, or what a failed one lacked. `skipped`: how many of the `tests` were not run. `cases` names the
    blob with all tests and how they ended. `flaky`: failures that were gone when they were run again alone.
    `integrity`: what was done to the gate.
    """

    name: str
    kind: GateKind
    command: str
    outcome: GateOutcome
    exit_code: int | None = None
    duration_seconds: float = 0.0
    summary: str = ""
    output_tail: str = ""
    reason: str | None = None
    tests: int | None = None
    skipped: int | None = None
    failures: tuple[str, ...] = ()
    details: tuple[Failure, ...] = ()
    flaky: tuple[str, ...] = ()
    cases: str | None = None
    integrity: tuple[IntegrityFinding, ...] = ()
    failures_left_out: int = 0
    fingerprint: str = ""


class GateVerdict(Stored):
    """A gate's word on the result. `blocks` keeps the result from being ready.

    `known`: how many failures the base commit has too; `details`: what is known of the new ones. Numbers of tests are
    None where the gate does not list them. Seconds: how long a run took, None where it came to nothing.
    """

    name: str
    status: VerdictStatus
    detail: str = ""
    new_failures: tuple[str, ...] = ()
    blocks: bool = Field(default=False)
    known: int = 0
    flaky: tuple[str, ...] = ()
    details: tuple[Failure, ...] = ()
    tests_before: int | None = None
    tests: int | None = None
    skipped_before: int | None = None
    skipped: int | None = None
    integrity: tuple[IntegrityFinding, ...] = ()
    kind: GateKind | None = None
    seconds_before: float | None = None
    seconds: float | None = None


def not_run(spec: GateSpec, reason: str) -> GateResult:
    """The result of a gate that could not be started at all."""
    return GateResult(
        name=spec.name, kind=spec.kind, command=spec.command, outcome=GateOutcome.INCONCLUSIVE, reason=reason
    )


def compare(baseline: Sequence[GateResult], now: Sequence[GateResult]) -> list[GateVerdict]:
    """One verdict per gate of either list, in the order of `now`, then what was not run again, then integrity."""
    before = {result.name: result for result in baseline}
    after = {result.name: result for result in now}
    verdicts = [
        _with_numbers(_verdict(before.get(name), result), before.get(name), result) for name, result in after.items()
    ]
    missing = [name for name in before if name not in after]
    return (
        verdicts
        + [
            GateVerdict(
                name=name,
                status=VerdictStatus.INCONCLUSIVE,
                detail="it ran on the base commit and was not run again",
                blocks=True,
            )
            for name in missing
        ]
        + _integrity(now)
    )


def baseline_notes(baseline: Iterable[GateResult]) -> tuple[str, ...]:
    """What a person should know of the gates before agents work: which say nothing, and what others lack."""
    return tuple(
        f"On the base commit the gate {result.name} {_was_shortly(result)}: {result.reason}."
        for result in baseline
        if result.reason
    )


def suspects(before: GateResult | None, names: Iterable[str]) -> tuple[str, ...]:
    """Failures of these names that would be new: not known from the base commit, not flaky there."""
    known = frozenset((*before.failures, *before.flaky)) if before is not None else frozenset()
    return tuple(name for name in names if name not in known)


def ready(verdicts: Iterable[GateVerdict]) -> bool:
    """Whether the gates let the result be called ready (invariant 8). No gates: ready."""
    return not any(verdict.blocks for verdict in verdicts)


def _verdict(before: GateResult | None, now: GateResult) -> GateVerdict:
    match now.outcome:
        case GateOutcome.PASSED:
            fixed = before is not None and before.outcome is GateOutcome.FAILED
            status = VerdictStatus.FIXED if fixed else VerdictStatus.PASSED
            return GateVerdict(name=now.name, status=status, detail=_fewer_tests(before, now))
        case GateOutcome.INCONCLUSIVE:
            return _inconclusive(before, now)
        case GateOutcome.FAILED:
            return _failed(before, now)


def _inconclusive(before: GateResult | None, now: GateResult) -> GateVerdict:
    detail = now.reason or "it could not run"
    # What could not run on the base commit either is no fault of the result; it is told, and blocks nothing.
    blocks = before is None or before.outcome is not GateOutcome.INCONCLUSIVE
    if blocks and before is not None:
        detail += f"; on the base commit it {before.outcome}"
    return GateVerdict(name=now.name, status=VerdictStatus.INCONCLUSIVE, detail=detail, blocks=blocks)


def _failed(before: GateResult | None, now: GateResult) -> GateVerdict:
    if before is None or before.outcome is not GateOutcome.FAILED:
        new = tuple(name for name in suspects(before, now.failures) if name not in now.flaky)
        if now.flaky and not new and not now.failures_left_out:
            return _flaky(now, 0)
        was = f"on the base commit it {_was(before)}" if before else "it has no baseline"
        return _new_failure(now, was, new)
    if _same_failures(before, now):
        return GateVerdict(name=now.name, status=VerdictStatus.KNOWN_FAILURE, detail=_known(before, now))
    if before.failures_left_out or now.failures_left_out:
        return _new_failure(now, "it fails otherwise than on the base commit, in too many places to list", ())
    new = tuple(name for name in suspects(before, now.failures) if name not in now.flaky)
    known = len(set(now.failures) & set(before.failures))
    if now.flaky and not new and not known:
        return _flaky(now, known)
    if (now.failures or now.flaky) and not new:
        return GateVerdict(name=now.name, status=VerdictStatus.KNOWN_FAILURE, detail=_known(before, now))
    if not now.failures:
        return _new_failure(now, f"it failed before, and now in another way (exit code {now.exit_code})", ())
    return _new_failure(now, f"{len(new)} new beside {known} known", new)


def _flaky(now: GateResult, known: int) -> GateVerdict:
    detail = f"{counted(len(now.flaky), 'failure')} gone when run again alone: {', '.join(now.flaky[:3])}"
    return GateVerdict(name=now.name, status=VerdictStatus.FLAKY, detail=detail, known=known)


def _with_numbers(verdict: GateVerdict, before: GateResult | None, now: GateResult) -> GateVerdict:
    fresh = frozenset(verdict.new_failures)
    details = tuple(detail for detail in now.details if detail.name in fresh)[:DETAILS_SHOWN]
    return verdict.model_copy(
        update={
            "known": len(set(now.failures) & set(before.failures)) if before else 0,
            "flaky": tuple(sorted({*now.flaky, *(set(now.failures) & set(before.flaky if before else ()))})),
            "details": details,
            "tests_before": before.tests if before else None,
            "tests": now.tests,
            "skipped_before": before.skipped if before else None,
            "skipped": now.skipped,
            "kind": now.kind,
            "seconds_before": _seconds(before),
            "seconds": _seconds(now),
        }
    )


def _seconds(result: GateResult | None) -> float | None:
    ran = result is not None and result.outcome is not GateOutcome.INCONCLUSIVE
    return result.duration_seconds if result is not None and ran else None


def _integrity(now: Sequence[GateResult]) -> list[GateVerdict]:
    """One verdict for what was done to the gates themselves; none where nothing was."""
    found = tuple(dict.fromkeys(finding for result in now for finding in result.integrity))
    if not found:
        return []
    detail = "; ".join(finding.detail for finding in found)
    blocks = any(finding.blocks for finding in found)
    return [
        GateVerdict(name=INTEGRITY_GATE, status=VerdictStatus.INTEGRITY, detail=detail, integrity=found, blocks=blocks)
    ]


def _same_failures(before: GateResult, now: GateResult) -> bool:
    if before.fingerprint or now.fingerprint:
        return before.fingerprint == now.fingerprint
    return before.exit_code == now.exit_code


def _new_failure(now: GateResult, detail: str, new: tuple[str, ...]) -> GateVerdict:
    detail += f"; {now.reason}" if now.reason else ""
    return GateVerdict(name=now.name, status=VerdictStatus.NEW_FAILURE, detail=detail, new_failures=new, blocks=True)


def _was(before: GateResult) -> str:
    if before.outcome is GateOutcome.PASSED:
        return "passed"
    return f"was inconclusive ({before.reason or 'it could not run'}), so nothing shows that this failure is old"


def _was_shortly(result: GateResult) -> str:
    return (
        "says nothing"
        if result.outcome is GateOutcome.INCONCLUSIVE
        else f"has {counted(len(result.failures), 'failure')}"
    )


def _known(before: GateResult, now: GateResult) -> str:
    count = len(now.failures) + now.failures_left_out - len(set(now.flaky) & set(now.failures))
    if not count:
        return "it failed on the base commit with the same exit code; its output names no single failures"
    gone = len(before.failures) + before.failures_left_out - count
    parts = [
        f"{count} failed on the base commit too",
        f"{gone} are fixed" if gone > 0 else "",
        f"{len(now.flaky)} flaky" if now.flaky else "",
        now.reason or "",
        _fewer_tests(before, now),
    ]
    return "; ".join(part for part in parts if part)


def _fewer_tests(before: GateResult | None, now: GateResult) -> str:
    if before is None or before.tests is None or now.tests is None or now.tests >= before.tests:
        return ""
    return f"{before.tests - now.tests} fewer tests ran than on the base commit ({now.tests} of {before.tests})"

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
from baton.models import Stored

SUMMARY_CHARACTERS = 2_000


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
    run is inconclusive. `skipped`: how many of the `tests` were not run.
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
    failures_left_out: int = 0
    fingerprint: str = ""


class GateVerdict(Stored):
    """A gate's word on the result. `blocks` keeps the result from being ready."""

    name: str
    status: VerdictStatus
    detail: str = ""
    new_failures: tuple[str, ...] = ()
    blocks: bool = Field(default=False)


def not_run(spec: GateSpec, reason: str) -> GateResult:
    """The result of a gate that could not be started at all."""
    return GateResult(
        name=spec.name, kind=spec.kind, command=spec.command, outcome=GateOutcome.INCONCLUSIVE, reason=reason
    )


def compare(baseline: Sequence[GateResult], now: Sequence[GateResult]) -> list[GateVerdict]:
    """One verdict per gate of either list, in the order of `now`, then what was not run again."""
    before = {result.name: result for result in baseline}
    after = {result.name: result for result in now}
    verdicts = [_verdict(before.get(name), result) for name, result in after.items()]
    missing = [name for name in before if name not in after]
    return verdicts + [
        GateVerdict(
            name=name,
            status=VerdictStatus.INCONCLUSIVE,
            detail="it ran on the base commit and was not run again",
            blocks=True,
        )
        for name in missing
    ]


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
        was = "has no baseline" if before is None else _was(before)
        return _new_failure(now, f"on the base commit it {was}" if before else f"it {was}", now.failures)
    if _same_failures(before, now):
        return GateVerdict(name=now.name, status=VerdictStatus.KNOWN_FAILURE, detail=_known(before, now))
    if before.failures_left_out or now.failures_left_out:
        return _new_failure(now, "it fails otherwise than on the base commit, in too many places to list", ())
    new = tuple(sorted(set(now.failures) - set(before.failures)))
    if now.failures and not new:
        return GateVerdict(name=now.name, status=VerdictStatus.KNOWN_FAILURE, detail=_known(before, now))
    if not now.failures:
        return _new_failure(now, f"it failed before, and now in another way (exit code {now.exit_code})", ())
    return _new_failure(now, f"{len(new)} new beside {len(now.failures) - len(new)} known", new)


def _same_failures(before: GateResult, now: GateResult) -> bool:
    if before.fingerprint or now.fingerprint:
        return before.fingerprint == now.fingerprint
    return before.exit_code == now.exit_code


def _new_failure(now: GateResult, detail: str, new: tuple[str, ...]) -> GateVerdict:
    return GateVerdict(name=now.name, status=VerdictStatus.NEW_FAILURE, detail=detail, new_failures=new, blocks=True)


def _was(before: GateResult) -> str:
    if before.outcome is GateOutcome.PASSED:
        return "passed"
    return f"was inconclusive ({before.reason or 'it could not run'}), so nothing shows that this failure is old"


def _known(before: GateResult, now: GateResult) -> str:
    count = len(now.failures) + now.failures_left_out
    if not count:
        return "it failed on the base commit with the same exit code; its output names no single failures"
    gone = len(before.failures) + before.failures_left_out - count
    parts = [
        f"{count} failed on the base commit too",
        f"{gone} are fixed" if gone > 0 else "",
        _fewer_tests(before, now),
    ]
    return "; ".join(part for part in parts if part)


def _fewer_tests(before: GateResult | None, now: GateResult) -> str:
    if before is None or before.tests is None or now.tests is None or now.tests >= before.tests:
        return ""
    return f"{before.tests - now.tests} fewer tests ran than on the base commit ({now.tests} of {before.tests})"

"""Verdicts: known, new, fixed and inconclusive told apart (case D3), and what keeps a result from being ready."""

import pytest

from baton.failures import FAILURES_KEPT, failure_fields
from baton.findings import (
    GateKind,
    GateOutcome,
    GateResult,
    GateSpec,
    GateVerdict,
    VerdictStatus,
    compare,
    ready,
)
from baton.gate_output import named_failures

PASSED, FAILED, INCONCLUSIVE = GateOutcome.PASSED, GateOutcome.FAILED, GateOutcome.INCONCLUSIVE


def result(outcome: GateOutcome, *failures: str, name: str = "tests", exit_code: int = 1, **more: object) -> GateResult:
    kept, left_out, fingerprint = failure_fields(failures)
    return GateResult.model_validate(
        {
            "name": name,
            "kind": GateKind.TEST,
            "command": "pytest",
            "outcome": outcome,
            "exit_code": 0 if outcome is PASSED else exit_code,
            "failures": kept,
            "failures_left_out": left_out,
            "fingerprint": fingerprint,
            **more,
        }
    )


def verdict(before: GateResult | None, now: GateResult) -> GateVerdict:
    (only,) = compare([before] if before else [], [now])
    return only


@pytest.mark.parametrize(
    ("before", "now", "status", "is_ready"),
    [
        (result(PASSED), result(PASSED), "passed", True),
        (result(FAILED, "a"), result(PASSED), "fixed", True),
        (result(INCONCLUSIVE), result(PASSED), "passed", True),
        (None, result(PASSED), "passed", True),
        (result(PASSED), result(FAILED, "a"), "new_failure", False),
        (None, result(FAILED, "a"), "new_failure", False),
        (result(INCONCLUSIVE, reason="exit 127"), result(FAILED, "a"), "new_failure", False),
        (result(FAILED, "a", "b"), result(FAILED, "a", "b"), "known_failure", True),
        (result(FAILED, "a", "b"), result(FAILED, "b"), "known_failure", True),
        (result(FAILED, "a", "b", "c"), result(FAILED, "a", "d"), "new_failure", False),
        (result(FAILED, "a"), result(FAILED, "a", "a"), "new_failure", False),
        (result(FAILED), result(FAILED), "known_failure", True),
        (result(FAILED), result(FAILED, exit_code=2), "new_failure", False),
        (result(FAILED), result(FAILED, "a"), "new_failure", False),
        (result(FAILED, "a"), result(FAILED), "new_failure", False),
        (result(INCONCLUSIVE), result(INCONCLUSIVE), "inconclusive", True),
        (result(PASSED), result(INCONCLUSIVE), "inconclusive", False),
        (result(FAILED, "a"), result(INCONCLUSIVE), "inconclusive", False),
        (None, result(INCONCLUSIVE), "inconclusive", False),
    ],
)
def test_verdicts(before: GateResult | None, now: GateResult, status: str, is_ready: bool) -> None:
    assert verdict(before, now).status == status
    assert ready([verdict(before, now)]) is is_ready


def test_a_new_failure_among_three_known_ones_is_named():
    now = verdict(result(FAILED, "a", "b", "c"), result(FAILED, "a", "b", "c", "fresh"))
    assert now.new_failures == ("fresh",)
    assert now.detail == "1 new beside 3 known"


def test_a_gate_that_was_not_run_again_blocks():
    (missing,) = compare([result(PASSED)], [])
    assert missing.status is VerdictStatus.INCONCLUSIVE
    assert not ready([missing])


def test_one_blocking_gate_among_good_ones_is_enough():
    verdicts = compare([result(PASSED), result(PASSED, name="lint")], [result(PASSED), result(FAILED, name="lint")])
    assert [entry.status for entry in verdicts] == ["passed", "new_failure"]
    assert not ready(verdicts)
    assert ready([])


def test_fewer_tests_are_mentioned_even_when_all_pass():
    assert "2 fewer tests" in verdict(result(PASSED, tests=10), result(PASSED, tests=8)).detail


def test_thousands_of_failures_stay_small_and_are_still_told_apart():
    many = [f"tests/test_{number}.py::test" for number in range(5000)]
    before, same, other = result(FAILED, *many), result(FAILED, *reversed(many)), result(FAILED, *many[1:], "fresh")
    assert len(before.failures) == FAILURES_KEPT
    assert len(before.model_dump_json()) < 64_000
    assert verdict(before, same).status is VerdictStatus.KNOWN_FAILURE
    assert "5000 failed" in verdict(before, same).detail
    assert verdict(before, other).status is VerdictStatus.NEW_FAILURE


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("src/a.py:10:4: F401 `os` imported but unused", "src/a.py:12:4: F401 `os` imported but unused"),
        ('src/a.py:10: error: Name "x" is not defined', 'src/a.py:99: error: Name "x" is not defined'),
        ("src/a.ts(3,5): error TS2304: Cannot find name 'x'.", "src/a.ts(4,5): error TS2304: Cannot find name 'x'."),
        ("not ok 3 - adds numbers", "not ok 17 - adds numbers"),
        ("--- FAIL: TestAdd (0.01s)", "--- FAIL: TestAdd (1.20s)"),
        ("\x1b[31mFAIL\x1b[0m src/a.test.js", "FAIL src/a.test.js"),
        ("test add ... FAILED", "test add ... FAILED"),
        ("  1) Calculator adds:", "  4) Calculator adds:"),
        ("  ● Calculator › adds (12 ms)", "  ● Calculator › adds (7 ms)"),
    ],
)
def test_the_same_failure_has_the_same_name_in_two_runs(first: str, second: str) -> None:
    assert named_failures(first)
    assert named_failures(first) == named_failures(second)


def test_totals_do_not_make_a_repaired_failure_a_new_one():
    before = ["not ok 1 - a", "not ok 2 - b", "# fail 2", "2 failing", "Found 2 errors.", "FAILED (failures=2)"]
    after = ["not ok 1 - a", "# fail 1", "1 failing", "Found 1 error.", "FAILED (failures=1)"]
    assert named_failures("\n".join(before)) == ["not ok - a", "not ok - b"]
    assert named_failures("\n".join(after)) == ["not ok - a"]
    assert named_failures("Tests: 3 failed, 2 passed") == ["Tests: 3 failed, 2 passed"]


@pytest.mark.parametrize("line", ["all good", "5 passed in 0.10s", "ok 1 - adds", "note: see the manual", ""])
def test_other_lines_name_no_failure(line: str) -> None:
    assert named_failures(line) == []


def test_a_spec_reads_what_settings_hold():
    spec = GateSpec.model_validate({"name": "t", "command": "pytest -q", "kind": "test", "timeout": "2m"})
    assert spec.timeout.total_seconds() == 120
    assert GateSpec.model_validate_json(spec.model_dump_json()) == spec

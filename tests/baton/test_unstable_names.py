"""Failures whose names change: what stays of a name, and when a run shows nothing new."""

import pytest

from baton.failures import Failure, failure_fields
from baton.findings import GateKind, GateOutcome, GateResult
from baton.unstable_names import is_nothing_new, shape, steadied


def failed(*names: str) -> GateResult:
    kept, left_out, fingerprint = failure_fields(names)
    return GateResult(
        name="tests",
        kind=GateKind.TEST,
        command="check",
        outcome=GateOutcome.FAILED,
        failures=kept,
        failures_left_out=left_out,
        fingerprint=fingerprint,
    )


@pytest.mark.parametrize(
    ("outcome", "names", "nothing_new"),
    [
        (GateOutcome.PASSED, [], True),
        (GateOutcome.FAILED, [], False),
        (GateOutcome.FAILED, ["known"], True),
        (GateOutcome.FAILED, ["run a17"], True),
        (GateOutcome.FAILED, ["known", "other"], False),
        (GateOutcome.INCONCLUSIVE, ["known"], False),
    ],
)
def test_only_a_run_that_came_to_its_end_shows_that_something_is_gone(
    outcome: GateOutcome, names: list[str], nothing_new: bool
) -> None:
    assert is_nothing_new(failed("known", "run #"), outcome, names) is nothing_new
    assert is_nothing_new(None, outcome, names) is (outcome is GateOutcome.PASSED)


def test_a_name_that_changes_becomes_what_stays_of_it_or_the_gate_itself() -> None:
    seen = [Failure(name=name) for name in ("stays 1", "run a17", "run b2", "abc", "def", "known 3")]
    fresh = ["stays 1", "run a17", "run b2", "abc", "def"]
    found = steadied("tests", 2, seen, fresh, [["stays 1", "run c9", "ghi"]])
    whole = "tests fails with exit code 2 and other words in every run"
    assert [failure.name for failure in found] == ["stays 1", "run #", whole, "known 3"]
    assert [failure.text for failure in found] == ["", "run a17", "abc", ""]


def test_without_a_further_run_that_failed_names_stay() -> None:
    seen = [Failure(name="a"), Failure(name="a"), Failure(name="b")]
    assert steadied("tests", 1, seen, ["a", "b"], []) == tuple(seen)


def test_a_shape_is_its_own_shape() -> None:
    assert shape("FAILED …x12 in a7b, not 0x…") == "FAILED # in #, not #"
    assert shape(shape("FAILED a1 b")) == shape("FAILED a1 b") == "FAILED # b"

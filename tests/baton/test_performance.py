"""Times and sizes beside the base commit: what is noise, what is not compared, and why."""

from hypothesis import given
from hypothesis import strategies as st

from baton.findings import GateKind, GateOutcome, GateResult, compare
from baton.performance import Size, Timing, size_changes, timings

PASSED, FAILED, INCONCLUSIVE = GateOutcome.PASSED, GateOutcome.FAILED, GateOutcome.INCONCLUSIVE


def gate(seconds: float, outcome: GateOutcome = PASSED, kind: GateKind = GateKind.BUILD) -> GateResult:
    return GateResult(
        name="build",
        kind=kind,
        command="make",
        outcome=outcome,
        exit_code=0 if outcome is PASSED else 1,
        duration_seconds=seconds,
    )


def timing(before: GateResult | None, now: GateResult) -> Timing:
    (only,) = timings(compare([before] if before else [], [now]))
    return only


def test_a_build_that_takes_twice_as_long_is_told():
    found = timing(gate(10), gate(20))
    assert (found.before, found.now, found.ratio, found.word) == (10, 20, 2.0, "more")
    assert timing(gate(20), gate(10)).word == "less"


def test_small_differences_are_noise():
    assert timing(gate(0.2), gate(1.1)).word == "same"
    assert timing(gate(100), gate(120)).word == "same"
    assert timing(gate(0), gate(5)).word == "more"


def test_runs_that_ended_otherwise_are_not_compared():
    for before, now in [
        (gate(10), gate(1, FAILED)),
        (gate(10, FAILED), gate(1)),
        (gate(10), gate(1, INCONCLUSIVE)),
        (gate(10, INCONCLUSIVE), gate(1)),
        (None, gate(1)),
    ]:
        found = timing(before, now)
        assert (found.word, found.ratio) == ("not compared", None)
        assert found.why


def test_only_builds_and_tests_are_timed():
    assert not timings(compare([gate(1, kind=GateKind.LINT)], [gate(9, kind=GateKind.LINT)]))


def test_sizes_keep_the_order_of_the_setting_and_say_what_was_not_there():
    before = (Size(pattern="dist/*.js", bytes=1000, files=2), Size(pattern="gone"), Size(pattern="new"))
    now = (Size(pattern="dist/*.js", bytes=2000, files=2), Size(pattern="gone"), Size(pattern="new", bytes=5, files=1))
    grown, gone, new = size_changes(before, now)
    assert (grown.pattern, grown.ratio, grown.word) == ("dist/*.js", 2.0, "more")
    assert (gone.word, "not measured" in gone.why) == ("not compared", True)
    assert (new.word, new.why) == ("not compared", "nothing was there on the base commit")


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_the_word_fits_the_sizes(before: int, now: int):
    (row,) = size_changes((Size(pattern="a", bytes=before),), (Size(pattern="a", bytes=now),))
    assert row.word != "more" or now > before
    assert row.word != "less" or now < before
    assert row.word == "same" or before != now

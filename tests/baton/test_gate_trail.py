"""Which step a new failure came in with, from what gates said between merges."""

from baton.findings import GateKind, GateOutcome, GateResult, compare
from baton.gate_trail import GateTrail, came_in, with_origin

BASE = (GateResult(name="lint", kind=GateKind.LINT, command="x", outcome=GateOutcome.PASSED),)


def failed(*failures: str, name: str = "lint") -> GateResult:
    return GateResult(
        name=name,
        kind=GateKind.LINT,
        command="x",
        outcome=GateOutcome.FAILED,
        exit_code=1,
        failures=failures,
        fingerprint="-".join(failures),
    )


def test_a_failure_belongs_to_the_one_step_that_was_merged_since() -> None:
    trail, first = GateTrail().with_merge(4).with_results(BASE, BASE)
    assert came_in(first) == {}
    trail, second = trail.with_merge(2).with_results((failed("a"),), BASE)
    assert came_in(second) == {("lint", "a"): 2}
    trail, third = trail.with_merge(3).with_results((failed("a", "b"),), BASE)
    assert came_in(third) == {("lint", "b"): 3}
    assert came_in({**second, **third}) == {("lint", "a"): 2, ("lint", "b"): 3}


def test_of_two_steps_merged_since_none_is_named() -> None:
    trail, found = GateTrail().with_merge(1).with_merge(2).with_results((failed("a"),), BASE)
    assert found == {}
    _, again = trail.with_merge(3).with_results((failed("a"),), BASE)
    assert came_in(again) == {}, "it was there before"


def test_a_gate_that_did_not_run_after_every_merge_sees_several() -> None:
    trail, _ = GateTrail().with_merge(1).with_results(BASE, BASE)
    slow = GateResult(name="tests", kind=GateKind.TEST, command="y", outcome=GateOutcome.PASSED)
    results = (failed("a"), failed("t", name="tests"))
    _, found = trail.with_merge(2).with_results(results, (*BASE, slow))
    assert came_in(found) == {("lint", "a"): 2}


def test_merges_that_a_gate_has_not_seen_are_known() -> None:
    trail, _ = GateTrail().with_merge(1).with_results(BASE, BASE)
    assert (trail.unseen(["lint"]), trail.unseen([])) == (False, False)
    assert trail.unseen(["lint", "tests"])
    assert trail.with_merge(2).unseen(["lint"])


def test_the_last_step_with_which_it_came_counts_and_a_gate_may_name_nothing() -> None:
    verdicts: dict[int, tuple] = {}
    trail = GateTrail()
    for step, result in ((1, failed("a")), (2, BASE[0]), (3, failed("a")), (4, failed())):
        trail, found = trail.with_merge(step).with_results((result,), BASE)
        verdicts |= found
    assert came_in(verdicts)[("lint", "a")] == 3
    _, unnamed = GateTrail().with_merge(7).with_results((failed(),), BASE)
    assert came_in(unnamed) == {("lint", "gate lint"): 7}


def test_what_no_gate_needs_to_compare_is_not_kept() -> None:
    trail, _ = GateTrail().with_merge(1).with_results((failed("a").model_copy(update={"output_tail": "long"}),), BASE)
    assert trail.results["lint"].output_tail == ""
    assert GateTrail.model_validate_json(trail.model_dump_json()) == trail


def test_a_verdict_tells_the_steps_that_its_failures_came_in_with() -> None:
    verdict, fine = compare(BASE, (failed("a", "b", "c"), BASE[0].model_copy(update={"name": "other"})))
    told = with_origin(verdict, {("lint", "a"): 4, ("lint", "b"): 2, ("lint", "c"): 0, ("tests", "c"): 9})
    assert told.detail == f"{verdict.detail}; came in with step 2, 4"
    assert with_origin(verdict, {}) == verdict
    assert with_origin(fine, {("other", "a"): 4}) == fine

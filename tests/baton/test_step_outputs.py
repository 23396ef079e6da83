"""Files that steps leave for later ones: what a plan may name, and who is expected to write what."""

import pytest

from baton.expansion import expand
from baton.plan import Plan, PlanDraft, PlanFaults
from baton.replan import replanned
from baton.report import plan_artifacts
from baton.results import not_attempted
from baton.step_outputs import address, expected

FILES = frozenset({"a.js", "docs/guide.md"})


def plan(*steps: dict[str, object]) -> Plan:
    rows = [{"agent_type": "t", "description": "d", **step} for step in steps]
    return expand(PlanDraft.model_validate({"plan": rows}), "t", FILES)


def test_a_name_alone_is_that_of_the_only_step_that_can_have_written_it() -> None:
    made = plan({"step": 1}, {"step": 2, "depends_on": [1], "input_context": "order.json"})
    assert made.step(2).input_context == "1/order.json"
    assert (expected(made.plan, 1), expected(made.plan, 2)) == (("order.json",), ())
    specs = {artifact.name: artifact.value for artifact in plan_artifacts(made)}
    assert specs["tasks/1.yaml"]["expected_output_path"] == "outputs/1/order.json"
    assert specs["tasks/2.yaml"]["context_files"] == ["outputs/1/order.json"]
    assert specs["tasks/2.yaml"]["expected_output_path"] == "results/2.yaml"


@pytest.mark.parametrize("given", ["1/order.json", "outputs/1/order.json", "@outputs/1/order.json"])
def test_a_step_may_be_named_in_each_spelling(given: str) -> None:
    steps = ({"step": 1}, {"step": 2, "depends_on": [1]}, {"step": 3, "depends_on": [2], "input_context": given})
    assert address(plan(*steps).step(3).input_context or "") == "@outputs/1/order.json"


def test_a_file_of_the_repository_may_be_named_too() -> None:
    assert plan({"step": 1, "input_context": "docs/guide.md"}).step(1).input_context == "docs/guide.md"


@pytest.mark.parametrize(
    ("steps", "named"),
    [
        (({"step": 1, "input_context": "x.json"},), "it depends on no step with an agent"),
        (({"step": 1, "run": "make"}, {"step": 2, "depends_on": [1], "input_context": "x"}), "no step with an agent"),
        (({"step": 1}, {"step": 2}, {"step": 3, "depends_on": [1, 2], "input_context": "x"}), "steps [1, 2] could"),
        (({"step": 1}, {"step": 2, "input_context": "1/x"}), "nobody writes input_context '1/x'"),
        (({"step": 1}, {"step": 2, "depends_on": [1], "input_context": "7/x"}), "nobody writes"),
        (({"step": 1}, {"step": 2, "depends_on": [1], "input_context": "1/../x"}), "is not the name of an output"),
    ],
)
def test_what_nobody_writes_is_a_fault(steps: tuple[dict[str, object], ...], named: str) -> None:
    with pytest.raises(PlanFaults, match=r".") as raised:
        plan(*steps)
    assert named in str(raised.value)


def test_a_new_plan_after_an_old_one_moves_the_names() -> None:
    old = plan({"step": 1})
    new = plan({"step": 1}, {"step": 2, "depends_on": [1], "input_context": "order.json"})
    after = replanned(old, {1: not_attempted(old.step(1), "x")}, {}, new).plan
    assert after.step(3).input_context == "2/order.json"

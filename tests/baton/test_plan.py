"""Plans: every fault is named, globs are expanded by code, overlaps are put in sequence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.expansion import expand
from baton.plan import DraftStep, Plan, PlanDraft, PlanFaults, PlanStep, dependants, execution_order

FILES = frozenset({"src/a.js", "src/b.js", "src/deep/c.js", "src/x.min.js", "README.md"})


def step(number: int, **fields: object) -> dict[str, object]:
    return {"step": number, "agent_type": "t", "description": "d", **fields}


def expanded(*steps: dict[str, object]) -> Plan:
    return expand(PlanDraft.model_validate({"plan": steps}), "task", FILES)


def faults(*steps: dict[str, object]) -> str:
    with pytest.raises(PlanFaults) as raised:
        expanded(*steps)
    return str(raised.value)


def test_selection_becomes_items() -> None:
    plan = expanded(step(1, select={"include": ["src/**/*.js"], "exclude": ["**/*.min.js"]}))
    assert plan.step(1).items == ("src/a.js", "src/b.js", "src/deep/c.js")


def test_an_empty_plan_is_a_legitimate_outcome() -> None:
    assert expanded().plan == ()


@pytest.mark.parametrize(
    ("steps", "named"),
    [
        ([step(1), step(1)], "step 1 is there 2 times"),
        ([step(1, depends_on=[1])], "step 1 depends on itself"),
        ([step(1, depends_on=[7])], "step 1 depends on step 7, which does not exist"),
        ([step(1, depends_on=[2]), step(2, depends_on=[1])], "in a circle"),
        ([step(1, items=["src/missing.js"])], "'src/missing.js' does not exist"),
        ([step(1, items=["../outside"])], "'../outside' leads outside the repository"),
        ([step(1, items=["/etc/passwd"])], "is not a path relative to the repository"),
        ([step(1, items=["sub/.GIT/config"])], "is inside .git"),
        ([step(1, select={"include": ["*.rs"]})], "matches no file"),
        ([step(1, run="codemod {item}")], "the step has no items"),
        ([step(1, run="codemod '<{item}>'", items=["src/a.js"])], "inside quotes"),
        ([step(1, run="make"), step(2, failures_of=3)], "failures_of names step 3, which is no step with run"),
        ([step(1), step(2, failures_of=1)], "failures_of names step 1, which is no step with run"),
        ([step(1, run="make"), step(2, failures_of=1, items=["src/a.js"])], "neither items, select nor run"),
        ([step(1, run="make"), step(2, failures_of=1), step(3, failures_of=1)], "are given to 2 steps"),
        ([step(1, run="make", depends_on=[2]), step(2, failures_of=1)], "in a circle"),
        ([step(1, items=["src/a.js", "src/a.js"])], "names an item twice"),
    ],
)
def test_faults_are_named(steps: list[dict[str, object]], named: str) -> None:
    assert named in faults(*steps)


def test_all_faults_are_named_at_once() -> None:
    text = faults(step(1, depends_on=[9]), step(2, items=["nope"]), step(2))
    assert text.count("\n") == 2


def test_too_many_faults_are_cut_with_their_number() -> None:
    assert "and 60 more" in faults(step(1, items=[f"missing-{n}" for n in range(100)]))


def test_a_step_may_name_what_it_creates() -> None:
    assert expanded(step(1, items=["docs/new.md"], owns=["docs/**"])).step(1).items == ("docs/new.md",)


def test_a_step_for_failures_waits_for_the_step_that_has_them() -> None:
    plan = expanded(step(1, run="codemod {item}", items=["src/a.js"]), step(2, failures_of=1))
    assert (plan.step(2).depends_on, plan.step(2).failures_of) == ((1,), 1)


def test_overlapping_steps_are_put_in_sequence_and_it_is_said() -> None:
    plan = expanded(step(1, items=["src/a.js"]), step(2, owns=["src/**"]))
    assert plan.step(2).depends_on == (1,)
    assert plan.notes == ("step 2 waits for step 1: both own src/a.js",)


def test_overlapping_patterns_are_put_in_sequence_too() -> None:
    for one, other in (("src/**", "src/*.js"), ("docs/**", "docs/api/**"), ("src/**", "src/**")):
        assert expanded(step(1, owns=[one]), step(2, owns=[other])).step(2).depends_on == (1,), (one, other)
    for one, other in (("src/**", "docs/**"), ("src/*.py", "src/*.md"), ("a.txt", "b.txt")):
        assert expanded(step(1, owns=[one]), step(2, owns=[other])).notes == (), (one, other)


def test_two_steps_that_may_change_anything_are_put_in_sequence() -> None:
    assert expanded(step(1), step(2)).step(2).depends_on == (1,)


def test_many_steps_on_one_pattern_wait_only_for_the_one_before() -> None:
    plan = expanded(*(step(n, owns=["src/**"]) for n in range(1, 41)))
    assert len(plan.notes) == 39
    assert all(one.depends_on == (() if one.step == 1 else (one.step - 1,)) for one in plan.plan)


def test_steps_in_sequence_may_share_paths() -> None:
    plan = expanded(step(1, items=["src/a.js"]), step(2, items=["src/a.js"], depends_on=[1]))
    assert plan.notes == ()


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValueError, match="colour"):
        DraftStep.model_validate(step(1, colour="red"))


@st.composite
def graphs(draw: st.DrawFn) -> Plan:
    size = draw(st.integers(1, 12))
    steps = []
    for number in range(1, size + 1):
        wanted = draw(st.sets(st.integers(1, number - 1), max_size=3)) if number > 1 else set()
        steps.append(PlanStep(step=number, agent_type="t", description="d", depends_on=tuple(sorted(wanted))))
    return Plan(task_id="t", plan=tuple(draw(st.permutations(steps))))


@given(graphs())
def test_every_step_comes_after_its_dependencies(plan: Plan) -> None:
    order = execution_order(plan)
    assert sorted(order) == sorted(one.step for one in plan.plan)
    for one in plan.plan:
        assert all(order.index(wanted) < order.index(one.step) for wanted in one.depends_on)


@given(graphs(), st.integers(1, 12))
def test_dependants_are_exactly_those_that_reach_a_step(plan: Plan, number: int) -> None:
    reached = dependants(plan, [number])
    for one in plan.plan:
        waits = bool(set(one.depends_on) & (reached | {number}))
        assert (one.step in reached) == (waits and one.step != number)

"""New failures to repair steps: who gets them, what they own, and where it ends."""

import pytest

from baton.bounds import REPAIR_ROUNDS
from baton.failures import Failure
from baton.findings import GateKind, GateOutcome, GateResult, GateVerdict, VerdictStatus
from baton.messages import StepResult
from baton.plan import Plan, PlanStep
from baton.repairs import judged_by_gates, repair_steps, watched
from baton.schedule import others_paths
from baton.states import StepStatusWord

PLAN = Plan(
    task_id="t",
    plan=(
        PlanStep(step=1, agent_type="converter", description="Convert", items=("src/calc.py",)),
        PlanStep(step=2, agent_type="writer", description="Write", items=("docs/a.md", "src/b.py"), depends_on=(1,)),
        PlanStep(step=5, agent_type="x", description="Run it", run="format {item}", items=("src/c.py",)),
    ),
)


def results(**more: StepStatusWord) -> dict[int, StepResult]:
    changed = {1: ("src/calc.py",), 2: ("docs/a.md", "src/b.py"), 5: ("src/c.py",)}
    return {
        number: StepResult(step=number, status=more.get(f"step{number}", StepStatusWord.OK), files_changed=files)
        for number, files in changed.items()
    }


def failing(*failures: Failure, name: str = "tests") -> GateVerdict:
    names = tuple(failure.name for failure in failures)
    return GateVerdict(
        name=name,
        status=VerdictStatus.NEW_FAILURE,
        detail="it passed",
        new_failures=names,
        details=failures,
        blocks=True,
    )


def steps_for(*verdicts: GateVerdict, plan: Plan = PLAN, **more: StepStatusWord) -> tuple[PlanStep, ...]:
    return repair_steps(plan, results(**more), verdicts, ())


@pytest.mark.parametrize(
    ("files", "origin"),
    [
        (("tests/test_x.py", "src/calc.py"), 1),
        (("src/b.py", "src/calc.py"), 2),
        (("tests/test_calc.py",), 1),
        (("tests/test_other.py",), None),
        ((), None),
    ],
)
def test_a_failure_goes_to_who_changed_what_it_names(files, origin):
    (step,) = steps_for(failing(Failure(name="a", files=files, text="assert 1 == 2")))
    assert (step.step, step.repair_round, step.repairs) == (6, 1, ("a",))
    assert step.agent_type == ({1: "converter", 2: "writer"}[origin] if origin else "general")
    assert step.depends_on == ((origin,) if origin else ())
    assert set(files) <= set(step.owns)
    assert "assert 1 == 2" in step.description
    own = {1: {"src/calc.py"}, 2: {"docs/a.md", "src/b.py"}, None: {"src/calc.py", "docs/a.md", "src/b.py", "src/c.py"}}
    assert set(step.owns) == own[origin] | set(files)


def test_a_command_s_step_is_repaired_by_a_general_executor():
    (step,) = steps_for(failing(Failure(name="a", files=("src/c.py",))))
    assert (step.agent_type, step.depends_on) == ("general", (5,))


def test_failures_of_one_origin_or_one_file_are_one_step_and_others_are_not():
    lint = failing(Failure(name="src/b.py: F401", files=("src/b.py",)), name="ruff")
    tests = failing(Failure(name="a", files=("src/calc.py",)), Failure(name="c", files=("src/c.py",)))
    found = steps_for(tests, lint)
    assert [(step.step, step.repairs) for step in found] == [(6, ("a",)), (7, ("c",)), (8, ("src/b.py: F401",))]
    assert "gate ruff since step 2" in found[2].description
    joined = steps_for(
        failing(
            Failure(name="a", files=("src/calc.py", "shared.py")), Failure(name="b", files=("src/b.py", "shared.py"))
        )
    )
    assert [step.repairs for step in joined] == [("a", "b")]


def test_a_gate_that_names_nothing_is_repaired_from_its_output():
    gate = GateResult(name="build", kind=GateKind.BUILD, command="make", outcome=GateOutcome.FAILED, summary="no rule")
    verdict = GateVerdict(name="build", status=VerdictStatus.NEW_FAILURE, detail="exit code 2", blocks=True)
    (step,) = repair_steps(PLAN, results(), [verdict], [gate])
    assert step.repairs == ("gate build",)
    assert "no rule" in step.description


@pytest.mark.parametrize("status", [one for one in VerdictStatus if one is not VerdictStatus.NEW_FAILURE])
def test_nothing_else_is_repaired(status):
    assert steps_for(GateVerdict(name="tests", status=status, blocks=True)) == ()


def test_rounds_are_bounded_and_a_step_that_came_to_nothing_is_not_waited_for():
    failure, plan = failing(Failure(name="a", files=("src/calc.py",))), PLAN
    for number in range(1, REPAIR_ROUNDS + 1):
        (step,) = steps_for(failure, plan=plan, step1=StepStatusWord.FAILED)
        assert (step.repair_round, step.depends_on) == (number, ())
        plan = plan.model_copy(update={"plan": (*plan.plan, step)})
    assert steps_for(failure, plan=plan) == ()
    assert watched(plan) == ("a",)
    assert judged_by_gates(plan) == {6, 7}
    # Steps of other rounds are over: what they owned is free.
    assert others_paths(plan.plan, 7, ()) == {}
    assert others_paths(plan.plan, 1, ("src/calc.py",)).keys() == {"docs/a.md", "src/b.py", "src/c.py"}


def test_very_many_files_are_not_listed():
    many = tuple(f"f{number}.py" for number in range(500))
    made = {1: StepResult(step=1, status=StepStatusWord.OK, files_changed=many)}
    failures = [Failure(name=f"t{number}", files=("f1.py",), text="x" * 600) for number in range(50)]
    (step,) = repair_steps(PLAN, made, [failing(*failures)], ())
    assert step.owns == ("**",)
    assert len(step.repairs) == 50
    assert len(step.description) < 10_000
    assert "and 40 more" in step.description


def test_a_failure_goes_to_the_step_that_it_came_in_with_whatever_it_names() -> None:
    verdict = failing(Failure(name="a", files=("src/calc.py",)), Failure(name="b", files=("src/calc.py",)))
    came = {("tests", "a"): 2, ("tests", "b"): 2, ("lint", "b"): 1}
    (step,) = repair_steps(PLAN, results(), (verdict,), (), came)
    assert (step.agent_type, step.depends_on) == ("writer", (2,))
    assert set(step.owns) == {"src/calc.py", "docs/a.md", "src/b.py"}
    unknown = repair_steps(PLAN, results(), (verdict,), (), {("tests", "a"): 0, ("tests", "b"): 9})
    assert [step.agent_type for step in unknown] == ["converter"]

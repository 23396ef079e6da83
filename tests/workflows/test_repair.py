"""Whole runs in which a step breaks a test: repaired, not to be repaired, or covered up by an agent that lies."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from baton.messages import TaskInput
from baton.plan import DraftStep, PlanDraft
from baton.states import TaskState
from baton.status import TaskResult
from emulator.standin import StandIn
from tests.end_to_end import bench
from tests.workflows.rig import Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")

CALC = "def add(a, b):\n    return a + b\n\n\ndef times(a, b):\n    return a * b\n"
TESTS = (
    "from calc import add, times\n\n\ndef test_add():\n    assert add(1, 2) == 3\n\n\n"
    "def test_times():\n    assert times(2, 3) == 6\n\n\ndef test_known():\n    assert times(1, 1) == 2\n"
)
BREAK = "[break calc.py: return a + b => return a - b]"


def task(rig: Rig, text: str, *, items: tuple[str, ...] = ("calc.py",), **settings: Any) -> TaskInput:
    folder = bench.repository(
        rig.folder / f"project-{next(rig.numbers)}", {"calc.py": CALC, "test_calc.py": TESTS, "other.py": "x = 1\n"}
    )
    steps = (
        DraftStep(step=1, agent_type="other", description="Look at the other file", items=("other.py",)),
        DraftStep(step=2, agent_type="editor", description="Edit the files", items=items),
    )
    return TaskInput(
        task=text,
        repository=str(folder),
        plan=PlanDraft(plan=steps),
        settings={
            "gates": [{"name": "tests", "kind": "test", "command": "python3 -m pytest -q -p no:cacheprovider"}],
            "sandbox": "off",
            **settings,
        },
        environment={
            "PATH": f"{sys.prefix}/bin{os.pathsep}{os.environ['PATH']}",
            "HOME": str(rig.folder),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
    )


def artifact(result: TaskResult, name: str) -> Any:
    return json.loads((Path(result.artifacts) / name).read_text(encoding="utf-8"))


def issues(result: TaskResult) -> list[dict[str, Any]]:
    return [issue for issue in artifact(result, "issues.json") if issue["severity"] == "high"]


async def test_a_step_breaks_a_test_and_an_agent_of_its_type_repairs_it(rig):
    given = task(rig, f"Edit the files {BREAK}")
    with rig.api(StandIn()):
        result = await rig.run(given)
    report = artifact(result, "integration-report.json")
    assert (result.state, result.ready) == (TaskState.DONE, True), report["quality_gates"]
    plan = artifact(result, "plan.json")["plan"]
    assert [(step["step"], step["agent_type"], step["repair_round"]) for step in plan[2:]] == [(3, "editor", 1)]
    assert plan[2]["repairs"] == ["test_calc::test_add"]
    assert set(plan[2]["owns"]) == {"test_calc.py", "calc.py"}
    assert bench.git(Path(given.repository), "show", f"{result.ref}:calc.py") == CALC
    (gate,) = report["quality_gates"]
    assert (gate["status"], gate["known"], gate["tests_before"], gate["tests"]) == ("known_failure", 1, 3, 3)
    assert [step["status"] for step in report["steps"]] == ["ok", "ok", "ok"]
    assert report["agents"] == 4
    assert (Path(result.artifacts) / "results" / "3.yaml").exists()
    assert "Baton-Step: 3" in bench.git(Path(given.repository), "log", "-3", str(result.ref))


async def test_what_cannot_be_repaired_stays_and_is_told(rig):
    given = task(rig, f"Edit the files {BREAK.replace('[break', '[break for good')}")
    with rig.api(StandIn()):
        result = await rig.run(given)
    assert (result.state, result.ready) == (TaskState.PARTIAL, False)
    found = [issue for issue in issues(result) if issue["issue"] == "gate tests: new_failure"]
    assert [issue["files"] for issue in found] == [["test_calc.py"]]
    assert "test_calc::test_add" in found[0]["evidence"]
    assert [step["repair_round"] for step in artifact(result, "plan.json")["plan"]] == [0, 0, 1]


async def test_a_repair_that_deletes_the_failing_test_is_no_repair(rig):
    given = task(rig, f"Edit the files {BREAK} [delete failing tests]")
    with rig.api(StandIn()):
        result = await rig.run(given)
    assert (result.state, result.ready) == (TaskState.PARTIAL, False)
    assert "test_add" not in bench.git(Path(given.repository), "show", f"{result.ref}:test_calc.py")
    (found,) = [issue for issue in issues(result) if issue["issue"].startswith("tests: ")]
    assert found["files"] == ["test_calc.py"]
    assert "test_calc::test_add" in found["evidence"]
    assert "failed earlier in this task" in found["issue"]


async def test_a_step_that_takes_a_test_away_is_not_done(rig):
    given = task(rig, f"Edit {BREAK} [lose test_calc.py: test_add]", items=("calc.py", "test_calc.py"))
    with rig.api(StandIn()):
        result = await rig.run(given)
    assert (result.state, result.ready) == (TaskState.PARTIAL, False)
    assert "1 test of the base commit did not run any more" in issues(result)[0]["issue"]


async def test_tests_that_the_user_asked_to_take_out_are_told_and_block_nothing(rig):
    given = task(rig, "Delete test_add, nobody needs it. [lose test_calc.py: test_add]", items=("test_calc.py",))
    with rig.api(StandIn()):
        result = await rig.run(given)
    assert (result.state, result.ready) == (TaskState.DONE, True)
    (found,) = [issue for issue in artifact(result, "issues.json") if issue["issue"].startswith("tests: ")]
    assert found["issue"] == "tests: 1 test taken out, as the task asks"
    assert (found["severity"], found["files"], found["evidence"]) == ("medium", ["test_calc.py"], "test_calc::test_add")


async def test_without_integration_nothing_is_repaired(rig):
    given = task(rig, f"Edit the files {BREAK}").model_copy(update={"integration": False})
    with rig.api(StandIn()):
        result = await rig.run(given)
    assert result.state is TaskState.PARTIAL
    assert len(artifact(result, "plan.json")["plan"]) == 2

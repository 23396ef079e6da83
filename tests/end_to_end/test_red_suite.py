"""A suite that is red before, and has a test that comes and goes, through real processes with the real pytest: what was
known stays known, and only what a step broke is repaired."""

import json
import os
import sys
from pathlib import Path

import pytest

from baton.messages import TaskInput
from baton.plan import DraftStep, PlanDraft
from baton.states import TaskState
from emulator.standin import StandIn
from tests.end_to_end.bench import Bench, git, repository, run
from tests.end_to_end.published import all_but_the_result

pytestmark = pytest.mark.end_to_end

CALC = "def add(a, b):\n    return a + b\n\n\ndef times(a, b):\n    return a * b\n"
GREEN = "from calc import add, times\n\n\ndef test_add():\n    assert add(1, 2) == 3\n\n\n"
GREEN += "def test_times():\n    assert times(2, 3) == 6\n"
RED = "".join(f"def test_known_{number}():\n    assert {number} == 9\n\n\n" for number in range(3))
UNSTEADY = (
    "def test_beside_others(request):\n"
    '    """Fails in the whole suite and passes without it, as tests do that share a state."""\n'
    "    assert not [item for item in request.session.items if item.name == 'test_times']\n"
)


def given(folder: Path) -> TaskInput:
    steps = (
        DraftStep(step=1, agent_type="other", description="Look at the other file", items=("other.py",)),
        DraftStep(step=2, agent_type="editor", description="Edit the files", items=("calc.py",)),
    )
    return TaskInput(
        task="Edit the files [break calc.py: return a + b => return a - b]",
        repository=str(folder),
        plan=PlanDraft(plan=steps, execution_strategy="parallel"),
        settings={
            "gates": [{"name": "tests", "kind": "test", "command": "python3 -m pytest -q -p no:cacheprovider"}],
            "sandbox": "off",
        },
        environment={
            "PATH": f"{sys.prefix}/bin{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder.parent),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
    )


async def test_known_failures_stay_known_a_flaky_one_is_told_and_a_new_one_repaired(
    bench: Bench, tmp_path: Path
) -> None:
    files = {"calc.py": CALC, "other.py": "x = 1\n", "test_green.py": GREEN, "test_red.py": RED}
    folder = repository(tmp_path / "red", {**files, "test_unsteady.py": UNSTEADY})
    before = all_but_the_result(folder, "red")
    with bench.api(StandIn()):
        result = await run(await bench.client(), given(folder), "red")
    artifacts = Path(result.artifacts)
    report = json.loads((artifacts / "integration-report.json").read_text(encoding="utf-8"))
    assert (result.state, result.ready) == (TaskState.DONE, True), report["quality_gates"]
    assert all_but_the_result(folder, "red") == before

    (gate,) = report["quality_gates"]
    assert (gate["status"], gate["tests_before"], gate["tests"]) == ("known_failure", 6, 6)
    assert gate["known"] == 4, "three that always fail, and the one that does sometimes"
    assert gate["flaky"] == ["test_unsteady::test_beside_others"]
    assert gate["new_failures"] == []
    repairs = json.loads((artifacts / "plan.json").read_text(encoding="utf-8"))["plan"][2:]
    assert [(step["repairs"], step["agent_type"]) for step in repairs] == [(["test_green::test_add"], "editor")]
    assert git(folder, "show", f"{result.ref}:calc.py") == CALC
    issues = json.loads((artifacts / "issues.json").read_text(encoding="utf-8"))
    assert [issue["severity"] for issue in issues if "come and go" in issue["issue"]] == ["low"]
    assert not [issue for issue in issues if issue["severity"] == "high"]
    told = (artifacts / "report.md").read_text(encoding="utf-8")
    assert "test_beside_others" in told

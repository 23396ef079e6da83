"""What a whole run leaves for people: the report in both forms, and the files of its steps."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from baton.messages import TaskInput
from baton.plan import DraftStep, PlanDraft
from baton.states import TaskState
from baton.status import TaskResult
from emulator.dialogue import read_dialogue
from emulator.reply import Reply, Text
from emulator.request import Request
from emulator.standin import StandIn
from tests.end_to_end import bench
from tests.workflows.rig import Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")

FILES = {"one.py": 'def one(name):\n    return "one %s" % name\n', "two.py": "x = 1\n"}
BUILD = "mkdir -p dist && cat one.py two.py > dist/all.py"


def task(rig: Rig, text: str, files: dict[str, str] = FILES, **settings: Any) -> TaskInput:
    folder = bench.repository(rig.folder / f"project-{next(rig.numbers)}", {**files, ".gitignore": "dist\n"})
    steps = tuple(
        DraftStep(step=number, agent_type="editor", description=f"Modernise {name}", items=(name,))
        for number, name in enumerate(files, 1)
    )
    return TaskInput(
        task=text,
        repository=str(folder),
        plan=PlanDraft(plan=steps),
        settings={"gates": [], "sandbox": "off", **settings},
        environment={"PATH": f"{sys.prefix}/bin{os.pathsep}{os.environ['PATH']}", "HOME": str(rig.folder)},
    )


def read(result: TaskResult, name: str) -> Any:
    text = (Path(result.artifacts) / name).read_text(encoding="utf-8")
    return json.loads(text) if name.endswith(".json") else yaml.safe_load(text) if name.endswith(".yaml") else text


async def test_times_and_sizes_stand_beside_those_of_the_base_commit(rig):
    given = task(
        rig,
        "Modernise the string formatting",
        gates=[{"name": "build", "kind": "build", "command": BUILD}],
        sizes=["dist/*.py", "two.py", "none"],
    )
    with rig.api(StandIn()):
        result = await rig.run(given)
    assert result.state is TaskState.DONE
    report, text = read(result, "integration-report.json"), read(result, "report.md")
    (timing,) = report["performance"]["timings"]
    assert (timing["gate"], timing["word"]) == ("build", "same")
    assert timing["before"] is not None
    assert timing["now"] is not None
    built, same, none = report["performance"]["sizes"]
    base = sum(map(len, FILES.values()))
    shorter = len('def one(name):\n    return f"one {name}"\n') - len(FILES["one.py"])
    assert (built["before"], built["now"]) == (base, base + shorter)
    assert (same["before"], same["word"]) == (len(FILES["two.py"]), "same")
    assert (none["now"], none["word"]) == (None, "not compared")
    assert "## Performance Validation" in text
    assert "not measured" in text
    assert report["duration_seconds"] > 0


async def test_the_summarizer_is_asked_once_and_the_facts_win(rig):
    given = task(rig, "Modernise the string formatting [boast]")
    with rig.api(StandIn()) as server:
        result = await rig.run(given)
        asked = [one for one in server.requests if (one.user_id or "").endswith("/summarizer")]
    assert len(asked) == 1
    report, text = read(result, "integration-report.json"), read(result, "report.md")
    said = report["synthesis"]
    assert "Step 1 is ok. Step 2 is ok." in said["text"]
    assert [one["sentence"] for one in said["left_out"]] == ["I saved 987654 lines."]
    assert said["text"] in text
    assert "~~I saved 987654 lines.~~" in text
    assert report["summary"].startswith("2 of 2 items done")
    assert report["usage"]["model_calls"] == sum(one.path == "/v1/messages" for one in server.requests)


class Mute(StandIn):
    """A stand-in that summarises nothing."""

    def respond(self, request: Request) -> Reply:
        role = read_dialogue(request).assignment.get("role")
        return Reply([Text("Nothing comes to mind.")]) if role == "summarizer" else super().respond(request)


async def test_a_run_without_a_summary_ends_as_well(rig):
    given = task(rig, "Modernise the string formatting")
    with rig.api(Mute()):
        result = await rig.run(given)
    report = read(result, "integration-report.json")
    assert result.state is TaskState.DONE
    assert report["synthesis"]["text"] == ""
    assert report["synthesis"]["why"] == "the summarizer submitted none"


async def test_the_files_of_steps_hold_what_the_contract_names(rig):
    given = task(rig, "Modernise the string formatting").model_copy(update={"integration": False})
    with rig.api(StandIn()):
        result = await rig.run(given)
    wanted = {"status", "summary", "findings", "files_changed", "blockers", "verification_gaps"}
    assert wanted <= read(result, "results/1.yaml").keys()
    assert read(result, "results/1.yaml")["files_changed"] == ["one.py"]
    assert read(result, "tasks/2.yaml").keys() == {
        "goal",
        "constraints",
        "context_files",
        "expected_output_path",
        "blocked_on",
    }
    assert read(result, "integration-report.json")["synthesis"]["text"] == ""


DIFFERENT = "Look at the limits [decide 1: Retry limit: 3] [decide 2: Retry limit: 5]"


async def test_what_chose_otherwise_is_brought_in_line_with_the_earlier_step(rig):
    given = task(rig, DIFFERENT, {"one.py": FILES["one.py"], "two.py": 'MOST_RETRIES = 5\nTEXT = "%s" % 5\n'})
    with rig.api(StandIn()):
        result = await rig.run(given)
    report, text = read(result, "integration-report.json"), read(result, "report.md")
    assert result.state is TaskState.DONE
    (settled,) = report["contradictions"]
    assert (settled["subject"], settled["choice"], settled["by"]) == ("retry limit", "3", "integrator")
    added = read(result, "plan.json")["plan"][2]
    assert (added["step"], added["settles"], added["owns"]) == (3, ["retry limit"], ["two.py"])
    assert bench.git(Path(given.repository), "show", f"{result.ref}:two.py").startswith("MOST_RETRIES = 3\n")
    assert "✓ retry limit: “3” (step 1) against “5” (step 2)" in text
    assert "step 3 brought the rest in line" in text
    assert read(result, "issues.json") == []


async def test_what_nobody_rules_on_and_may_be_right_is_left_to_a_person(rig):
    files = {"one.py": FILES["one.py"], "two.py": 'MOST_RETRIES = 5\nTEXT = "%s" % 5\n'}
    given = task(rig, f"{DIFFERENT} [no rulings]", files)
    with rig.api(StandIn()):
        result = await rig.run(given)
    (issue,) = read(result, "issues.json")
    assert "steps chose differently: retry limit: “3” (step 1) against “5” (step 2)" in issue["issue"]
    assert len(read(result, "plan.json")["plan"]) == 2
    assert "✗ retry limit" in read(result, "report.md")


async def test_a_summary_whose_worker_dies_is_paid_once_and_counted_once(rig):
    tries = []

    async def die_first(attempt, given):
        done = await attempt()
        if given.fn.__name__ == "summarize":
            tries.append(done)
            if len(tries) == 1:
                raise OSError("the worker dies with its answer")
        return done

    given = task(rig, "Modernise the string formatting")
    with rig.api(StandIn()) as server, rig.around(die_first):
        result = await rig.run(given)
    asked = [one for one in server.requests if (one.user_id or "").endswith("/summarizer")]
    assert (len(tries), len(asked)) == (2, 1)
    assert tries[0] == tries[1]
    assert result.usage.model_calls == sum(one.path == "/v1/messages" for one in server.requests)
    trace = read(result, "trace.jsonl").splitlines()
    assert sum('"summarizer"' in line for line in trace) == 1

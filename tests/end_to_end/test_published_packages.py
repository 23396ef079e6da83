"""Published packages with suites of their own, worked on by several agents at once, over real processes.

`webob` keeps its code in `src/`; `pelican` has a test that fails as published, links, binary files and names with
spaces. Both come with an editable install in the checkout, which must not be what the gates test.
"""

import json
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from baton.messages import TaskInput
from baton.plan import DraftStep, PlanDraft
from baton.states import TaskState
from emulator.standin import StandIn
from tests.end_to_end.bench import Bench, git, run, task
from tests.end_to_end.published import all_but_the_result, developed, suite, unpacked

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(600)]  # five runs of a real suite, on a busy machine too

LIMIT = timedelta(minutes=9)


@dataclass(frozen=True)
class Package:
    """A package, the files of each step, an order that breaks something, and the tests which only that breaks."""

    name: str
    source: str
    steps: tuple[tuple[str, ...], ...]
    order: str = ""
    broken: tuple[str, ...] = ()


WEBOB = Package(
    "webob",
    "src",
    (
        ("src/webob/byterange.py", "src/webob/compat.py"),
        ("src/webob/etag.py", "src/webob/dec.py"),
        ("src/webob/util.py", "src/webob/static.py"),
    ),
)
PELICAN = Package(
    "pelican",
    ".",
    (("pelican/paginator.py",), ("pelican/settings.py", "pelican/server.py"), ("pelican/tools/pelican_quickstart.py",)),
    " [break pelican/paginator.py: return self.number > 1 => return self.number > 0]",
    tuple(f"pelican.tests.test_pelican.TestPelican::test_{name}_generation_works" for name in ("basic", "custom")),
)


def given(package: Package, repository: Path) -> TaskInput:
    """A task with a step for each group of files, side by side; the gates are those that are found."""
    steps = tuple(
        DraftStep(step=n, agent_type="editor", description="Modernise the string formatting", items=items)
        for n, items in enumerate(package.steps, 1)
    )
    asked = task(repository, "README.rst")
    return asked.model_copy(
        update={
            "task": f"Modernise the string formatting{package.order}",
            "plan": PlanDraft(execution_strategy="parallel", plan=steps),
            "integration": True,
            "settings": {"maxParallelAgents": 3},
        }
    )


@pytest.mark.parametrize("package", [WEBOB, PELICAN], ids=lambda package: package.name)
async def test_a_suite_says_the_same_inside_and_outside(bench: Bench, tmp_path: Path, package: Package) -> None:
    repository = unpacked(package.name, tmp_path)
    developed(repository, package.source)
    outside = suite(repository, tmp_path / "before.xml")
    task_id = f"published-{package.name}"
    before = all_but_the_result(repository, task_id)
    with bench.api(StandIn()):
        result = await run(await bench.client(), given(package, repository), task_id, LIMIT)
    assert (result.state, result.ready) == (TaskState.DONE, True), result.summary
    assert all_but_the_result(repository, task_id) == before

    artifacts = Path(result.artifacts)
    (baseline,) = [gate for gate in read(artifacts, "baseline.json") if gate["name"] == "tests"]
    assert (baseline["tests"], baseline["skipped"]) == (outside.tests, outside.skipped)
    assert tuple(baseline["failures"]) == outside.failed
    (gate,) = [gate for gate in read(artifacts, "integration-report.json")["quality_gates"] if gate["name"] == "tests"]
    assert gate["status"] == ("known_failure" if outside.failed else "passed")
    assert (gate["tests"], gate["skipped"], gate["known"]) == (outside.tests, outside.skipped, len(outside.failed))
    repairs = [tuple(step["repairs"]) for step in read(artifacts, "plan.json")["plan"] if step["repairs"]]
    assert repairs == ([package.broken] if package.broken else [])

    ledger = {row["item"]: row["status"] for row in read(artifacts, "ledger.json")}
    assert set(ledger) == {item for items in package.steps for item in items}
    changed = git(repository, "diff", "--name-only", "-z", "main", str(result.ref)).split("\0")[:-1]
    assert changed
    assert set(changed) <= {item for item, status in ledger.items() if status == "changed"}


def read(artifacts: Path, name: str) -> list[dict[str, object]] | dict[str, list[dict[str, object]]]:
    return json.loads((artifacts / name).read_text(encoding="utf-8"))

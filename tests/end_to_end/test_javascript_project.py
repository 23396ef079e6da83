"""A JavaScript project over real processes: one step renames a function while another begins to call it, and two set
one number. The renaming merges without a conflict and breaks a test, which a repair step mends; the number is a
conflict for the resolver, who is not blamed for that test. Needs node and npm."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from baton.messages import TaskInput
from baton.plan import DraftStep, PlanDraft
from baton.states import TaskState
from emulator.standin import StandIn
from tests.end_to_end.bench import Bench, git, run, task
from tests.end_to_end.published import all_but_the_result

pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.skipif(shutil.which("npm") is None, reason="node and npm are not installed: no JavaScript is tested"),
]

PROJECT = Path(__file__).parent / "waypost"
MOUNT = """'use strict';

const path = require('./path');

/** Whether a path lies below another. */
const below = (prefix) => path.compilePath(prefix, { prefix: true });

module.exports = { below };
"""
MOUNT_TEST = """'use strict';

const assert = require('node:assert');
const test = require('node:test');
const { below } = require('..');

test('a path lies below its prefix', () => {
  assert.ok(below('/api')('/api/users'));
  assert.ok(!below('/api')('/apis'));
});
"""
EXPORTS = "module.exports = { application, respond, Router };"
NEW_EXPORTS = "const { below } = require('./lib/mount');\n\nmodule.exports = { application, below, respond, Router };"


def given(repository: Path) -> TaskInput:
    """Four steps side by side; the gates are those that package.json shows."""

    def editor(number: int, item: str, errands: str) -> DraftStep:
        return DraftStep(step=number, agent_type="editor", items=(item,), description=errands.replace("\n", "\\n"))

    def release(number: int) -> str:
        return f"create `lib/release.js` with `'use strict';\n\nmodule.exports = {{ release: {number} }};\n`"

    rename = DraftStep(
        step=1,
        agent_type="codemod",
        description="Rename the function where it is",
        items=("lib/path.js", "lib/router.js", "test/path.test.js"),
        run="sed -i s/compilePath/toMatcher/g {item}",
    )
    mount = f"create `lib/mount.js` with `{MOUNT}`, create `test/mount.test.js` with `{MOUNT_TEST}`"
    steps = (
        rename,
        editor(2, "index.js", f"{mount}, replace `{EXPORTS}` by `{NEW_EXPORTS}` in `index.js`"),
        editor(3, "lib/response.js", f"append `// seen\n` to `lib/response.js`, {release(4)}"),
        editor(4, "lib/application.js", f"append `// seen\n` to `lib/application.js`, {release(6)}"),
    )
    return task(repository, "index.js").model_copy(
        update={
            "task": "Rename `compilePath` to `toMatcher`, add mounting, and number the release",
            "plan": PlanDraft(execution_strategy="parallel", plan=steps),
            "integration": True,
            "settings": {"maxParallelAgents": 4, "maxAgents": 20},
        }
    )


def npm(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder.parent)}
    return subprocess.run(["npm", *arguments], cwd=folder, capture_output=True, text=True, env=environment)


def counts(output: str) -> tuple[int, int, int]:
    """Tests, failures and skipped ones, as node's runner counts them."""
    found = dict(re.findall(r"^(?:#|ℹ) (tests|fail|skipped) (\d+)$", output, re.MULTILINE))
    return int(found["tests"]), int(found["fail"]), int(found["skipped"])


async def test_what_merges_cleanly_and_breaks_is_found_and_repaired(bench: Bench, tmp_path: Path) -> None:
    repository = tmp_path / "waypost"
    shutil.copytree(PROJECT, repository)
    git(repository, "init", "-q", "-b", "main")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "as it was")
    outside = npm(repository, "test")
    assert outside.returncode == 0, outside.stdout
    before = all_but_the_result(repository, "waypost")
    with bench.api(StandIn()):
        result = await run(await bench.client(), given(repository), "waypost")
    assert (result.state, result.ready, result.items.done) == (TaskState.DONE, True, 6), result.summary
    assert all_but_the_result(repository, "waypost") == before

    def read(name: str) -> Any:
        return json.loads((Path(result.artifacts) / name).read_text(encoding="utf-8"))

    baseline = {gate["name"]: gate for gate in read("baseline.json")}
    tests, failed, skipped = counts(outside.stdout)
    assert (baseline["npm-test"]["tests"], failed, baseline["npm-test"]["skipped"]) == (tests, 0, skipped)
    report = read("integration-report.json")
    gates = {gate["name"]: gate for gate in report["quality_gates"]}
    assert {name: gate["status"] for name, gate in gates.items()} == {"npm-test": "passed", "npm-lint": "passed"}
    assert (gates["npm-test"]["tests_before"], gates["npm-test"]["tests"]) == (tests, tests + 1)
    repairs = [step for step in read("plan.json")["plan"] if step["repairs"]]
    assert [(step["agent_type"], step["repairs"]) for step in repairs] == [("editor", ["a path lies below its prefix"])]
    assert {"lib/mount.js", "test/mount.test.js"} <= set(repairs[0]["owns"])
    assert sum("a merge conflict was resolved" in issue["issue"] for issue in report["issues"]) == 1

    git(repository, "checkout", "-q", str(result.ref))
    assert "path.toMatcher(prefix" in (repository / "lib/mount.js").read_text(encoding="utf-8")
    assert "release: 6" in (repository / "lib/release.js").read_text(encoding="utf-8")
    after = npm(repository, "test")
    assert (after.returncode, counts(after.stdout)) == (0, (tests + 1, 0, skipped))
    assert npm(repository, "run", "lint").returncode == 0

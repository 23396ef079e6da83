"""Gates against a baseline with real suites: flaky, known and new failures; tests taken away; configuration."""

import json
import os
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from activities.child_environment import child_environment
from activities.gate_checks import GateChecks, Place, _put, restore_configuration, suite_changes
from activities.gates import Gates
from activities.repository import PrivateRepository
from activities.store import Store
from baton.findings import (
    GateKind,
    GateOutcome,
    GateResult,
    GateSpec,
    GateVerdict,
    VerdictStatus,
    baseline_notes,
    compare,
    ready,
)
from baton.gate_configuration import scripts_of
from baton.plan import PlanStep
from tests.end_to_end import bench

PYTEST = "python3 -m pytest -q -p no:cacheprovider"
KNOWN = "".join(f"def test_known_{number}():\n    assert False\n" for number in range(3))


def flaky_test(marker: Path) -> str:
    """A test that passes every second time it runs; its state lies outside of any workspace."""
    return (
        f"import pathlib\ndef test_flaky():\n    marker = pathlib.Path({str(marker)!r})\n"
        "    if marker.exists():\n        marker.unlink()\n    else:\n        marker.touch()\n        assert False\n"
    )


class Suite:
    """A folder with a suite, and its gate."""

    def __init__(self, folder: Path, command: str = PYTEST) -> None:
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        base = {**os.environ, "PATH": f"{sys.prefix}/bin{os.pathsep}{os.environ['PATH']}"}
        environment = child_environment(base, own_environment=folder / "none") | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        place = Place(self.workspace, environment, None, None, lambda group: None)
        self.checks = GateChecks(Gates(), place, Store(folder / "store"))
        self.spec = GateSpec(name="tests", kind=GateKind.TEST, command=command, timeout=timedelta(seconds=60))

    def put(self, **files: str) -> None:
        for name, text in files.items():
            (self.workspace / f"{name}.py").write_text(text)

    async def run(self, before: GateResult | None, *watched: str) -> GateResult:
        return await self.checks.run(self.spec, before, watched=watched)


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path)


def verdicts(before: GateResult, now: GateResult) -> dict[str, GateVerdict]:
    return {verdict.name: verdict for verdict in compare([before], [now])}


async def test_a_red_suite_with_a_flaky_test_tells_known_flaky_and_new_apart(suite, tmp_path):
    suite.put(test_a=KNOWN, test_f=flaky_test(tmp_path / "marker"), test_g="def test_good(): pass\n")
    before = await suite.run(None)
    assert before.outcome is GateOutcome.FAILED
    assert before.flaky == ("test_f::test_flaky",)
    (tmp_path / "marker").unlink(missing_ok=True)
    now = await suite.run(before)
    verdict = verdicts(before, now)["tests"]
    assert (verdict.status, verdict.known, verdict.blocks) == (VerdictStatus.KNOWN_FAILURE, 4, False)
    assert "test_f::test_flaky" in verdict.flaky
    (tmp_path / "marker").unlink(missing_ok=True)
    suite.put(test_g="def test_good(): assert 0\n")
    worse = verdicts(before, await suite.run(before))["tests"]
    assert (worse.status, worse.new_failures) == (VerdictStatus.NEW_FAILURE, ("test_g::test_good",))
    assert worse.details[0].files == ("test_g.py",)


async def test_a_failure_that_passes_alone_is_flaky_and_blocks_nothing(suite, tmp_path):
    marker = tmp_path / "marker"
    suite.put(test_f=flaky_test(marker), test_g="def test_good(): pass\n")
    marker.touch()
    before = await suite.run(None)
    assert (before.outcome, before.flaky) == (GateOutcome.PASSED, ())
    now = await suite.run(before)
    verdict = verdicts(before, now)["tests"]
    assert (verdict.status, verdict.flaky, verdict.blocks) == (VerdictStatus.FLAKY, ("test_f::test_flaky",), False)
    assert not marker.exists(), "the flaky test ran twice: once with all, once alone"


async def test_a_new_failure_runs_twice_more_and_alone(suite, tmp_path):
    log = tmp_path / "log"
    line = f"open({str(log)!r}, 'a').write"
    suite.put(test_a="def test_x(): pass\ndef test_y(): pass\n")
    before = await suite.run(None)
    suite.put(test_a=f"def test_x():\n    {line}('x')\n    assert 0\ndef test_y():\n    {line}('y')\n")
    now = await suite.run(before)
    assert now.flaky == ()
    assert log.read_text() == "xyxx"


async def test_a_gate_that_names_no_failure_is_run_again_whole(tmp_path):
    marker = tmp_path / "marker"
    suite = Suite(tmp_path, f"test -e {marker} || {{ touch {marker}; exit 9; }}")
    marker.touch()
    before = await suite.run(None)
    marker.unlink()
    now = await suite.run(before)
    assert (now.outcome, now.flaky) == (GateOutcome.FAILED, ("tests",))
    assert verdicts(before, now)["tests"].status is VerdictStatus.FLAKY


CHECK = """
import pathlib, sys, time, uuid
if "%" not in pathlib.Path("m1.py").read_text():
    sys.exit({line})
"""
UNSTABLE = (
    'f"FAILED in /tmp/x{time.time_ns()} at {time.ctime()}"',
    'f"FAILED with {uuid.uuid4().hex[:7]}x{time.time_ns() % 997}"',
    'f"FAILED {time.perf_counter_ns()}\\nFAILED " + "".join(chr(97 + int(c)) for c in str(time.time_ns()))',
)


@pytest.mark.parametrize("line", UNSTABLE)
async def test_what_fails_under_another_name_in_every_run_is_new_or_known_and_never_flaky(tmp_path, line):
    suite = Suite(tmp_path, "env; python3 check.py")
    suite.put(check=CHECK.replace("{line}", line), m1="x = 7 % 3\n")
    good = await suite.run(None)
    assert good.outcome is GateOutcome.PASSED
    suite.put(m1="x = 7\n")
    bad = await suite.run(good)
    verdict = verdicts(good, bad)["tests"]
    assert (bad.flaky, verdict.status, verdict.blocks) == ((), VerdictStatus.NEW_FAILURE, True)
    assert "ADDOPTS" not in str(bad.failures)
    bad_before = await suite.run(None)
    still = verdicts(bad_before, await suite.run(bad_before))["tests"]
    assert (bad_before.flaky, still.status, still.blocks) == ((), VerdictStatus.KNOWN_FAILURE, False)
    suite.put(check=CHECK.replace("{line}", f"'ERROR other\\n' + {line}"))
    worse = verdicts(bad_before, await suite.run(bad_before))["tests"]
    assert (worse.status, worse.new_failures) == (VerdictStatus.NEW_FAILURE, ("ERROR other",))


async def test_a_test_that_passes_alone_excuses_no_checker_that_fails_every_time(suite, tmp_path):
    marker = tmp_path / "marker"
    marker.touch()
    suite.spec = suite.spec.model_copy(update={"command": f"{PYTEST}; test ! -e broken"})
    suite.put(test_f=flaky_test(marker), test_g="def test_good(): pass\n")
    before = await suite.run(None)
    assert before.outcome is GateOutcome.PASSED
    (suite.workspace / "broken").touch()
    verdict = verdicts(before, await suite.run(before))["tests"]
    assert (verdict.status, verdict.blocks) == (VerdictStatus.NEW_FAILURE, True)


async def test_a_named_failure_that_comes_and_goes_is_flaky_also_beside_a_known_one(tmp_path):
    marker = tmp_path / "marker"
    once = f"test -e {marker} || {{ touch {marker}; echo 'FAILED sometimes'; }}"
    suite = Suite(tmp_path, f"{once}; echo 'FAILED always'; exit 1")
    marker.touch()
    before = await suite.run(None)
    marker.unlink()
    now = await suite.run(before)
    assert (before.failures, now.flaky) == (("FAILED always",), ("FAILED sometimes",))
    assert verdicts(before, now)["tests"].status is VerdictStatus.KNOWN_FAILURE


async def test_node_s_runner_runs_one_test_alone(tmp_path):
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    log = tmp_path / "log"
    suite = Suite(tmp_path, "node --test --test-reporter=tap")
    script = (
        "const test = require('node:test'); const log = (x) => require('fs').appendFileSync(%s, x);\n"
        "test('other', () => log('o'));\n"
        "test('a (b)', async (t) => { await t.test('deep', () => { log('d'); %s }); });\n"
    )
    (suite.workspace / "a.test.js").write_text(script % (json.dumps(str(log)), ""))
    before = await suite.run(None)
    assert (before.outcome, before.tests) == (GateOutcome.PASSED, 2)
    log.unlink()
    (suite.workspace / "a.test.js").write_text(script % (json.dumps(str(log)), "throw new Error('no');"))
    now = await suite.run(before)
    assert (now.failures, now.flaky) == (("a (b) > deep",), ())
    assert log.read_text() == "oddd"


@pytest.mark.parametrize(
    "now",
    [
        "def test_x(): pass\n",
        "import pytest\ndef test_x(): pass\n@pytest.mark.skip\ndef test_y(): assert 0\n",
        "import pytest\ndef test_x(): pass\n@pytest.mark.xfail\ndef test_y(): assert 0\n",
    ],
)
async def test_a_failing_test_that_was_taken_away_is_no_success(suite, now):
    suite.put(test_a="def test_x(): pass\ndef test_y(): pass\n")
    before = await suite.run(None)
    suite.put(test_a=now)
    found = compare([before], [await suite.run(before, "test_a::test_y")])
    assert [verdict.status for verdict in found] == [VerdictStatus.PASSED, VerdictStatus.INTEGRITY]
    assert found[1].integrity[0].names == ("test_a::test_y",)
    assert not ready(found)


# Configuration


@pytest.fixture
async def repository(tmp_path: Path) -> PrivateRepository:
    files = {
        "pyproject.toml": '[project]\nname = "x"\n[tool.pytest.ini_options]\naddopts = "-q"\n',
        "test_a.py": "def test_x(): assert 0\ndef test_y(): pass\n",
        "conftest.py": "x = 1\n",
    }
    source = bench.repository(tmp_path / "user", files)
    private = PrivateRepository(tmp_path / "task")
    await private.create(await private.inspect(str(source)))
    return private


async def changed(private: PrivateRepository, files: dict[str, str | None]) -> tuple[str, str]:
    """Base commit, and one of an agent that writes these files."""
    base = await private.result()
    workspace = await private.open_workspace("step-1", base, "step-1")
    for name, text in files.items():
        (workspace / name).unlink(missing_ok=True)
        if text is not None:
            (workspace / name).write_text(text)
    return base, await private.checkpoint(workspace, "work", {})


async def test_gates_run_with_the_configuration_of_the_base(repository):
    base, commit = await changed(
        repository,
        {
            "pyproject.toml": '[project]\nname = "y"\n[tool.pytest.ini_options]\naddopts = "--ignore=test_a.py"\n',
            "pytest.ini": "[pytest]\naddopts = -k test_y\n",
            "conftest.py": "collect_ignore = ['test_a.py']\n",
            "test_a.py": "def test_y(): pass\n",
        },
    )
    workspace = await repository.open_workspace("gates", commit)
    changes = await repository.changed_between(base, commit)
    found = await restore_configuration(repository, workspace, base, commit, changes, ())
    assert [finding.files for finding in found] == [("conftest.py", "pyproject.toml", "pytest.ini")]
    assert not (workspace / "pytest.ini").exists()
    assert (workspace / "conftest.py").read_text() == "x = 1\n"
    assert (workspace / "pyproject.toml").read_text() == (
        '[project]\nname = "y"\n[tool.pytest.ini_options]\naddopts = "-q"\n'
    )
    (change,) = await suite_changes(repository, base, commit, changes)
    assert change.removed == ("test_x",)


async def test_a_step_may_change_the_configuration_it_names(repository):
    base, commit = await changed(repository, {"conftest.py": "collect_ignore = ['test_a.py']\n"})
    workspace = await repository.open_workspace("gates", commit)
    changes = await repository.changed_between(base, commit)
    step = PlanStep(step=1, agent_type="x", description="d", items=("conftest.py",))
    (found,) = await restore_configuration(repository, workspace, base, commit, changes, (step,))
    assert "as the plan says" in found.detail
    assert "collect_ignore" in (workspace / "conftest.py").read_text()


async def test_a_script_of_a_gate_runs_as_on_the_base_even_where_a_step_owns_it(repository):
    """And can still be started: `./check` needs its mode too."""
    workspace = await repository.open_workspace("step-0", await repository.result(), "step-0")
    (workspace / "check").write_text("#!/bin/sh\nexit 7\n")
    (workspace / "check").chmod(0o755)
    base = await repository.checkpoint(workspace, "base", {})
    workspace = await repository.open_workspace("step-1", base, "step-1")
    (workspace / "check").write_text("#!/bin/sh\nexit 0\n")
    (workspace / "more.sh").write_text("exit 0\n")
    commit = await repository.checkpoint(workspace, "work", {})
    gates = await repository.open_workspace("gates", commit)
    changes = await repository.changed_between(base, commit)
    step = PlanStep(step=1, agent_type="x", description="d", items=("check", "more.sh"))
    scripts = scripts_of(["./check && sh more.sh"])
    found = await restore_configuration(repository, gates, base, commit, changes, (step,), scripts)
    assert [(finding.files, "not tried" in finding.detail) for finding in found] == [
        (("check",), True),
        (("more.sh",), False),
    ]
    assert subprocess.run(["./check"], cwd=gates, check=False).returncode == 7
    assert (gates / "more.sh").read_text() == "exit 0\n"


async def test_configuration_is_never_written_through_a_link(repository, tmp_path):
    outside = tmp_path / "outside.ini"
    outside.write_text("theirs")
    base, commit = await changed(repository, {"pyproject.toml": None})
    workspace = await repository.open_workspace("gates", commit)
    (workspace / "pyproject.toml").symlink_to(outside)
    changes = await repository.changed_between(base, commit)
    await restore_configuration(repository, workspace, base, commit, changes, ())
    assert outside.read_text() == "theirs"
    assert "addopts" in (workspace / "pyproject.toml").read_text()


async def test_configuration_is_not_looked_for_outside_of_the_workspace(repository, tmp_path):
    """An agent puts a link in place of a folder that held a conftest."""
    _, commit = await changed(repository, {"conftest.py": "x = 2\n"})
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "conftest.py").write_text("theirs")
    workspace = await repository.open_workspace("gates", commit)
    (workspace / "pkg").symlink_to(outside)
    (workspace / "file").write_text("no folder")
    for path in ("pkg/conftest.py", "file/conftest.py"):
        _put(workspace, path, "ours")
    assert (outside / "conftest.py").read_text() == "theirs"
    assert (workspace / "file").read_text() == "no folder"
    _put(workspace, "new/conftest.py", "ours")
    assert (workspace / "new" / "conftest.py").read_text() == "ours"


# What is not installed where the gates run


async def test_a_suite_that_could_import_nothing_says_nothing(suite):
    suite.put(package="import nothing_like_it\n", test_a="import package\n", test_b="from nothing_else import x\n")
    before = await suite.run(None)
    assert (before.outcome, before.failures, before.tests) == (GateOutcome.INCONCLUSIVE, (), 2)
    assert "not installed: nothing_else, nothing_like_it (2 failures" in (before.reason or "")
    assert baseline_notes([before])[0].startswith("On the base commit the gate tests says nothing: nothing could be")
    verdict = verdicts(before, await suite.run(before))["tests"]
    assert (verdict.status, verdict.blocks) == (VerdictStatus.INCONCLUSIVE, False)


async def test_a_module_that_cannot_be_imported_hides_no_other_test(suite):
    suite.put(test_a="import nothing_like_it\n", test_b="def test_good(): pass\n")
    before = await suite.run(None)
    assert (before.outcome, before.failures, before.tests) == (GateOutcome.FAILED, ("test_a",), 2)
    assert "not installed: nothing_like_it" in baseline_notes([before])[0]
    suite.put(test_b="def test_good(): assert 0\n")
    verdict = verdicts(before, await suite.run(before))["tests"]
    assert (verdict.status, verdict.new_failures, verdict.known) == (
        VerdictStatus.NEW_FAILURE,
        ("test_b::test_good",),
        1,
    )


async def test_a_change_that_wants_what_is_not_installed_is_a_failure(suite):
    suite.put(package="", test_a="import package\ndef test_good(): pass\n")
    before = await suite.run(None)
    suite.put(package="import nothing_like_it\n")
    verdict = verdicts(before, await suite.run(before))["tests"]
    assert (verdict.status, verdict.new_failures, verdict.blocks) == (VerdictStatus.NEW_FAILURE, ("test_a",), True)
    assert "not installed: nothing_like_it" in verdict.detail


async def test_a_module_of_the_project_itself_is_no_matter_of_installing(suite):
    suite.put(package="", test_a="import package.gone\n")
    before = await suite.run(None)
    assert (before.outcome, before.reason) == (GateOutcome.FAILED, None)


async def test_unittest_says_too_what_is_not_installed(tmp_path):
    suite = Suite(tmp_path, "python3 -m unittest discover")
    suite.put(test_a="import nothing_like_it\n", test_b="from nothing_else import x\n")
    before = await suite.run(None)
    assert before.outcome is GateOutcome.INCONCLUSIVE
    assert "not installed: nothing_else, nothing_like_it (2 failures" in (before.reason or "")
    suite.put(test_b="import unittest\nclass B(unittest.TestCase):\n    def test_good(self): pass\n")
    known = await suite.run(None)
    assert known.outcome is GateOutcome.FAILED
    assert "not installed: nothing_like_it (1 failure" in (known.reason or "")


async def test_node_says_too_what_is_not_installed(tmp_path):
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    suite = Suite(tmp_path, "node --test")
    (suite.workspace / "a.test.js").write_text("require('@scope/nothing/part');\n")
    before = await suite.run(None)
    assert (before.outcome, before.failures) == (GateOutcome.INCONCLUSIVE, ())
    assert "not installed: @scope/nothing (1 failure" in (before.reason or "")

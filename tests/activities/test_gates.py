"""Gates with real test runners: passed, failed, inconclusive; editable installs; set-up and copied files."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from datetime import timedelta
from pathlib import Path

import pytest

from activities.child_environment import child_environment
from activities.commands import Sandbox, find_sandbox
from activities.gates import Gates, discover
from activities.junit import read_cases
from activities.python_origin import command_environment
from activities.sandbox import programs_named
from baton.findings import GateKind, GateOutcome, GateResult, GateSpec, VerdictStatus, compare, ready

QUICK = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""Our own test plug-ins take most of the time of a small suite."""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A caller whose `python3` has pytest: the one that runs this test."""
    base = {**os.environ, "PATH": f"{sys.prefix}/bin{os.pathsep}{os.environ['PATH']}"}
    return child_environment(base, own_environment=tmp_path / "none") | QUICK


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


def put(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)


def spec(command: str, kind: GateKind = GateKind.TEST, seconds: float = 30) -> GateSpec:
    return GateSpec(name="gate", kind=kind, command=command, timeout=timedelta(seconds=seconds))


async def outcome(command: str, workspace: Path, environment: dict[str, str], **more: object) -> GateResult:
    return await Gates().run(spec(command), workspace, environment, **more)  # type: ignore[arg-type]


NPX = """echo 'npm error npx canceled due to missing packages and no YES option: ["eslint@10.15.0"]'; exit 1"""


async def test_pytest_names_failures_and_a_new_one_is_told_from_three_known(workspace, environment):
    known = "".join(f"def test_known_{number}():\n    assert False\n" for number in range(3))
    put(workspace, {"test_a.py": known + "def test_good(): pass\n"})
    before = await outcome("python3 -m pytest -q", workspace, environment)
    assert (before.outcome, before.exit_code, before.tests) == (GateOutcome.FAILED, 1, 4)
    assert before.failures == tuple(f"test_a::test_known_{number}" for number in range(3))
    assert "3 failed, 1 passed" in before.summary
    put(workspace, {"test_a.py": known + "def test_good(): assert 0\n"})
    # Through a shell and another program: the failures are found all the same.
    now = await outcome("env sh -c 'exec pytest -q; :'", workspace, environment)
    (verdict,) = compare([before], [now])
    assert (verdict.status, verdict.new_failures) == (VerdictStatus.NEW_FAILURE, ("test_a::test_good",))
    put(workspace, {"test_a.py": "def test_good(): pass\n"})
    fixed = await outcome("python3 -m pytest -q", workspace, environment)
    assert (fixed.outcome, fixed.reason, fixed.tests) == (GateOutcome.PASSED, None, 1)
    assert ready(compare([before], [fixed]))
    assert GateResult.model_validate_json(fixed.model_dump_json()) == fixed


async def test_a_report_that_the_command_names_itself_is_read(workspace, environment):
    put(workspace, {"test_a.py": "def test_bad(): assert 0\n", "out/report.xml": "stale"})
    result = await outcome("python3 -m pytest -q --junitxml=out/report.xml", workspace, environment)
    assert (result.tests, result.failures) == (1, ("test_a::test_bad",))
    none = await outcome("true --junitxml=out/report.xml", workspace, environment)
    assert (none.outcome, none.tests) == (GateOutcome.PASSED, None), "what an earlier run left says nothing"


async def test_a_broken_import_is_a_failure_and_not_inconclusive(workspace, environment):
    put(workspace, {"test_a.py": "import nothing_like_it\n"})
    result = await outcome("python3 -m pytest -q", workspace, environment)
    assert (result.outcome, result.exit_code, result.failures) == (GateOutcome.FAILED, 1, ("test_a",))


@pytest.mark.parametrize(
    ("command", "files", "reason"),
    [
        ("no-such-test-runner", {}, "could not be started (exit code 127)"),
        ("./not-executable", {"not-executable": "x"}, "could not be started (exit code 126)"),
        ("sleep 60", {}, "time limit of 1 s"),
        ("python3 -m pytest -q", {"a.py": ""}, "no tests were collected"),
        ("python3 -m pytest --no-such-option", {}, "unrecognized arguments: --no-such-option"),
        ("python3 -m pytest", {"pytest.ini": "[pytest]\naddopts = --cov=x"}, "unrecognized arguments: --cov=x"),
        (NPX, {}, "eslint is not installed in node_modules"),
        ("python3 -m no_such_runner", {}, "no_such_runner is not installed"),
        ("python3 -m unittest discover", {"a.py": ""}, "no tests were found"),
        ("kill -9 $$", {}, "signal 9"),
    ],
)
async def test_what_cannot_run_is_inconclusive_with_a_reason(workspace, environment, command, files, reason):
    put(workspace, files)
    result = await Gates().run(spec(command, seconds=1 if "sleep" in command else 30), workspace, environment)
    assert result.outcome is GateOutcome.INCONCLUSIVE
    assert reason in (result.reason or "")


async def test_other_runners_are_judged_by_exit_code_and_their_lines(workspace, environment):
    lint = "printf 'a.py:3:1: F401 unused\\nFound 1 error.\\n'; exit 1"
    result = await Gates().run(spec(lint, GateKind.LINT), workspace, environment)
    assert (result.outcome, result.failures) == (GateOutcome.FAILED, ("a.py: F401 unused",))
    ci = await Gates().run(spec('test "$CI" = true', GateKind.CUSTOM), workspace, environment)
    assert ci.outcome is GateOutcome.PASSED


async def test_the_same_failure_in_another_workspace_is_known(tmp_path, environment):
    results = []
    for name in ("baseline", "result"):
        (tmp_path / name).mkdir()
        command = spec('echo "$PWD/a.ts:3:5: error: broken"; exit 1', GateKind.TYPES)
        results.append(await Gates().run(command, tmp_path / name, environment))
    (verdict,) = compare(results[:1], results[1:])
    assert verdict.status is VerdictStatus.KNOWN_FAILURE
    assert results[0].failures == ("a.ts: error: broken",)
    assert str(tmp_path) not in results[0].model_dump_json(exclude={"command"})


async def test_npm_test_with_node_s_own_runner(workspace, environment):
    if shutil.which("npm", path=environment["PATH"]) is None:
        pytest.skip("npm is not installed")
    put(
        workspace,
        {
            "package.json": json.dumps({"name": "x", "scripts": {"test": "node --test"}}),
            "a.test.js": "const test = require('node:test');\ntest('adds', () => { throw new Error('no'); });\n"
            "test('fine', () => {});\n",
        },
    )
    result = await outcome("npm test", workspace, environment)
    assert result.outcome is GateOutcome.FAILED
    assert any("adds" in failure for failure in result.failures)
    assert not any("fine" in failure for failure in result.failures)
    (again,) = compare([result], [await outcome("npm test", workspace, environment)])
    assert again.status is VerdictStatus.KNOWN_FAILURE


# Editable installs


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A user's checkout in which the tests fail; a workspace with a repaired copy passes."""
    put(
        tmp_path / "user",
        {
            "src/pkg/__init__.py": "value = 'checkout'\n",
            "tests/test_pkg.py": "import pkg\ndef test(): assert pkg.value == 'result'\n",
        },
    )
    return tmp_path / "user"


def virtual_environment(place: Path, hook: str) -> dict[str, str]:
    """An activated virtual environment with our pytest and an editable install: `hook` is a line of a .pth file."""
    base = Path(sys.executable).resolve()
    (place / "bin").mkdir(parents=True)
    (place / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
    for name in ("python", "python3"):
        (place / "bin" / name).symlink_to(base)
    site = place / f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    site.mkdir(parents=True)
    (site / "editable.pth").write_text(f"{hook}\n{sysconfig.get_path('purelib')}\n")
    path = f"{place}/bin{os.pathsep}{os.environ['PATH']}"
    return (
        child_environment({**os.environ, "PATH": path, "VIRTUAL_ENV": str(place)}, own_environment=place / "none")
        | QUICK
    )


def repaired(checkout: Path, workspace: Path, package: str = "src/pkg") -> None:
    shutil.copytree(checkout, workspace, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".venv"))
    (workspace / package / "__init__.py").write_text("value = 'result'\n")


async def test_the_workspace_is_tested_in_spite_of_an_editable_install(checkout, workspace, tmp_path):
    environment = virtual_environment(tmp_path / "venv", str(checkout / "src"))
    repaired(checkout, workspace)
    plain = subprocess.run(
        ["python3", "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=workspace, env=environment, capture_output=True
    )
    assert plain.returncode == 1, "without help the user's checkout is tested"
    result = await outcome("python3 -m pytest -q", workspace, environment, source_top_level=checkout)
    assert (result.outcome, result.reason) == (GateOutcome.PASSED, None)


async def test_an_odd_source_folder_is_found_through_the_install(tmp_path, workspace, checkout):
    (checkout / "src").rename(checkout / "lib")
    environment = virtual_environment(tmp_path / "venv", str(checkout / "lib"))
    repaired(checkout, workspace, "lib/pkg")
    result = await outcome("python3 -m pytest -q", workspace, environment, source_top_level=checkout)
    assert (result.outcome, result.reason) == (GateOutcome.PASSED, None)


async def test_an_install_that_cannot_be_overruled_is_inconclusive(tmp_path, workspace, checkout):
    """As meson-python and scikit-build do: a finder before the path."""
    hook = tmp_path / "hook"
    put(
        hook,
        {
            "_editable_hook.py": "import importlib.util, sys\nclass Finder:\n"
            "    @staticmethod\n    def find_spec(name, path=None, target=None):\n"
            "        if name == 'pkg':\n            return importlib.util.spec_from_file_location("
            f"name, {str(checkout / 'src/pkg/__init__.py')!r})\nsys.meta_path.insert(0, Finder)\n"
        },
    )
    environment = virtual_environment(tmp_path / "venv", f"{hook}\nimport _editable_hook")
    repaired(checkout, workspace)
    result = await outcome("python3 -m pytest -q", workspace, environment, source_top_level=checkout)
    assert result.outcome is GateOutcome.INCONCLUSIVE
    assert "would test the user's checkout" in (result.reason or "")


async def test_a_project_s_own_environment_in_the_checkout_is_used(checkout, workspace):
    virtual_environment(checkout / ".venv", str(checkout / "src"))
    repaired(checkout, workspace)
    bare = child_environment({"PATH": "/usr/bin:/bin", "HOME": os.environ["HOME"]}) | QUICK
    result = await outcome("python3 -m pytest -q", workspace, bare, source_top_level=checkout)
    assert (result.outcome, result.reason) == (GateOutcome.PASSED, None)


async def test_a_gate_works_inside_the_sandbox(checkout, workspace, tmp_path):
    program = await find_sandbox()
    if program is None:
        pytest.skip("bubblewrap does not work here")
    environment = virtual_environment(tmp_path / "venv", str(checkout / "src"))
    repaired(checkout, workspace)
    sandbox = Sandbox(program, readable=(checkout, Path(sys.prefix)))
    result = await outcome("python3 -m pytest -q", workspace, environment, source_top_level=checkout, sandbox=sandbox)
    assert (result.outcome, result.tests, result.reason) == (GateOutcome.PASSED, 1, None)


# Discovery


async def found(files: dict[str, str]) -> dict[str, str]:
    async def read(path: str) -> bytes:
        await asyncio.sleep(0)
        return files[path].encode()

    return {gate.name: gate.command for gate in await discover(list(files), read)}


PYTEST = "python3 -m pytest -q"
UNITTEST_CASE = "import unittest\nclass A(unittest.TestCase):\n    def test(self): pass\n"


@pytest.mark.parametrize(
    ("files", "gates"),
    [
        ({}, {}),
        ({"README.md": "# test"}, {}),
        ({"a.py": "x"}, {}),
        ({"tests/test_a.py": "def test_a(): pass"}, {"tests": PYTEST}),
        ({"tests/test_a.py": "import pytest"}, {"tests": PYTEST}),
        ({"pytest.ini": "[pytest]", "checks/x.py": ""}, {"tests": PYTEST}),
        ({"pyproject.toml": "[tool.pytest.ini_options]", "tests/test_a.py": UNITTEST_CASE}, {"tests": PYTEST}),
        ({"setup.cfg": "[tool:pytest]\n", "tests/test_a.py": UNITTEST_CASE}, {"tests": PYTEST}),
        ({"tests/test_a.py": UNITTEST_CASE}, {"tests": "python3 -m unittest discover -s tests"}),
        (
            {"pkg/tests/test_a.py": UNITTEST_CASE, "pkg/tests/__init__.py": ""},
            {"tests": "python3 -m unittest discover -s pkg/tests -t ."},
        ),
        ({"test_a.py": UNITTEST_CASE}, {"tests": "python3 -m unittest discover"}),
        ({"package.json": '{"scripts": {"test": "jest"}}'}, {"npm-test": "npm test"}),
        (
            {"package.json": '{"scripts": {"test": "jest", "lint": "standard"}}', "bun.lock": ""},
            {"npm-test": "bun run test", "npm-lint": "bun run lint"},
        ),
        ({"package.json": '{"scripts": {"lint": "standard --fix"}}'}, {}),
        ({"package.json": '{"workspaces": ["packages/*"]}'}, {"npm-test": "npm test --workspaces --if-present"}),
        ({"package.json": '{"scripts": {"test": "vitest"}}', "pnpm-lock.yaml": ""}, {"npm-test": "pnpm test"}),
        ({"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'}, {}),
        ({"package.json": "{broken", "pyproject.toml": "[broken"}, {}),
        ({"package.json": '["list"]'}, {}),
        ({"pyproject.toml": "[tool.ruff]\n[tool.mypy]\nstrict = true"}, {"ruff": "ruff", "mypy": "python3 -m mypy ."}),
        ({"mypy.ini": "[mypy]\nfiles = src"}, {"mypy": "python3 -m mypy"}),
        (
            {
                "package.json": '{"devDependencies": {"typescript": "5", "eslint": "9"}}',
                "tsconfig.json": "",
                "eslint.config.js": "",
            },
            {"eslint": "npx", "tsc": "npx"},
        ),
        ({"tsconfig.json": "{}"}, {}),
        ({"go.mod": "", "Cargo.toml": ""}, {"go-test": "go test ./...", "cargo-test": "cargo test --quiet"}),
    ],
)
async def test_discovery(files: dict[str, str], gates: dict[str, str]) -> None:
    commands = await found(files)
    assert commands.keys() == gates.keys()
    assert all(commands[name].startswith(command) for name, command in gates.items())


async def test_a_discovered_unittest_gate_really_runs(workspace, environment):
    files = {"calc/__init__.py": "def add(a, b): return a - b\n", "tests/__init__.py": ""}
    files["tests/test_calc.py"] = (
        "import unittest\nfrom calc import add\nclass Adds(unittest.TestCase):\n"
        "    def test_add(self): self.assertEqual(add(1, 2), 3)\n"
        "    def test_zero(self): self.assertEqual(add(0, 0), 0)\n"
    )
    put(workspace, files)
    command = (await found(files))["tests"]
    result = await outcome(command, workspace, environment)
    assert result.outcome is GateOutcome.FAILED
    assert any("test_add" in failure for failure in result.failures)
    assert not any("test_zero" in failure for failure in result.failures)


def test_the_environment_made_by_set_up_is_used_before_an_active_one_and_that_of_the_checkout(tmp_path):
    made, active, checkout = (tmp_path / name for name in ("workspace", "active", "checkout"))
    put(tmp_path, {f"{place.name}/.venv/bin/python": "" for place in (made, active, checkout)})
    given = {"PATH": "/usr/bin"}

    def chosen(environment: dict[str, str], workspace: Path) -> str:
        seen = command_environment(environment, workspace, checkout)
        assert "PATH" in seen
        return Path(seen["VIRTUAL_ENV"]).parent.name

    in_use = {**given, "VIRTUAL_ENV": str(active / ".venv")}
    assert [chosen(in_use, made), chosen(in_use, tmp_path), chosen(given, tmp_path)] == [
        "workspace",
        "active",
        "checkout",
    ]


def test_commands_of_agents_import_from_the_workspace(tmp_path, workspace):
    put(workspace, {"src/package/__init__.py": "", "docs/a.md": "", "node_modules/x/y.py": ""})
    assert command_environment({"PATH": ""}, workspace, tmp_path)["PYTHONPATH"].startswith(f"{workspace}/src:")
    assert "PYTHONPATH" not in command_environment({"PATH": ""}, tmp_path / "nothing", tmp_path)


def test_programs_that_a_gate_names_stay_readable_in_a_sandbox(tmp_path: Path) -> None:
    program = tmp_path / "env" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    assert programs_named(f"{program} -m pytest") == (program,)
    (tmp_path / "env" / "pyvenv.cfg").touch()
    assert programs_named(f"cd x && '{program}' -m pytest {tmp_path}/nothing") == (tmp_path / "env",)
    assert programs_named("pytest -q 'unclosed") == ()


# Formats


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("ruff check --no-cache --isolated {} .", ("a.py: F401 `os` imported but unused",)),
        ("mypy --no-incremental {} a.py", ("a.py: assignment Incompatible types in assignment",)),
    ],
)
async def test_checkers_say_the_same_in_every_form(workspace, environment, command, expected):
    put(workspace, {"a.py": "import os\n\nx: int = 'a'\n"})
    forms = (
        ["--output-format=concise", "--output-format=full", "--output-format=json"]
        if "ruff" in command
        else ["--pretty", "--no-pretty", "-O json"]
    )
    for form in forms:
        result = await Gates().run(spec(command.format(form), GateKind.LINT, seconds=60), workspace, environment)
        assert result.outcome is GateOutcome.FAILED
        assert [name.startswith(start) for name, start in zip(result.failures, expected, strict=True)] == [True]
        assert result.details[0].files == ("a.py",)


async def test_junit_names_files_skips_and_messages(workspace, environment):
    put(
        workspace,
        {
            "calc.py": "def add(a, b):\n    raise ValueError('no sums today')\n",
            "tests/test_calc.py": "import pytest\nfrom calc import add\nclass TestAdd:\n"
            "    def test_add(self): assert add(1, 2) == 3\n"
            "@pytest.mark.skip\ndef test_later(): pass\n"
            "@pytest.mark.xfail\ndef test_wrong(): assert 0\n"
            "@pytest.fixture\ndef broken(): raise OSError('gone')\ndef test_setup(broken): pass\n",
        },
    )
    result = await outcome("python3 -m pytest -q", workspace, environment)
    assert (result.tests, result.skipped) == (4, 2)
    assert result.failures == ("tests.test_calc.TestAdd::test_add", "tests.test_calc::test_setup")
    add = result.details[0]
    assert set(add.files) == {"tests/test_calc.py", "calc.py"}
    assert "no sums today" in add.text


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"test_a.py": "import pytest\n@pytest.mark.skip\ndef test_a(): pass\n"}, "every test was skipped"),
        ({"test_a.py": "import pytest\npytest.skip('no', allow_module_level=True)\n"}, "no tests were collected"),
    ],
)
async def test_a_run_that_tested_nothing_is_inconclusive(workspace, environment, files, reason):
    put(workspace, files)
    result = await outcome("python3 -m pytest -q", workspace, environment)
    assert (result.outcome, result.reason) == (GateOutcome.INCONCLUSIVE, reason)


def test_junit_files_of_other_runners_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.spec.js").touch()
    report = tmp_path / "junit.xml"
    report.write_text(
        '<testsuites><testsuite name="outer"><testsuite name="inner">'
        '<testcase name="adds" classname="sum" file="a.spec.js"><failure message="1 == 2">at a.spec.js:3:1</failure>'
        '</testcase></testsuite><testcase name="fine" classname="sum"/><testcase name="later"><skipped/></testcase>'
        "</testsuite></testsuites>"
    )
    cases = {case.name: case for case in read_cases(report, tmp_path) or ()}
    assert {name: str(case.outcome) for name, case in cases.items()} == {
        "sum::adds": "failed",
        "sum::fine": "passed",
        "later": "skipped",
    }
    assert cases["sum::adds"].files == ("a.spec.js",)
    report.write_text("<testsuites><broken")
    assert read_cases(report, tmp_path) is None
    assert read_cases(tmp_path / "none.xml", tmp_path) is None


async def test_a_password_that_a_gate_prints_is_in_nothing_that_it_saw(workspace, environment):
    password = "Xk29fLqPz81mNv"
    test = (
        "import sys\ndef test_a():\n    secret = ''.join(['Xk29fLq', 'Pz81mNv'])\n"
        "    print(f'connect to postgres://app:{secret}@db.internal/prod')\n"
        '    raise ValueError(f\'refused: password={secret} and "token": "{secret}"\')\n'
    )
    put(workspace, {"test_a.py": test})
    tests = await outcome("python3 -m pytest -q", workspace, environment)
    plain = await outcome(f"echo 'error: postgres://app:{password}@db/x refused'; false", workspace, environment)
    for result in (tests, plain):
        assert result.outcome is GateOutcome.FAILED
        assert password not in result.model_dump_json(exclude={"command"})
        assert "[secret]" in result.model_dump_json()
    assert tests.failures == ("test_a::test_a",)

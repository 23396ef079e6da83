"""Gates that check less than they did: tests gone or skipped, and configuration that changed."""

import json

import pytest

from baton.failures import Case, Outcome
from baton.gate_configuration import is_gate_configuration, with_base
from baton.integrity import is_planned, of_cases, of_changes, of_configuration, with_asked
from baton.plan import PlanStep
from baton.suite_changes import SuiteChange, is_test_file, suite_change

PASSED, FAILED, SKIPPED = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED


def cases(**outcomes: Outcome) -> list[Case]:
    return [Case(name=f"tests.test_a::{name}", outcome=outcome) for name, outcome in outcomes.items()]


def before(**outcomes: Outcome) -> dict[str, Outcome]:
    return {f"tests.test_a::{name}": outcome for name, outcome in outcomes.items()}


@pytest.mark.parametrize(
    ("was", "now", "watched", "blocks"),
    [
        ({"a": PASSED, "b": FAILED}, {"a": PASSED, "b": PASSED}, (), None),
        ({"a": PASSED}, {"a": PASSED, "more": PASSED}, (), None),
        ({"a": PASSED, "b": PASSED}, {"a": PASSED}, (), True),
        ({"a": PASSED, "b": FAILED}, {"a": PASSED}, (), True),
        ({"a": PASSED, "b": PASSED}, {"a": PASSED, "b": SKIPPED}, (), True),
        ({"a": PASSED, "b": SKIPPED}, {"a": PASSED, "b": SKIPPED}, (), None),
        ({"a": PASSED, "b": SKIPPED}, {"a": PASSED}, (), None),
        ({"a": PASSED, "b": PASSED}, {"a": PASSED, "renamed": PASSED}, (), False),
        # A failing test that gave way to another one is no rename.
        ({"a": PASSED, "b": PASSED}, {"a": PASSED, "other": PASSED}, ("tests.test_a::b",), True),
        ({"a": PASSED}, {"a": PASSED}, ("tests.test_a::fresh",), True),
    ],
)
def test_fewer_tests_block_and_renamed_ones_are_told(was, now, watched, blocks):
    found = of_cases(before(**was), cases(**now), watched, ())
    assert [finding.blocks for finding in found] == ([] if blocks is None else [blocks])


def test_a_test_that_moved_is_not_gone():
    moved = [Case(name="tests.test_b.TestX::a[1]", outcome=PASSED)]
    assert of_cases({"tests.test_a::a[1]": PASSED}, moved, (), ()) == []


def test_each_new_place_counts_for_one_test_that_moved_and_only_where_it_runs():
    old = {"a::test_x": PASSED, "b::test_x": PASSED}
    (found,) = of_cases(old, [Case(name="c::test_x", outcome=PASSED)], (), ())
    assert (found.blocks, found.names) == (True, ("b::test_x",))
    (found,) = of_cases({"a::test_x": PASSED}, [Case(name="c::test_x", outcome=SKIPPED)], (), ())
    assert (found.blocks, found.names) == (True, ("a::test_x",))


STEP = PlanStep(step=1, agent_type="x", description="Clean up", items=("tests/test_old.py", "tests/test_new.py"))
OLD = SuiteChange(path="tests/test_old.py", removed=("test_a", "test_b"))


@pytest.mark.parametrize(
    ("task", "asked"),
    [
        ("Delete tests/test_old.py.", True),
        ("Convert everything.\nRemove the tests of the old parser", True),
        ("Drop test_a from the suite; the rest stays.", True),
        ("Get rid of test_old", True),
        ("Remove tests/test_new.py, it is empty", False),
        ("Convert the old parser and fix its tests", False),
        ("Do not delete tests. Convert the parser.", False),
        ("Remove the old parser without removing tests", False),
        ("Remove the old parser", False),
        ("", False),
    ],
)
def test_the_users_words_say_whether_tests_were_to_go(task, asked):
    assert [change.asked for change in with_asked([OLD], task, (STEP,))] == [asked]


def test_only_a_planned_steps_items_may_lose_tests():
    elsewhere = STEP.model_copy(update={"items": (), "owns": ("tests/test_old.py",)})
    repair = STEP.model_copy(update={"repairs": ("x",), "repair_round": 1})
    for plan in ((), (elsewhere,), (repair,)):
        assert with_asked([OLD], "Delete tests/test_old.py", plan) == (OLD,)


def test_what_was_asked_for_is_told_and_hides_nothing_else():
    old = {f"tests.test_old::{name}": PASSED for name in ("test_a", "test_b")} | {"tests.test_c::test_c": PASSED}
    asked = OLD.model_copy(update={"asked": True})
    stays = [Case(name="tests.test_c::test_c", outcome=PASSED)]
    (told,) = of_cases(old, stays, (), (asked,))
    assert (told.blocks, told.detail) == (False, "2 tests taken out, as the task asks")
    assert (told.files, told.names) == (("tests/test_old.py",), ("tests.test_old::test_a", "tests.test_old::test_b"))
    hidden, told = of_cases(old, [], (), (asked, SuiteChange(path="tests/test_c.py", removed=("test_c",))))
    assert (hidden.blocks, hidden.names, told.blocks) == (True, ("tests.test_c::test_c",), False)
    # The same name was taken out elsewhere too, where nobody asked for it.
    same = of_cases(old, stays, (), (asked, SuiteChange(path="tests/test_d.py", removed=("test_a",))))
    assert [(finding.blocks, finding.names) for finding in same] == [
        (True, ("tests.test_old::test_a",)),
        (False, ("tests.test_old::test_b",)),
    ]
    # What failed earlier in the task is never taken out as asked.
    lost, told = of_cases(old, stays, ("tests.test_old::test_a",), (asked,))
    assert (lost.blocks, lost.names, told.names) == (True, ("tests.test_old::test_a",), ("tests.test_old::test_b",))


def test_gates_that_list_no_tests_go_by_the_files():
    asked = OLD.model_copy(update={"asked": True})
    (told,) = of_changes([asked])
    assert (told.blocks, told.names) == (False, ("test_a", "test_b"))
    hidden, told = of_changes([asked, SuiteChange(path="tests/test_c.py", removed=("test_c",))])
    assert (hidden.blocks, hidden.names, told.blocks) == (True, ("test_c",), False)


def test_what_is_gone_is_named_with_its_file():
    changes = [SuiteChange(path="tests/test_a.py", removed=("TestX.b",)), SuiteChange(path="other.py", removed=("c",))]
    (found,) = of_cases(before(a=PASSED, b=PASSED), cases(a=PASSED), ("tests.test_a::b",), changes)
    assert found.files == ("tests/test_a.py",)
    assert found.names == ("tests.test_a::b",)
    assert "tests.test_a::b failed earlier in this task" in found.detail


PYTHON = """
import pytest, unittest
def test_one(): pass
class TestX:
    def test_two(self): pass
    def helper(self): pass
"""


@pytest.mark.parametrize(
    ("now", "removed", "added", "skipped"),
    [
        (PYTHON, (), (), ()),
        (PYTHON.replace("test_one", "test_new"), ("test_one",), ("test_new",), ()),
        (PYTHON.replace("    def test_two(self): pass\n", ""), ("TestX.test_two",), (), ()),
        (PYTHON.replace("def test_one", "@pytest.mark.skip\ndef test_one"), (), (), ("test_one",)),
        (PYTHON.replace("def test_one", "@pytest.mark.xfail(strict=False)\ndef test_one"), (), (), ("test_one",)),
        (PYTHON.replace("class", "@unittest.skipIf(True, 'x')\nclass"), (), (), ("TestX.test_two",)),
        (PYTHON.replace("test_one(): pass", "test_one(): pytest.skip('later')"), (), (), ("test_one",)),
        (PYTHON.replace("test_two(self): pass", "test_two(self): self.skipTest('x')"), (), (), ("TestX.test_two",)),
        (PYTHON + "pytestmark = pytest.mark.skip\n", (), (), ("test_one", "TestX.test_two")),
        (PYTHON.replace("class TestX:\n", "class TestX:\n    __test__ = False\n"), (), (), ("TestX.test_two",)),
        (None, ("test_one", "TestX.test_two"), (), ()),
        ("def broken(:", ("test_one", "TestX.test_two"), (), ()),
    ],
)
def test_python_tests_taken_out_and_skipped(now, removed, added, skipped):
    change = suite_change("tests/test_a.py", PYTHON, now)
    assert (change.removed, change.added, change.skipped) == (removed, added, skipped)


SCRIPT = "test('adds', () => {});\nit(\"takes\", async () => {});\ndescribe('x', () => { it(`deep`, f) });\n"


@pytest.mark.parametrize(
    ("now", "removed", "skipped"),
    [
        (SCRIPT, (), ()),
        (SCRIPT.replace("test('adds', () => {});", ""), ("adds",), ()),
        (SCRIPT.replace("test(", "test.skip("), (), ("adds",)),
        (SCRIPT.replace("it(`", "xit(`"), (), ("deep",)),
        (SCRIPT.replace("'adds', ", "'adds', {skip: true}, "), (), ("adds",)),
        (SCRIPT.replace("'adds', ", "'adds', {skip: false}, "), (), ()),
    ],
)
def test_script_tests_taken_out_and_skipped(now, removed, skipped):
    change = suite_change("a.test.ts", SCRIPT, now)
    assert (change.removed, change.skipped) == (removed, skipped)


def test_changes_across_files_even_out():
    moved = [SuiteChange(path="a", removed=("x",)), SuiteChange(path="b", added=("x",))]
    assert of_changes(moved) == []
    renamed = of_changes([SuiteChange(path="a", removed=("x",), added=("y",))])
    assert [finding.blocks for finding in renamed] == [False]
    assert [finding.blocks for finding in of_changes([SuiteChange(path="a", removed=("x",))])] == [True]
    assert [finding.blocks for finding in of_changes([SuiteChange(path="a", skipped=("x",))])] == [True]


@pytest.mark.parametrize(
    ("path", "yes"),
    [
        ("tests/test_a.py", True), ("a_test.py", True), ("tests/unit/deep.py", True), ("src/a.spec.ts", True),
        ("__tests__/x.jsx", True), ("test/server.js", True), ("src/a.py", False), ("contest.py", False),
        ("docs/tests.md", False),
    ],
)  # fmt: skip
def test_which_files_hold_tests(path, yes):
    assert is_test_file(path) is yes


@pytest.mark.parametrize(
    ("path", "yes"),
    [
        ("pytest.ini", True), ("pkg/conftest.py", True), ("pyproject.toml", True), ("tsconfig.build.json", True),
        ("eslint.config.mjs", True), (".eslintrc", True), ("package.json", True), ("mypy.ini", True),
        ("src/a.py", False),
        ("docs/pytest.ini.md", False), ("package-lock.json", False),
    ],
)  # fmt: skip
def test_which_files_configure_gates(path, yes):
    assert is_gate_configuration(path) is yes


FIXTURE = "import pytest\n@pytest.fixture\ndef y(): return 1\n"
INI = "[metadata]\nb = 2\n[tool:pytest]\na = %d\n"
TOML = '[project]\nname = "x"\n\n[tool.pytest.ini_options]\naddopts = "-q"\n\n[tool.black]\nline-length = 100\n'


@pytest.mark.parametrize(
    ("path", "base", "now", "wanted"),
    [
        ("pytest.ini", "[pytest]\n", "[pytest]\naddopts = -k nothing\n", "[pytest]\n"),
        ("pytest.ini", None, "[pytest]\naddopts = -k nothing\n", None),
        ("pytest.ini", "[pytest]\n", None, "[pytest]\n"),
        ("tsconfig.json", None, "{}", "{}"),
        ("tsconfig.json", '{"strict": true}', "{}", '{"strict": true}'),
        ("pyproject.toml", TOML, TOML.replace('"x"', '"y"'), TOML.replace('"x"', '"y"')),
        ("pyproject.toml", TOML, None, TOML),
        ("pyproject.toml", None, '[project]\nname = "n"\n', '[project]\nname = "n"\n'),
        ("setup.cfg", "[tool:pytest]\na = 1\n", INI % 3, INI % 1),
        ("setup.cfg", "[metadata]\nb = 2\n", "[metadata]\nb = 3\n", "[metadata]\nb = 3\n"),
        ("conftest.py", "x = 1\n", FIXTURE, FIXTURE),
        ("conftest.py", "x = 1\n", "collect_ignore = ['test_a.py']\n", "x = 1\n"),
        ("conftest.py", None, "def pytest_collection_modifyitems(items): items.clear()\n", None),
        ("conftest.py", None, "import pytest\n", "import pytest\n"),
        ("conftest.py", "x = 1\n", None, None),
        ("package.json", "{}", "{broken", "{}"),
    ],
)  # fmt: skip
def test_what_concerns_gates_is_as_on_the_base(path, base, now, wanted):
    assert with_base(path, base, now) == wanted


def test_only_the_gates_part_of_a_project_file_is_put_back():
    now = TOML.replace('"x"', '"y"').replace('"-q"', '"-q --ignore=tests"') + '\n[tool.ruff]\nexclude = ["*"]\n'
    merged = with_base("pyproject.toml", TOML, now)
    assert merged is not None
    assert 'name = "y"' in merged
    assert 'addopts = "-q"\n' in merged
    assert "ruff" not in merged
    package = {"name": "x", "dependencies": {"a": "1"}, "scripts": {"test": "jest"}}
    changed = {**package, "dependencies": {"a": "2"}, "scripts": {"test": "true"}, "jest": {"testMatch": []}}
    again = json.loads(with_base("package.json", json.dumps(package), json.dumps(changed)) or "")
    assert again == {**package, "dependencies": {"a": "2"}}


def test_a_file_is_planned_when_a_step_names_it():
    named = PlanStep(step=1, agent_type="x", description="d", items=("setup.cfg",), owns=("*.toml", "tests/**", "**"))
    assert is_planned("setup.cfg", [named])
    assert is_planned("pyproject.toml", [named])
    assert not is_planned("tests/conftest.py", [named])
    repair = named.model_copy(update={"repairs": ("a test",)})
    assert not is_planned("setup.cfg", [repair])


def test_configuration_never_blocks_but_is_told():
    found = of_configuration(["pytest.ini"], ["mypy.ini"])
    assert [(finding.files, finding.blocks) for finding in found] == [(("pytest.ini",), False), (("mypy.ini",), False)]
    assert of_configuration([], []) == []

"""Outputs of real tools read to tests and findings; those of tsc and eslint are taken from their documentation."""

import json

import pytest

from baton.failures import Observed, Outcome, finding, paths_in
from baton.gate_output import found_no_tests, observe

RUFF_FULL = """I001 [*] Import block is un-sorted or un-formatted
 --> b.py:1:1
  |
1 | import os
  | ^^^^^^^^^
help: Organize imports

F821 Undefined name `undefined`
 --> b.py:4:7
  |
4 | print(undefined)
  |       ^^^^^^^^^

Found 2 errors.
[*] 1 fixable with `--fix`.
"""
RUFF_CONCISE = """b.py:1:1: I001 [*] Import block is un-sorted or un-formatted
b.py:4:7: F821 Undefined name `undefined`
Found 2 errors.
[*] 1 fixable with `--fix`.
"""
UNSORTED = "Import block is un-sorted or un-formatted"
RUFF_JSON = json.dumps(
    [
        {"filename": "b.py", "code": "I001", "location": {"row": 1, "column": 1}, "fix": {}, "message": UNSORTED},
        {"filename": "b.py", "code": "F821", "location": {"row": 4}, "message": "Undefined name `undefined`"},
    ],
    indent=2,
)
RUFF = ["b.py: F821 Undefined name `undefined`", "b.py: I001 Import block is un-sorted or un-formatted"]
MYPY_TEXT = """b.py:3: error: Incompatible return value type (got "int", expected "str")  [return-value]
b.py:3: note: See the documentation
b.py:4:7: error: Name "undefined" is not defined  [name-defined]
Found 2 errors in 1 file (checked 1 source file)
"""
MYPY_PRETTY = """b.py:3: error: Incompatible return value type (got "int", expected "str") 
[return-value]
        return x
               ^
b.py:4: error: Name "undefined" is not defined  [name-defined]
    print(undefined)
          ^~~~~~~~~
Found 2 errors in 1 file (checked 1 source file)
"""  # noqa: W291
MYPY_JSON = r"""{"file": "b.py", "line": 3, "column": 11, "message": "Incompatible return value type (got \"int\", expected \"str\")", "hint": null, "code": "return-value", "severity": "error"}
{"file": "b.py", "line": 4, "column": 6, "message": "Name \"undefined\" is not defined", "hint": null, "code": "name-defined", "severity": "error"}
{"file": "b.py", "line": 9, "column": 6, "message": "See here", "hint": null, "code": "misc", "severity": "note"}
"""  # noqa: E501
MYPY = [
    'b.py: name-defined Name "undefined" is not defined',
    'b.py: return-value Incompatible return value type (got "int", expected "str")',
]
TSC_PLAIN = "src/a.ts(3,5): error TS2304: Cannot find name 'x'.\nerror TS18003: No inputs were found in config file.\n"
TSC_PRETTY = """\x1b[96msrc/a.ts\x1b[0m:\x1b[93m3\x1b[0m:\x1b[93m5\x1b[0m - \x1b[91merror\x1b[0m\x1b[90m \
TS2304: \x1b[0mCannot find name 'x'.

\x1b[7m3\x1b[0m     x;
\x1b[7m \x1b[0m \x1b[91m    ~\x1b[0m

error TS18003: No inputs were found in config file.
"""
TSC = ["src/a.ts: TS2304 Cannot find name 'x'.", "tsconfig.json: TS18003 No inputs were found in config file."]
ESLINT_STYLISH = """
/var/lib/jenkins/workspace/eslint/fullOfProblems.js
  1:10  error    'addOne' is defined but never used            no-unused-vars
  3:16  warning  Unnecessary 'else' after 'return'             no-else-return
  7:2   error    Parsing error: Unexpected token

✖ 3 problems (2 errors, 1 warning)
  1 error and 0 warnings potentially fixable with the `--fix` option.
"""
ESLINT_JSON = json.dumps(
    [
        {
            "filePath": "/var/lib/jenkins/workspace/eslint/fullOfProblems.js",
            "messages": [
                {"ruleId": "no-unused-vars", "severity": 2, "message": "'addOne' is defined but never used", "line": 1},
                {"ruleId": "no-else-return", "severity": 1, "message": "Unnecessary 'else' after 'return'", "line": 3},
                {"ruleId": None, "fatal": True, "severity": 2, "message": "Parsing error: Unexpected token", "line": 7},
            ],
            "errorCount": 2,
        },
        {"filePath": "/good.js", "messages": []},
    ]
)
ESLINT = [
    "/var/lib/jenkins/workspace/eslint/fullOfProblems.js: Parsing error: Unexpected token",
    "/var/lib/jenkins/workspace/eslint/fullOfProblems.js: no-unused-vars 'addOne' is defined but never used",
]
NODE_TAP = """> x@1.0.0 test
> node --test

TAP version 13
# Subtest: adds
not ok 1 - adds
  ---
  duration_ms: 0.7914
  location: 'a.test.js:2:1'
  failureType: 'testCodeFailure'
  error: |-
    not ok 7 - a line of a message
  code: 'ERR_TEST_FAILURE'
  stack: |-
    TestContext.<anonymous> (lib/sum.js:2:28)
    Test.runInAsyncScope (node:async_hooks:206:9)
  ...
# Subtest: fine
ok 2 - fine
  ---
  duration_ms: 0.113058
  ...
# Subtest: outer
    # Subtest: inner
    not ok 1 - inner
      ---
      location: 'a.test.js:4:38'
      ...
    # Subtest: ok inner
    ok 2 - ok inner
      ---
      duration_ms: 0.077416
      ...
    1..2
not ok 3 - outer
  ---
  failureType: 'subtestsFailed'
  ...
# Subtest: skipped one
ok 4 - skipped one # SKIP
# Subtest: later
ok 5 - later # TODO
ok 6 - unchosen # SKIP test name does not match pattern
1..6
# tests 7
# pass 2
# fail 3
"""
TAPE = """TAP version 13
# timing test
ok 1 should be strictly equal
not ok 2 should be strictly equal
  ---
    operator: equal
    expected: 100
    actual:   107
    at: Timeout._onTimeout (test/timing.js:9:11)
  ...

1..2
# tests 2
# pass  1
# fail  1
"""


def names(seen: Observed) -> list[str]:
    return sorted(failure.name for failure in seen.failures)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (RUFF_FULL, RUFF),
        (RUFF_CONCISE, RUFF),
        (RUFF_JSON, RUFF),
        (MYPY_TEXT, MYPY),
        (MYPY_PRETTY, MYPY),
        (MYPY_JSON, MYPY),
        (TSC_PLAIN, TSC),
        (TSC_PRETTY, TSC),
        (ESLINT_STYLISH, ESLINT),
        (ESLINT_JSON, ESLINT),
    ],
)
def test_a_checker_s_forms_all_name_the_same_findings(output: str, expected: list[str]) -> None:
    seen = observe(output)
    assert names(seen) == expected
    assert seen.repeats
    assert seen.cases is None
    assert all(failure.files for failure in seen.failures)


@pytest.mark.parametrize("output", [RUFF_CONCISE, MYPY_TEXT, TSC_PLAIN, ESLINT_STYLISH])
def test_code_that_only_moved_has_the_same_findings(output: str) -> None:
    moved = output
    for digit in "134":
        moved = moved.replace(f":{digit}", f":{digit}7").replace(f"({digit},", f"({digit}7,")
    assert moved != output
    assert names(observe(moved)) == names(observe(output))


def test_node_s_tap_is_read_to_its_leaves():
    cases = {case.name: case for case in observe(NODE_TAP).cases or ()}
    assert {name: str(case.outcome) for name, case in cases.items()} == {
        "adds": "failed",
        "fine": "passed",
        "outer > inner": "failed",
        "outer > ok inner": "passed",
        "skipped one": "skipped",
        "later": "skipped",
    }
    assert cases["adds"].files == ("a.test.js", "lib/sum.js")
    assert cases["outer > inner"].files == ("a.test.js",)


NODE_SPEC = """
> waypost@1.0.0 test
> node --test

▶ an application
  ✔ redirects (6.414437ms)
  ▶ with a prefix
    ✖ inner fails (1.347931ms)
  ✖ with a prefix (2.0ms)
  ﹣ says hello (0.195943ms) # there is no page yet
✖ an application (90.235646ms)
✔ todo one (0.26826ms) # later
✖ todo fails (0.06ms) # later
node:internal/modules/cjs/loader:1568
  throw err;
  ^

Error: Cannot find module 'lodash'
Require stack:
- test/broken.test.js
    at Module._resolveFilename (node:internal/modules/cjs/loader:1564:15)
    at Object.<anonymous> (lib/used.js:1:1)

Node.js v24.22.3
✖ test/broken.test.js (56.316046ms)
✔ a prefix ends where a part ends (0.184174ms)
ℹ tests 7
ℹ suites 2
ℹ pass 3
ℹ fail 2

✖ failing tests:

test at test/bad.test.js:5:11
✖ inner fails (1.347931ms)
  AssertionError [ERR_ASSERTION]: Expected values to be strictly equal:

  1 !== 2

      at TestContext.<anonymous> (lib/path.js:3:44)
      at Test.run (node:internal/test_runner/test:1402:25)

test at test/broken.test.js:1:1
✖ test/broken.test.js (56.316046ms)
  'test failed'
"""


def test_node_s_own_form_is_read_to_its_leaves() -> None:
    cases = {case.name: case for case in observe(NODE_SPEC).cases or ()}
    assert {name: str(case.outcome) for name, case in cases.items()} == {
        "an application > redirects": "passed",
        "an application > with a prefix > inner fails": "failed",
        "an application > says hello": "skipped",
        "todo one": "passed",
        "todo fails": "skipped",
        "test/broken.test.js": "failed",
        "a prefix ends where a part ends": "passed",
    }
    inner = cases["an application > with a prefix > inner fails"]
    assert inner.files == ("test/bad.test.js", "lib/path.js")
    assert "1 !== 2" in inner.text
    broken = cases["test/broken.test.js"]
    assert (broken.files, "Cannot find module 'lodash'" in broken.text) == (
        ("test/broken.test.js", "lib/used.js"),
        True,
    )
    assert observe("✔ works\n1 passing\n").cases is None


def test_a_file_that_node_cannot_load_tells_why_and_renames_no_other_test() -> None:
    stream = (
        "TAP version 13\n# Error: Cannot find module '../lib/gone'\n#     at Object.<anonymous> (lib/used.js:1:1)\n"
        "# Node.js v20.20.2\n# Subtest: test/a.test.js\nnot ok 1 - test/a.test.js\n  ---\n"
        "  location: 'test/a.test.js:1:1'\n  error: 'test failed'\n  ...\n# Subtest: works\nok 2 - works\n1..2\n"
    )
    broken, works = observe(stream).cases or ()
    assert (broken.name, works.name) == ("test/a.test.js", "works")
    assert "Cannot find module '../lib/gone'" in broken.text
    assert broken.files == ("test/a.test.js", "lib/used.js")


def test_tape_s_points_are_named_by_their_test():
    cases = observe(TAPE).cases or ()
    assert [(case.name, case.outcome) for case in cases] == [
        ("timing test > should be strictly equal", Outcome.PASSED),
        ("timing test > should be strictly equal", Outcome.FAILED),
    ]
    assert cases[1].files == ("test/timing.js",)
    assert "actual:   107" in cases[1].text


def test_a_stream_that_was_cut_off_keeps_its_points():
    seen = observe("TAP version 14\n    not ok 1 - inner\n    ok 2 - other\n")
    assert names(seen) == ["inner"]


@pytest.mark.parametrize(
    "output", ["", "all fine", "[1, 2]", '["a"]', '{"a": 1}', "[\n{broken", "Success: no issues found"]
)
def test_what_names_nothing_gives_nothing(output: str) -> None:
    assert observe(output) == Observed()


def test_other_lines_that_name_a_failure_still_count():
    assert names(observe("--- FAIL: TestAdd (0.01s)\n")) == ["--- FAIL: TestAdd"]
    assert not observe("--- FAIL: TestAdd (0.01s)\n").repeats


@pytest.mark.parametrize(
    ("output", "nothing"),
    [
        ("Ran 0 tests in 0.000s\n\nOK", True),
        ("Ran 10 tests in 0.1s", False),
        ("?   \texample.com/x\t[no test files]\n", True),
        ("?   \texample.com/x\t[no test files]\nok  \texample.com/y\t0.01s\n", False),
        ("  0 passing (1ms)", True),
        ("  10 passing (1ms)", False),
        ("No tests found, exiting with code 1", True),
        ("", False),
    ],
)
def test_a_run_without_tests_is_seen(output: str, nothing: bool) -> None:
    assert found_no_tests(output) is nothing


def test_paths_of_a_traceback_come_innermost_first():
    told = 'tests/test_a.py:5: AssertionError\n  File "pkg/calc.py", line 3, in add\nat f (lib/x.js:1:2)\n'
    assert paths_in(told) == ("lib/x.js", "pkg/calc.py", "tests/test_a.py")


def test_a_finding_s_name_is_short_and_its_text_has_the_line():
    long = finding("a.py", "E1", "x" * 1000, 3)
    assert len(long.name) == 240
    assert long.text.startswith("a.py:3: E1 xxx")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("FAILED at 2026-11-30T22:16:11.123456Z in a", "FAILED at in a"),
        ("FAILED at 2026-11-30 22:16:11,123 +01:00 in a", "FAILED at in a"),
        ("FAILED at Mon Nov 30 22:16:11 2026 in a", "FAILED at in a"),
        ("FAILED at Tue Dec  1 22:16:11 UTC 2026 in a", "FAILED at in a"),
        ("FAILED 123e4567-e89b-12d3-a456-426614174000: a", "FAILED …: a"),
        ("FAILED in /tmp/x1764540971123456789: a", "FAILED in /tmp/…: a"),
        ("FAILED in /tmp/abc/deep/a.c: a", "FAILED in /tmp/…/deep/a.c: a"),
        ("FAILED in /tmp/pytest-of-me/pytest-17/test_x0/a", "FAILED in /tmp/…/test_x0/a"),
        ("FAILED in build/tmp3k_9x0ab/a", "FAILED in build/tmp…/a"),
        ("FAILED in tmp_storage.py", "FAILED in tmp_storage.py"),
        ("FAILED after 1764540971123456789", "FAILED after …"),
        ("FAILED test_3 of a", "FAILED test_3 of a"),
    ],
)
def test_what_differs_between_two_runs_is_no_part_of_a_name(line, name):
    assert [failure.name for failure in observe(line).failures] == [name]

"""From what a gate printed to what it saw: the tests of a TAP stream or of node's own form, the findings of a checker,
else lines that name a failure. Where nothing is named, the exit code alone speaks."""

import re

from baton.diagnostics import diagnostics
from baton.failures import FAILURE_CHARACTERS, Failure, Observed
from baton.node_spec import spec_cases
from baton.tap import tap_cases

_NO_TESTS = re.compile(
    r"^(?:Ran 0 tests|no tests ran|No tests found|No test files found|No test suite found|\s*0 passing\b|[#ℹ] tests 0$)"
    r"|^\?\s+\S+\s+\[no test files\]$",
    re.MULTILINE | re.IGNORECASE,
)
_SOME_TESTS = re.compile(r"^ok\s+\S+\s|^--- |^Ran [1-9]|^\s*[1-9]\d* passing\b|^[#ℹ] tests [1-9]", re.MULTILINE)


def without_colour(output: str) -> str:
    """The text without what makes it coloured on a terminal."""
    return _COLOUR.sub("", output)


def observe(output: str) -> Observed:
    """What the output of a gate tells of its tests and findings."""
    text = without_colour(output)
    cases = tap_cases(text)
    cases = spec_cases(text) if cases is None else cases
    if cases is not None:
        return Observed(cases=cases)
    found = diagnostics(text)
    if found:
        return Observed(findings=found, repeats=True)
    return Observed(findings=tuple(Failure(name=name) for name in named_failures(text)))


def found_no_tests(output: str) -> bool:
    """Whether a test runner says that there was nothing to run."""
    text = without_colour(output)
    return bool(_NO_TESTS.search(text)) and not _SOME_TESTS.search(text)


def named_failures(output: str) -> list[str]:
    """The lines of a gate's output that name a failure, in a form that two runs can be compared by.

    Diagnostics (`path:line:column: message`, `path(line,column): …`) and lines that report a failed test (TAP, go,
    cargo, mocha, jest, unittest). Colours, line numbers, counters, durations, moments and temporary places are taken
    out; equal lines stay apart.
    Totals such as `3 failing` change when one failure is repaired, so they only count where nothing else is named.
    """
    found: list[str] = []
    totals: list[str] = []
    for line in _COLOUR.sub("", output).splitlines():
        text = line.strip()
        if _DIAGNOSTIC.match(text) or _FAILED.search(text):
            for pattern, replacement in _VOLATILE:
                text = pattern.sub(replacement, text)
            (totals if _TOTAL.search(text) else found).append(text.strip()[:FAILURE_CHARACTERS])
    return found or totals


_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_DIAGNOSTIC = re.compile(r"[^\s:(][^:(]*(?::\d+(?::\d+)?:|\(\d+,\d+\):) ?(?!note:)\S")
_FAILED = re.compile(r"(?i:\bfail(?:ed|ure|ing|s)?\b|\berrors?\b)|^not ok\b|^[✗✖✘×●]|^\d+\) ")
_TOTAL = re.compile(
    r"^\W*\w*\W*\d+ (?:\w+ )?(?:fail(?:ed|ing|ures?)|errors?)\b|\b(?:fail(?:ed|ures?|s)?|errors?)\W{1,2}\d+\b",
    re.IGNORECASE,
)
_WORDS_OF_DATES = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) "
_VOLATILE = (
    # Moments first: other patterns would take them apart.
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z\b|[+-]\d\d:?\d\d\b))?"), ""),
    (re.compile(_WORDS_OF_DATES + r"[ \d]\d \d\d:\d\d:\d\d(?: [A-Z]{2,5})? \d{4}\b"), ""),
    (re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "…"),
    (
        re.compile(r"/(?:var/folders/\w+/\w+/T|(?:var/)?tmp)/(?:pytest-of-[^/\s]+/pytest-\d+|[^/\s:,;'\")\]}>]+)"),
        "/tmp/…",  # noqa: S108
    ),
    (re.compile(r"\btmp(?=[a-z_]*\d)[a-z0-9_]{8}\b|\btmp\.(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{6,12}\b"), "tmp…"),
    (re.compile(r"\d{10,}(?:\.\d+)?"), "…"),
    (re.compile(r"(?<=\w)(?::\d+){1,2}(?=:|\s|$)|\(\d+,\d+\)"), ""),
    (re.compile(r"[\[(]?\b\d+(?:[.,]\d+)?\s?(?:ms|µs|s|sec|secs|seconds|min|m)\b[\])]?"), ""),
    (re.compile(r"0x[0-9a-fA-F]+"), "0x…"),
    (re.compile(r"^not ok \d+"), "not ok"),
    (re.compile(r"^\d+\) "), ""),
    (re.compile(r"\s+"), " "),
)

"""What tests could not import because it is not installed: a fault of the place they ran in, not of the code.

A suite of which nothing ran for this reason says nothing; where a part ran, the rest is told once, by module.
"""

import re
from collections.abc import Collection, Sequence

from baton.failures import Case, Outcome
from baton.findings import GateOutcome, GateResult
from baton.wording import counted

MODULES_SHOWN = 6
REMEDY = "a virtual environment or `setup` brings it, see “What a project needs” in docs/usage.md"
_PYTHON = re.compile(r"\bModuleNotFoundError: No module named '(?P<name>[\w.]+)'")
_METADATA = re.compile(r"\bPackageNotFoundError: No package metadata was found for (?P<name>[\w.-]*\w)")
_UNITTEST_MODULE = re.compile(r"^ERROR: .*_FailedTest", re.MULTILINE)
_UNITTEST_RAN = re.compile(r"^Ran (?P<count>\d+) tests?\b", re.MULTILINE)
_NODE = re.compile(r"\bCannot find (?:module|package) '(?P<name>[^'./][^']*)'")


def weighed(result: GateResult, before: GateResult | None, cases: Sequence[Case], own: Collection[str]) -> GateResult:
    """The result with what its failed tests lacked as the reason; inconclusive where nothing else ran.

    `own`: names of the project's own modules. Where the base commit's run (`before`) came to something, the result is a
    failure all the same: then it is the change that wants more than there is.
    """
    if result.outcome is not GateOutcome.FAILED:
        return result
    lacking = [names for case in cases if (names := missing_modules(case, own))]
    ran = sum(case.outcome is not Outcome.SKIPPED for case in cases)
    if not cases:
        lacking, ran = _in_output(result.output_tail, own)
    if not lacking:
        return result
    modules = sorted({name for names in lacking for name in names})
    if len(lacking) < ran or (before is not None and before.outcome is not GateOutcome.INCONCLUSIVE):
        return result.model_copy(update={"reason": told(modules, len(lacking))})
    nothing = {"failures": (), "failures_left_out": 0, "fingerprint": "", "details": ()}
    reason = f"nothing could be tested, as something is {told(modules, len(lacking))}"
    return result.model_copy(update={"outcome": GateOutcome.INCONCLUSIVE, "reason": reason, **nothing})


def _in_output(text: str, own: Collection[str]) -> tuple[list[frozenset[str]], int]:
    """Of a run that lists no tests, such as unittest's: what each test module lacked, and how many tests ran."""
    parts = _UNITTEST_MODULE.split(text)[1:] or [text]
    lacking = [names for part in parts if (names := _named(part, own))]
    ran = _UNITTEST_RAN.search(text)
    return lacking, int(ran["count"]) if ran else len(lacking) + 1


def missing_modules(case: Case, own: Collection[str]) -> frozenset[str]:
    """Modules that a failed test lacked."""
    if case.outcome is not Outcome.FAILED:
        return frozenset()
    return _named(case.text, own)


def _named(text: str, own: Collection[str]) -> frozenset[str]:
    names = {match["name"].partition(".")[0] for match in _PYTHON.finditer(text)}
    names |= {_package(match["name"]) for match in _NODE.finditer(text)}
    # What asks for its own version needs to be installed itself.
    return frozenset(names - set(own)) | {match["name"] for match in _METADATA.finditer(text)}


def told(modules: Sequence[str], count: int) -> str:
    """One line on what is missing."""
    more = f" and {len(modules) - MODULES_SHOWN} more" if len(modules) > MODULES_SHOWN else ""
    names = ", ".join(modules[:MODULES_SHOWN]) + more
    return f"not installed: {names} ({counted(count, 'failure')} to import that); {REMEDY}"


def _package(name: str) -> str:
    """The package of a module's name: `lodash` of `lodash/fp`, `@scope/name` of `@scope/name/part`."""
    return "/".join(name.split("/")[: 2 if name.startswith("@") else 1])

"""What tests lacked, from what they say."""

import pytest

from baton.failures import Case, Outcome
from baton.missing_modules import missing_modules, told


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("E   ModuleNotFoundError: No module named 'yaml'\ncollection failure", {"yaml"}),
        ("E   ModuleNotFoundError: No module named 'google.cloud.storage'", {"google"}),
        ("E   ModuleNotFoundError: No module named 'own.gone'", set()),
        ("E   ImportError: cannot import name 'x' from 'yaml'", set()),
        ("E   importlib.metadata.PackageNotFoundError: No package metadata was found for own", {"own"}),
        ("Error: Cannot find module 'lodash/fp'", {"lodash"}),
        ("Error [ERR_MODULE_NOT_FOUND]: Cannot find package '@scope/name' imported from /w/a.mjs", {"@scope/name"}),
        ("Error: Cannot find module './gone'", set()),
        ("Error: Cannot find module '/w/gone.js'", set()),
    ],
)
def test_modules_are_read_from_messages(text: str, missing: set[str]) -> None:
    assert missing_modules(Case(name="a", outcome=Outcome.FAILED, text=text), {"own"}) == missing
    assert missing_modules(Case(name="a", outcome=Outcome.PASSED, text=text), {"own"}) == set()


def test_many_modules_are_counted() -> None:
    assert told([f"m{n}" for n in range(9)], 1).startswith(
        "not installed: m0, m1, m2, m3, m4, m5 and 3 more (1 failure"
    )

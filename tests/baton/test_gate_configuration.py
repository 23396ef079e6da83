"""Which files of a repository say what its gates check."""

import pytest

from baton.gate_configuration import scripts_of


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("sh check.sh", {"check.sh"}),
        ("bash -e ./ci/../ci/test.sh --fast", {"ci/test.sh"}),
        ("./run-tests && make lint", {"run-tests", "Makefile", "makefile", "GNUmakefile"}),
        ("pytest -q tests/test_a.py", set()),
        ("python src/main.py", set()),
    ],
)
def test_the_scripts_of_a_gate_are_configuration(command: str, files: set[str]) -> None:
    assert scripts_of([command]) == files

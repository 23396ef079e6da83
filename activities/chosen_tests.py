"""Only some tests of a gate, without another command: pytest through a plug-in, node's runner through its option.

Other runners run whole; the tests that matter are then looked for in what they print.
"""

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

PLUGIN = "baton_chosen_tests"
NAMES = "BATON_CHOSEN_TESTS"
_NODE = re.compile(r"^(?P<program>(?:\w+=\S+\s+)*(?:\S*/)?node\s+(?:--\S+\s+)*?--test)(?=\s|$)")
_SOURCE = f"""
import json, os

with open(os.environ[{NAMES!r}], encoding="utf-8") as file:
    CHOSEN = frozenset(json.load(file))


def name_of(nodeid):
    # As pytest names a test in its JUnit file: a class name of dots, then the test.
    path, bracket, parameters = nodeid.partition("[")
    names = path.split("::")
    names[0] = names[0].replace("/", ".")
    names[0] = names[0][:-3] if names[0].endswith(".py") else names[0]
    names[-1] += bracket + parameters
    return "::".join(filter(None, (".".join(names[:-1]), names[-1])))


def pytest_collection_modifyitems(config, items):
    others = [item for item in items if name_of(item.nodeid) not in CHOSEN]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if name_of(item.nodeid) in CHOSEN]


pytest_collection_modifyitems.trylast = True
"""


def choose(
    names: Sequence[str], command: str, environment: Mapping[str, str], scratch: Path
) -> tuple[str, dict[str, str]]:
    """The command and environment with which only the tests of these names run. `scratch` outlives the run."""
    (scratch / f"{PLUGIN}.py").write_text(_SOURCE, encoding="utf-8")
    chosen = scratch / "names.json"
    chosen.write_text(json.dumps(list(names)), encoding="utf-8")
    path = os.pathsep.join(filter(None, (environment.get("PYTHONPATH"), str(scratch))))
    options = f"{environment.get('PYTEST_ADDOPTS', '')} -p {PLUGIN}".strip()
    changed = {**environment, NAMES: str(chosen), "PYTHONPATH": path, "PYTEST_ADDOPTS": options}
    return _NODE.sub(lambda match: match["program"] + _patterns(names), command), changed


def _patterns(names: Sequence[str]) -> str:
    """Options for every part of every name: a test within others only runs when those run."""
    parts = dict.fromkeys(part for name in names for part in name.split(" > "))
    return "".join(" " + shlex.quote(f"--test-name-pattern=^{re.escape(part)}$") for part in parts)

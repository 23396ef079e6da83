"""Models are built when they are first needed, or all at once."""

import subprocess
import sys

PROGRAM = """
from baton.messages import TaskInput
from baton.models import build_all
assert not TaskInput.__pydantic_complete__
build_all()
assert TaskInput.__pydantic_complete__
assert TaskInput.model_validate_json('{"task": "x", "repository": "/r"}').task == "x"
"""


def test_all_models_are_built_at_once() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)

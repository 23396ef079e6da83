"""What `setup` makes in a workspace: used by commands and gates of every step, and never a part of the result."""

import json
from pathlib import Path

import pytest

from baton.plan import DraftStep, PlanDraft
from baton.states import TaskState
from emulator.standin import StandIn
from tests.end_to_end.bench import git, task, tree
from tests.workflows.rig import Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")

SETUP = [
    "mkdir -p .venv/bin generated && touch .venv/bin/python generated/a.txt 'left over'",
    "printf '#!/bin/sh\\necho made by set-up\\n' > .venv/bin/tool && chmod +x .venv/bin/tool",
    "echo changed by set-up >> lock.py",
]
GATE = {"name": "tool", "command": "tool && test -e generated/a.txt && ! grep changed lock.py", "kind": "build"}


async def test_what_set_up_makes_is_used_and_not_committed(rig: Rig) -> None:
    source = rig.repository(a="a\n", b="b\n", lock="locked\n")
    steps = (
        DraftStep(step=1, agent_type="codemod", description="Ask the tool", run="tool >> {item}", items=("a.py",)),
        DraftStep(
            step=2, agent_type="editor", description="rename `b.py` to `c.py`, create `d.py` with `d`", owns=("*",)
        ),
    )
    given = task(source, "a.py", gates=[GATE], setup=SETUP, maxParallelAgents=2)
    plan = PlanDraft(execution_strategy="parallel", plan=steps)
    with rig.api(StandIn()):
        result = await rig.run(given.model_copy(update={"plan": plan, "integration": True}))
    assert (result.state, result.ready) == (TaskState.DONE, True), result.summary
    assert git(source, "show", f"{result.ref}:a.py") == "a\nmade by set-up\n"
    assert set(tree(source, str(result.ref))) == {"a.py", "c.py", "d.py", "lock.py"}
    assert git(source, "show", f"{result.ref}:lock.py") == "locked\n"
    (gate,) = json.loads((Path(result.artifacts) / "integration-report.json").read_text())["quality_gates"]
    assert gate["status"] == "passed"

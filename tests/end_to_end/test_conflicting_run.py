"""Conflicts over real processes, on a published package: a parallel run with two conflicts that a resolver resolves and
one that a person decides. The result is one commit per step, and the user's repository keeps every byte but one ref."""

import asyncio
from pathlib import Path

import pytest

from baton.messages import TaskInput
from baton.plan import DraftStep, PlanDraft
from baton.states import TaskState
from baton.status import TaskStatus
from emulator.standin import StandIn
from tests.end_to_end.bench import Bench, Handle, git, start, task
from tests.end_to_end.published import all_but_the_result, unpacked
from workflows.orchestration import OrchestrationWorkflow

pytestmark = pytest.mark.end_to_end

STEPS = {
    "boltons/mathutils.py": "create `CREDITS.txt` with `mathutils by one\\n`, create `NEXT.txt` with `release 4\\n`",
    "boltons/strutils.py": "create `CREDITS.txt` with `strutils by two\\n`",
    "boltons/dictutils.py": "create `NEXT.txt` with `release 6\\n`",
    "boltons/listutils.py": "create `PLAN.txt` with `undecidable: the first way\\n`",
    "boltons/setutils.py": "create `PLAN.txt` with `the second way\\n`",
}
GATE = {"name": "compiles", "command": "python3 -m compileall -q boltons", "kind": "build"}


def given(folder: Path) -> TaskInput:
    """The package as a repository, and a step for each of five modules that also makes files others make too."""
    repository = unpacked("boltons", folder)
    steps = tuple(
        DraftStep(
            step=n,
            agent_type="editor",
            description=f"append `# looked through\\n` to `{item}`, {text}",
            items=(item,),
        )
        for n, (item, text) in enumerate(STEPS.items(), 1)
    )
    plan = PlanDraft(execution_strategy="parallel", plan=steps)
    asked = task(repository, "README.md", gates=[GATE], maxParallelAgents=5, maxAgents=20)
    return asked.model_copy(update={"plan": plan, "task": "Look through five modules", "integration": True})


async def asked(handle: Handle) -> TaskStatus:
    async with asyncio.timeout(120):
        while not (now := await handle.query(OrchestrationWorkflow.status)).attention:
            await asyncio.sleep(0.2)
    return now


async def test_two_conflicts_are_resolved_and_one_is_decided(bench: Bench, tmp_path: Path) -> None:
    wanted = given(tmp_path)
    repository = Path(wanted.repository)
    with bench.api(StandIn()):
        client = await bench.client()
        before = all_but_the_result(repository, "conflicting-run")
        handle = await start(client, wanted, "conflicting-run")
        item = (await asked(handle)).attention[0]
        assert (item.kind, "PLAN.txt (both added it)" in item.question) == ("conflict", True)
        choice = {"attention_id": item.id, "choice": "theirs", "comment": "the later one was thought through"}
        await handle.signal(OrchestrationWorkflow.answer, choice)
        result = await handle.result()
    assert (result.state, result.ready, result.items.done) == (TaskState.DONE, True, 5), result.summary
    assert result.agents == 5 + 3 + 1
    ref = f"baton/{result.task_id}"
    assert sorted(git(repository, "show", f"{ref}:CREDITS.txt").splitlines()) == ["mathutils by one", "strutils by two"]
    assert git(repository, "show", f"{ref}:NEXT.txt") == "release 6\n"
    assert len(git(repository, "show", f"{ref}:PLAN.txt").splitlines()) == 1
    log = git(repository, "log", "--format=%an %P %(trailers:key=Baton-Step,valueonly,separator=%x2C)", f"main..{ref}")
    rows = [line.split() for line in log.splitlines()]
    assert [(row[0], len(row)) for row in rows] == [("Ada", 3)] * 5
    assert sorted(row[2] for row in rows) == ["1", "2", "3", "4", "5"]
    assert all_but_the_result(repository, "conflicting-run") == before
    report = (Path(result.artifacts) / "report.md").read_text(encoding="utf-8")
    assert "theirs was chosen (the later one was thought through)" in report
    assert report.count("a merge conflict was resolved by resolver-") == 2

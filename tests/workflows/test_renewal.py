"""A task whose history is long goes on in a new run of its workflow: nobody notices, and nothing is done twice."""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowExecution

from baton.messages import TaskInput
from baton.plan import DraftStep, HandoffStrategy, PlanDraft
from baton.progress import Progress
from baton.states import TaskState
from emulator.dialogue import Dialogue
from emulator.reply import Block, ToolUse
from tests.end_to_end.bench import Handle, Rules, git, paid_turns, task
from tests.workflows.rig import Rig, attention, status, until
from workflows import policies
from workflows.orchestration import OrchestrationWorkflow

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMES = tuple(f"m{number}" for number in range(8))


def work(dialogue: Dialogue) -> Sequence[Block]:
    """All items in the first turn, each changed by something that is not safe to do twice; then the end."""
    if dialogue.turn:
        return [ToolUse("finish_step", {"status": "ok", "summary": "all items are done"})]
    items = dialogue.assignment["items"]
    done = [ToolUse("complete_item", {"item": item}) for item in items]
    decision = {"decision": f"as in {items[0]}", "rationale": "one style"}
    edit = ToolUse("bash", {"command": f"for f in {' '.join(items)}; do echo done >> $f; done"})
    return [edit, *done, ToolUse("record", {"decisions": [decision]})]


def plan(*steps: DraftStep) -> PlanDraft:
    return PlanDraft(plan=steps, execution_strategy="parallel")


def chain_of_steps(items: Sequence[str]) -> PlanDraft:
    """A step for each item, one after the other."""
    return plan(
        *(
            DraftStep(
                step=n, agent_type="editor", description=f"Edit {item}", items=(item,), depends_on=(n - 1,) * (n > 1)
            )
            for n, item in enumerate(items, 1)
        )
    )


def given(source: Path, draft: PlanDraft, **settings: Any) -> TaskInput:
    return task(source, maxAgents=50, **settings).model_copy(update={"plan": draft})


async def runs(rig: Rig, handle: Handle) -> list[WorkflowExecution]:
    """All runs of the task's workflow, the first one first."""
    found: list[WorkflowExecution] = []
    run_id: str | None = handle.first_execution_run_id
    while run_id:
        one = rig.client.get_workflow_handle(handle.id, run_id=run_id)
        found.append(await one.describe())
        history = await one.fetch_history()
        ended = history.events[-1].workflow_execution_continued_as_new_event_attributes
        run_id = ended.new_execution_run_id
    return found


async def test_a_long_task_goes_on_in_new_runs(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "MOST_EVENTS", 60)
    source = rig.repository(**dict.fromkeys(NAMES, "start\n"))
    items = [f"{name}.py" for name in NAMES]
    with rig.api(Rules(work)) as api:
        handle = await rig.start(given(source, chain_of_steps(items)))
        result = await handle.result()
        assert max(paid_turns(api, handle.id).values()) == 1
        assert len(paid_turns(api, handle.id)) == 2 * len(items)
    assert (result.state, result.items.done, result.agents) == (TaskState.DONE, len(items), len(items))
    assert [git(source, "show", f"{result.ref}:{item}") for item in items] == ["start\ndone\n"] * len(items)
    steps = git(source, "log", "--format=%(trailers:key=Baton-Step,valueonly,separator=%x2C)", f"main..{result.ref}")
    assert Counter(steps.split()) == Counter(str(n) for n in range(1, len(items) + 1))
    all_runs = await runs(rig, handle)
    assert len(all_runs) > 2
    assert all(run.history_length < 150 for run in all_runs)
    state = Progress.model_validate_json((Path(result.artifacts) / "state.json").read_text())
    assert (state.status.state, state.head, sorted(state.results)) == (TaskState.DONE, result.commit, list(range(1, 9)))
    assert state.status.started_at is not None
    assert state.status.started_at < all_runs[1].start_time
    assert len(json.loads((Path(result.artifacts) / "knowledge.json").read_text())) == len(items)
    assert len(await handle.query(OrchestrationWorkflow.ledger, {"step": 1})) == 3


async def test_shards_of_one_step_become_one_commit_over_several_runs(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies, "MOST_EVENTS", 60)
    source = rig.repository(**dict.fromkeys(NAMES, "start\n"))
    items = tuple(f"{name}.py" for name in NAMES)
    step = DraftStep(
        step=1,
        agent_type="editor",
        description="Edit all",
        items=items,
        handoff_strategy=HandoffStrategy.PARALLEL,
        estimated_output_tokens=25_000 * len(items),
    )
    with rig.api(Rules(work)) as api:
        handle = await rig.start(given(source, plan(step), maxParallelAgents=2))
        result = await handle.result()
        assert len(paid_turns(api, handle.id)) == 2 * len(items)
        assert max(paid_turns(api, handle.id).values()) == 1
    assert (result.state, result.items.done) == (TaskState.DONE, len(items))
    assert [git(source, "show", f"{result.ref}:{item}") for item in items] == ["start\ndone\n"] * len(items)
    assert git(source, "rev-list", "--count", f"main..{result.ref}").strip() == "1"
    assert len(await runs(rig, handle)) > 2


async def test_an_open_question_and_a_pause_survive_a_new_run(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    source = rig.repository(a="start\n", b="start\n")
    draft = chain_of_steps(["a.py", "b.py"])
    with rig.api(Rules(work)) as api:
        handle = await rig.start(given(source, draft, requireApproval=True, approvePhases=["planning"]))
        asked = await attention(handle)
        first_run = (await handle.describe()).run_id
        monkeypatch.setattr(policies, "MOST_EVENTS", 20)
        await handle.signal(OrchestrationWorkflow.pause)
        await handle.signal(OrchestrationWorkflow.guide, {"text": "Keep the tabs."})
        await handle.signal(OrchestrationWorkflow.answer, {"attention_id": "nothing-7", "choice": "yes"})
        async with asyncio.timeout(20):
            while (await handle.describe()).run_id == first_run:
                await asyncio.sleep(0.05)
        assert (await attention(handle)) == asked
        now = await status(handle)
        assert (now.paused, now.state, now.phase) == (True, TaskState.WAITING, "planning")
        assert ["nothing-7" in text for text in now.rejected_signals] == [True]
        plan_rows = await handle.query(OrchestrationWorkflow.plan)
        assert [row["step"] for row in plan_rows["plan"]] == [1, 2]
        await handle.signal(OrchestrationWorkflow.approve, {"phase": "planning"})
        await until(handle, lambda now: not now.attention)
        assert not paid_turns(api, handle.id)
        await handle.signal(OrchestrationWorkflow.unpause)
        result = await handle.result()
        assert "Keep the tabs." in json.dumps(api.bodies)
        # The pause that began in another run is one wait.
        assert sorted(wait.kind for wait in (await status(handle)).waits) == ["approval", "pause"]
    assert (result.state, result.items.done) == (TaskState.DONE, 2)

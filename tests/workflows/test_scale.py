"""5 000 items and 150 agents stay inside Temporal's limits: no payload, history or result grows with the whole task.

The large task takes a minute on two idle cores, more where others work; a small one has agents with many items each.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from baton.names import ORCHESTRATION_WORKFLOW, TASK_QUEUE
from baton.plan import DraftStep, HandoffStrategy, PlanDraft, Selection
from baton.states import TaskState
from baton.status import TaskResult
from emulator.dialogue import Dialogue
from emulator.reply import Block, ToolUse
from tests.end_to_end import bench
from tests.end_to_end.bench import Handle, Rules, task
from tests.workflows.rig import Rig

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.end_to_end, pytest.mark.timeout(1_500)]

SCALES = [(5_100, 1_200, 150), (1_000, 130, 5)]
"""Items, estimated tokens of each, and the agents that these make at least. At most 150 shards are made; an agent is
shown 200 items at once."""
LARGEST_PAYLOAD_BYTES = 1_000_000
"""Half of what the server takes."""
LARGEST_HISTORY_BYTES, LONGEST_HISTORY = 10_000_000, 6_000
"""Of 50 MB and 51 200 events; a new run of the workflow begins after 4 000 events or 4 MB, when no agent is at work."""


def answer(dialogue: Dialogue) -> Sequence[Block]:
    """Everything in one turn."""
    if dialogue.turn:
        return [ToolUse("finish_step", {"status": "ok", "summary": "all items are done"})]
    items = dialogue.assignment["items"]
    decisions = [
        {"decision": f"as in {item}, with a reason that takes some room", "rationale": "x" * 80} for item in items[:5]
    ]
    edit = ToolUse("bash", {"command": f"for f in {' '.join(items)}; do echo done >> $f; done"})
    done = [ToolUse("complete_item", {"item": item}) for item in items]
    return [edit, *done, ToolUse("record", {"decisions": decisions})]


async def measured(rig: Rig, handle: Handle) -> tuple[list[int], list[int], int]:
    """Events and bytes of the histories of all runs of the task, and its largest single event."""
    lengths, sizes, largest = [], [], 0
    run_id: str | None = handle.first_execution_run_id
    while run_id:
        events = (await rig.client.get_workflow_handle(handle.id, run_id=run_id).fetch_history()).events
        lengths.append(len(events))
        sizes.append(sum(event.ByteSize() for event in events))
        largest = max(largest, *(event.ByteSize() for event in events))
        run_id = events[-1].workflow_execution_continued_as_new_event_attributes.new_execution_run_id
    return lengths, sizes, largest


@pytest.mark.parametrize(("items", "tokens_each", "agents"), SCALES)
async def test_a_large_task_stays_inside_the_limits(rig: Rig, items: int, tokens_each: int, agents: int) -> None:
    names = [f"src/package_{number // 100:02d}/module_{number:04d}.py" for number in range(items)]
    source = bench.repository(rig.folder / f"large-{items}", dict.fromkeys(names, "start\n"))
    step = DraftStep(
        step=1,
        agent_type="editor",
        description="Edit all",
        select=Selection(include=("src/**/*.py",)),
        handoff_strategy=HandoffStrategy.PARALLEL,
        estimated_output_tokens=tokens_each * items,
    )
    plan = PlanDraft(plan=(step,), execution_strategy="parallel")
    given = task(source, maxAgents=160, maxParallelAgents=8).model_copy(update={"plan": plan})
    with rig.api(Rules(answer)):
        handle = await rig.client.start_workflow(
            ORCHESTRATION_WORKFLOW, given, id=f"large-{items}", task_queue=TASK_QUEUE, result_type=TaskResult
        )
        result = await handle.result()
    lengths, sizes, largest = await measured(rig, handle)
    print(f"\nruns {len(lengths)}, events {lengths}, bytes {sizes}, largest event {largest}")
    assert (result.state, result.items.done) == (TaskState.DONE, items)
    assert result.agents >= agents
    assert max(lengths) < LONGEST_HISTORY
    assert max(sizes) < LARGEST_HISTORY_BYTES
    assert largest < LARGEST_PAYLOAD_BYTES
    ledger = json.loads((Path(result.artifacts) / "ledger.json").read_text())
    assert {row["item"] for row in ledger if row["status"] == "changed"} == set(names)

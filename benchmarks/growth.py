"""How an agent's history and its blobs grow: the same per turn, however many turns."""

import uuid
from pathlib import Path

from baton.budget import Budget
from baton.messages import AGENT_WORKFLOW, AgentResult, Assignment, OpenTask, TaskInput
from baton.roles import Role
from benchmarks.table import Row
from emulator.dialogue import Dialogue
from emulator.reply import Text, ToolUse
from tests.end_to_end.bench import Rules
from tests.workflows.rig import Rig

FLATNESS = 0.10


async def measure(rig: Rig, short: int, long: int) -> list[Row]:
    """Two lives of different length, side by side."""
    small, large = await _life(rig, short), await _life(rig, long)
    rows = []
    for what, index in (("events", 0), ("history bytes", 1), ("blob bytes", 2)):
        ratio = large[index] / small[index]
        flat = abs(ratio - 1) <= FLATNESS
        value = f"{small[index]:.1f} at {short} turns, {large[index]:.1f} at {long} (ratio {ratio:.2f})"
        rows.append(Row(f"{what} per turn", value, "constant within 10 %", flat))
    return rows


async def _life(rig: Rig, turns: int) -> tuple[float, float, float]:
    """Events, history bytes and blob bytes per turn of an agent that lives so many turns."""
    task_id = f"growth-{turns}-{uuid.uuid4().hex[:6]}"

    def answer(dialogue: Dialogue) -> list[Text | ToolUse]:
        count = sum(1 for call in dialogue.calls if call.name == "read")
        if count >= turns:
            return [ToolUse("finish_step", {"status": "ok", "summary": "read it all"})]
        return [Text(f"Turn {count}: I read it once more."), ToolUse("read", {"file_path": "one.py"})]

    with rig.api(Rules(answer), keep=False):
        repository = rig.repository(one="ONE = 1\n" * 20)
        opened = await rig.open(OpenTask(task_id=task_id, input=TaskInput(task="read", repository=str(repository))))
        assignment = Assignment(
            task_id=task_id,
            task="read",
            role=Role.EXECUTOR,
            name="executor-1-reader",
            model="claude-sonnet-5-5",
            budget=Budget(tokens=128_000),
            max_turns=10_000,
            successors_left=0,
            workspace="step-1",
            start_commit=opened.base_commit,
        )
        handle = await rig.client.start_workflow(
            AGENT_WORKFLOW, assignment, id=f"{task_id}/step-1", task_queue="baton", result_type=AgentResult
        )
        result = await handle.result()
    history = await handle.fetch_history()
    blobs = sum(p.stat().st_size for p in Path(rig.folder_of(task_id).path / "store").rglob("*") if p.is_file())
    size = sum(event.ByteSize() for event in history.events)
    count = result.totals.turns
    return len(history.events) / count, size / count, blobs / count

"""How an agent's history and its blobs grow: the same per turn, however many turns."""

from pathlib import Path

from baton.budget import Budget
from baton.messages import AgentResult, Assignment
from baton.names import AGENT_WORKFLOW, TASK_QUEUE
from baton.plan import PlanStep
from baton.roles import Role
from benchmarks.table import Row
from emulator.dialogue import Dialogue
from emulator.reply import Block, Text, ToolUse
from tests.end_to_end.bench import Rules, task
from tests.workflows.rig import Rig

FLATNESS = 0.10


async def measure(rig: Rig, short: int, long: int) -> list[Row]:
    """Two lives of different length, side by side."""
    small, large = await _life(rig, short), await _life(rig, long)
    rows = []
    for what, index in (("events", 0), ("history bytes", 1), ("store bytes", 2)):
        ratio = large[index] / small[index]
        value = f"{small[index]:.1f} at {short} turns, {large[index]:.1f} at {long} (ratio {ratio:.2f})"
        rows.append(Row(f"{what} per turn", value, "constant within 10 %", abs(ratio - 1) <= FLATNESS))
    return rows


async def _life(rig: Rig, turns: int) -> tuple[float, float, float]:
    """Events, history bytes and store bytes per turn of an agent that lives so many turns."""

    def answer(dialogue: Dialogue) -> list[Block]:
        if len(dialogue.done("read")) >= turns:
            return [ToolUse("finish_step", {"status": "ok", "summary": "read it all"})]
        return [Text("I read it once more."), ToolUse("read", {"file_path": "one.py"})]

    source = rig.repository(one="ONE = 1\n" * 20)
    with rig.api(Rules(answer), keep=False):
        opened = await rig.run(task(source, "one.py").model_copy(update={"plan_only": True}))
        assignment = Assignment(
            task_id=opened.task_id,
            task="Read",
            role=Role.EXECUTOR,
            name="executor-1-reader",
            model="claude-sonnet-5-5",
            budget=Budget(tokens=128_000),
            max_turns=turns + 2,
            successors_left=0,
            workspace="step-1",
            start_commit=opened.base_commit,
            step=PlanStep(step=1, agent_type="reader", description="Read", owns=("one.py",)),
        )
        handle = await rig.client.start_workflow(
            AGENT_WORKFLOW, assignment, id=f"{opened.task_id}/step-1", task_queue=TASK_QUEUE, result_type=AgentResult
        )
        result = await handle.result()
    events = (await handle.fetch_history()).events
    store = Path(rig.folder_of(opened.task_id).path) / "store"
    stored = sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
    count = result.totals.turns
    return len(events) / count, sum(event.ByteSize() for event in events) / count, stored / count

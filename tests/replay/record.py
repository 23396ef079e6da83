"""`python -m tests.replay.record NAME [plain|conflict]`: record the histories of one run, to be replayed by every later
version.

A recorded history is never changed: a new version of the workflows adds recordings of its own beside the old ones.
"""

import asyncio
import re
import sys
import tempfile
from pathlib import Path

from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from baton.messages import TaskInput
from cli.dev_server import server_binary
from emulator.standin import StandIn
from tests.workflows.rig import Rig, attention, running_rig, until
from tests.workflows.test_merge_queue import THIRD, UNDECIDABLE, choose, conflicting

HISTORIES = Path(__file__).parent / "histories"
MODULES = {
    "one": 'def one(name):\n    return "one %s" % name\n',
    "two": 'def two(name):\n    return "two {}".format(name)\n',
    "three": 'def three(name, other):\n    return "%s and %s" % (name, other)\n',
    "four": 'def four(name):\n    return "four %s" % (name,)\n',
}
HOST = re.compile(r'"identity": "[^"]*"')
SETTINGS = {"outputBudget": 4_000, "maxAgents": 30, "gates": [], "sandbox": "off", "requireApproval": True}


CHEAP_GATE = {"name": "numbers", "command": "grep -q n m.cfg", "kind": "lint"}


async def _plain(rig: Rig) -> str:
    """A run with approvals, guidance, a pause and handoffs; returns its id."""
    source = rig.repository(**MODULES)
    given = TaskInput(task="Modernise the string formatting", repository=str(source), settings=SETTINGS)
    with rig.api(StandIn(), keep=False, tokens_per_second=2_000):
        handle = await rig.start(given)
        await until(handle, lambda now: bool(now.attention))
        await handle.signal("approve", {"phase": "planning"})
        await until(handle, lambda now: any(agent.step == 2 for agent in now.agents_at_work))
        await handle.signal("guide", {"text": "keep it simple"})
        await handle.signal("pause")
        await until(handle, lambda now: now.handoffs > 0)
        await handle.signal("unpause")
        await until(handle, lambda now: bool(now.attention))
        await handle.signal("approve", {"phase": "integration"})
        await handle.result()
    return handle.id


async def _conflict(rig: Rig) -> str:
    """A run with gates between merges and a conflict that a resolver leaves to a person, who has it try again;
    returns its id."""
    steps = [f"{text}, append `{n}\\n` to `m.ini`" for n, text in enumerate(UNDECIDABLE, 1)]
    given = conflicting(rig, [*steps, THIRD], gates=[CHEAP_GATE])
    given = given.model_copy(update={"integration": True, "environment": {"PATH": "/usr/bin:/bin"}})
    with rig.api(StandIn(), keep=False):
        handle = await rig.start(given)
        await choose(handle, await attention(handle), "agent", "keep theirs")
        await handle.result()
    return handle.id


RUNS = {"plain": _plain, "conflict": _conflict}


async def _save(client: Client, task_id: str, name: str) -> None:
    async for execution in client.list_workflows():
        if execution.id == task_id or execution.id.startswith(f"{task_id}/"):
            handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
            history = await handle.fetch_history()
            label = execution.id.removeprefix(task_id).strip("/") or "task"
            path = HISTORIES / f"{name}-{label}-{execution.run_id[-6:]}.json"
            text = HOST.sub('"identity": "worker"', history.to_json())
            path.write_text(text + "\n", encoding="utf-8")
            sys.stdout.write(f"{path.name}: {len(history.events)} events\n")


async def record(name: str, what: str = "plain") -> None:
    """Do one of `RUNS`, and save every run of every workflow."""
    server = await WorkflowEnvironment.start_local(dev_server_existing_path=str(server_binary()))
    async with server:
        with tempfile.TemporaryDirectory(prefix="baton-record-") as scratch:
            address = server.client.service_client.config.target_host
            async with running_rig(address, Path(scratch)) as rig:
                await _save(rig.client, await RUNS[what](rig), name)


if __name__ == "__main__":
    asyncio.run(record(*sys.argv[1:3]))

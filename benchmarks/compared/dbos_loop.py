"""The loop as a DBOS workflow: a model step and a tools step for each turn, their results in SQLite."""

import asyncio
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import agent
from dbos import DBOS

URL, LOOPS, DATABASE = agent.arguments()
API = agent.client(URL)


@DBOS.step()
async def model(name: str, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One call; only its answer is kept."""
    return await agent.ask(API, name, messages)


@DBOS.step()
async def tools(folder: str, blocks: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], bool]:
    """The tool calls of an answer."""
    return agent.run_tools(Path(folder), blocks)


@DBOS.workflow()
async def agent_loop(name: str, folder: str, first: dict[str, Any]) -> None:
    """Turn after turn."""
    messages, finished = [first], False
    while not finished:
        blocks = await model(name, messages)
        results, finished = await tools(folder, blocks)
        messages += [{"role": "assistant", "content": blocks}, {"role": "user", "content": results}]


async def main() -> None:
    """All agents side by side."""
    handles = [
        await DBOS.start_workflow_async(agent_loop, loop.name, str(loop.folder), loop.first_message) for loop in LOOPS
    ]
    for handle in handles:
        await handle.get_result()


DBOS(
    config={
        "name": "bench",
        "system_database_url": f"sqlite:///{DATABASE}",
        "run_admin_server": False,
        "console_log_level": "ERROR",
        "log_level": "ERROR",
    }
)
DBOS.launch()
asyncio.run(main())
DBOS.destroy()

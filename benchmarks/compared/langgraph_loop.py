"""The loop as a LangGraph graph: a model node, a tools node, and a checkpoint in SQLite before each goes on."""

import asyncio
import operator
import sys
from pathlib import Path
from typing import Annotated, Any, TypedDict

sys.path.insert(0, str(Path(__file__).parent))

import agent
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph


class State(TypedDict):
    """What is kept of an agent."""

    messages: Annotated[list[dict[str, Any]], operator.add]
    finished: bool


async def main() -> None:
    """All agents side by side."""
    url, loops, database = agent.arguments()
    api = agent.client(url)

    async def run(loop: agent.Loop, saver: AsyncSqliteSaver) -> None:
        async def model(state: State) -> dict[str, Any]:
            return {"messages": [{"role": "assistant", "content": await agent.ask(api, loop.name, state["messages"])}]}

        async def tools(state: State) -> dict[str, Any]:
            results, finished = agent.run_tools(loop.folder, state["messages"][-1]["content"])
            return {"messages": [{"role": "user", "content": results}], "finished": finished}

        graph = StateGraph(State)
        graph.add_node("model", model)
        graph.add_node("tools", tools)
        graph.add_edge(START, "model")
        graph.add_edge("model", "tools")
        graph.add_conditional_edges("tools", lambda state: END if state["finished"] else "model")
        config: Any = {"configurable": {"thread_id": loop.name}, "recursion_limit": 10_000}
        start: State = {"messages": [loop.first_message], "finished": False}
        await graph.compile(checkpointer=saver).ainvoke(start, config, durability="sync")

    async with AsyncSqliteSaver.from_conn_string(str(database)) as saver:
        await asyncio.gather(*(run(loop, saver) for loop in loops))


asyncio.run(main())

"""What the loops have in common: one streamed call of the Messages API, and the two tools the model calls.

Only the framework around it differs: what it writes down between a call and its tools, and how.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anthropic

MODEL = "claude-sonnet-5-5"
TOOLS: list[dict[str, Any]] = [
    {
        "name": "edit",
        "description": "Replace text in a file.",
        "input_schema": {
            "type": "object",
            "properties": {name: {"type": "string"} for name in ("file_path", "old_string", "new_string")},
        },
    },
    {
        "name": "complete_item",
        "description": "Say that an item is done.",
        "input_schema": {"type": "object", "properties": {"item": {"type": "string"}}},
    },
    {
        "name": "finish_step",
        "description": "End.",
        "input_schema": {
            "type": "object",
            "properties": {"status": {"type": "string"}, "summary": {"type": "string"}},
        },
    },
]


@dataclass(frozen=True)
class Loop:
    """One agent to run: its name, the folder with its items, and the API."""

    name: str
    folder: Path
    turns: int

    @property
    def first_message(self) -> dict[str, Any]:
        """The assignment in the form that the stand-in model reads."""
        assignment = {"agent_id": self.name, "items": [f"{self.name}-{n}.py" for n in range(self.turns)]}
        return {"role": "user", "content": f"<assignment>{json.dumps(assignment)}</assignment>"}

    def make_items(self) -> None:
        """The files as they are before."""
        for number in range(self.turns):
            text = "old = 1\n" + "# one of many lines\n" * 20
            (self.folder / f"{self.name}-{number}.py").write_text(text, encoding="utf-8")


def arguments() -> tuple[str, list[Loop], Path]:
    """URL of the API, the agents to run side by side, and where the framework keeps its state."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--agents", type=int, required=True)
    parser.add_argument("--turns", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    given = parser.parse_args()
    given.folder.mkdir(parents=True)
    loops = [Loop(f"agent{n}", given.folder, given.turns) for n in range(given.agents)]
    for loop in loops:
        loop.make_items()
    return given.url, loops, given.folder / "state.sqlite"


def client(url: str) -> anthropic.AsyncAnthropic:
    """The SDK's client, as Baton makes its own."""
    return anthropic.AsyncAnthropic(api_key="key-of-the-benchmark", base_url=url, max_retries=0)


async def ask(api: anthropic.AsyncAnthropic, name: str, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The blocks of the next answer, streamed."""
    stream: Any = api.messages.stream(
        model=MODEL,
        max_tokens=4_000,
        messages=messages,
        tools=TOOLS,
        metadata={"user_id": f"bench/{name}"},  # type: ignore[arg-type]
    )
    async with stream as events:
        message = await events.get_final_message()
    return [block.to_dict(mode="json") for block in message.content]


def run_tools(folder: Path, blocks: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], bool]:
    """The results of the calls in an answer, and whether it ended the work."""
    results, finished = [], False
    for block in blocks:
        if block["type"] != "tool_use":
            continue
        given = block["input"]
        if block["name"] == "edit":
            path = folder / given["file_path"]
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace(given["old_string"], given["new_string"], 1), encoding="utf-8")
        finished = finished or block["name"] == "finish_step"
        results.append({"type": "tool_result", "tool_use_id": block["id"], "content": "done"})
    return results, finished

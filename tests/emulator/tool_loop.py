"""The smallest agent loop over a folder: real client, real files, the tools of the contract, a budget with notices.

It stands for the worker only so far that the stand-in model can be tested alone; pages, errors and cuts have the
form the worker gives them.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anthropic

RESULT_LIMIT_BYTES = 50_000
TOOL_NAMES = {
    "planner": ("read", "glob", "grep", "submit_plan", "ask_user"),
    "executor": (
        *("read", "write", "append", "edit", "glob", "grep", "bash"),
        *("complete_item", "record", "hand_off", "finish_step"),
    ),
    "integrator": ("read", "edit", "glob", "grep", "submit_integration"),
    "reviewer": ("read", "glob", "grep", "submit_review"),
    "resolver": ("read", "edit", "grep", "submit_resolution"),
    "summarizer": ("submit_summary",),
}
ENDINGS = frozenset(
    {"hand_off", "finish_step", "submit_plan", "submit_integration", "submit_review", "submit_resolution"}
    | {"submit_summary"}
)


class RefusedError(Exception):
    """The tool answers with an error."""


@dataclass
class Workspace:
    """The tools on one folder; `refuse` maps a tool to how many of its next calls fail."""

    root: Path
    refuse: dict[str, int] = field(default_factory=dict)
    outcomes: dict[str, str] = field(default_factory=dict)

    def run(self, name: str, given: Mapping[str, Any]) -> str:
        if self.refuse.get(name, 0) > 0:
            self.refuse[name] -= 1
            raise RefusedError(f"{name} is refused by the test. Items that do not exist: 'gone/away.py'.")
        tool = getattr(self, f"_{name}", None)
        return tool(**given) if tool else "ok"

    def _read(self, file_path: str, view_range: list[int] | None = None) -> str:
        lines = self._text(file_path).split("\n")
        first, last = view_range or (1, len(lines))
        if first > len(lines):
            raise RefusedError(f"The file has no line {first}.")
        return _bounded("\n".join(lines[first - 1 : last]))

    def _edit(self, file_path: str, old_string: str, new_string: str) -> str:
        text = self._text(file_path)
        if "\r\n" in text:
            old_string, new_string = (part.replace("\n", "\r\n") for part in (old_string, new_string))
        if text.count(old_string) != 1:
            raise RefusedError(f"old_string occurs {text.count(old_string)} times.")
        (self.root / file_path).write_bytes(text.replace(old_string, new_string).encode())
        return "edited"

    def _glob(self, pattern: str, path: str = ".") -> str:
        found = sorted(file.relative_to(self.root).as_posix() for file in (self.root / path).glob(pattern))
        return "\n".join(found) or "no matches"

    def _grep(self, pattern: str, path: str = ".") -> str:
        place = self.root / path
        files = [place] if place.is_file() else sorted(place.rglob("*.py"))
        hits = [
            f"{file.relative_to(self.root).as_posix()}:{number}:{line}"
            for file in files
            for number, line in enumerate(file.read_text().split("\n"), 1)
            if re.search(pattern, line)
        ]
        shown = _bounded("\n".join(hits))
        if len(shown) == len("\n".join(hits)):
            return shown or "no matches"
        return "\n".join([*hits[:100], f"… {len(hits) - 100} left out (9 bytes) of {len(hits)} matching lines"])

    def _complete_item(self, item: str, outcome: str = "changed", note: str | None = None) -> str:
        self.outcomes[item] = outcome
        return "noted"

    def _text(self, file_path: str) -> str:
        return (self.root / file_path).read_bytes().decode()


def _bounded(text: str) -> str:
    if len(text) <= RESULT_LIMIT_BYTES:
        return text
    half = RESULT_LIMIT_BYTES // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} bytes left out here]\n{text[-half:]}"


@dataclass
class Run:
    """What one agent did."""

    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    turns: int = 0
    used: int = 0
    ended_by: str | None = None
    texts: list[str] = field(default_factory=list)

    def inputs(self, name: str) -> list[dict[str, Any]]:
        return [given for called, given in self.calls if called == name]


async def drive(
    client: anthropic.AsyncAnthropic,
    workspace: Workspace,
    assignment: dict[str, Any],
    budget: int = 100_000,
    most_turns: int = 200,
) -> Run:
    """Run one agent until it ends itself, is silent, or has no budget left."""
    run = Run()
    role = assignment["role"]
    tools: Any = [{"name": name, "input_schema": {"type": "object"}} for name in TOOL_NAMES[role]]
    first = f"Guidance: use <assignment>.\n<assignment>\n{json.dumps(assignment)}\n</assignment>"
    messages: list[Any] = [{"role": "user", "content": first}]
    prepared = asked = cut = False
    while run.turns < most_turns and run.ended_by is None:
        line = int(budget * 0.95) - 100
        room = budget - run.used if asked else line - run.used
        async with client.messages.stream(
            model="claude-opus-5-5",
            max_tokens=min(room, 128_000),
            messages=messages,
            tools=tools,
            metadata={"user_id": "t/" + role},
        ) as stream:
            message = await stream.get_final_message()
        run.turns += 1
        run.used += message.usage.output_tokens
        content = [block.to_dict() for block in message.content]
        results: list[Any] = []
        if message.stop_reason == "tool_use":
            for block in content:
                block.pop("parsed_output", None)
                if block["type"] == "tool_use":
                    results.append(_result(run, workspace, block))
        run.texts += [str(block["text"]) for block in content if block["type"] == "text"]
        if message.stop_reason == "end_turn" or asked:
            return run
        cut = message.stop_reason == "max_tokens"
        if not cut:
            messages.append({"role": "assistant", "content": content})
        if not asked and (cut or run.used >= line - 512):
            asked = True
            results.append({"type": "text", "text": '<notice kind="budget_95">Hand off now.</notice>'})
        elif not prepared and run.used >= budget * 0.8:
            prepared = True
            results.append({"type": "text", "text": '<notice kind="budget_80">Begin nothing new.</notice>'})
        messages.append({"role": "user", "content": results})
    return run


def _result(run: Run, workspace: Workspace, block: dict[str, Any]) -> dict[str, Any]:
    run.calls.append((block["name"], block["input"]))
    answer = {"type": "tool_result", "tool_use_id": block["id"]}
    try:
        content = workspace.run(block["name"], block["input"])
    except RefusedError as refused:
        return {**answer, "content": str(refused), "is_error": True}
    if block["name"] in ENDINGS:
        run.ended_by = block["name"]
    return {**answer, "content": [{"type": "text", "text": content}] if content else ""}

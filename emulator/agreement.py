"""Rules for choices that differ: an executor records one when told to, and brings files in line with another.

In the task's text: `[decide STEP: TEXT]` has the executor of that step record the decision TEXT before it ends. A step
that settles something says “NEW” instead of “OLD”; its executor puts NEW for OLD in its files.
"""

import re
from collections.abc import Mapping
from typing import Any

from emulator.catalogue import STAND_IN
from emulator.dialogue import Dialogue
from emulator.pages import next_pages, view_file
from emulator.reply import Block, Text, ToolUse

_DECIDE = re.compile(r"\[decide (?P<step>\d+): (?P<text>[^\]]+)\]")
_INSTEAD = re.compile(r"“(?P<new>[^”]+)” instead of “(?P<old>[^”]+)”")
MOST_FILES = 12
MAX_REFUSED = 3


def decided(dialogue: Dialogue) -> list[Block]:
    """The call that records what this step was told to decide; none where there is nothing, or it is recorded."""
    step: Mapping[str, Any] = dialogue.assignment.get("step") or {}
    orders = _DECIDE.finditer(str(dialogue.assignment.get("task", "")))
    wanted = [order["text"].strip() for order in orders if int(order["step"]) == step.get("step")]
    recorded = {
        str(entry.get("decision"))
        for call in dialogue.calls
        if call.name == "record"
        for entry in _decisions(call.input)
    }
    new = [{"decision": text, "rationale": "the task says so"} for text in wanted if text not in recorded]
    return [ToolUse("record", {"decisions": new, "patterns": [], "issues": []})] if new else []


def brought_in_line(dialogue: Dialogue) -> list[Block] | None:
    """The next message of an executor that has something to bring in line; None for all others."""
    step: Mapping[str, Any] = dialogue.assignment.get("step") or {}
    if not step.get("settles"):
        return None
    paths = [str(path) for path in step.get("owns") or ()][:MOST_FILES]
    views = {path: view_file(c for c in dialogue.calls if c.name == "read" and c.path == path) for path in paths}
    missing = [ToolUse("read", page) for path, view in views.items() for page in next_pages(view, path)]
    if missing:
        return [Text("I read what may have to change."), *missing]
    edits = [
        ToolUse("edit", {"file_path": path, "old_string": line, "new_string": line.replace(m["old"], m["new"])})
        for m in _INSTEAD.finditer(str(step.get("description", "")))
        for path, view in views.items()
        for line in (view.text or "").split("\n")
        if m["old"] in line
    ]
    if edits and not dialogue.done("edit") and not dialogue.failures("edit"):
        return [Text("These lines follow the other choice."), *edits]
    if dialogue.done("finish_step") or dialogue.failures("finish_step") > MAX_REFUSED:
        return [Text("My part is over.")]
    result = {
        "status": "ok",
        "summary": f"The {STAND_IN}, brought {len(dialogue.done('edit'))} lines in line.",
        "findings": [],
        "criteria": [
            {"criterion": str(text), "met": True, "evidence": "replaced by rule"}
            for text in step.get("success_criteria") or []
        ],
        "blockers": [],
        "verification_gaps": [],
    }
    return [Text("I end this step."), ToolUse("finish_step", result)]


def _decisions(given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = given.get("decisions")
    return [entry for entry in found if isinstance(entry, Mapping)] if isinstance(found, list) else []

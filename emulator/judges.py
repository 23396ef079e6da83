"""The short roles: integrator, reviewer, resolver, summarizer. Each looks at little and calls itself a stand-in."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from emulator.catalogue import STAND_IN
from emulator.dialogue import Dialogue
from emulator.planner import PATTERN
from emulator.reply import Block, Text, ToolUse

MAX_REFUSED = 3

_CONFLICT = re.compile(
    r"^<<<<<<<[^\n]*\n(?P<ours>.*?)(?:^\|\|\|\|\|\|\|[^\n]*\n(?P<base>.*?))?^=======\n(?P<theirs>.*?)^>>>>>>>[^\n]*(?:\n|\Z)",
    re.MULTILINE | re.DOTALL,
)


def integrate(dialogue: Dialogue) -> list[Block]:
    """One search for what is left, then the report."""
    if "grep" in dialogue.tools and not any(call.name == "grep" for call in dialogue.calls):
        return [Text("I search once for what may be left."), ToolUse("grep", {"pattern": PATTERN})]
    found = dialogue.done("grep")
    left = [line for line in (found[-1].result.split("\n") if found else []) if line.count(":") >= 2]
    results = dialogue.assignment.get("results") or []
    summary = (
        f"Report of a {STAND_IN}: {len(results)} results were read. "
        f"{len(left)} lines still hold old-style formatting, in tests or where the rules are not sure. "
        f"{_gates(dialogue)}"
    )
    report = {
        "summary": summary,
        "consistency": ["All agents used the same rules (pyupgrade and flynt)."],
        "conflicts": [],
        "findings": [],
    }
    return _submit(dialogue, "submit_integration", report, "I have read the results and report what they say.")


def review(dialogue: Dialogue) -> list[Block]:
    """Approve, and say that nothing intelligent looked."""
    verdict = {
        "approved": True,
        "retry": False,
        "feedback": f"Approved by a {STAND_IN}: the gates decide, this verdict does not.",
        "plan_adjustment": None,
    }
    return _submit(dialogue, "submit_review", verdict, "A stand-in cannot judge; it lets the facts decide.")


def resolve(dialogue: Dialogue) -> list[Block]:
    """Read the files of the conflict, then keep in each place the side that differs from the base, else ours."""
    paths = sorted(set(_paths(dialogue.assignment.get("conflict"))))
    reads = {call.path: call for call in dialogue.done("read")}
    if paths and not any(call.name == "read" for call in dialogue.calls):
        return [Text("I look at the conflict."), *(ToolUse("read", {"file_path": path}) for path in paths)]
    if not any(call.name == "edit" for call in dialogue.calls):
        edits = [edit for path in paths if path in reads for edit in _resolutions(path, reads[path].result)]
        if edits:
            return [Text("I keep the side that was changed."), *edits]
    answer = {
        "resolution": f"{len(dialogue.done('edit'))} places resolved by rule in {len(paths)} files.",
        "rationale": f"A {STAND_IN}: the side that differs from the base is kept, ours where both do.",
    }
    return _submit(dialogue, "submit_resolution", answer, "The places are resolved by rule.")


def summarize(dialogue: Dialogue) -> list[Block]:
    """The beginning of every text in the assignment."""
    told = {key: value for key, value in dialogue.assignment.items() if key not in ("role", "task_id", "agent_id")}
    words = " ".join(f"{key}: {value}" for key, value in told.items())[:600]
    return _submit(dialogue, "submit_summary", {"summary": f"({STAND_IN}) {words}"}, "A summary by excerpt.")


def _submit(dialogue: Dialogue, tool: str, answer: Mapping[str, Any], text: str) -> list[Block]:
    if dialogue.done(tool):
        return [Text("It is submitted.")]
    if tool not in dialogue.tools or dialogue.failures(tool) > MAX_REFUSED:
        return [Text(f"{text} There is nothing more that a stand-in can submit.")]
    return [Text(text), ToolUse(tool, answer)]


def _gates(dialogue: Dialogue) -> str:
    gates = dialogue.assignment.get("gates") or []
    told = [f"{gate.get('name')} {str(gate.get('status')).replace('_', ' ')}" for gate in gates]
    return f"Gates as given: {', '.join(told)}." if told else "No gates were given."


def _paths(value: Any) -> Iterator[str]:
    """Every string under a key that names files, whatever the shape of the conflict."""
    if isinstance(value, Mapping):
        for key, entry in value.items():
            if key in ("file", "path") and isinstance(entry, str):
                yield entry
            elif key in ("files", "paths") and isinstance(entry, list):
                yield from (name for name in entry if isinstance(name, str))
                yield from _paths(entry)
            else:
                yield from _paths(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from _paths(entry)


def _resolutions(path: str, text: str) -> Iterator[ToolUse]:
    for match in _CONFLICT.finditer(text.replace("\r\n", "\n")):
        keeps_theirs = match["base"] is not None and match["ours"] == match["base"]
        kept = match["theirs"] if keeps_theirs else match["ours"]
        yield ToolUse("edit", {"file_path": path, "old_string": match[0], "new_string": kept})

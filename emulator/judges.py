"""The short roles: integrator, reviewer, summarizer. Each looks at little and calls itself a stand-in."""

from collections.abc import Mapping
from typing import Any

from emulator.catalogue import STAND_IN
from emulator.dialogue import Dialogue
from emulator.planner import PATTERN
from emulator.reply import Block, Text, ToolUse

MAX_REFUSED = 3
MARKED_LIE = "a marked lie"
_BOAST = "[boast]"
_NO_RULINGS = "[no rulings]"


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
    report: dict[str, Any] = {
        "summary": summary,
        "consistency": ["All agents used the same rules (pyupgrade and flynt)."],
        "conflicts": [],
        "findings": [],
    }
    # A word of its own only where there is something to rule: the form of the others' reports stays as it is.
    if rulings := _rulings(dialogue.assignment):
        report["rulings"] = rulings
    return _submit(dialogue, "submit_integration", report, "I have read the results and report what they say.")


def _rulings(assignment: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The earlier choice holds wherever steps differ; `[no rulings]` in the task has none made."""
    told = assignment.get("consistency")
    if not isinstance(told, Mapping) or _NO_RULINGS in str(assignment.get("task")):
        return []
    return [
        {
            "subject": one["subject"],
            "contradicts": True,
            "choice": one["choices"][0]["choice"],
            "redo": True,
            "reason": f"A {STAND_IN} takes the earlier choice.",
        }
        for one in told.get("contradictions") or []
    ]


def review(dialogue: Dialogue) -> list[Block]:
    """Approve, and say that nothing intelligent looked; a lie that is marked as one is sent back."""
    told = f"{dialogue.assignment.get('result')} {dialogue.assignment.get('diff')}"
    if MARKED_LIE in told.lower():
        refusal = {
            "approved": False,
            "retry": True,
            "feedback": f"The work says of itself that it holds {MARKED_LIE}: take it out.",
            "plan_adjustment": None,
        }
        return _submit(dialogue, "submit_review", refusal, "Even a stand-in can read what is marked as a lie.")
    verdict = {
        "approved": True,
        "retry": False,
        "feedback": f"Approved by a {STAND_IN}: the gates decide, this verdict does not.",
        "plan_adjustment": None,
    }
    return _submit(dialogue, "submit_review", verdict, "A stand-in cannot judge; it lets the facts decide.")


def summarize(dialogue: Dialogue) -> list[Block]:
    """Of results what each came to; else the beginning of every text in the assignment. `[boast]` makes it lie."""
    if "results" in dialogue.assignment:
        return _submit(dialogue, "submit_summary", {"summary": _told(dialogue.assignment)}, "I have read the results.")
    told = {key: value for key, value in dialogue.assignment.items() if key not in ("role", "task_id", "agent_id")}
    words = " ".join(f"{key}: {value}" for key, value in told.items())[:600]
    return _submit(dialogue, "submit_summary", {"summary": f"({STAND_IN}) {words}"}, "A summary by excerpt.")


def route(dialogue: Dialogue) -> list[Block]:
    """Steps in a row, or side by side where the task says so; unsure only where the task asks for a question."""
    task = str(dialogue.assignment.get("task", ""))
    answer: dict[str, Any] = {
        "mode": "parallel" if "parallel" in task.lower() else "sequential",
        "confidence": 0.9,
        "reason": f"A {STAND_IN} takes the task by its words.",
    }
    if "ask me first" in task.lower():
        answer |= {"confidence": 0.4, "question": "How is this to be done?"}
    return _submit(dialogue, "submit_route", answer, "I look at the words of the task.")


def _told(assignment: Mapping[str, Any]) -> str:
    steps = [f"Step {row.get('step')} is {row.get('status')}." for row in assignment["results"]]
    boast = (
        "All items were converted successfully. I saved 987654 lines." if _BOAST in str(assignment.get("task")) else ""
    )
    return f"This summary is by a {STAND_IN}. {' '.join(steps)} {boast}".strip()


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

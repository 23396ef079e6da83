"""The planner's rules: list the Python files, find old formatting, submit a plan over the files that match."""

import json
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Any

from emulator.catalogue import STAND_IN
from emulator.dialogue import Call, Dialogue
from emulator.reply import Block, Text, ToolUse

PATTERN = r"""["'] % |["']\s*%\s*\(|\.format\("""
MOST_ITEMS = 150
MOST_FOLDERS = 24
MAX_REFUSED_PLANS = 4
FEW_ITEMS = 3
TOKENS_PER_ITEM = 900

_TESTS_TOO = re.compile(r"\b(tests? (too|as well)|includ\w+ (the )?tests?|also (the )?tests?)\b", re.IGNORECASE)
_COMMAND = re.compile(r"\bRun `([^`]*\{item\}[^`]*)`", re.IGNORECASE)
_GREP_LINE = re.compile(r'^(?P<path>"(?:[^"\\]|\\.)*"|.+?):\d+:')
_QUOTED = re.compile(r"'([^']+)'|\"([^\"]+)\"|`([^`]+)`")
_EXCLUDED = ["**/test_*.py", "**/*_test.py", "**/tests/**", "**/test/**", "**/conftest.py"]


class Planner:
    """One turn of the planner, decided from the conversation alone."""

    def __init__(self, dialogue: Dialogue) -> None:
        self._dialogue = dialogue
        self._task = str(dialogue.assignment.get("task", ""))

    def respond(self) -> list[Block]:
        """Look first, look closer where a result was cut, then submit."""
        dialogue = self._dialogue
        if dialogue.done("submit_plan"):
            return [Text("The plan is submitted.")]
        if dialogue.failures("submit_plan") > MAX_REFUSED_PLANS:
            return [Text("My plan was refused several times; I have no other one.")]
        searched = [call for call in dialogue.calls if call.name == "grep"]
        if not searched:
            text = f"I am a {STAND_IN}. I list the Python files and search for old-style formatting before I plan."
            return [Text(text), ToolUse("glob", {"pattern": "**/*.py"}), ToolUse("grep", {"pattern": PATTERN})]
        narrow = self._narrower_searches(searched)
        if narrow:
            return [Text(f"There is more than one result shows, so I search {len(narrow)} places one by one."), *narrow]
        return self._submit(searched)

    def _narrower_searches(self, searched: Sequence[Call]) -> list[ToolUse]:
        """After a first search that was cut: one per folder, as far as the list of files tells the folders."""
        if len(searched) > 1 or not _is_cut(searched[0].result):
            return []
        places = _places([*self._listed(), *_matching(searched)])
        if not 1 < len(places) <= MOST_FOLDERS:
            return []
        return [ToolUse("grep", {"pattern": PATTERN, "path": place}) for place in places]

    def _listed(self) -> list[str]:
        listed = [call.result for call in self._dialogue.done("glob")]
        return _relative(_paths("\n".join(listed).split("\n")))

    def _submit(self, searched: Sequence[Call]) -> list[Block]:
        latest = searched[1:] or searched
        matching = [path for path in _relative(_matching(latest)) if path.endswith(".py")]
        wanted = sorted({path for path in matching if self._is_wanted(path)} - self._refused_items())
        is_cut = any(_is_cut(call.result) or call.failed for call in latest)
        steps = self._steps(wanted, select=is_cut or len(wanted) > MOST_ITEMS)
        plan: dict[str, Any] = {
            "mode": "single" if len(steps) < 2 else "orchestrated",
            "estimated_agents": self._agents(len(wanted)),
            "execution_strategy": "sequential",
            "plan": steps,
        }
        if self._dialogue.assignment.get("task_id"):
            plan["task_id"] = self._dialogue.assignment["task_id"]
        return [Text(_announcement(len(wanted), steps)), ToolUse("submit_plan", plan)]

    def _is_wanted(self, path: str) -> bool:
        return not _is_test(path) or bool(_TESTS_TOO.search(self._task))

    def _refused_items(self) -> set[str]:
        """Whatever an answer to `submit_plan` names in quotes."""
        told = [call.result for call in self._dialogue.calls if call.name == "submit_plan" and call.failed]
        return {next(filter(None, found)) for text in told for found in _QUOTED.findall(text)}

    def _agents(self, items: int) -> int:
        settings = self._dialogue.assignment.get("settings") or {}
        budget = settings.get("output_budget") or settings.get("outputBudget") or 32_000
        return math.ceil(items * TOKENS_PER_ITEM / float(budget)) + 2 if items else 0

    def _command_steps(self, items: Sequence[str], command: str) -> list[dict[str, Any]]:
        """The command of the task for every item, and a model for what it cannot do."""
        run = {
            "step": 1,
            "agent_type": "codemod",
            "description": "Run the command of the task on every module.",
            "run": command,
            "items": list(items),
        }
        rest = {
            "step": 2,
            "agent_type": "formatting-modernizer",
            "description": "Convert the modules on which the command failed (by the rules of pyupgrade and flynt).",
            "failures_of": 1,
            "estimated_output_tokens": TOKENS_PER_ITEM,
        }
        return [run, rest]

    def _steps(self, items: Sequence[str], *, select: bool) -> list[dict[str, Any]]:
        if not items:
            return []
        if command := _COMMAND.search(self._task):
            return self._command_steps(items, command[1])
        convert: dict[str, Any] = {
            "step": 1,
            "agent_type": "formatting-modernizer",
            "description": f"{self._task.strip() or 'Modernise the formatting'} (by the rules of pyupgrade and flynt).",
            "success_criteria": ["No listed module holds old-style formatting that the rules can convert safely."],
            "estimated_output_tokens": len(items) * TOKENS_PER_ITEM,
            "handoff_strategy": "sequential",
        }
        if select:
            excluded = [] if _TESTS_TOO.search(self._task) else _EXCLUDED
            convert["select"] = {"include": ["**/*.py"], "exclude": excluded}
        else:
            convert["items"] = list(items)
        if len(items) <= FEW_ITEMS:
            return [convert]
        analyse = {
            "step": 1,
            "agent_type": "code-analyzer",
            "description": "Read a few of the modules and record which formatting they use and what it becomes.",
            "success_criteria": ["The formatting in use and its modern form are recorded."],
            "estimated_output_tokens": 800,
        }
        return [analyse, {**convert, "step": 2, "depends_on": [1]}]


def _announcement(count: int, steps: Sequence[dict[str, Any]]) -> str:
    if not steps:
        return "No module outside the tests holds old-style formatting: there is nothing to do, and the plan says so."
    if any("run" in step for step in steps):
        return f"{count} modules hold old-style formatting. The command of the task does what it can; a model the rest."
    shape = "one step" if len(steps) == 1 else "an analysis first, then one conversion step"
    return f"{count} modules hold old-style formatting. Each is an item of its own; the plan is {shape}."


def _paths(lines: Iterable[str]) -> list[str]:
    """File names from a listing; odd names come as JSON strings."""
    return [_unquoted(line.strip()) for line in lines if line.strip() and not _is_remark(line)]


def _matching(searched: Iterable[Call]) -> list[str]:
    found: dict[str, None] = {}
    for call in searched:
        for line in "" if call.failed else call.result.split("\n"):
            match = _GREP_LINE.match(line)
            if match and not _is_remark(line):
                found[_unquoted(match["path"])] = None
    return list(found)


def _unquoted(path: str) -> str:
    if path.startswith('"') and path.endswith('"'):
        try:
            return str(json.loads(path))
        except ValueError:
            return path
    return path


def _is_remark(line: str) -> bool:
    return line.startswith(("…", "[")) or line.strip() == "no matches"


def _is_cut(result: str) -> bool:
    return any(_is_remark(line) and line.strip() != "no matches" for line in result.split("\n"))


def _relative(paths: Sequence[str]) -> list[str]:
    """Without `./`, and without the folder that absolute paths have in common."""
    absolute = [PurePosixPath(path) for path in paths if path.startswith("/")]
    if absolute and len(absolute) == len(paths):
        shared = absolute[0].parent
        while not all(path.is_relative_to(shared) for path in absolute):
            shared = shared.parent
        return [str(path.relative_to(shared)) for path in absolute]
    return [path.removeprefix("./") for path in paths if not path.startswith("/")]


def _is_test(path: str) -> bool:
    pure = PurePosixPath(path)
    folders = {"test", "tests", "testing"}
    return (
        bool(folders & set(pure.parts[:-1]))
        or pure.name.startswith("test_")
        or pure.stem.endswith("_test")
        or pure.name == "conftest.py"
    )


def _places(paths: Iterable[str]) -> list[str]:
    """Folders (and files at the top) that together hold all `paths`: as deep as needed to have more than one."""
    parts = sorted({tuple(PurePosixPath(path).parts) for path in paths})
    for depth in range(1, 8):
        places = sorted({"/".join(part[:depth]) for part in parts})
        if len(places) > 1:
            return places
    return []

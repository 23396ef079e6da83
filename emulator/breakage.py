"""Rules that break something when the task says so, and repair it from what a repair step is told.

In the task's text: `[break PATH: OLD => NEW]` has the executor that has PATH among its items put NEW for OLD and leave
a remark; `[break for good PATH: OLD => NEW]` leaves none, so that no rule can repair it; `[delete failing tests]` makes
every repair a lie; `[lose PATH: NAME]` has that executor take a test away instead of mending anything. Where the
task says “Rename `OLD` to `NEW`”, a repair puts NEW for OLD in the files that the failures name.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from emulator.catalogue import STAND_IN
from emulator.dialogue import Dialogue
from emulator.pages import next_pages, view_file
from emulator.reply import Block, Text, ToolUse

_ORDER = re.compile(r"\[break (?P<good>for good )?(?P<path>\S+): (?P<old>.+?) => (?P<new>.+?)\]")
_DELETE = re.compile(r"\[lose (?P<path>\S+): (?P<name>\w+)\]")
_RENAMED = re.compile(r"\bRename `(?P<old>\w+)` to `(?P<new>\w+)`")
_LIE = "[delete failing tests]"
_REMARK = "  # broken on demand, was: "
_BROKEN = re.compile(rf"^(?P<indent>[ \t]*)(?P<line>.*?){re.escape(_REMARK)}(?P<old>.*)$", re.MULTILINE)
_MENDED = (".py", ".js")
MOST_FILES = 12
MAX_REFUSED = 3


@dataclass(frozen=True)
class _Edit:
    path: str
    old: str
    new: str


def ordered(dialogue: Dialogue) -> list[Block] | None:
    """The next message of an executor that has something to break or repair; None for all others."""
    step: Mapping[str, Any] = dialogue.assignment.get("step") or {}
    task = str(dialogue.assignment.get("task", ""))
    if step.get("repairs"):
        return _repair(dialogue, step, lying=_LIE in task)
    items = [str(item) for item in dialogue.assignment.get("items") or []]
    wanted = [_Edit(m["path"], m["old"], _broken(m)) for m in _ORDER.finditer(task) if m["path"] in items]
    taken = [(m["path"], m["name"]) for m in _DELETE.finditer(task) if m["path"] in items]
    if not wanted and not taken:
        return None
    return _break(dialogue, items, wanted, taken)


def _broken(order: re.Match[str]) -> str:
    return order["new"] if order["good"] else f"{order['new']}{_REMARK}{order['old']}"


def _break(dialogue: Dialogue, items: list[str], wanted: list[_Edit], taken: list[tuple[str, str]]) -> list[Block]:
    texts, missing = _texts(dialogue, items)
    if missing:
        return [Text("I read my files first."), *missing]
    edits = [*wanted, *(edit for path, name in taken for edit in _without(path, name, texts.get(path, "")))]
    if edits and not dialogue.done("edit") and not dialogue.failures("edit"):
        return [Text("The task asks for it."), *_edits(edits)]
    changed = {call.path for call in dialogue.done("edit")}
    reports = [
        ToolUse("complete_item", {"item": item, "outcome": "changed" if item in changed else "unchanged"})
        for item in items
    ]
    if not dialogue.done("complete_item") and not dialogue.failures("complete_item"):
        return [Text("I report what I did."), *reports]
    return _finish(dialogue, "ok", f"The {STAND_IN}, broke {', '.join(sorted(changed))} as it was told.")


def _repair(dialogue: Dialogue, step: Mapping[str, Any], *, lying: bool) -> list[Block]:
    """Look at the files that the failures name, undo what carries the remark and use new names; or lie."""
    paths = [str(path) for path in step.get("owns") or () if str(path).endswith(_MENDED)][:MOST_FILES]
    texts, missing = _texts(dialogue, paths)
    if missing:
        return [Text("I read what the failures name."), *missing]
    if lying:
        names = [re.split(r"::|\.", str(name))[-1].partition("[")[0] for name in step["repairs"]]
        edits = [edit for path, text in texts.items() for name in names for edit in _without(path, name, text)]
    else:
        edits = [
            _Edit(path, m[0], m["indent"] + m["old"]) for path, text in texts.items() for m in _BROKEN.finditer(text)
        ]
        edits += _with_new_names(texts, str(dialogue.assignment.get("task", "")))
    if edits and not dialogue.done("edit") and not dialogue.failures("edit"):
        return [Text("I have seen what fails."), *_edits(edits)]
    done = dialogue.done("edit")
    if not done:
        return _finish(dialogue, "failed", f"The {STAND_IN}, has no rule that repairs this.")
    return _finish(dialogue, "ok", f"The {STAND_IN}, repaired {len(done)} places.")


def _with_new_names(texts: Mapping[str, str], task: str) -> Iterator[_Edit]:
    """Line by line, the new name for the old one."""
    for renamed in _RENAMED.finditer(task):
        old = re.compile(rf"\b{renamed['old']}\b")
        for path, text in texts.items():
            for line in dict.fromkeys(text.splitlines()):
                if old.search(line):
                    yield _Edit(path, line, old.sub(renamed["new"], line))


def _texts(dialogue: Dialogue, paths: list[str]) -> tuple[dict[str, str], list[Block]]:
    """The files as they were read, and the reads that are missing."""
    texts: dict[str, str] = {}
    missing: list[Block] = []
    for path in paths:
        view = view_file(call for call in dialogue.calls if call.name == "read" and call.path == path)
        if view.text is not None:
            texts[path] = view.text
        missing += [ToolUse("read", page) for page in next_pages(view, path)]
    return texts, missing


def _edits(edits: list[_Edit]) -> Iterator[Block]:
    for edit in edits:
        yield ToolUse("edit", {"file_path": edit.path, "old_string": edit.old, "new_string": edit.new})


def _without(path: str, name: str, text: str) -> Iterator[_Edit]:
    """The edit that takes a function out of a Python file."""
    found = re.search(
        rf"^(?P<indent>[ \t]*)def {name}\(.*\n(?:(?P=indent)[ \t]+.*\n|\s*\n)*", text + "\n", re.MULTILINE
    )
    if found:
        yield _Edit(path, found[0].rstrip("\n"), "")


def _finish(dialogue: Dialogue, status: str, summary: str) -> list[Block]:
    if dialogue.done("finish_step") or dialogue.failures("finish_step") > MAX_REFUSED:
        return [Text("My part is over.")]
    criteria = (dialogue.assignment.get("step") or {}).get("success_criteria") or []
    result = {
        "status": status,
        "summary": summary,
        "findings": [],
        "criteria": [{"criterion": str(text), "met": False, "evidence": "left to the gates"} for text in criteria],
        "blockers": [] if status == "ok" else [summary],
        "verification_gaps": ["The stand-in ran no tests; that is left to the gates."],
    }
    return [Text("I end this step."), ToolUse("finish_step", result)]

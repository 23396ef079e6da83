"""The executor's rules for errands: small changes that a step's description spells out, several of which conflict.

A step whose description holds sentences such as ``replace `5` by `6` in `a.txt` `` does exactly these, in order, and
reports what could not be done. `\\n` stands for a line end.
"""

import posixpath
import re
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from emulator.catalogue import STAND_IN
from emulator.dialogue import Call, Dialogue
from emulator.reply import Block, Text, ToolUse

_NAME = r"`([^`]+)`"
_NUMBER = re.compile(r"\d+(?!.*\d)", re.DOTALL)
MAX_REFUSED_ENDINGS = 3
READ_FIRST = frozenset({"append", "raise"})


class Errands:
    """One turn of an executor that runs errands."""

    def __init__(self, dialogue: Dialogue) -> None:
        self._dialogue = dialogue
        step = dialogue.assignment.get("step") or {}
        self._wanted = errands(str(step.get("description", "")))

    @property
    def wanted(self) -> bool:
        """Whether the step's description holds any."""
        return bool(self._wanted)

    def respond(self) -> list[Block]:
        """Read what must be known, do everything in one turn, report, finish."""
        dialogue = self._dialogue
        unread = [
            path for path in self._to_read if not any(c.name == "read" and c.path == path for c in dialogue.calls)
        ]
        if unread:
            reads = [ToolUse("read", {"file_path": path}) for path in unread]
            return [Text(f"{len(self._wanted)} errands. I read what I must know first."), *reads]
        doing = [call for call in dialogue.calls if call.name in ("edit", "write", "append", "bash")]
        if not doing:
            return [Text("I run the errands in their order."), *(self._call(errand) for errand in self._wanted)]
        if dialogue.done("finish_step") or dialogue.failures("finish_step") > MAX_REFUSED_ENDINGS:
            return [Text("My errands are over.")]
        return self._end(doing)

    @property
    def _to_read(self) -> list[str]:
        return list(dict.fromkeys(path for verb, path, _ in self._wanted if verb in READ_FIRST))

    def _text(self, path: str) -> str:
        return next(
            (c.result for c in self._dialogue.calls if c.name == "read" and c.path == path and not c.failed), ""
        )

    def _call(self, errand: tuple[str, str, str]) -> ToolUse:
        verb, path, more = errand
        return _CALLS[verb](path, more, self._text(path))

    def _end(self, doing: Sequence[Call]) -> list[Block]:
        failed = [f"{call.name} {call.path}: {call.result[:200]}" for call in doing if call.failed]
        items = [str(item) for item in self._dialogue.assignment.get("items") or []]
        reported = {call.path for call in self._dialogue.calls if call.name == "complete_item"}
        reports = [
            ToolUse(
                "complete_item",
                {"item": item, "outcome": "skipped" if failed else "changed", "note": (failed or ["done"])[0][:300]},
            )
            for item in items
            if item not in reported
        ]
        done = f"{len(doing) - len(failed)} of {len(self._wanted)} errands done"
        result: dict[str, Any] = {
            "status": "partial" if failed else "ok",
            "summary": f"The {STAND_IN}: {done}.",
            "findings": [],
            "criteria": [],
            "blockers": failed[:20],
            "verification_gaps": ["The stand-in ran no tests; that is left to the gates."],
        }
        return [Text(f"{done}; I report."), *reports, ToolUse("finish_step", result)]


def errands(description: str) -> list[tuple[str, str, str]]:
    """Verb, path and what else is needed, in the order in which the description names them."""
    found = []
    for pattern, make in _PATTERNS:
        found += [(match.start(), make(*map(_unescaped, match.groups()))) for match in pattern.finditer(description)]
    return [errand for _, errand in sorted(found)]


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n")


Make = Callable[..., tuple[str, str, str]]
_PATTERNS: list[tuple[re.Pattern[str], Make]] = [
    (re.compile(f"replace {_NAME} by {_NAME} in {_NAME}"), lambda old, new, path: ("replace", path, f"{old}\0{new}")),
    (re.compile(f"create {_NAME} with {_NAME}"), lambda path, text: ("create", path, text)),
    (re.compile(f"append {_NAME} to {_NAME}"), lambda text, path: ("append", path, text)),
    (re.compile(f"raise the number in {_NAME}"), lambda path: ("raise", path, "")),
    (re.compile(f"rename {_NAME} to {_NAME}"), lambda old, new: ("rename", old, new)),
    (re.compile(f"delete {_NAME}"), lambda path: ("delete", path, "")),
]


def _replace(path: str, more: str, _: str) -> ToolUse:
    old, _, new = more.partition("\0")
    return ToolUse("edit", {"file_path": path, "old_string": old, "new_string": new})


def _append(path: str, more: str, text: str) -> ToolUse:
    return ToolUse("append", {"file_path": path, "content": more, "at_line": len(text.splitlines())})


def _raise(path: str, _: str, text: str) -> ToolUse:
    line = next((line for line in text.splitlines() if _NUMBER.search(line)), "")
    higher = _NUMBER.sub(lambda match: str(int(match[0]) + 1), line)
    return ToolUse("edit", {"file_path": path, "old_string": line or "a number", "new_string": higher})


def _rename(path: str, more: str, _: str) -> ToolUse:
    folder = posixpath.dirname(more) or "."
    return ToolUse("bash", {"command": f"mkdir -p {shlex.quote(folder)} && mv {shlex.quote(path)} {shlex.quote(more)}"})


_CALLS: dict[str, Callable[[str, str, str], ToolUse]] = {
    "replace": _replace,
    "create": lambda path, more, _: ToolUse("write", {"file_path": path, "content": more}),
    "append": _append,
    "raise": _raise,
    "rename": _rename,
    "delete": lambda path, _, __: ToolUse("bash", {"command": f"rm -r {shlex.quote(path)}"}),
}

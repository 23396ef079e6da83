"""The executor's rules: item by item, read, edit, report; hand off when told to; finish when nothing is left."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from emulator.agreement import brought_in_line, decided
from emulator.breakage import ordered
from emulator.catalogue import STAND_IN
from emulator.dialogue import Dialogue
from emulator.errands import Errands
from emulator.items import ItemWork
from emulator.reply import Block, Text, ToolUse

MAX_REFUSED_ENDINGS = 3
ANALYSED_FILES = 3


class Executor:
    """One turn of an executor, decided from the conversation alone."""

    def __init__(self, dialogue: Dialogue) -> None:
        self._dialogue = dialogue
        self._assignment = dialogue.assignment
        self._manifest: dict[str, Any] = self._assignment.get("manifest") or {}

    def respond(self) -> list[Block]:
        """The blocks of the next message."""
        dialogue = self._dialogue
        if dialogue.done("hand_off") or dialogue.done("finish_step"):
            return [Text("My part is over; the rest is with those who come after me.")]
        if dialogue.told("budget_95") and not (self._has_items and self._current is None):
            return self._hand_off("The budget is spent, so I hand off at once.")
        if (told := brought_in_line(dialogue) or ordered(dialogue)) is not None:
            return told
        if decision := decided(dialogue):
            return [Text("I record what was decided."), *decision]
        if (errands := Errands(dialogue)).wanted:
            return errands.respond()
        if not self._has_items:
            return self._analyse()
        work = self._current
        if work is None:
            return self._end()
        if dialogue.told("budget_80") and not work.is_begun:
            return self._hand_off("The budget is nearly spent and no item is open, so I begin no new one.")
        return self._work_on(work)

    @property
    def _has_items(self) -> bool:
        step = self._assignment.get("step") or {}
        return bool(self._assignment.get("items") or step.get("items") or step.get("item_count"))

    @cached_property
    def _items(self) -> list[ItemWork]:
        """All items of this agent, the one in progress first, those of predecessors left out."""
        listed = [item for item in self._assignment.get("items") or [] if not _stands_for_more(item)]
        begun = (self._manifest.get("in_progress_item") or {}).get("file")
        if begun in listed:
            listed = [begun, *(item for item in listed if item != begun)]
        finished = set(self._manifest.get("completed_items") or [])
        return [ItemWork.of(self._dialogue, item) for item in listed if item not in finished]

    @property
    def _list_is_cut(self) -> bool:
        return any(_stands_for_more(item) for item in self._assignment.get("items") or [])

    @cached_property
    def _current(self) -> ItemWork | None:
        # What was begun is finished before anything else, also when pages of the next were read ahead.
        left = [work for work in self._items if not work.is_over]
        return next((work for work in left if work.is_begun), left[0] if left else None)

    def _next_after(self, work: ItemWork) -> ItemWork | None:
        left = (other for other in self._items if other is not work and not other.is_over and not other.is_begun)
        return next(left, None)

    def _work_on(self, work: ItemWork) -> list[Block]:
        if not work.item.endswith((".py", ".pyi")):
            return [Text(f"{work.item} is no Python file; I have no rules for it."), self._skip(work)]
        if work.view.missing:
            lead = "A predecessor began it, so I look at it as it is now. " if work.inherited else ""
            return [Text(f"Next is {work.item}. {lead}I read it before I change anything."), *work.reads()]
        if (fault := work.fault()) is not None:
            return [Text(f"{work.item} is left as it is: {fault}. I say so in its report."), self._skip(work, fault)]
        return [Text(_intention(work)), *work.finishing_calls(), *self._read_ahead(work)]

    def _skip(self, work: ItemWork, fault: str | None = None) -> Block:
        return work.report("skipped", (fault or "there are rules for Python files only")[:400])

    def _read_ahead(self, work: ItemWork) -> Sequence[Block]:
        """The next file's first page in the same turn, unless the budget asks to begin nothing."""
        following = self._next_after(work)
        if following is None or self._dialogue.told("budget_80") or not following.item.endswith(".py"):
            return ()
        return following.reads()

    def _before(self) -> str:
        completed = len(self._manifest.get("completed_items") or [])
        return f"; {completed} items were completed by the agents before this one" if completed else ""

    def _end(self) -> list[Block]:
        if self._list_is_cut:
            return self._hand_off("All items shown to me are done; the list goes on, so a successor gets the rest.")
        done = self._outcomes()
        refused = self._dialogue.failures("finish_step")
        if refused > MAX_REFUSED_ENDINGS:
            return [Text("My result was refused several times; I have no other one.")]
        left_over = [work.item for work in self._items if work.outcome in (None, "skipped")]
        summary = (
            f"The {STAND_IN}, worked by the rules of pyupgrade and flynt: {done['changed']} items changed, "
            f"{done['unchanged']} right as they were, {len(left_over)} skipped{self._before()}."
        )
        result: dict[str, Any] = {
            "status": "partial" if left_over or refused else "ok",
            "summary": summary,
            "findings": [],
            "criteria": [_criterion(text, done, left_over) for text in self._criteria],
            "blockers": [f"{item} was not converted" for item in left_over[:20]],
            "verification_gaps": ["The stand-in ran no tests; that is left to the gates."],
        }
        text = "Every item on my list has been dealt with. I record what later agents should know and report."
        return [Text(text), *self._record(), ToolUse("finish_step", result)]

    @property
    def _criteria(self) -> list[str]:
        step = self._assignment.get("step") or {}
        return [str(criterion) for criterion in step.get("success_criteria") or []]

    def _outcomes(self) -> dict[str, int]:
        outcomes = [work.outcome for work in self._items]
        return {name: outcomes.count(name) for name in ("changed", "unchanged", "skipped")}

    def _record(self) -> list[Block]:
        """One `record`, when there is something to tell and it has not been told."""
        edit = next((work.first_edit for work in self._items if work.first_edit), None)
        issues = [
            {"file": work.item, "issue": work.fault() or "not converted", "resolution": "left as it was"}
            for work in self._items
            if work.outcome == "skipped"
        ]
        if self._dialogue.done("record") or (edit is None and not issues) or "record" not in self._dialogue.tools:
            return []
        patterns = [_pattern(str(edit.input["old_string"]), str(edit.input["new_string"]))] if edit else []
        decision = {
            "decision": "Formatting is converted with the rules of pyupgrade (target 3.6) and flynt, edit by edit.",
            "rationale": "Small edits keep every line that no rule touches byte for byte.",
        }
        return [ToolUse("record", {"decisions": [decision], "patterns": patterns, "issues": issues[:20]})]

    def _hand_off(self, why: str) -> list[Block]:
        refused = self._dialogue.failures("hand_off")
        if refused > MAX_REFUSED_ENDINGS or "hand_off" not in self._dialogue.tools:
            return [Text(f"{why} The hand-off is not taken, so I stop here.")]
        work = self._current
        # The last budget is for the manifest alone: nothing is recorded beside it then.
        record = [] if self._dialogue.told("budget_95") else self._record()
        handoff: dict[str, Any] = {"notes": f"{why} Go on with the remaining items in their order."}
        if work is not None and work.is_begun and not refused:
            handoff["in_progress_item"] = _progress(work)
        return [Text(why), *record, ToolUse("hand_off", handoff)]

    def _analyse(self) -> list[Block]:
        """A step without items: look around, record, finish."""
        listed, read = self._dialogue.done("glob"), self._dialogue.done("read")
        if not listed and not self._dialogue.failures("glob"):
            return [
                Text("I look at what there is before I say anything about it."),
                ToolUse("glob", {"pattern": "**/*.py"}),
            ]
        paths = [line for line in (listed[-1].result.split("\n") if listed else []) if line.endswith(".py")]
        chosen = paths[:: max(1, len(paths) // ANALYSED_FILES)][:ANALYSED_FILES]
        if chosen and not read and not self._dialogue.failures("read"):
            reads = [ToolUse("read", {"file_path": path, "view_range": [1, 120]}) for path in chosen]
            return [Text(f"{len(paths)} Python files. I read {len(chosen)} of them to see their style."), *reads]
        return self._finish_analysis(len(paths), [call.result for call in read])

    def _finish_analysis(self, count: int, sources: Sequence[str]) -> list[Block]:
        if self._dialogue.failures("finish_step") > MAX_REFUSED_ENDINGS:
            return [Text("My result was refused several times; I have no other one.")]
        percent = sum(source.count("' %") + source.count('" %') for source in sources)
        calls = sum(source.count(".format(") for source in sources)
        seen = f"{percent} uses of % formatting and {calls} of str.format in the {len(sources)} files that were read"
        decision = {
            "decision": "Old formatting becomes f-strings where the rules are sure, else it stays.",
            "rationale": seen,
        }
        pattern = "'%s: %d' % (name, count) becomes f'{name}: {count:d}'; a template kept in a variable stays as it is."
        record = {"decisions": [decision], "patterns": [pattern], "issues": []}
        result = {
            "status": "ok",
            "summary": f"The {STAND_IN}, looked at {count} Python files: {seen}.",
            "findings": [],
            "criteria": [{"criterion": text, "met": True, "evidence": seen} for text in self._criteria],
            "blockers": [],
            "verification_gaps": ["Only a sample of the files was read."],
        }
        blocks: list[Block] = [Text("I have seen enough to name the pattern; I record it and end this step.")]
        if "record" in self._dialogue.tools and not self._dialogue.done("record"):
            blocks.append(ToolUse("record", record))
        return [*blocks, ToolUse("finish_step", result)]


def _stands_for_more(item: str) -> bool:
    return item.startswith("… and ")


def _intention(work: ItemWork) -> str:
    lines = (work.view.text or "").count("\n") + 1
    if not work.pending:
        return f"{work.item} has {lines} lines, and no rule finds anything (more) to change: it is reported as it is."
    return (
        f"{work.item} has {lines} lines. The rules of pyupgrade and flynt change {len(work.pending)} places in it, the "
        f"first at line {work.pending[0].line}. I send each as an edit of its own, so that no other line is touched, "
        "and report the item when all of them are in."
    )


def _criterion(text: str, done: dict[str, int], left_over: Sequence[str]) -> dict[str, Any]:
    evidence = f"{done['changed']} changed, {done['unchanged']} unchanged, {len(left_over)} skipped"
    if any(word in text.lower() for word in ("test", "suite", "pass")):
        return {"criterion": text, "met": False, "evidence": "not run by the stand-in; left to the gates"}
    return {"criterion": text, "met": not left_over, "evidence": evidence}


def _pattern(old: str, new: str) -> str:
    pairs = zip(old.split("\n"), new.split("\n"), strict=False)
    before, after = next(((a, b) for a, b in pairs if a != b), (old, new))
    return f"`{before.strip()[:120]}` becomes `{after.strip()[:120]}`"


def _progress(work: ItemWork) -> dict[str, Any]:
    if work.view.text is None or work.fault() is not None:
        action = "began to read it" if work.applied == 0 else "some edits are in"
        return {
            "file": work.item,
            "line_number": 1,
            "progress": 0,
            "last_action": action,
            "remaining_work": ["read it and convert its formatting"],
        }
    total = work.applied + len(work.pending)
    return {
        "file": work.item,
        "line_number": work.pending[0].line if work.pending else 1,
        "progress": 100 * work.applied // total if total else 0,
        "last_action": f"{work.applied} of {total} edits are in" if work.applied else "read it whole",
        "remaining_work": [f"convert line {hunk.line}" for hunk in work.pending[:5]] or ["report it"],
    }

"""One item of an executor's work: where it stands according to the conversation, and what comes next for it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from emulator.dialogue import Call, Dialogue
from emulator.hunks import Hunk, apply, hunks
from emulator.modernize import RuleError, modernize
from emulator.pages import FileView, next_pages, view_file
from emulator.reply import Block, ToolUse
from emulator.tokens import TOOL_USE_TOKENS, json_tokens

EDIT_TOKENS_PER_TURN = 1_500
MAX_FAILED_ROUNDS = 2
MAX_REFUSALS = 3
PYTHON_ENDINGS = (".py", ".pyi")


@dataclass(frozen=True)
class ItemWork:
    """The calls about one item. `inherited`: a predecessor had begun it."""

    item: str
    calls: Sequence[Call]
    inherited: bool = False

    @classmethod
    def of(cls, dialogue: Dialogue, item: str) -> "ItemWork":
        manifest = dialogue.assignment.get("manifest") or {}
        begun = (manifest.get("in_progress_item") or {}).get("file")
        path = item.removeprefix("./")
        calls = tuple(call for call in dialogue.calls if call.path == path)
        return cls(item, calls, inherited=begun == item)

    @property
    def is_begun(self) -> bool:
        return any(call.name in ("read", "edit") for call in self.calls)

    @property
    def outcome(self) -> str | None:
        """How it was reported, if the report was taken and no edit failed beside it."""
        taken = [call for call in self._reports if not call.failed and call.turn > self._last_failed_turn]
        return str(taken[-1].input.get("outcome", "changed")) if taken else None

    @property
    def is_over(self) -> bool:
        """Reported, or refused so often that it is left to others."""
        return self.outcome is not None or self._refusals > MAX_REFUSALS

    @property
    def applied(self) -> int:
        """How many edits are in the file."""
        return sum(call.name == "edit" and not call.failed for call in self.calls)

    @property
    def first_edit(self) -> Call | None:
        return next((call for call in self.calls if call.name == "edit" and not call.failed), None)

    @cached_property
    def view(self) -> FileView:
        """The file as it was read, with the edits made since."""
        reads = [call for call in self.calls if call.name == "read" and call.turn > self._last_failed_turn]
        view = view_file(reads)
        if view.text is None:
            return view
        text = view.text
        for call in self.calls:
            if call.name == "edit" and not call.failed and call.turn > self._last_failed_turn:
                text = apply(text, str(call.input["old_string"]), str(call.input["new_string"]))
        return FileView(text=text)

    @cached_property
    def pending(self) -> list[Hunk]:
        """The edits still to make.

        Raises:
            RuleError: the rules cannot handle the file.
        """
        text = self.view.text or ""
        return list(hunks(text, modernize(text)))

    def reads(self) -> list[Block]:
        """The reads that are missing."""
        return [ToolUse("read", page) for page in next_pages(self.view, self.item)]

    def fault(self) -> str | None:
        """Why the item has to be skipped."""
        if not self.item.endswith(PYTHON_ENDINGS):
            return "there are rules for Python files only"
        if self._failed_rounds >= MAX_FAILED_ROUNDS:
            return f"edits failed in {self._failed_rounds} rounds"
        if self.view.fault or self.view.text is None:
            return self.view.fault
        try:
            _ = self.pending
        except RuleError as error:
            return str(error)
        return None

    def finishing_calls(self) -> Iterator[Block]:
        """Edits, as many as one turn takes, and the report when these are all."""
        spent = 0
        for hunk in self.pending:
            edit = {"file_path": self.item, "old_string": hunk.old, "new_string": hunk.new}
            spent += TOOL_USE_TOKENS + json_tokens(hunk.old + hunk.new)
            if spent > EDIT_TOKENS_PER_TURN and hunk is not self.pending[0]:
                return
            yield ToolUse("edit", edit)
        changed = bool(self.pending) or self.applied > 0 or self.inherited
        yield self.report("changed" if changed else "unchanged")

    def report(self, outcome: str, note: str | None = None) -> ToolUse:
        """`complete_item`; an outcome that was refused gives way to the next weaker one."""
        ranks = ("changed", "unchanged", "skipped")
        rank = min(ranks.index(outcome) + self._refusals, len(ranks) - 1)
        if ranks[rank] == "skipped":
            note = note or "the report was refused, so the stand-in leaves the item to others"
        return ToolUse("complete_item", {"item": self.item, "outcome": ranks[rank], **({"note": note} if note else {})})

    @property
    def _reports(self) -> list[Call]:
        return [call for call in self.calls if call.name == "complete_item"]

    @property
    def _refusals(self) -> int:
        failed_edits = {call.turn for call in self.calls if call.name == "edit" and call.failed}
        return sum(call.failed and call.turn not in failed_edits for call in self._reports)

    @property
    def _last_failed_turn(self) -> int:
        return max((call.turn for call in self.calls if call.name == "edit" and call.failed), default=-1)

    @property
    def _failed_rounds(self) -> int:
        return len({call.turn for call in self.calls if call.name == "edit" and call.failed})

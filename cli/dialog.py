"""Answering with keys what a task asks: which keys there are, the line that confirms, the answer. Pure.

One key chooses, and nothing is sent before it was confirmed: with Enter or `y`, or with Enter behind a remark where
the choice takes one. Esc goes back.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from baton.status import OWN_WORDS, AttentionItem
from cli.terminal import Line, Tone, printable

ENTER, ESCAPE, ERASE, ERASE_LINE = "\n\r", "\x1b", "\x7f\b", "\x15"
MOST_CHARACTERS = 2000
SHOWN_CHARACTERS = 40
"""Of what is typed, its end: a line is cut at the width of the terminal."""
_NUMBERED = 9
_WITH_REMARK = {
    ("approval", "reject"): "what should be different",
    ("limit", "raise"): "the new limit, such as 40 or 6h",
    ("question", OWN_WORDS): "your answer",
}


@dataclass(frozen=True)
class Reply:
    """An answer to be sent."""

    item: AttentionItem
    choice: str
    comment: str = ""


class Dialog:
    """The keys of one live view. It speaks of the first open question."""

    def __init__(self) -> None:
        self._item: AttentionItem | None = None
        self._choice: str | None = None
        self._text = ""
        self._said = ""

    def about(self, items: Sequence[AttentionItem]) -> None:
        """What is asked now. A question that is gone takes its half-given answer with it."""
        first = items[0] if items else None
        if self._item is None or first is None or first.id != self._item.id:
            self._choice, self._text = None, ""
        self._item = first

    def say(self, text: str) -> None:
        """What became of an answer."""
        self._said = text

    def press(self, key: str) -> Reply | None:
        """Take one key; the reply where that completes one."""
        if self._item is None:
            return None
        if self._choice is None:
            self._choice = self._keys().get(key)
            self._text, self._said = "", "" if self._choice else self._said
            return None
        if key == ESCAPE:
            self._choice = None
        elif key in ENTER or (key in "yY" and not self._takes_text()):
            return self._complete()
        elif not self._takes_text():
            self._choice = None
        elif key in ERASE:
            self._text = self._text[:-1]
        elif key == ERASE_LINE:
            self._text = ""
        elif key.isprintable() and len(self._text) < MOST_CHARACTERS:
            self._text += key
        return None

    def lines(self) -> list[Line]:
        """The line under the view: the keys, or what is about to be sent."""
        said = [Line(self._said, Tone.STRONG)] if self._said else []
        if self._item is None:
            return said
        if self._choice is None:
            keys = " · ".join(f"{key} {choice}" for key, choice in self._keys().items())
            return [*said, Line(f"keys: {keys}", Tone.WAITS)] if keys else said
        about = self._item.phase or self._item.id
        if not self._takes_text():
            return [Line(f"{about}: {self._choice}? Enter or y sends it, any other key goes back", Tone.WAITS)]
        wanted = _WITH_REMARK[self._item.kind, self._choice]
        text = printable(self._text)[-SHOWN_CHARACTERS:]
        return [Line(f"{about}: {self._choice}; {wanted} (Enter, or Esc): {text}▏", Tone.WAITS)]

    def _complete(self) -> Reply | None:
        if self._item is None or self._choice is None:
            return None
        reply = Reply(self._item, self._choice, self._text.strip())
        self._choice, self._text = None, ""
        return reply

    def _takes_text(self) -> bool:
        return self._item is not None and (self._item.kind, self._choice) in _WITH_REMARK

    def _keys(self) -> dict[str, str]:
        if self._item is None:
            return {}
        if self._item.kind == "approval":
            return {choice[0]: choice for choice in self._item.choices}
        return {str(number): choice for number, choice in enumerate(self._item.choices[:_NUMBERED], 1)}

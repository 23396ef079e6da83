"""From two versions of a text to the edits that lead from one to the other.

Every edit's `old` text occurs exactly once in the text as it is when the edit is applied, in order.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher


@dataclass(frozen=True)
class Hunk:
    """Replace `old` by `new`; `line` is where it begins, from 1, in the text it is applied to."""

    line: int
    old: str
    new: str


def hunks(before: str, after: str) -> Iterator[Hunk]:
    """The edits from `before` to `after`, top to bottom, each with as little context as makes it unique."""
    old_lines, new_lines = before.split("\n"), after.split("\n")
    lines, shift = list(old_lines), 0
    for old_from, old_to, new_from, new_to in _differences(old_lines, new_lines):
        replacement = new_lines[new_from:new_to]
        begin, end = old_from + shift, old_to + shift
        first, last = _unique_span(lines, begin, end, needs_context=not replacement)
        changed = [*lines[first:begin], *replacement, *lines[end:last]]
        yield Hunk(first + 1, "\n".join(lines[first:last]), "\n".join(changed))
        lines[begin:end] = replacement
        shift += len(replacement) - (old_to - old_from)


def apply(text: str, old: str, new: str) -> str:
    """`text` after a successful edit; unchanged when `old` is not there."""
    return text.replace(old, new, 1) if old else text


def _differences(old: list[str], new: list[str]) -> Iterator[tuple[int, int, int, int]]:
    """Ranges of lines that differ. Quick first, without lines that occur very often; exact within what differs."""
    for kind, old_from, old_to, new_from, new_to in SequenceMatcher(None, old, new).get_opcodes():
        if kind == "equal":
            continue
        inner = SequenceMatcher(None, old[old_from:old_to], new[new_from:new_to], autojunk=False)
        for kind_within, begin, end, new_begin, new_end in inner.get_opcodes():
            if kind_within != "equal":
                yield old_from + begin, old_from + end, new_from + new_begin, new_from + new_end


def _unique_span(lines: list[str], begin: int, end: int, *, needs_context: bool) -> tuple[int, int]:
    """Grow `begin:end` line by line, above and below in turn, until its text occurs once.

    A span without text to find (an insertion, an empty line) always gets context; so does a deletion, since
    without a line that stays its line end would stay.
    """
    text = "\n".join(lines)
    first, last = begin, end
    while first > 0 or last < len(lines):
        wanted = "\n".join(lines[first:last])
        has_context = (first, last) != (begin, end)
        if wanted.strip() and (has_context or not needs_context) and _occurrences(text, wanted) == 1:
            break
        above_is_due = begin - first <= last - end
        if first > 0 and (above_is_due or last == len(lines)):
            first -= 1
        else:
            last += 1
    return first, last


def _occurrences(text: str, wanted: str) -> int:
    """Occurrences, overlapping ones too; counting stops at two."""
    found = text.find(wanted)
    return 0 if found < 0 else 1 if text.find(wanted, found + 1) < 0 else 2

"""Text as the file tools see it: encoding, line ends, replacing, cutting.

Bytes that an edit does not touch stay as they are, whatever the encoding and the mixture of line ends. Nothing here
touches the disk.
"""

import difflib
import re
from typing import Literal, NamedTuple

from activities.tool_result import CallRefused

RESULT_LIMIT_BYTES = 50_000
"""A tool result longer than this is cut in the middle."""

_SNIFFED_BYTES = 8_000
_BYTE_ORDER_MARK = "\ufeff"
_SHOWN_LINES = 12
_SHOWN_CHARACTERS = 200


class Text(NamedTuple):
    """A decoded file. What is not UTF-8 is taken as Latin-1, which gives every byte back."""

    text: str
    encoding: Literal["utf-8", "latin-1"] = "utf-8"

    def encoded(self, text: str) -> bytes:
        """Other text in this file's encoding. Raises `CallRefused` for characters that it does not have."""
        try:
            return text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise CallRefused(
                f"The file is not UTF-8, so {text[error.start]!r} cannot be written into it. Use plain ASCII for it."
            ) from error


class Cut(NamedTuple):
    """Text that fits into a result, and how many bytes of it were left out."""

    text: str
    left_out_bytes: int


class Replaced(NamedTuple):
    """Text after an edit, how often something was replaced, and the first lines (from 1) where."""

    text: str
    times: int
    at_lines: list[int]


def decode(data: bytes) -> Text | None:
    """The text of a file, None when it is binary."""
    if b"\0" in data[:_SNIFFED_BYTES]:
        return None
    try:
        return Text(data.decode("utf-8"))
    except UnicodeDecodeError:
        return Text(data.decode("latin-1"), "latin-1")


def count_lines(text: str) -> int:
    """Lines of a text; a last line without line end counts."""
    return text.count("\n") + (not text.endswith("\n") and text != "")


def only_crlf(text: str) -> bool:
    """Whether every line ends with CRLF, and there is at least one."""
    return "\r\n" in text and not re.search(r"(?<!\r)\n", text)


def in_style_of(old: str, new: str) -> str:
    """`new` as it replaces the whole of `old`: CRLF line ends and a byte order mark are kept."""
    if only_crlf(old) and "\r" not in new:
        new = new.replace("\n", "\r\n")
    if old.startswith(_BYTE_ORDER_MARK) and not new.startswith(_BYTE_ORDER_MARK):
        new = _BYTE_ORDER_MARK + new
    return new


def line_range(text: str, first: int, last: int) -> str:
    """Lines `first` to `last` (from 1, both included, last < 1 = to the end), without the line end of the last.

    Raises `CallRefused` when the text ends before `first`.
    """
    lines = text.split("\n")
    if first > len(lines):
        raise CallRefused(f"The file has {count_lines(text)} lines, so it has no line {first}.")
    if 1 <= last < first:
        raise CallRefused(f"view_range [{first}, {last}] ends before it begins. Give [first, last].")
    return "\n".join(lines[max(0, first - 1) : last if last > 0 else len(lines)])


def replace(text: str, old: str, new: str, *, replace_all: bool) -> Replaced:
    """Replace `old`, which must be unique unless `replace_all`. CRLF and LF match each other.

    Raises `CallRefused`.
    """
    old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    if old == new:
        raise CallRefused(
            "old_string and new_string are the same but for line ends, so nothing would change. If the change is "
            "already made, go on with the next one."
        )
    pattern = re.compile("\r?\n".join(re.escape(line) for line in old.split("\n")))
    found = list(pattern.finditer(text))
    at_lines = [text.count("\n", 0, match.start()) + 1 for match in found[:_SHOWN_LINES]]
    if not found:
        raise CallRefused(_not_found(text.replace("\r\n", "\n"), old, new))
    if len(found) > 1 and not replace_all:
        places = ", ".join(map(str, at_lines)) + (", …" if len(found) > len(at_lines) else "")
        raise CallRefused(
            f"old_string occurs {len(found)} times, at lines {places}. Add the lines around the one you mean, or set "
            "replace_all to change all of them."
        )
    usual_end = "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
    pieces, position = [], 0
    for match in found:
        pieces += [text[position : match.start()], _with_line_ends(match[0], new, usual_end)]
        position = match.end()
    return Replaced("".join([*pieces, text[position:]]), len(found), at_lines)


def cut_middle(text: str, limit_bytes: int = RESULT_LIMIT_BYTES, *, hint: str = "", first_line: int = 1) -> Cut:
    """Keep the head and the tail, whole lines where there are any, with one line between that says what is missing.

    `hint` may hold `{first}` and `{last}`, the lines left out, counted from `first_line`.
    """
    data = text.encode("utf-8", "replace")
    if len(data) <= limit_bytes:
        return Cut(text, 0)
    half = limit_bytes // 2
    head, tail = data[:half], data[-half:]
    head = head[: head.rfind(b"\n") + 1] or head.decode("utf-8", "ignore").encode()
    # The tail's first line is incomplete unless it is the only one.
    line_start = tail.find(b"\n", 0, len(tail) - 1) + 1
    tail = tail[line_start:].decode("utf-8", "ignore").encode()
    left_out = len(data) - len(head) - len(tail)
    first = first_line + head.count(b"\n")
    last = first_line + count_lines(text) - 1 - count_lines(tail.decode())
    told = hint.format(first=first, last=max(first, last))
    marker = f"[… {left_out} bytes left out here{'; ' if told else ''}{told}]"
    gap = "" if head.endswith(b"\n") else "\n"
    return Cut(f"{head.decode()}{gap}{marker}\n{tail.decode()}", left_out)


def _with_line_ends(old: str, new: str, usual_end: str) -> str:
    """`new` (LF only) with the line ends of the lines of `old` that it keeps or replaces."""
    old_lines, new_lines = old.split("\n"), new.split("\n")
    old_ends = ["\r\n" if line.endswith("\r") else "\n" for line in old_lines[:-1]]
    if len(set(old_ends)) <= 1:
        return new.replace("\n", old_ends[0] if old_ends else usual_end)
    ends = [usual_end] * len(new_lines)
    matcher = difflib.SequenceMatcher(None, [line.removesuffix("\r") for line in old_lines], new_lines, autojunk=False)
    for _tag, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        for old_index, new_index in zip(range(old_from, old_to), range(new_from, new_to), strict=False):
            if old_index < len(old_ends):
                ends[new_index] = old_ends[old_index]
    return "".join(line + end for line, end in zip(new_lines[:-1], ends, strict=False)) + new_lines[-1]


def _not_found(text: str, old: str, new: str) -> str:
    """Why `old` is not there, as far as can be seen, with the lines that come nearest."""
    if new and new.strip() and new in text:
        line = text.count("\n", 0, text.index(new)) + 1
        return (
            f"old_string was not found, but new_string is already there at line {line}. If the edit is made, go on; "
            "else read the file again."
        )
    lines = text.split("\n")
    wanted = [_squeezed(line) for line in old.strip("\n").split("\n")]
    squeezed = [_squeezed(line) for line in lines]
    for start in range(len(lines) - len(wanted) + 1):
        if squeezed[start : start + len(wanted)] == wanted:
            shown = _numbered(lines, start, start + len(wanted))
            return f"old_string was not found: only white space differs from these lines. Copy them exactly:\n{shown}"
    anchor = max(wanted, key=len)[:_SHOWN_CHARACTERS]
    near = difflib.get_close_matches(anchor, dict.fromkeys(line[:_SHOWN_CHARACTERS] for line in squeezed[:5_000]), n=1)
    if not near:
        return "old_string was not found, nor anything like it. Read the file again and copy the text exactly."
    at = next(index for index, line in enumerate(squeezed) if line[:_SHOWN_CHARACTERS] == near[0])
    shown = _numbered(lines, max(0, at - 2), at + len(wanted) + 2)
    return f"old_string was not found. The nearest lines are:\n{shown}\nCopy the text exactly, without line numbers."


def _squeezed(line: str) -> str:
    return " ".join(line.split())


def _numbered(lines: list[str], start: int, end: int) -> str:
    chosen = lines[start : min(end, start + _SHOWN_LINES)]
    return "\n".join(f"{start + offset + 1}: {line[:_SHOWN_CHARACTERS]}" for offset, line in enumerate(chosen))

"""Puts a file together from paged `read` results, and says which pages are still missing.

Results over the size limit come back cut in the middle; such a page is asked for again in halves.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from emulator.dialogue import Call

PAGE_LINES = 400
PAGES_AT_ONCE = 3
_CUT_BYTES = 45_000
_CUT_MARK = re.compile(r"\d+ bytes (were )?(left out|omitted)")

Range = tuple[int, int]


@dataclass(frozen=True)
class FileView:
    """What is known of a file: its whole `text` (LF line ends), or the ranges to read next, or why neither."""

    text: str | None = None
    missing: tuple[Range, ...] = ()
    fault: str | None = None


def view_file(reads: Iterable[Call]) -> FileView:
    """The file as these `read` calls of it show it."""
    lines: list[str] = []
    first, width = 1, PAGE_LINES
    pages = _by_first_line(reads)
    while True:
        choices = pages.get(first, {})
        whole = next((call for _, call in sorted(choices.items()) if not call.failed and not _is_cut(call)), None)
        if whole is None:
            return _missing(first, width, choices)
        width = _last_line(whole) - first + 1
        page = _lines(whole.result, width)
        lines += page
        if len(page) < width:
            return FileView(text="\n".join(lines))
        if _fails_at(pages, first + width):
            return FileView(text="\n".join(lines))
        first += width


def next_pages(view: FileView, path: str) -> list[dict[str, object]]:
    """The inputs of the `read` calls for what is missing."""
    return [{"file_path": path, "view_range": list(page)} for page in view.missing]


def _missing(first: int, width: int, choices: dict[int, Call]) -> FileView:
    if choices:
        if all(call.failed for call in choices.values()):
            return FileView(fault=f"it cannot be read: {next(iter(choices.values())).result[:200]}")
        width = (min(choices) - first + 1) // 2
        if width < 1:
            return FileView(fault=f"line {first} is too long to be read whole")
        return FileView(missing=((first, first + width - 1),))
    count = 1 if first == 1 else PAGES_AT_ONCE
    ranges = [(first + number * width, first + (number + 1) * width - 1) for number in range(count)]
    return FileView(missing=tuple(ranges))


def _by_first_line(reads: Iterable[Call]) -> dict[int, dict[int, Call]]:
    pages: dict[int, dict[int, Call]] = {}
    for call in reads:
        wanted = call.input.get("view_range")
        if isinstance(wanted, list) and len(wanted) == 2:
            pages.setdefault(int(wanted[0]), {})[int(wanted[1])] = call
    return pages


def _fails_at(pages: dict[int, dict[int, Call]], first: int) -> bool:
    # A page that begins behind the end is an error: the page before was the last one.
    choices = pages.get(first, {})
    return bool(choices) and all(call.failed for call in choices.values())


def _last_line(call: Call) -> int:
    return int(call.input["view_range"][1])


def _is_cut(call: Call) -> bool:
    return len(call.result.encode("utf-8", "replace")) > _CUT_BYTES or bool(_CUT_MARK.search(call.result))


def _lines(result: str, width: int) -> list[str]:
    lines = result.replace("\r\n", "\n").split("\n")
    # A tool that keeps the line end of the last line gives one empty line too many.
    return lines[:-1] if len(lines) == width + 1 and not lines[-1] else lines

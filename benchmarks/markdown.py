"""Writes the tables into a page, between two marks; what stands around them is written by hand."""

import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import psutil

from benchmarks.table import MARKS, Row

BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"


def machine() -> str:
    """The machine and how busy it is, in a sentence without names."""
    memory = psutil.virtual_memory().total / 2**30
    load = os.getloadavg()[1]
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GiB of memory, {platform.system()} on {platform.machine()}, "
        f"Python {platform.python_version()}; load average of the last five minutes {load:.1f}"
    )


def write(page: Path, tables: Mapping[str, Sequence[Row]], at_start: str) -> None:
    """Replace what stands between the marks. A table that was not measured now keeps its old figures.

    Raises ValueError: the page has no marks.
    """
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    old, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no place for figures: add the lines {BEGIN} and {END}")
    sections = _sections(old)
    when = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    sections |= {title: _section(rows, f"{when}, {at_start}") for title, rows in tables.items()}
    body = "\n".join(f"### {title}\n\n{section}" for title, section in sections.items())
    page.write_text(f"{before}{BEGIN}\n\n{body}\n{END}{after}", encoding="utf-8")


def _sections(text: str) -> dict[str, str]:
    """The sections that are there, by title."""
    parts = f"\n{text}".split("\n### ")[1:]
    return {title: section.strip() + "\n" for title, _, section in (part.partition("\n") for part in parts)}


def _section(rows: Sequence[Row], measured: str) -> str:
    lines = ["| figure | value | goal | |", "|---|---|---|---|"]
    lines += [f"| {_cell(row.what)} | {_cell(row.value)} | {_cell(row.goal)} | {MARKS[row.met]} |" for row in rows]
    return "\n".join([*lines, "", f"Measured {measured}.", ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")

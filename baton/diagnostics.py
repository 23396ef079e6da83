"""What static checkers print, read to single findings: ruff, mypy, tsc and eslint, as text and as JSON.

A finding is file, rule and message. Each reader gives None where the output is not its tool's, and wrong lines are
left out.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from baton.failures import Failure, finding

WRAPPED_LINES = 6
"""A message of mypy that is wrapped over more lines than this is not put together."""

_RUFF_LINE = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):\d+: (?P<rule>[A-Z]+\d+|invalid-syntax:?) (?P<text>.+)$"
)
_RUFF_FULL = re.compile(
    r"^(?P<rule>[A-Z]+\d+|invalid-syntax:) (?P<text>.+)\n\s*--> (?P<file>[^:\n]+):(?P<line>\d+):\d+$", re.MULTILINE
)
_RUFF_END = re.compile(r"^Found \d+ errors?|^All checks passed!", re.MULTILINE)
_FIXABLE = re.compile(r"^\[[*-]\] ")
_MYPY_LINE = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+)(?::\d+)?(?::\d+:\d+)?: error: (?P<text>.+?)(?:\s+\[(?P<rule>[a-z-]+)\])?$"
)
_MYPY_CODE = re.compile(r"(?:^|\s+)\[[a-z-]+\]$")
_MYPY_END = re.compile(r"^Found \d+ errors? in \d+ files?|^Success: no issues found", re.MULTILINE)
_TSC_LINE = re.compile(
    r"^(?P<file>[^\s(:][^(:\n]*)(?:\((?P<line>\d+),\d+\):|:(?P<pretty>\d+):\d+ -) error (?P<rule>TS\d+): (?P<text>.+)$"
)
_TSC_GLOBAL = re.compile(r"^error (?P<rule>TS\d+): (?P<text>.+)$")
_STYLISH = re.compile(
    r"^\s+(?P<line>\d+):\d+\s+(?P<level>error|warning)\s+(?P<text>.+?)(?:\s{2,}(?P<rule>[@\w/-]+))?\s*$"
)
_STYLISH_END = re.compile(r"^✖ \d+ problems?", re.MULTILINE)
_ESLINT_ERROR = 2


def diagnostics(output: str) -> tuple[Failure, ...] | None:
    """The findings in a checker's output; None when it is no output that we can read."""
    for read in (_json, _eslint, _tsc, _ruff, _mypy):
        found = read(output)
        if found is not None:
            return found
    return None


def _ruff(output: str) -> tuple[Failure, ...] | None:
    if not _RUFF_END.search(output):
        return None
    lines = [match for line in output.splitlines() if (match := _RUFF_LINE.match(line))]
    matches = lines or list(_RUFF_FULL.finditer(output))
    if not matches and "All checks passed!" not in output:
        return None
    return tuple(finding(m["file"], m["rule"], _FIXABLE.sub("", m["text"]), m["line"]) for m in matches)


def _mypy(output: str) -> tuple[Failure, ...] | None:
    if not _MYPY_END.search(output):
        return None
    matches = [match for line in _unwrapped(output.splitlines()) if (match := _MYPY_LINE.match(line))]
    return tuple(finding(m["file"], m["rule"] or "", m["text"], m["line"]) for m in matches)


def _unwrapped(lines: Sequence[str]) -> Iterator[str]:
    """mypy's `--pretty` wraps a long message; its code in brackets ends it."""
    for number, line in enumerate(lines):
        following = lines[number + 1 : number + 1 + WRAPPED_LINES]
        last = next((n for n, text in enumerate(following, 1) if _MYPY_CODE.search(text)), 0)
        wrapped = last and not any(": error: " in text or text.startswith("  ") for text in following[:last])
        if ": error: " in line and wrapped and not _MYPY_CODE.search(line):
            yield " ".join(part.strip() for part in (line, *following[: last - 1])) + " " + _end(following[last - 1])
        else:
            yield line


def _end(line: str) -> str:
    """The last line of a wrapped message, its code two spaces apart."""
    return _MYPY_CODE.sub(lambda code: "  " + code[0].strip(), line)


def _tsc(output: str) -> tuple[Failure, ...] | None:
    found = []
    for line in output.splitlines():
        if match := _TSC_LINE.match(line):
            found.append(finding(match["file"], match["rule"], match["text"], match["line"] or match["pretty"]))
        elif match := _TSC_GLOBAL.match(line):
            found.append(finding("tsconfig.json", match["rule"], match["text"]))
    return tuple(found) or None


def _eslint(output: str) -> tuple[Failure, ...] | None:
    """The `stylish` form: a path, then its findings indented below it. Warnings fail nothing."""
    if not _STYLISH_END.search(output):
        return None
    found, file = [], ""
    for line in output.splitlines():
        match = _STYLISH.match(line)
        if match is None:
            file = line.strip() or file
        elif file and match["level"] == "error":
            found.append(finding(file, match["rule"] or "", match["text"], match["line"]))
    return tuple(found)


def _json(output: str) -> tuple[Failure, ...] | None:
    """Findings printed as one JSON list (eslint, ruff) or as one object per line (mypy)."""
    rows = list(_json_rows(output))
    if not rows:
        return None
    found: list[Failure] = []
    for row in rows:
        match row:
            case {"filePath": str(file), "messages": list(messages)}:
                found += [_eslint_message(file, m) for m in messages if m.get("severity") == _ESLINT_ERROR]
            case {"filename": str(file), "message": str(text), "location": place}:
                line = place.get("row", "") if isinstance(place, dict) else ""
                found.append(finding(file, row.get("code") or "invalid-syntax", text, line))
            case {"file": str(file), "line": line, "message": str(text), "severity": severity}:
                found += [finding(file, row.get("code") or "", text, line)] if severity == "error" else []
            case _:
                return None
    return tuple(found)


def _eslint_message(file: str, message: dict[str, Any]) -> Failure:
    return finding(file, message.get("ruleId") or "", str(message.get("message", "")), message.get("line", ""))


def _json_rows(output: str) -> Iterator[dict[str, Any]]:
    """The objects of a JSON list that begins a line, else of all lines that are JSON objects."""
    for match in re.finditer(r"^\[", output, re.MULTILINE):
        try:
            rows, _ = json.JSONDecoder().raw_decode(output, match.start())
        except ValueError:
            continue
        if rows and all(isinstance(row, dict) for row in rows):
            yield from rows
            return
    for line in output.splitlines():
        if line.startswith("{") and line.endswith("}"):
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict):
                yield row

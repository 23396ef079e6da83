"""What node's runner prints for people, and newer versions print into pipes too: a tree of tests, then the failures.

Tests are named as in its TAP (`outer > inner`); a test that holds others is a suite and not counted itself.
"""

import re
from collections.abc import Iterator, Sequence

from baton.failures import TEXT_CHARACTERS, Case, Outcome, paths_in

_TOTALS = re.compile(r"^ℹ tests \d+\n(?:ℹ suites \d+\n)?ℹ pass \d+$", re.MULTILINE)
_POINT = re.compile(
    r"^(?P<indent>(?:  )*)(?P<sign>[✔✖﹣⚠▶]) (?P<name>.+?)(?P<time> \([\d.]+ms\))?(?: # (?P<remark>.*))?$"
)
_PLACE = re.compile(r"^test at (?P<place>\S.*):\d+:\d+$")
_SIGNS = {"✔": Outcome.PASSED, "✖": Outcome.FAILED, "﹣": Outcome.SKIPPED, "⚠": Outcome.SKIPPED}
_NOT_CHOSEN = "test name does not match pattern"
_OF_NODE = re.compile(r"node:internal|^\s*(?:throw |\^$)|^Node\.js v")


def spec_cases(output: str) -> tuple[Case, ...] | None:
    """The tests of a run; None where node's totals are missing."""
    totals = _TOTALS.search(output)
    if totals is None:
        return None
    messages = dict(_messages(output[totals.end() :].splitlines()))
    return tuple(_cases(output[: totals.start()].splitlines(), messages))


def said(lines: Sequence[str]) -> str:
    """What a test file printed, without what node itself has to say."""
    return "\n".join(line for line in lines if line.strip() and not _OF_NODE.search(line))


def _cases(lines: Sequence[str], messages: dict[str, tuple[str, str]]) -> Iterator[Case]:
    open_suites: list[str] = []
    strays: list[str] = []
    for line in lines:
        point = _POINT.match(line)
        if point is None:
            strays.append(line)
            continue
        depth, name = len(point["indent"]) // 2, point["name"]
        closes = len(open_suites) == depth + 1 and open_suites[-1] == name and point["time"]
        del open_suites[depth:]
        if closes:
            continue
        if point["sign"] == "▶":
            open_suites.append(name)
        elif point["remark"] != _NOT_CHOSEN:
            # A failure with a remark is one of a test that is still to do.
            outcome = Outcome.SKIPPED if point["sign"] == "✖" and point["remark"] else _SIGNS[point["sign"]]
            yield _case(" > ".join([*open_suites, name]), outcome, messages.get(name), strays)
        strays = []


def _case(name: str, outcome: Outcome, message: tuple[str, str] | None, strays: Sequence[str]) -> Case:
    if outcome is not Outcome.FAILED:
        return Case(name=name, outcome=outcome)
    file, text = message or ("", "")
    whole = f"{text}\n{said(strays)}".strip()
    files = tuple(dict.fromkeys((*([file] if file else []), *reversed(paths_in(whole)))))
    return Case(name=name, outcome=outcome, files=files, text=whole[:TEXT_CHARACTERS])


def _messages(lines: Sequence[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """From the list of failures: each test's own name, with its file and its message."""
    place, name, text = "", "", list[str]()
    for line in [*lines, "test at end:0:0"]:
        found = _PLACE.match(line)
        if found is not None:
            if name:
                yield name, (place, said(text))
            place, name, text = found["place"], "", []
        elif not name and (point := _POINT.match(line)) is not None:
            name = point["name"]
        else:
            text.append(line.strip())

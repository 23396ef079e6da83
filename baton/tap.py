"""TAP, the Test Anything Protocol, as node's runner and tape write it: which tests ran, and how each ended.

Nested tests are named by their path (`outer > inner`); a test that holds others is a suite and not counted itself.
"""

import re
from collections.abc import Iterator, Sequence

from baton.failures import TEXT_CHARACTERS, Case, Outcome, paths_in
from baton.node_spec import said

_VERSION = re.compile(r"^TAP version 1[34]\s*$", re.MULTILINE)
_POINT = re.compile(
    r"^(?P<indent> *)(?P<not>not )?ok\b(?: +\d+)?(?: +-)? *(?P<name>.*?)"
    r"(?:\s+#\s*(?P<directive>SKIP|TODO)\b.*)?(?:\s+# time=.*)?\s*$",
    re.IGNORECASE,
)
_HEADING = re.compile(r"^# (?!Subtest:|tests \d|pass |fail |ok$|not ok)(?P<name>\S.*)$")
_NOT_CHOSEN = "test name does not match pattern"
_INDENT = 4


def tap_cases(output: str) -> tuple[Case, ...] | None:
    """The tests of a TAP stream within `output`; None when there is none."""
    start = _VERSION.search(output)
    if start is None:
        return None
    return tuple(_cases(output[start.end() :].splitlines()))


def _cases(lines: Sequence[str]) -> Iterator[Case]:
    """Points come after the points they hold, so the inner ones wait until their parent has a name."""
    waiting: dict[int, list[tuple[str, Case]]] = {}
    heading = ""
    # Node names its tests by points; tape by comments, which elsewhere are what a test printed.
    named_by_comments = not any(line.lstrip().startswith("# Subtest:") for line in lines)
    comments: list[str] = []
    for number, line in enumerate(lines):
        if line.startswith("# ") and not line.startswith("# Subtest:"):
            comments.append(line[2:])
        if named_by_comments and (found := _HEADING.match(line)):
            heading = found["name"]
        point = _POINT.match(line)
        if point is None or _inside_message(line, lines, number):
            continue
        depth = len(point["indent"]) // _INDENT
        name = _unescaped(point["name"]) or "(no name)"
        held = waiting.pop(depth + 1, [])
        if held:
            ended = [(f"{name} > {inner}", case) for inner, case in held]
        else:
            # A file that cannot be loaded says so before its point, on its error output.
            message = [*_message_after(lines, number), *(said(comments).splitlines() if point["not"] else [])]
            case = Case(
                name=name,
                outcome=_outcome(point),
                files=_files(message),
                text="\n".join(message)[:TEXT_CHARACTERS] if point["not"] else "",
            )
            ended = [] if _NOT_CHOSEN in line else [(f"{heading} > {name}" if heading and not depth else name, case)]
        comments = []
        if depth:
            waiting.setdefault(depth, []).extend(ended)
        else:
            yield from (case.model_copy(update={"name": whole}) for whole, case in ended)
    # A stream that was cut off leaves points without their parent.
    for depth in sorted(waiting):
        yield from (case.model_copy(update={"name": whole}) for whole, case in waiting[depth])


def _outcome(point: re.Match[str]) -> Outcome:
    if point["directive"]:
        return Outcome.SKIPPED
    return Outcome.FAILED if point["not"] else Outcome.PASSED


def _inside_message(line: str, lines: Sequence[str], number: int) -> bool:
    """Whether a line that looks like a point is deeper than the YAML block it stands in."""
    for before in reversed(lines[max(0, number - 60) : number]):
        text = before.strip()
        if text == "...":
            return False
        if text == "---":
            return len(line) - len(line.lstrip()) >= len(before) - len(before.lstrip())
    return False


def _message_after(lines: Sequence[str], number: int) -> Iterator[str]:
    """What the YAML block below a point says."""
    if number + 1 >= len(lines) or lines[number + 1].strip() != "---":
        return
    for line in lines[number + 2 : number + 62]:
        if line.strip() == "...":
            return
        yield line.strip()


def _files(message: Sequence[str]) -> tuple[str, ...]:
    """Where a test stands, then what its stack names."""
    stands = [line for line in message if line.startswith("location:")]
    placed = [path.replace("'", "") for line in stands for path in paths_in(line.replace("'", " "))]
    named = paths_in("\n".join(line for line in message if "node:" not in line))
    return tuple(dict.fromkeys((*placed, *reversed(named))))


def _unescaped(name: str) -> str:
    return name.replace("\\#", "#").replace("\\\\", "\\").strip()

"""Which function or class a place in masked JavaScript or TypeScript belongs to, read from braces and their heads."""

import re
from dataclasses import dataclass

_CLASS_HEAD = re.compile(r"\bclass\b[^;(){}=]*$")
_FUNCTION_END = re.compile(r"(?:=>|\)\s*(?::[^;=]*)?)\s*$")
_WORD_BEFORE = re.compile(r"([\w$]+)\s*$")
_NO_FUNCTION = frozenset(("if", "for", "while", "switch", "catch", "with"))
_HEAD_CHARACTERS = 4_000
_KEPT = ("function", "class")


@dataclass(frozen=True)
class Scope:
    """From the beginning of the head to the closing brace. `body`: where its opening brace stands."""

    kind: str
    start: int
    body: int
    end: int


def scopes(code: str) -> tuple[Scope, ...]:
    """All classes of masked code and, in each class or outside of any, the outermost functions; by their end."""
    found: list[Scope] = []
    open_braces: list[tuple[str, int, int]] = []
    statement = 0
    for place in re.finditer(r"[{};]", code):
        at = place.start()
        if code[at] == "{":
            kind, start = _head(code, max(statement, at - _HEAD_CHARACTERS), at)
            if kind == "function" and _in_function(open_braces):
                kind = "block"
            open_braces.append((kind, start, at))
            statement = at + 1 if kind != "other" else statement
        elif code[at] == "}":
            kind, start, body = open_braces.pop() if open_braces else ("block", at, at)
            if kind in _KEPT:
                found.append(Scope(kind, start, body, at + 1))
            statement = at + 1 if kind != "other" else statement
        else:
            statement = at + 1
    found.extend(Scope(kind, start, body, len(code)) for kind, start, body in reversed(open_braces) if kind in _KEPT)
    return tuple(found)


def enclosing(code: str, all_scopes: tuple[Scope, ...], at: int) -> Scope:
    """The outermost function around a place that lies in the same class; else the class; else the file."""
    around = (scope for scope in all_scopes if scope.start <= at < scope.end)
    return max(around, key=lambda scope: scope.body, default=Scope("file", 0, 0, len(code)))


def class_at(code: str, all_scopes: tuple[Scope, ...], at: int) -> Scope:
    """The class whose head stands at a place."""
    heads = [scope for scope in all_scopes if scope.kind == "class" and scope.start <= at < scope.body]
    return min(heads, key=lambda scope: scope.body - at) if heads else Scope("file", 0, 0, len(code))


def _in_function(open_braces: list[tuple[str, int, int]]) -> bool:
    """Whether a function is open that is nearer than any class."""
    return next((kind for kind, _, _ in reversed(open_braces) if kind in _KEPT), None) == "function"


def _head(code: str, start: int, brace: int) -> tuple[str, int]:
    """What a brace opens, and where its head begins."""
    head = code[start:brace]
    if (named := _CLASS_HEAD.search(head)) is not None:
        return "class", start + named.start()
    if (ending := _FUNCTION_END.search(head)) is None:
        block = not head.strip() or re.search(r"\b(?:else|do|try|finally)\s*$|:\s*$", head) is not None
        return ("block" if block else "other"), brace
    parameters = _opening(head, ending.start())
    before = _WORD_BEFORE.search(head[: max(parameters, 0)])
    if before is not None and before[1] in _NO_FUNCTION and not head[ending.start() :].startswith("=>"):
        return "block", brace
    line = head.rfind("\n", 0, max(parameters, 0)) + 1
    return "function", start + line


def _opening(head: str, end: int) -> int:
    """Where the parenthesis opens that is the last one closed before or at `end`."""
    close = head.rfind(")", 0, end + 1)
    depth = 0
    for index in range(close, -1, -1):
        depth += {")": 1, "(": -1}.get(head[index], 0)
        if depth == 0:
            return index
    return end

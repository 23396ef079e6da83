"""Names in a Python syntax tree, and the few shapes of it that the rules ask about."""

import ast
import re
from collections.abc import Iterator

_STATE = re.compile(r"^(?:\w+_)?state$", re.IGNORECASE)


def names(tree: ast.AST) -> Iterator[str]:
    """Every identifier in a tree, in the order of the tree."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, (ast.arg, ast.keyword)):
            yield node.arg or ""
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.alias):
            yield node.asname or node.name


def any_name(tree: ast.AST, wanted: re.Pattern[str]) -> bool:
    """Whether an identifier in the tree matches."""
    return any(wanted.search(name) for name in names(tree))


def dotted(node: ast.expr) -> list[str]:
    """`["self", "planner_agent", "run"]` for such a chain of names, calls and subscripts in it left out; else []."""
    parts: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Name):
            return [node.id, *reversed(parts)]
        else:
            return []


def last_name(node: ast.expr) -> str:
    """`gather` of `asyncio.gather`; empty where there is no name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def touches_state(tree: ast.AST) -> bool:
    """Whether something of a `state` is read or written: `state.x`, `self.state["x"]`."""
    return any(
        isinstance(node, (ast.Attribute, ast.Subscript)) and _STATE.search(last_name(node.value))
        for node in ast.walk(tree)
    )


def writes_state(function: ast.AST) -> bool:
    """Whether a function assigns to something of a `state`, or to names of another scope."""
    for node in ast.walk(function):
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            return True
        place = isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del))
        if place and touches_state(node):
            return True
    return False


def compares_with_text(test: ast.expr) -> bool:
    """Whether a condition compares something for equality with a string."""
    return any(
        isinstance(node, ast.Compare)
        and any(isinstance(operator, ast.Eq) for operator in node.ops)
        and any(_is_text(side) for side in (node.left, *node.comparators))
        for node in ast.walk(test)
    )


def is_text_pattern(pattern: ast.pattern) -> bool:
    """Whether a `case` compares with a string."""
    return any(isinstance(node, ast.MatchValue) and _is_text(node.value) for node in ast.walk(pattern))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)

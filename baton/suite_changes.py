"""Which tests a change of a test file takes out, adds, or marks to be skipped: Python by its syntax, JavaScript and
TypeScript by the calls that define tests."""

import ast
import re
from collections.abc import Iterator

from baton.models import Stored

_PYTHON_TESTS = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_tests?|tests?)\.py$|(?:^|/)tests?/.*\.py$")
_SCRIPT_TESTS = re.compile(
    r"(?:\.(?:test|spec)|(?:^|/)(?:__tests__|tests?)/.*)\.[cm]?[jt]sx?$|(?:^|/)test\.[cm]?[jt]sx?$"
)
_SKIPS = re.compile(r"\b(?:skip\w*|xfail|expectedFailure|importorskip)\b", re.IGNORECASE)
_DEFINES = re.compile(
    r"(?<![\w.])(?P<x>x|f)?(?P<word>it|test|specify)(?P<mark>\.(?:skip|todo|failing|only))?\s*\(\s*"
    r"(?P<quote>['\"`])(?P<name>(?:\\.|(?!(?P=quote)).)*)(?P=quote)(?P<options>\s*,\s*\{[^}]*\b(?:skip|todo)\s*:(?!\s*false))?"
)


class SuiteChange(Stored):
    """One changed test file: names of tests, `Class.test_a` in Python. `asked`: tests of it were to be taken out."""

    path: str
    removed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    asked: bool = False


def is_test_file(path: str) -> bool:
    """Whether tests are looked for in a file of this name."""
    return bool(_PYTHON_TESTS.search(path) or _SCRIPT_TESTS.search(path))


def suite_change(path: str, before: str | None, now: str | None) -> SuiteChange:
    """What a change did to the tests of one file. None: there was, or is, no such file."""
    read = _python if path.endswith(".py") else _script
    old, new = read(before or ""), read(now or "")
    return SuiteChange(
        path=path,
        removed=tuple(name for name in old if name not in new),
        added=tuple(name for name in new if name not in old),
        skipped=tuple(name for name, marked in new.items() if marked and not old.get(name, False)),
    )


def _python(text: str) -> dict[str, bool]:
    """Every test and whether it is marked to be skipped; none where the file cannot be read as Python."""
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError):
        return {}
    marked = any(_marks(node) for node in module.body if isinstance(node, ast.Assign | ast.Expr))
    return dict(_tests_in(module, "", marked))


def _tests_in(scope: ast.Module | ast.ClassDef, prefix: str, marked: bool) -> Iterator[tuple[str, bool]]:
    for node in scope.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            yield f"{prefix}{node.name}", marked or _is_skipped(node)
        elif isinstance(node, ast.ClassDef):
            own = marked or any(_SKIPS.search(ast.unparse(entry)) for entry in node.decorator_list)
            own = own or any(_marks(entry) for entry in node.body if isinstance(entry, ast.Assign))
            yield from _tests_in(node, f"{prefix}{node.name}.", own)


def _is_skipped(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    if any(_SKIPS.search(ast.unparse(entry)) for entry in function.decorator_list):
        return True
    calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
    return any(_SKIPS.search(ast.unparse(call.func)) for call in calls)


def _marks(node: ast.stmt) -> bool:
    """`pytestmark = pytest.mark.skip`, `__test__ = False`, `pytest.skip(…)` at the top of a module."""
    if isinstance(node, ast.Assign):
        names = {target.id for target in node.targets if isinstance(target, ast.Name)}
        off = "__test__" in names and ast.unparse(node.value) == "False"
        return off or ("pytestmark" in names and bool(_SKIPS.search(ast.unparse(node.value))))
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    return is_call and bool(_SKIPS.search(ast.unparse(node.value.func)))  # type: ignore[attr-defined]


def _script(text: str) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for match in _DEFINES.finditer(text):
        mark = match["mark"] or ""
        found[match["name"]] = bool(match["x"] == "x" or match["options"] or (mark and mark != ".only"))
    return found

"""The files that say what a gate checks, and how a commit's version of one becomes that of the base commit again.

Of files that say other things too (pyproject.toml, setup.cfg, package.json) only the gates' sections are put back; of
conftest.py the file is put back where its hooks or collecting rules differ, while fixtures may change freely.
"""

import ast
import json
import posixpath
import re
import tomllib
from collections.abc import Collection, Iterable
from typing import Any

from baton.command_lines import words

_WHOLE = re.compile(
    r"(?:^|/)(?:\.?pytest\.ini|tox\.ini|\.?ruff\.toml|\.?mypy\.ini|\.flake8|\.pylintrc|\.coveragerc|noxfile\.py"
    r"|eslint\.config\.\w+|\.eslintrc(?:\.\w+)?|\.eslintignore|tsconfig[\w.-]*\.json|\.mocharc\.\w+"
    r"|(?:jest|vitest|ava|karma|playwright)\.config\.\w+|\.nycrc(?:\.json)?|pyrightconfig\.json)$"
)
_ONLY_CHANGES = re.compile(r"(?:^|/)tsconfig[\w.-]*\.json$")
"""A new one takes nothing away from a gate that did without it."""
_TOOLS = "pytest|ruff|mypy|coverage|tox|nox|pyright|pylint|flake8|isort|black|bandit"
_TOML_TABLE = re.compile(rf"^\s*\[\[?\s*tool\s*\.\s*(?:{_TOOLS})\b")
_INI_SECTION = re.compile(rf"^\[(?:tool:)?(?:{_TOOLS})\b")
_HEADER = re.compile(r"^\s*\[[^\]]+\]\]?\s*(?:[#;].*)?$")
_PACKAGE_KEYS = (
    "scripts", "jest", "mocha", "ava", "vitest", "nyc", "c8", "eslintConfig", "eslintIgnore", "xo", "standard", "tap"
)  # fmt: skip
_SET_UP = re.compile(
    r"(?:^|/)(?:package(?:-lock)?\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-[\w-]+\.yaml|bun\.lockb?|\.npmrc|\.yarnrc\S*"
    r"|pyproject\.toml|setup\.(?:py|cfg)|(?:requirements|constraints)[^/]*\.(?:txt|in)|requirements/[^/]+|poetry\.lock"
    r"|uv\.lock|Pipfile(?:\.lock)?|environment\.ya?ml|tox\.ini|\.python-version|\.nvmrc|\.tool-versions|Gemfile(?:\.lock)?"
    r"|[^/]+\.gemspec|Cargo\.(?:toml|lock)|go\.(?:mod|sum)|pom\.xml|[^/]+\.gradle(?:\.kts)?|composer\.(?:json|lock)"
    r"|CMakeLists\.txt|[Mm]akefile|GNUmakefile|\.gitmodules|[^/]+\.(?:c|cc|cpp|cxx|h|hpp|pyx|pxd|rs))$"
)
"""What the usual set-ups read: `npm ci`, `pip install`, a build in place."""
_MAKE = frozenset({"make", "gmake"})
_SCRIPTS = (".sh", ".bash", ".zsh", ".ps1")
_COLLECTING = re.compile(r"^(?:pytest_\w+|collect_ignore(?:_glob)?)$")


def is_gate_configuration(path: str) -> bool:
    """Whether a file of this name can change what a gate checks."""
    return bool(_WHOLE.search(path)) or path.rsplit("/", 1)[-1] in _PARTLY


def may_change_set_up(path: str, scripts: Collection[str] = ()) -> bool:
    """Whether what set-up leaves may depend on a file of this name: lists of packages, build files, sources that are
    compiled, and the `scripts` of its commands."""
    return path in scripts or bool(_SET_UP.search(path))


def scripts_of(commands: Iterable[str]) -> frozenset[str]:
    """Files whose whole text is a part of these gate commands: makefiles and the scripts that they start."""
    found: set[str] = set()
    for command in commands:
        for part in words(command):
            name = posixpath.normpath(part)
            if posixpath.basename(name) in _MAKE:
                found |= {"Makefile", "makefile", "GNUmakefile"}
            elif name.endswith(_SCRIPTS) or (part.startswith("./") and "." not in posixpath.basename(name)):
                found.add(name)
    return frozenset(found)


def with_base(path: str, base: str | None, now: str | None) -> str | None:
    """The text with which the gates run: `now` with what concerns gates as it was in `base`. None: no such file.

    Equal to `now` where nothing that concerns gates was changed.
    """
    if base == now:
        return now
    if _WHOLE.search(path):
        return now if base is None and _ONLY_CHANGES.search(path) else base
    return _PARTLY[path.rsplit("/", 1)[-1]](base, now)


def _pyproject(base: str | None, now: str | None) -> str | None:
    wanted = _tools(base or "")
    if now is None or wanted is None:
        return base
    if _tools(now) == wanted:
        return now
    merged = _with_sections(base or "", now, _TOML_TABLE)
    return merged if _tools(merged) == wanted else base


def _setup_cfg(base: str | None, now: str | None) -> str | None:
    if now is None:
        return base
    same = _sections(base or "", _INI_SECTION) == _sections(now, _INI_SECTION)
    return now if same else _with_sections(base or "", now, _INI_SECTION)


def _package(base: str | None, now: str | None) -> str | None:
    before, after = _object(base), _object(now)
    if before is None or after is None:
        return now if base is None and after is not None and not set(after) & set(_PACKAGE_KEYS) else base
    if all(before.get(key) == after.get(key) for key in _PACKAGE_KEYS):
        return now
    kept = {key: value for key, value in after.items() if key not in _PACKAGE_KEYS}
    return json.dumps(kept | {key: before[key] for key in _PACKAGE_KEYS if key in before}, indent=2) + "\n"


def _conftest(base: str | None, now: str | None) -> str | None:
    if now is None and not _rules(base or ""):
        return None
    return now if now is not None and _rules(base or "") == _rules(now) else base


_PARTLY = {
    "pyproject.toml": _pyproject,
    "setup.cfg": _setup_cfg,
    "package.json": _package,
    "conftest.py": _conftest,
}


def _rules(text: str) -> list[str] | None:
    """A conftest's hooks and collecting rules; None where it cannot be read as Python."""
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    found = []
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [node.name]
        elif isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AugAssign | ast.AnnAssign) and isinstance(node.target, ast.Name):
            names = [node.target.id]
        else:
            names = []
        found += [ast.dump(node) for name in names if _COLLECTING.match(name)]
    return found


def _tools(text: str) -> dict[str, Any] | None:
    """The gates' tables of a pyproject.toml; None where it cannot be read."""
    try:
        tables = tomllib.loads(text).get("tool", {})
    except tomllib.TOMLDecodeError:
        return None
    return {name: tables[name] for name in _TOOLS.split("|") if name in tables} if isinstance(tables, dict) else {}


def _object(text: str | None) -> dict[str, Any] | None:
    try:
        value = json.loads(text or "")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _split(text: str, ours: re.Pattern[str]) -> tuple[list[str], list[str]]:
    """The lines of the sections whose header matches, and all others."""
    chosen: list[str] = []
    others: list[str] = []
    inside = False
    for line in text.splitlines(keepends=True):
        if _HEADER.match(line):
            inside = bool(ours.match(line))
        (chosen if inside else others).append(line)
    return chosen, others


def _sections(text: str, ours: re.Pattern[str]) -> list[str]:
    return [line.strip() for line in _split(text, ours)[0] if line.strip()]


def _with_sections(base: str, now: str, ours: re.Pattern[str]) -> str:
    """`now` with the matching sections of `base` in place of its own."""
    others = "".join(_split(now, ours)[1])
    return others + ("" if others.endswith("\n") or not others else "\n") + "".join(_split(base, ours)[0])

"""Gates that a repository brings along: found in the files of the base commit, so that no agent can change them.

Tests are run where there are tests; linters and type checkers only where the project configures them.
"""

import json
import re
import tomllib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import PurePosixPath
from typing import Any

from baton.findings import GateKind, GateSpec

Reader = Callable[[str], Awaitable[bytes]]
"""The content of a file of the base commit; FileNotFoundError when there is none."""
SAMPLED_TEST_FILES = 60
_TEST_FILE = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test)\.py$")
_UNITTEST_FILE = re.compile(r"(?:^|/)test[^/]*\.py$")
_NEEDS_PYTEST = re.compile(r"^\s*(?:import|from)\s+pytest\b|^(?:async )?def test", re.MULTILINE)
_MENDS = re.compile(r"--(?:fix|write)\b")
_NPM_PLACEHOLDER = "no test specified"
_PACKAGE_MANAGERS = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lockb": "bun run", "bun.lock": "bun run"}


async def discover(files: Sequence[str], read: Reader) -> list[GateSpec]:
    """Gates for a repository with these files, in a stable order; none when it has no tests and configures no checks.

    Commands run at the root with the caller's programs: what is not installed there makes a gate inconclusive.
    """
    project = _Project(frozenset(files), read)
    commands = [
        ("tests", GateKind.TEST, await _python_tests(project)),
        ("npm-test", GateKind.TEST, await _node_tests(project)),
        ("go-test", GateKind.TEST, "go test ./..." if "go.mod" in files else None),
        ("cargo-test", GateKind.TEST, "cargo test --quiet" if "Cargo.toml" in files else None),
        ("ruff", GateKind.LINT, await _ruff(project)),
        ("eslint", GateKind.LINT, eslint := await _eslint(project)),
        ("npm-lint", GateKind.LINT, None if eslint else await _node_lint(project)),
        ("mypy", GateKind.TYPES, await _mypy(project)),
        ("tsc", GateKind.TYPES, await _tsc(project)),
    ]
    return [GateSpec(name=name, kind=kind, command=command) for name, kind, command in commands if command]


class _Project:
    """Files of a commit, read once."""

    def __init__(self, files: frozenset[str], read: Reader) -> None:
        self.files = files
        self._read = read
        self._known: dict[str, str] = {}

    async def text(self, path: str) -> str:
        """Empty when there is no such file."""
        if path not in self._known:
            raw = b""
            if path in self.files:
                try:
                    raw = await self._read(path)
                except FileNotFoundError:
                    raw = b""
            self._known[path] = raw.decode("utf-8", "replace")
        return self._known[path]

    async def tools(self) -> dict[str, Any]:
        """The `tool` table of pyproject.toml."""
        try:
            tools = tomllib.loads(await self.text("pyproject.toml")).get("tool", {})
        except tomllib.TOMLDecodeError:
            return {}
        return tools if isinstance(tools, dict) else {}

    async def package(self) -> dict[str, Any]:
        """package.json."""
        try:
            package = json.loads(await self.text("package.json") or "{}")
        except ValueError:
            return {}
        return package if isinstance(package, dict) else {}

    async def node_depends_on(self, name: str) -> bool:
        package = await self.package()
        return any(name in (package.get(key) or {}) for key in ("dependencies", "devDependencies"))

    async def has_section(self, path: str, section: str) -> bool:
        return f"[{section}]" in (line.strip() for line in (await self.text(path)).splitlines())


async def _python_tests(project: _Project) -> str | None:
    tests = sorted(path for path in project.files if _TEST_FILE.search(path))
    configured = await _configures_pytest(project)
    if not tests:
        return "python3 -m pytest -q" if configured else None
    if not configured and await _is_unittest_only(project, tests):
        return _unittest(project, tests)
    return "python3 -m pytest -q"


async def _configures_pytest(project: _Project) -> bool:
    if {"pytest.ini", ".pytest.ini"} & project.files or any(path.endswith("conftest.py") for path in project.files):
        return True
    if "pytest" in await project.tools():
        return True
    return await project.has_section("setup.cfg", "tool:pytest") or await project.has_section("tox.ini", "pytest")


async def _is_unittest_only(project: _Project, tests: Sequence[str]) -> bool:
    """Whether the standard library can run these tests, so that no pytest needs to be installed."""
    uses_unittest = False
    for path in tests[:SAMPLED_TEST_FILES]:
        text = await project.text(path)
        if _NEEDS_PYTEST.search(text) or not _UNITTEST_FILE.search(path):
            return False
        uses_unittest = uses_unittest or "unittest" in text
    return uses_unittest


def _unittest(project: _Project, tests: Sequence[str]) -> str | None:
    folder = str(PurePosixPath(min(tests, key=lambda path: (path.count("/"), path))).parent)
    if folder == ".":
        return "python3 -m unittest discover"
    if re.search(r"[^\w./-]", folder):
        return "python3 -m pytest -q"
    importable = f"{folder}/__init__.py" in project.files
    return f"python3 -m unittest discover -s {folder}" + (" -t ." if importable else "")


async def _node_tests(project: _Project) -> str | None:
    script, manager = await _script(project, "test"), _manager(project)
    if script and _NPM_PLACEHOLDER not in script:
        return f"{manager} test"
    # A root that only holds the packages of a workspace.
    several = manager == "npm" and not script and "workspaces" in await project.package()
    return "npm test --workspaces --if-present" if several else None


async def _node_lint(project: _Project) -> str | None:
    script = await _script(project, "lint")
    # A linter that mends what it finds would never say so.
    return f"{_manager(project)} run lint".replace("run run", "run") if script and not _MENDS.search(script) else None


async def _script(project: _Project, name: str) -> str:
    scripts = (await project.package()).get("scripts")
    script = scripts.get(name) if isinstance(scripts, dict) else None
    return script.strip() if isinstance(script, str) else ""


def _manager(project: _Project) -> str:
    return next((name for lock, name in _PACKAGE_MANAGERS.items() if lock in project.files), "npm")


async def _ruff(project: _Project) -> str | None:
    configured = {"ruff.toml", ".ruff.toml"} & project.files or "ruff" in await project.tools()
    # One line per finding, so that known findings can be told from new ones.
    return "ruff check --no-cache --output-format=concise ." if configured else None


async def _mypy(project: _Project) -> str | None:
    table = (await project.tools()).get("mypy")
    configurations = [await project.text(path) for path in ("mypy.ini", ".mypy.ini")]
    if await project.has_section("setup.cfg", "mypy"):
        configurations.append(await project.text("setup.cfg"))
    if table is None and not any(configurations):
        return None
    names = re.compile(r"^\s*(?:files|packages|modules)\s*=", re.MULTILINE)
    chosen = any(names.search(text) for text in configurations)
    chosen = chosen or (isinstance(table, dict) and bool({"files", "packages", "modules"} & table.keys()))
    return "python3 -m mypy" if chosen else "python3 -m mypy ."


async def _tsc(project: _Project) -> str | None:
    found = "tsconfig.json" in project.files and await project.node_depends_on("typescript")
    return "npx --no-install tsc --noEmit --pretty false" if found else None


async def _eslint(project: _Project) -> str | None:
    configured = any(re.fullmatch(r"eslint\.config\.\w+|\.eslintrc(?:\.\w+)?", path) for path in project.files)
    configured = configured or "eslintConfig" in await project.package()
    # `unix` prints one line per finding, but newer versions no longer have it; `stylish` is always there.
    return "npx --no-install eslint ." if configured and await project.node_depends_on("eslint") else None

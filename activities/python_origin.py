"""Which Python a project's commands use, and which code they import: the workspace's, never the user's checkout.

An editable install makes `import package` find the user's checkout. So the workspace, and what corresponds in it to the
folders that such an install names, go first on PYTHONPATH; then a gate's own interpreter is asked where it would import
the workspace's modules from.
"""

import json
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from activities.programs import capture
from activities.sandbox import Sandbox

PROBE_TIME_LIMIT = timedelta(seconds=30)
NAMES_ASKED = 300
_NO_MODULES = frozenset({"node_modules", "venv"})
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_PROBE = """
import importlib.util, json, os, sys
source, names = os.path.realpath(sys.argv[1]), json.loads(sys.argv[2])
prefix = os.path.realpath(sys.prefix)
def within(path, folder):
    return (os.path.realpath(path) + os.sep).startswith(folder.rstrip(os.sep) + os.sep)
def theirs(path):
    return bool(path) and within(path, source) and not (prefix != source and within(path, prefix))
elsewhere = {}
for name in names:
    try:
        spec = importlib.util.find_spec(name)
    except Exception:
        continue
    places = [] if spec is None else [spec.origin] if spec.has_location else list(spec.submodule_search_locations or [])
    if places and theirs(places[0]):
        elsewhere[name] = places[0]
print(json.dumps([[path for path in sys.path if theirs(path)], elsewhere]))
"""


def project_environment(environment: Mapping[str, str], workspace: Path, source: Path | None) -> dict[str, str]:
    """`environment` with the project's virtual environment: `.venv` or `venv` in the workspace, where set-up made one;
    else the one that the caller has activated; else that of the user's checkout (`source`)."""
    active = "VIRTUAL_ENV" in environment or "CONDA_PREFIX" in environment
    places = [workspace] if active or source is None else [workspace, source]
    for place in (folder / name for folder in places for name in (".venv", "venv")):
        if (place / "bin" / "python").exists():
            path = os.pathsep.join([str(place / "bin"), environment.get("PATH", os.defpath)])
            return {**environment, "VIRTUAL_ENV": str(place), "PATH": path}
    return dict(environment)


def command_environment(environment: Mapping[str, str], workspace: Path, source: Path | None) -> dict[str, str]:
    """What agents' commands see: the same Python as the gates, with the workspace's own modules first."""
    seen = project_environment(environment, workspace, source)
    roots = [root for root in (workspace / "src", workspace) if next(_modules(root), None)]
    return _with_path(seen, roots) if roots else seen


async def workspace_first(
    command: str, workspace: Path, environment: Mapping[str, str], source: Path | None, sandbox: Sandbox | None = None
) -> tuple[dict[str, str], str | None]:
    """The environment in which `command` imports from the workspace, and why it would not, if so.

    Nothing is changed where there is no Python in the workspace or on PATH.
    """
    roots = [workspace / "src", workspace]
    if not any(next(_modules(root), None) for root in roots):
        return dict(environment), None
    first = _with_path(environment, roots)
    interpreter = _interpreter(command, environment)
    if interpreter is None or source is None:
        return first, None
    named = await _ask(interpreter, workspace, environment, source, [], sandbox)
    if named is None:
        return first, None
    # `package_dir` and monorepo layouts: the install names the folder, relative to the checkout.
    beside = [workspace / os.path.relpath(os.path.realpath(entry), os.path.realpath(source)) for entry in named[0]]
    roots = list(dict.fromkeys([*(root for root in beside if root != workspace), *roots]))
    first = _with_path(environment, roots)
    names = sorted({name for root in roots for name in _modules(root)})[:NAMES_ASKED]
    answer = await _ask(interpreter, workspace, first, source, names, sandbox)
    elsewhere = sorted(answer[1].items()) if answer else []
    if not elsewhere:
        return first, None
    name, place = elsewhere[0]
    return first, (
        f"it would test the user's checkout and not the result: an editable install makes `import {name}` find "
        f"{place}; install the project inside the workspace with a `setup` command"
    )


def own_modules(workspace: Path) -> frozenset[str]:
    """Names of top-level modules that the workspace itself brings."""
    return frozenset(name for root in (workspace / "src", workspace) for name in _modules(root))


def _with_path(environment: Mapping[str, str], roots: Sequence[Path]) -> dict[str, str]:
    return {**environment, "PYTHONPATH": os.pathsep.join(str(root) for root in roots if root.is_dir())}


def _modules(root: Path) -> Iterator[str]:
    """Names that can be imported from a folder."""
    for entry in root.iterdir() if root.is_dir() else ():
        if entry.suffix == ".py" and entry.stem.isidentifier():
            yield entry.stem
        elif not entry.name.isidentifier() or entry.name in _NO_MODULES or not entry.is_dir():
            continue
        elif any(entry.glob("*.py")) or any(entry.glob("*/*.py")):
            yield entry.name


def _interpreter(command: str, environment: Mapping[str, str]) -> list[str] | None:
    """The Python that runs `command`, with its own options; else the one on PATH."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    while words and re.match(r"\w+=", words[0]):
        words = words[1:]
    path = environment.get("PATH", os.defpath)
    program = shutil.which(words[0], path=path) if words else None
    if program and _PYTHON.fullmatch(Path(program).name):
        options = []
        for word in words[1:]:
            if not re.fullmatch(r"-[IEsSPB]+", word):
                break
            options.append(word)
        return [program, *options]
    if program and (from_script := _script_interpreter(Path(program), path)):
        return [from_script]
    found = shutil.which("python3", path=path) or shutil.which("python", path=path)
    return [found] if found else None


def _script_interpreter(program: Path, path: str) -> str | None:
    """The Python of an installed script such as `pytest`, from its first line."""
    try:
        with program.open("rb") as file:
            line = file.readline(500)
    except OSError:
        return None
    words = line[2:].decode("utf-8", "replace").split() if line.startswith(b"#!") else []
    if words and Path(words[0]).name == "env":
        words = words[1:]
    if not words or not _PYTHON.fullmatch(Path(words[0]).name):
        return None
    return shutil.which(words[0], path=path)


async def _ask(
    interpreter: Sequence[str],
    workspace: Path,
    environment: Mapping[str, str],
    source: Path,
    names: Sequence[str],
    sandbox: Sandbox | None,
) -> tuple[list[str], dict[str, str]] | None:
    """Folders of the checkout that the interpreter imports from, and modules it would import from there."""
    with tempfile.TemporaryDirectory(prefix="baton-probe-") as scratch:
        # A script would put its own folder on the path; `-c` puts the working folder, as `-m` does.
        argv = [*interpreter, "-c", _PROBE, str(source), json.dumps(list(names))]
        if sandbox is not None:
            argv = sandbox.argv(argv, workspace, environment)
        found = await capture(
            argv, cwd=workspace, environment={**environment, "TMPDIR": scratch}, time_limit=PROBE_TIME_LIMIT
        )
    try:
        # Start-up hooks of an environment may print, too: the answer is the last line.
        folders, elsewhere = json.loads(found.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        return None
    return folders, elsewhere

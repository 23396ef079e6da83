"""The dependency rule of docs/design.md, read from the imports themselves."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OURS = {"baton", "activities", "workflows", "cli", "emulator", "worker", "starter", "tests", "benchmarks"}
ALLOWED = {
    "baton": {"baton"},
    "activities": {"baton", "activities"},
    "workflows": {"baton", "activities", "workflows"},
    "cli": {"baton", "cli", "emulator"},
    "emulator": {"emulator"},
    "worker.py": {"baton", "activities", "workflows"},
    "starter.py": {"baton", "cli"},
}
PURE = {"pydantic", "pydantic_core", "typing_extensions"}
ANTHROPIC_IMPORTERS = {Path("activities/model.py"), Path("activities/model_client.py")}


def imported(path: Path) -> set[str]:
    """Top-level names of everything a module imports, inside functions too."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add((node.module or "").split(".")[0])
    return names


def modules(room: str) -> list[Path]:
    """The files of a room."""
    place = ROOT / room
    return [place] if place.is_file() else sorted(place.rglob("*.py"))


@pytest.mark.parametrize("room", ALLOWED)
def test_rooms_import_only_what_the_rule_allows(room: str) -> None:
    files = modules(room)
    assert files
    for path in files:
        found = imported(path) & OURS
        assert found <= ALLOWED[room], f"{path.relative_to(ROOT)} imports {sorted(found - ALLOWED[room])}"


def test_pure_code_imports_the_standard_library_and_pydantic_only() -> None:
    import sys

    for path in modules("baton"):
        foreign = imported(path) - set(sys.stdlib_module_names) - {"baton"} - PURE
        assert not foreign, f"{path.relative_to(ROOT)} imports {sorted(foreign)}"


def test_only_the_model_and_its_client_import_the_anthropic_client() -> None:
    for room in ("baton", "activities", "workflows", "cli", "worker.py", "starter.py"):
        for path in modules(room):
            if path.relative_to(ROOT) not in ANTHROPIC_IMPORTERS:
                assert "anthropic" not in imported(path), f"{path.relative_to(ROOT)} imports anthropic"


def test_workflows_import_ours_in_one_pass_through_block() -> None:
    for path in modules("workflows"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "activities":
                pytest.fail(f"{path.name} imports {node.module} outside the pass-through block")


def test_no_room_for_everything() -> None:
    for room in ALLOWED:
        for path in modules(room):
            assert path.stem not in {"utils", "helpers", "common", "manager"}, path

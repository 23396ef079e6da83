"""`orchestrate lint` as typed: which files are read, what is told, and the exit codes."""

import json
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.application import build

HIGH = "def keep(x):\n    global last\n    last = x\n"
LOW = "class CoderAgent:\n    pass\n"
SOUND = "def keep(x):\n    return x\n"


def lint(*arguments: object) -> Result:
    return CliRunner().invoke(build(), ["lint", *map(str, arguments)])


def test_findings_have_place_and_fix_and_end_with_1(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text(HIGH)
    done = lint(tmp_path)
    assert done.exit_code == 1
    assert f"{file}:2:5: high global-state-modification:" in done.output
    assert "fix: pass the state in instead" in done.output
    assert "1 file reviewed, 1 finding" in done.output


@pytest.mark.parametrize(("level", "code"), [("low", 1), ("medium", 0), ("critical", 0)])
def test_the_line_where_it_fails_can_be_chosen(tmp_path: Path, level: str, code: int) -> None:
    (tmp_path / "a.py").write_text(LOW)
    assert lint(tmp_path, "--fail-on", level).exit_code == code


def test_json_holds_everything(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(LOW)
    (tmp_path / "b.py").write_text("def (\n")
    told = json.loads(CliRunner().invoke(build(), ["lint", str(tmp_path), "--json"]).stdout)
    assert told["files"] == 2
    assert [(found["rule"], found["severity"], found["line"]) for found in told["findings"]] == [
        ("missing-agent-id", "low", 1)
    ]
    assert len(told["warnings"]) == 1
    assert "b.py: not reviewed: line 1" in told["warnings"][0]


def test_what_was_installed_or_is_ignored_is_left_out(tmp_path: Path) -> None:
    for name in ("node_modules/a/a.js", ".venv/b.py", "environment/c.py", "src/d.py", "made/e.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(HIGH if name.endswith("py") else "window.x = 1;")
    (tmp_path / "environment/pyvenv.cfg").write_text("home = x\n")
    assert "2 files reviewed, 2 findings" in lint(tmp_path).output
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("made/\n")
    done = lint(tmp_path)
    assert "1 file reviewed, 1 finding" in done.output
    assert "src/d.py" in done.output


def test_odd_encodings_survive(tmp_path: Path) -> None:
    (tmp_path / "latin.py").write_bytes("# -*- coding: latin-1 -*-\nname = 'é'\n".encode("latin-1") + HIGH.encode())
    (tmp_path / "plain.js").write_bytes("// é\r\nwindow.x = 1;\r\n".encode("latin-1"))
    (tmp_path / "wide.ts").write_bytes("window.x = 'é';\n".encode("utf-16"))
    (tmp_path / "lying.py").write_bytes(b"# coding: no-such-thing\n" + HIGH.encode())
    done = lint(tmp_path, "--json")
    found = {Path(one["file"]).name: one["line"] for one in json.loads(done.stdout)["findings"]}
    assert found == {"latin.py": 4, "plain.js": 2, "wide.ts": 1, "lying.py": 3}


def test_a_file_too_large_or_unreadable_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "large.js").write_text("x = 1;\n" * 200_000)
    (tmp_path / "ok.py").write_text(SOUND)
    done = lint(tmp_path)
    assert done.exit_code == 0
    assert "warning: " in done.output
    assert "large.js: not reviewed: it has more than 1,000,000 bytes" in done.output


@pytest.mark.parametrize("name", ["missing", "notes.txt"])
def test_what_cannot_be_reviewed_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.txt").write_text("x")
    done = lint(tmp_path / name)
    assert done.exit_code == 2
    assert str(tmp_path / name) in done.output

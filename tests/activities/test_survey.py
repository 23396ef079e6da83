"""The survey is bounded, deterministic and honest about what it leaves out, whatever the repository holds."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from activities.git import GitError
from activities.repository import PrivateRepository
from activities.survey import LIMIT_BYTES, survey


async def surveyed(tmp_path: Path, tree: str | None = None, files: dict[str, bytes] | None = None) -> str:
    """The survey of a repository with these files, or with what `git fast-import` makes of `tree`."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    source = tmp_path / "source"
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", "init", "-q", "-b", "main", str(source)], env=environment, check=True)
    for name, content in (files or {}).items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(content)
    if tree is None:
        subprocess.run(["git", "add", "-A"], cwd=source, env=environment, check=True)
        commit = ["git", *identity, "commit", "-q", "--allow-empty", "-m", "x"]
        subprocess.run(commit, cwd=source, env=environment, check=True)
    else:
        subprocess.run(["git", "fast-import", "--quiet"], cwd=source, env=environment, input=tree.encode(), check=True)
    private = PrivateRepository(tmp_path / "task", environment)
    facts = await private.inspect(str(source))
    await private.create(facts)
    text = await survey(private, facts.base_commit)
    assert text == await survey(private, facts.base_commit)
    with pytest.raises(GitError):
        await survey(private, "0" * 40)
    return text


async def test_a_small_repository(tmp_path):
    text = await surveyed(
        tmp_path,
        files={
            "README.md": b"# Boltons\n\nLike builtins.\n",
            "pyproject.toml": b'[project]\nname = "boltons"\n',
            "src/boltons/cache.py": b"a\nb\nc\n",
            "src/boltons/data.bin": bytes(range(256)) * 20,
            "tests/test_cache.py": b"a\n",
            "new\nline and ü.py": b"x",
            "empty.py": b"",
        },
    )
    assert text.startswith("7 files, ")
    assert "Python: 4 files, 9 B" in text
    assert "src/boltons/cache.py: 6 B, 3 lines" in text
    assert "src/boltons/: 2" in text
    assert "tests/: 1 files" in text
    assert "src/boltons/data.bin: 5 kB, binary" in text
    assert 'name = "boltons"' in text
    assert "  # Boltons" in text
    assert "new\\nline and ü.py" in text


async def test_20_000_files_fit_and_what_is_left_out_is_counted(tmp_path):
    lines = ["blob\nmark :1\ndata 4\na\nb\n", "commit refs/heads/main\ncommitter a <a@b> 1 +0000\ndata 1\nx\n"]
    for number in range(20_000):
        lines.append(
            f"M 100644 :1 {'long-folder-name-' * 3}{number % 200}/sub/{number % 50}/file{number}.e{number % 90}\n"
        )
    text = await surveyed(tmp_path, tree="".join(lines))
    assert len(text.encode()) <= LIMIT_BYTES
    assert text.startswith("20000 files, 80 kB")
    assert re.search(r"… and \d+ more", text)


async def test_absurd_content_stays_bounded(tmp_path):
    files = {f"{'ü' * 60}{number}.py": b"x\n" for number in range(150)}
    files |= {
        "README.md": "ü".encode() * 100_000,
        "package.json": b"{" + b"\n" * 5_000,
        "pyproject.toml": b"\xff\xfe" * 4_000,
    }
    text = await surveyed(tmp_path, files=files)
    assert len(text.encode()) <= LIMIT_BYTES
    assert "more" in text.splitlines()[-1]


async def test_no_files(tmp_path):
    assert await surveyed(tmp_path) == "The repository has no files."


async def test_a_name_that_is_no_utf_8_is_shown_and_its_lines_counted(tmp_path):
    text = await surveyed(tmp_path, files={os.fsdecode(b"caf\xe9/na\xefve.py"): b"a\nb\n", "b.py": b"\0" * 9})
    assert "caf\\xe9/na\\xefve.py: 4 B, 2 lines" in text
    assert "caf\\xe9/: 1" in text
    assert "b.py: 9 B, binary" in text


async def test_content_that_is_missing_is_told(tmp_path):
    await surveyed(tmp_path, files={"src/a.py": b"1\n", "b.py": b"2\n"})
    private = PrivateRepository(tmp_path / "task", {"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
    commit = await private.git().text("rev-parse", "HEAD")
    blob = await private.git().text("rev-parse", f"{commit}:src/a.py")
    (private.path / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(ValueError, match=r"1 file of the commit .* cannot be read, as src/a\.py: git fsck"):
        await survey(private, commit)

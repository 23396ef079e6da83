"""Submodules: filled from the user's checkout, never from a network, and said where they are missing."""

import subprocess
from pathlib import Path

import pytest

from activities.outside_parts import fill_submodules, warnings_about
from activities.repository import MergeKind, PrivateRepository

FILE = ("-c", "protocol.file.allow=always")
TRAILERS = {"Baton-Task": "task", "Baton-Step": "1"}


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def repository(folder: Path, **files: str) -> Path:
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for name, text in files.items():
        (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "x")
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A checkout with a submodule that has one itself; a second one is not initialised."""
    deepest = repository(tmp_path / "deepest", deep="deep\n")
    library = repository(tmp_path / "library", lib="library\n")
    git(library, *FILE, "submodule", "add", "-q", str(deepest), "inner")
    git(library, "commit", "-qm", "inner")
    other = repository(tmp_path / "other", o="other\n")
    source = repository(tmp_path / "source", main="main\n")
    git(source, *FILE, "submodule", "add", "-q", str(library), "vendor/the library")
    git(source, *FILE, "submodule", "add", "-q", str(other), "missing")
    git(source, *FILE, "submodule", "update", "-q", "--init", "--recursive")
    git(source, "commit", "-qm", "submodules")
    git(source, "submodule", "deinit", "-q", "-f", "missing")
    return source


async def opened(source: Path, folder: Path) -> tuple[PrivateRepository, Path, str]:
    private = PrivateRepository(folder)
    facts = await private.inspect(str(source))
    await private.create(facts)
    return private, await private.open_workspace("step-1", facts.base_commit, "step-1"), facts.base_commit


async def test_submodules_are_filled_and_never_part_of_a_checkpoint(source: Path, tmp_path: Path) -> None:
    private, workspace, base = await opened(source, tmp_path / "task")
    for _ in range(2):
        assert await fill_submodules(private.git(), workspace, base, source) == ["missing"]
    library = workspace / "vendor/the library"
    assert ((library / "lib").read_text(), (library / "inner/deep").read_text()) == ("library\n", "deep\n")
    (workspace / "main").write_text("changed\n")
    (library / "lib").write_text("changed\n")
    (library / "made").write_text("made\n")
    await private.checkpoint(workspace, "turn", {})
    await private.reset(workspace)
    assert (library / "lib").exists()
    merged = await private.merge_step(["step-1"], "Step", TRAILERS)
    assert (merged.kind, [change.path for change in merged.changes]) == (MergeKind.MERGED, ["main"])
    assert git(source, "status", "--porcelain") == ""
    await private.close_workspace("step-1")
    assert not workspace.exists()


async def test_what_is_missing_is_said(source: Path, tmp_path: Path) -> None:
    private, _, base = await opened(source, tmp_path / "task")
    files = await private.list_files(base)
    said = await warnings_about(private.git(), base, files, source)
    assert "this host: missing." in said[0]
    said = await warnings_about(private.git(), base, files, None)
    assert "missing, vendor/the library" in said[0]
    plain = repository(tmp_path / "plain", a="a\n")
    private, _, base = await opened(plain, tmp_path / "other-task")
    assert await warnings_about(private.git(), base, await private.list_files(base), plain) == []


BYTES = {
    "crlf.txt": (b"one\r\ntwo\r\n", b"one\r\n2\r\n"),
    "mixed.txt": (b"one\r\ntwo\nthree\rfour", b"one\r\n2\nthree\rfour"),
    "no-end.txt": (b"one", b"two"),
    "latin.txt": (b"caf\xe9\n", b"caf\xe9s\n"),
    "utf16.txt": ("öne\r\n".encode("utf-16"), "twö\r\n".encode("utf-16")),
    "bom.txt": (b"\xef\xbb\xbfone\n", b"\xef\xbb\xbftwo\n"),
    "binary.bin": (bytes(range(256)) * 8, bytes(reversed(range(256))) * 8),
    "nul.txt": (b"a\0b\r\n", b"a\0c\r\n"),
    "empty": (b"", b"\n"),
    "with space.txt": (b"x\n", b"y\n"),
    "new\nline.txt": (b"x\n", b"y\n"),
    "quote'\".txt": (b"x\n", b"y\n"),
    "-dash.txt": (b"x\n", b"y\n"),
    "ünï-日本.txt": (b"x\n", b"y\n"),
    ":(top)x": (b"x\n", b"y\n"),
    "eol.txt": (b"a\r\nb\n", b"a\r\nc\n"),
}


async def test_every_byte_survives_checkpoint_merge_and_publishing(tmp_path: Path) -> None:
    """With attributes and configuration that would convert line ends, and a base that moves meanwhile."""
    source = repository(tmp_path / "source", **{".gitattributes": "eol.txt text eol=crlf\n*.txt diff=x\n"})
    for name, (before, _) in BYTES.items():
        (source / name).write_bytes(before)
    git(source, "-c", "core.autocrlf=false", "add", "-A")
    git(source, "commit", "-qm", "bytes")
    git(source, "config", "core.autocrlf", "true")
    kept = {name: blob(source, "HEAD", name) for name in BYTES}
    private, workspace, base = await opened(source, tmp_path / "task")
    for name, (_, after) in BYTES.items():
        (workspace / name).write_bytes(after)
    await private.checkpoint(workspace, "turn", {})
    git(source, "commit", "-q", "--amend", "--allow-empty", "-m", "force-pushed")
    git(source, "checkout", "-q", "--detach")
    merged = await private.merge_step(["step-1"], "Step", TRAILERS)
    name = await private.publish(source, "task", merged.commit)
    assert name == "baton/task"
    for path, (_, after) in BYTES.items():
        wanted = after.replace(b"\r\n", b"\n") if path == "eol.txt" else after
        assert blob(source, "baton/task", path) == wanted, path
        assert blob(source, base, path) == kept[path], path
    assert git(source, "rev-parse", "baton/task^") == base


def blob(folder: Path, commit: str, path: str) -> bytes:
    command = ["git", "cat-file", "blob", f"{commit}:{path}"]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True).stdout

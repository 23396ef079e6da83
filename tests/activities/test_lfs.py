"""Git LFS with real git and without git-lfs: content from the user's store, pointers in commits, objects given back."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from activities import lfs
from activities.known_tree import ChangeKind
from activities.lfs_filter import LfsFilter, LfsStore, Pointer
from activities.repository import MergeKind, PrivateRepository
from tests.activities.test_outside_parts import TRAILERS, blob, git

ATTRIBUTES = "*.bin filter=lfs diff=lfs merge=lfs -text\n"
CONTENT = {
    "logo.bin": bytes(range(256)) * 40,
    "art/with space.bin": b"line\r\n" * 100,
    "art/ü 'quoted'\n.bin": b"short",
    "-dash.bin": b"\0" * 200_000,
}


def pointer_to(content: bytes) -> Pointer:
    return Pointer(hashlib.sha256(content).hexdigest(), len(content))


def put(store: Path, content: bytes) -> Path:
    place = LfsStore(store).place(pointer_to(content))
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    return place


def repository(folder: Path, files: Mapping[str, bytes], attributes: str = ATTRIBUTES) -> Path:
    """A repository that git-lfs would have left: pointers are committed, the content is in its store."""
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / ".gitattributes").write_text(attributes)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(pointer_to(content).text())
        put(folder / ".git/lfs", content)
    (folder / "a.txt").write_text("a\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "x")
    return folder


class Task:
    """A task of a repository, as opening makes it."""

    def __init__(self, folder: Path) -> None:
        self.private = PrivateRepository(folder)
        self.base = ""
        self.warnings: list[str] = []

    async def open(self, source: Path) -> "Task":
        facts = await self.private.inspect(str(source))
        await self.private.create(facts)
        self.base = facts.base_commit
        files = await self.private.list_files(self.base)

        async def read(path: str) -> bytes:
            return await self.private.read_file(self.base, path)

        self.warnings = await lfs.borrow(self.private.git(), self.base, files, read, facts.top_level)
        return self

    async def workspace(self, name: str = "step-1") -> Path:
        return await self.private.open_workspace(name, await self.private.result(), name)

    async def merge(self, name: str, step: int = 1) -> MergeKind:
        trailers = TRAILERS | {"Baton-Step": str(step)}
        return (await self.private.merge_step([name], "Step", trailers)).kind


async def test_files_are_filled_and_unchanged(tmp_path: Path) -> None:
    source = repository(tmp_path / "source", CONTENT)
    task = await Task(tmp_path / "task").open(source)
    assert task.warnings == []
    workspace = await task.workspace()
    for name, content in CONTENT.items():
        assert (workspace / name).read_bytes() == content, name
        assert (workspace / name).stat().st_nlink == 1, name
        os.utime(workspace / name)
    assert await task.private.changed_paths(workspace) == []
    commit = await task.private.checkpoint(workspace, "turn", {})
    assert git(task.private.path, "diff", "--name-only", task.base, commit) == ""
    assert await lfs.give_objects(task.private.git(), source, commit) == ()


async def test_a_change_is_committed_as_a_pointer_and_its_object_given_with_the_result(tmp_path: Path) -> None:
    source = repository(tmp_path / "source", CONTENT)
    task = await Task(tmp_path / "task").open(source)
    workspace = await task.workspace()
    new, added, dropped = b"new content" * 1_000, b"added", b"of a turn that was taken back"
    (workspace / "logo.bin").write_bytes(dropped)
    assert [change.path for change in await task.private.changed_paths(workspace)] == ["logo.bin"]
    await task.private.reset(workspace)
    assert (workspace / "logo.bin").read_bytes() == CONTENT["logo.bin"]
    (workspace / "logo.bin").write_bytes(new)
    (workspace / "more of it.bin").write_bytes(added)
    (workspace / "-dash.bin").unlink()
    changes = await task.private.changed_paths(workspace)
    await task.private.restore(workspace, [change for change in changes if change.kind is ChangeKind.DELETED])
    assert (workspace / "-dash.bin").read_bytes() == CONTENT["-dash.bin"]
    await task.private.checkpoint(workspace, "turn", {})
    assert await task.merge("step-1") is MergeKind.MERGED
    commit = await task.private.result()
    assert blob(task.private.path, commit, "logo.bin") == pointer_to(new).text()
    assert blob(task.private.path, commit, "more of it.bin") == pointer_to(added).text()
    second = await task.workspace("step-2")
    assert (second / "logo.bin").read_bytes() == new
    assert (second / "more of it.bin").read_bytes() == added
    assert await task.private.changed_paths(second) == []

    before = sorted(path.name for path in (source / ".git/lfs").rglob("*") if path.is_file())
    notes = await lfs.give_objects(task.private.git(), source, commit)
    assert "2 new objects" in notes[0]
    after = sorted(path.name for path in (source / ".git/lfs").rglob("*") if path.is_file())
    assert after == sorted([*before, pointer_to(new).oid, pointer_to(added).oid])
    assert await lfs.give_objects(task.private.git(), source, commit) == notes
    assert await task.private.publish(source, "task", commit) == "baton/task"
    assert "2 new objects" in (await lfs.give_objects(task.private.git(), None, commit))[0]


async def test_missing_and_corrupt_content_stays_a_pointer_and_is_named(tmp_path: Path) -> None:
    source = repository(tmp_path / "source", CONTENT)
    put(source / ".git/lfs", CONTENT["logo.bin"]).unlink()
    put(source / ".git/lfs", CONTENT["-dash.bin"]).write_bytes(b"\1" * 200_000)
    put(source / ".git/lfs", CONTENT["art/with space.bin"]).write_bytes(b"cut")
    task = await Task(tmp_path / "task").open(source)
    (said,) = task.warnings
    assert "-dash.bin, art/with space.bin, logo.bin. To have them: git lfs fetch, in your checkout" in said
    workspace = await task.workspace()
    for name in ("logo.bin", "-dash.bin", "art/with space.bin"):
        assert (workspace / name).read_bytes() == pointer_to(CONTENT[name]).text()
        os.utime(workspace / name)
    assert (workspace / "art/ü 'quoted'\n.bin").read_bytes() == b"short"
    assert await task.private.changed_paths(workspace) == []
    put(source / ".git/lfs", CONTENT["logo.bin"])
    assert ((await task.workspace("step-2")) / "logo.bin").read_bytes() == CONTENT["logo.bin"]


async def test_what_was_committed_without_a_pointer_stays_as_it_is(tmp_path: Path) -> None:
    source = repository(tmp_path / "source", {"good.bin": b"good" * 100})
    odd = pointer_to(b"x").text().replace(b"oid", b"ext-0-rot13 sha256:" + b"0" * 64 + b"\noid")
    files = {"raw.bin": b"never cleaned\n" * 50, "odd.bin": odd, "empty.bin": b""}
    for name, content in files.items():
        (source / name).write_bytes(content)
    (source / "pointer.txt").write_bytes(pointer_to(b"good" * 100).text())
    git(source, "add", "-A")
    git(source, "commit", "-qm", "raw")
    task = await Task(tmp_path / "task").open(source)
    assert task.warnings == []
    workspace = await task.workspace()
    assert (workspace / "pointer.txt").read_bytes() == pointer_to(b"good" * 100).text(), "no attribute, no content"
    for name, content in files.items():
        assert (workspace / name).read_bytes() == content
        os.utime(workspace / name)
    assert await task.private.changed_paths(workspace) == []
    (workspace / "raw.bin").write_bytes(b"changed\n" * 50)
    commit = await task.private.checkpoint(workspace, "turn", {})
    assert blob(task.private.path, commit, "raw.bin") == pointer_to(b"changed\n" * 50).text()


async def test_git_commands_of_a_model_do_no_harm(tmp_path: Path) -> None:
    """Its git knows no filter: what it adds or checks out must not reach a commit."""
    source = repository(tmp_path / "source", CONTENT)
    task = await Task(tmp_path / "task").open(source)
    workspace = await task.workspace()
    os.utime(workspace / "logo.bin")
    git(workspace, "add", "-A")
    git(workspace, "commit", "-qm", "by the model")
    assert await task.private.changed_paths(workspace) == []
    (workspace / "-dash.bin").write_bytes(b"changed by the model")
    git(workspace, "update-index", "--assume-unchanged", "logo.bin")
    git(workspace, "checkout", "-q", task.base, "--", "-dash.bin")
    commit = await task.private.checkpoint(workspace, "turn", {})
    assert git(task.private.path, "diff", "--name-only", task.base, commit) == ""


async def test_steps_that_change_one_file_are_in_conflict(tmp_path: Path) -> None:
    source = repository(tmp_path / "source", CONTENT)
    task = await Task(tmp_path / "task").open(source)
    for name in ("step-1", "step-2", "step-3"):
        workspace = await task.private.open_workspace(name, task.base, name)
        changed = "-dash.bin" if name == "step-3" else "logo.bin"
        (workspace / changed).write_bytes(name.encode() * 100)
        await task.private.checkpoint(workspace, "turn", {})
    assert await task.merge("step-1", 1) is MergeKind.MERGED
    assert await task.merge("step-2", 2) is MergeKind.CONFLICT
    assert await task.merge("step-3", 3) is MergeKind.MERGED
    resolutions = task.private.resolutions()
    folded = await resolutions.fold(["step-2"])
    commit = await resolutions.lay_out(folded, "refs/heads/conflict")
    workspace = await task.private.open_workspace("conflict", commit, "conflict")
    assert b"<<<<<<<" in (workspace / "logo.bin").read_bytes()
    index = task.private.git_in(workspace)
    tree = await resolutions.by_side(commit, "step-2", "theirs", index)
    text = await index.output("cat-file", "blob", f"{tree}:logo.bin")
    assert text == pointer_to(b"step-2" * 100).text()
    (workspace / "logo.bin").write_bytes(b"resolved by hand")
    resolved = await task.private.checkpoint(workspace, "turn", {})
    assert await resolutions.faults(commit, "step-2", resolved, {}) == ()
    assert blob(task.private.path, resolved, "logo.bin") == pointer_to(b"resolved by hand").text()


async def test_a_task_that_goes_on_later_finds_its_objects(tmp_path: Path) -> None:
    source = repository(tmp_path / "source", CONTENT)
    task = await Task(tmp_path / "task").open(source)
    workspace = await task.workspace()
    (workspace / "logo.bin").write_bytes(b"before the break")
    await task.private.checkpoint(workspace, "turn", {})
    await task.private.close_workspace("step-1")
    again = PrivateRepository(tmp_path / "task")
    workspace = await again.open_workspace("step-1", task.base, "step-1")
    assert (workspace / "logo.bin").read_bytes() == b"before the break"
    assert (workspace / "-dash.bin").read_bytes() == CONTENT["-dash.bin"]


@pytest.mark.parametrize("storage", ["", "elsewhere/lfs", "/absolute"])
async def test_the_store_of_linked_worktrees_and_of_the_configuration(storage: str, tmp_path: Path) -> None:
    source = repository(tmp_path / "source", CONTENT)
    store = source / ".git/lfs"
    if storage:
        store = tmp_path / storage[1:] if storage.startswith("/") else source / ".git" / storage
        store.parent.mkdir(exist_ok=True, parents=True)
        (source / ".git/lfs").rename(store)
        git(source, "config", "lfs.storage", str(store) if storage.startswith("/") else storage)
    git(source, "worktree", "add", "-q", str(tmp_path / "linked"))
    task = await Task(tmp_path / "task").open(tmp_path / "linked")
    assert task.warnings == []
    workspace = await task.workspace()
    assert (workspace / "logo.bin").read_bytes() == CONTENT["logo.bin"]
    (workspace / "logo.bin").write_bytes(b"new")
    commit = await task.private.checkpoint(workspace, "turn", {})
    await lfs.give_objects(task.private.git(), tmp_path / "linked", commit)
    assert LfsStore(store).holds(pointer_to(b"new"))


async def test_a_store_that_cannot_be_written_costs_no_result(tmp_path: Path) -> None:
    source = repository(tmp_path / "source", {})
    task = await Task(tmp_path / "task").open(source)
    workspace = await task.workspace()
    (workspace / "new.bin").write_bytes(b"new")
    commit = await task.private.checkpoint(workspace, "turn", {})
    (source / ".git/lfs").write_text("no folder")
    (said,) = await lfs.give_objects(task.private.git(), source, commit)
    assert f"copy them from {task.private.path / 'lfs'}" in said


async def test_a_filter_that_fails_never_leads_to_content_in_a_commit(tmp_path: Path) -> None:
    source = repository(tmp_path / "source", CONTENT)
    task = await Task(tmp_path / "task").open(source)
    workspace = await task.workspace()
    (workspace / "logo.bin").write_bytes(b"new")
    (task.private.path / "lfs/tmp").write_text("in the way")
    with pytest.raises(Exception, match="clean filter 'lfs' failed"):
        await task.private.checkpoint(workspace, "turn", {})
    (task.private.path / "lfs/tmp").unlink()
    commit = await task.private.checkpoint(workspace, "turn", {})
    assert blob(task.private.path, commit, "logo.bin") == pointer_to(b"new").text()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"version https://git-lfs.github.com/spec/v1\n",
        pointer_to(b"x").text() + b"\n",
        pointer_to(b"x").text().replace(b"\n", b"\r\n"),
        pointer_to(b"x").text().replace(b"sha256:", b"sha256:../"),
        pointer_to(b"x").text().upper(),
        pointer_to(b"x").text().replace(b"size 1", b"size 01"),
    ],
)
def test_only_the_form_of_git_lfs_is_a_pointer(text: bytes, tmp_path: Path) -> None:
    assert Pointer.read(text) is None
    assert b"".join(LfsFilter(tmp_path).smudge(b"x", iter((text,)))) == text
    assert b"".join(LfsFilter(tmp_path).clean(b"x", iter((text,)))) == text


def test_a_pointer_is_read_and_written_alike() -> None:
    text = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0f' * 32}\nsize 12345\n".encode()
    pointer = Pointer.read(text)
    assert pointer == Pointer("0f" * 32, 12345)
    assert pointer is not None
    assert pointer.text() == text


async def test_a_repository_without_lfs_is_not_touched(tmp_path: Path) -> None:
    source = repository(tmp_path / "source", {}, attributes="*.txt text\n")
    task = await Task(tmp_path / "task").open(source)
    assert task.warnings == []
    assert not (task.private.path / "lfs").exists()
    await task.workspace()
    assert await lfs.give_objects(task.private.git(), source, task.base) == ()

"""What is asked inside this process is what git itself would say, and what is not sure is left to git."""

import os
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from place_bench import REF, TRAILERS, git, place

from activities.inner_git import InnerGit
from activities.known_tree import ChangeKind, KnownTree

ATTRIBUTES = """\
*.auto text=auto
*.crlf text eol=crlf
*.bin -text
*.ids ident
*.wide working-tree-encoding=UTF-16LE
*.upper filter=upper
[attr]converted text eol=crlf
*.macro converted
*.off -filter -ident
"""
QUOTED = '"a b.txt" text eol=crlf\n'
GLOBAL = "*.txt text eol=crlf\n*.upper filter=upper\n"


@dataclass(frozen=True)
class Case:
    """What is done to a file, and whether libgit2 is sure of it."""

    name: str
    sure: bool
    before: bytes = b"before\n"
    after: bytes = b"after\n"
    changes: bool = True


CASES = [
    Case("plain.txt", sure=True),
    Case("same.txt", sure=True, after=b"before\n", changes=False),
    Case("emptied.txt", sure=True, after=b""),
    Case("ends.txt", sure=True, after=b"after\r\n"),
    Case("folder/ünï côdé.txt", sure=True),
    Case("lf.auto", sure=True),
    Case("cr.auto", sure=False, after=b"after\r\nmore\r\n"),
    Case("cr-same.auto", sure=False, after=b"before\r\n"),
    Case("lf.crlf", sure=True),
    Case("cr.crlf", sure=False, after=b"after\r\n"),
    Case("cr.bin", sure=True, after=b"a\0b\r\n"),
    Case("one.ids", sure=False, before=b"$Id$\n", after=b"$Id: x $ more\n"),
    Case("one.wide", sure=False, before="before\n".encode("utf-16-le"), after="after\n".encode("utf-16-le")),
    Case("cr.macro", sure=False, after=b"after\r\n"),
    Case("one.off", sure=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_a_checkpoint_of_known_files_holds_what_git_would_put_into_it(tmp_path: Path, case: Case) -> None:
    there = await place(tmp_path, {".gitattributes": ATTRIBUTES.encode(), case.name: case.before, "other.txt": b"x\n"})
    tree = await there.known()
    (there.workspace / case.name).write_bytes(case.after)
    raw = case.name.encode()
    assert there.compared(raw) == ({raw: case.changes} if case.sure else {})
    tree.wrote([case.name])
    changed = await there.repository.changed_paths(there.workspace, tree=tree)
    assert [change.raw for change in changed] == ([raw] if case.changes else [])
    commit = await there.repository.checkpoint(there.workspace, "turn", TRAILERS, tree=tree)
    index = tmp_path / "index"
    git(there.workspace, "read-tree", f"{commit}^", index=index)
    git(there.workspace, "add", "-A", index=index)
    assert git(there.workspace, "rev-parse", f"{commit}^{{tree}}") == git(there.workspace, "write-tree", index=index)
    await there.repository.settle(there.workspace, tree)
    assert git(there.workspace, "status", "--porcelain") == b""
    assert git(there.workspace, "rev-parse", "HEAD", REF).split() == [commit.encode()] * 2
    assert (
        git(there.workspace, "log", "-1", "--format=%an <%ae>%n%B")
        == b"Ada <ada@example.org>\nturn\n\nBaton-Turn: 1\n\n"
    )


async def test_new_removed_and_strange_files_are_left_to_git(tmp_path: Path) -> None:
    names = ("gone.txt", "tool.sh", "link", "folder/inner.txt", "big.txt")
    there = await place(tmp_path, dict.fromkeys(names, b"before\n"))
    (there.workspace / "new.txt").write_text("new\n")
    (there.workspace / "gone.txt").unlink()
    (there.workspace / "tool.sh").chmod(0o755)
    (there.workspace / "link").unlink()
    (there.workspace / "link").symlink_to("new.txt")
    (there.workspace / "folder").rename(there.workspace / "moved")
    (there.workspace / "folder").symlink_to("moved")
    (there.workspace / "big.txt").write_bytes(b"x" * 5_000_000)
    asked = [b"new.txt", *(name.encode() for name in names), b"\xff.txt", b"nothing.txt"]
    assert there.compared(*asked) == {}
    base = git(there.workspace, "rev-parse", "HEAD").decode().strip()
    for name in names[1:]:
        assert there.commit(base, {name.encode(): ChangeKind.MODIFIED}) is None
    for name in (b"link", b"folder/inner.txt", b"big.txt", b"\xff.txt", b"nothing.txt"):
        assert there.commit(base, {name: ChangeKind.ADDED}) is None
    assert git(there.repository.path, "rev-parse", REF).decode().strip() == base


async def test_a_repository_whose_format_is_not_known_is_left_to_git(tmp_path: Path) -> None:
    there = await place(tmp_path, {"a.txt": b"before\n"}, "--object-format=sha256")
    tree = await there.known()
    (there.workspace / "a.txt").write_text("after\n")
    assert there.compared(b"a.txt") == {}
    tree.wrote(["a.txt"])
    commit = await there.repository.checkpoint(there.workspace, "turn", TRAILERS, tree=tree)
    assert git(there.workspace, "show", f"{commit}:a.txt") == b"after\n"
    assert git(there.workspace, "rev-parse", "HEAD", REF).split() == [commit.encode()] * 2


async def test_a_commit_on_another_parent_than_the_last_checkpoint_is_refused(tmp_path: Path) -> None:
    there = await place(tmp_path, {"a.txt": b"before\n"})
    base = git(there.workspace, "rev-parse", "HEAD").decode().strip()
    first = there.commit(base, {})
    assert first is not None
    assert there.commit(base, {}) is None
    assert there.commit(base, {}, "refs/heads/other") is None
    assert git(there.workspace, "rev-parse", REF).decode().strip() == first


async def test_nobody_waits_until_what_another_one_commits_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = await place(tmp_path, {"a.txt": b"before\n"})
    inner, base = InnerGit(there.repository.path), git(there.workspace, "rev-parse", "HEAD").decode().strip()
    git(there.repository.path, "update-ref", "refs/heads/other", base)
    (there.workspace / "a.txt").write_text("after\n")
    changes = {b"a.txt": ChangeKind.MODIFIED}
    asked = threading.Thread(
        target=inner.commit, args=(there.worktree, "refs/heads/other", base, changes, "of another\n"), daemon=True
    )
    to_disk, went_on = os.fsync, []

    def slow(descriptor: int) -> None:
        if threading.current_thread() is not asked and not went_on:
            asked.start()
            asked.join(20)
            went_on.append(not asked.is_alive())
        to_disk(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    commit = inner.commit(there.worktree, REF, base, changes, "turn\n")
    assert went_on == [True]
    assert git(there.repository.path, "rev-parse", REF, "refs/heads/other^").decode().split() == [commit, base]


def reaching_the_disk(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what is waited for from now on, in order."""
    to_disk, names = os.fsync, list[str]()

    def noting(descriptor: int) -> None:
        names.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        to_disk(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    return names


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="tells what a descriptor is of")
async def test_a_checkpoint_is_on_the_disk_with_its_ref(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = await place(tmp_path, {"folder/a.txt": b"before\n"})
    base, path = git(there.workspace, "rev-parse", "HEAD").decode().strip(), there.repository.path
    (there.workspace / "folder/a.txt").write_text("after\n")
    before = {str(one) for one in (path / "objects").rglob("*")}
    names = reaching_the_disk(monkeypatch)
    assert there.commit(base, {b"folder/a.txt": ChangeKind.MODIFIED}) is not None
    made = {str(one) for one in (path / "objects").rglob("*") if one.is_file()} - before
    assert len(made) == 4  # the blob, two trees, the commit
    assert made <= set(names[:4])
    assert names[4:] == [str(path / REF), str((path / REF).parent)]


async def test_a_ref_that_the_disk_refuses_is_no_move_that_was_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = await place(tmp_path, {"a.txt": b"before\n"})
    base = git(there.workspace, "rev-parse", "HEAD").decode().strip()
    (there.workspace / "a.txt").write_text("after\n")

    def refuses(path: Path) -> None:
        raise OSError(5, os.strerror(5), str(path))

    monkeypatch.setattr("activities.inner_git.sync", refuses)
    with pytest.raises(OSError, match="Input/output"):
        there.commit(base, {b"a.txt": ChangeKind.MODIFIED})
    assert git(there.repository.path, "rev-parse", f"{REF}^").decode().strip() == base


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="tells what a descriptor is of")
async def test_a_merged_tree_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = await place(tmp_path, {"a/one.txt": b"before\n", "b/two.txt": b"before\n"})
    path, base = there.repository.path, git(there.workspace, "rev-parse", "HEAD").decode().strip()
    (there.workspace / "a/one.txt").write_text("after\n")
    ours = there.commit(base, {b"a/one.txt": ChangeKind.MODIFIED})
    (there.workspace / "a/one.txt").write_text("before\n")
    (there.workspace / "b/two.txt").write_text("after\n")
    git(path, "update-ref", "refs/heads/theirs", base)
    changes = {b"b/two.txt": ChangeKind.MODIFIED}
    inner = InnerGit(path)
    assert inner.commit(there.worktree, "refs/heads/theirs", base, changes, "theirs\n") is not None
    names = reaching_the_disk(monkeypatch)
    assert ours is not None
    tree = inner.merged_tree(base, ours, "theirs")
    assert tree is not None
    assert str(path / "objects" / tree[:2] / tree[2:]) in names


async def test_what_git_makes_is_on_the_disk_too(tmp_path: Path) -> None:
    """It counts what it waited for."""
    there = await place(tmp_path, {"a.txt": b"before\n"})
    told = tmp_path / "told.jsonl"
    private = there.repository.git()
    commit = git(there.workspace, "rev-parse", "HEAD").decode().strip()
    for arguments in (("commit-tree", f"{commit}^{{tree}}", "-m", "empty"), ("update-ref", "refs/baton/other", commit)):
        told.unlink(missing_ok=True)
        environment = {**private._environment(), "GIT_TRACE2_EVENT": str(told)}
        subprocess.run(private._argv(arguments), env=environment, cwd=there.repository.path, check=True)
        assert '"category":"fsync"' in told.read_text(), arguments


async def test_a_ref_that_moved_while_its_commit_went_to_the_disk_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = await place(tmp_path, {"a.txt": b"before\n"})
    base = git(there.workspace, "rev-parse", "HEAD").decode().strip()
    other = there.commit(base, {}, REF)
    assert other is not None
    git(there.repository.path, "update-ref", REF, base)
    monkeypatch.setattr(os, "fsync", lambda _: git(there.repository.path, "update-ref", REF, other))
    (there.workspace / "a.txt").write_text("after\n")
    assert there.commit(base, {b"a.txt": ChangeKind.MODIFIED}) is None
    assert git(there.repository.path, "rev-parse", REF).decode().strip() == other


@pytest.mark.parametrize("place_of_rules", ["", "folder/", "gone"])
async def test_rules_that_libgit2_reads_otherwise_are_left_to_git(tmp_path: Path, place_of_rules: str) -> None:
    rules = f"{place_of_rules.removesuffix('gone')}.gitattributes"
    there = await place(tmp_path, {rules: QUOTED.encode(), "folder/a b.txt": b"before\n", "plain.txt": b"before\n"})
    if place_of_rules == "gone":
        (there.workspace / rules).unlink()
    for name in ("folder/a b.txt", "plain.txt"):
        (there.workspace / name).write_bytes(b"after\r\n")
    assert there.compared(b"folder/a b.txt") == {}
    assert there.compared(b"plain.txt") == ({b"plain.txt": True} if place_of_rules == "folder/" else {})


async def test_a_folder_of_git_that_names_another_place_is_left_to_git(tmp_path: Path) -> None:
    there = await place(tmp_path, {"a.txt": b"before\n", ".gitattributes": ATTRIBUTES.encode()})
    administration = there.repository.path / "worktrees" / "step-1"
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.txt").write_text("of another place\n")
    (administration / "gitdir").write_text(f"{other}/.git\n")
    (there.workspace / "a.txt").write_text("after\n")
    assert there.compared(b"a.txt") == {}
    (administration / "gitdir").unlink()
    assert there.compared(b"a.txt") == {}
    commit = await there.repository.checkpoint(there.workspace, "turn", TRAILERS, tree=KnownTree())
    assert git(there.repository.path, "show", f"{commit}:a.txt") == b"after\n"


async def test_attributes_and_configuration_of_the_user_take_no_part(tmp_path: Path) -> None:
    """Neither in what git makes for the task nor in what is made inside this process."""
    (tmp_path / ".config" / "git").mkdir(parents=True)
    (tmp_path / ".config" / "git" / "attributes").write_text(GLOBAL)
    there = await place(tmp_path, {"a.txt": b"before\n", "b.upper": b"before\n"})
    tree = await there.known()
    assert (there.workspace / "a.txt").read_bytes() == b"before\n"
    (there.workspace / "a.txt").write_bytes(b"after\r\n")
    (there.workspace / "new.txt").write_bytes(b"new\r\n")
    assert there.compared(b"a.txt") == {b"a.txt": True}
    tree.wrote(["a.txt", "new.txt"])
    commit = await there.repository.checkpoint(there.workspace, "turn", TRAILERS, tree=tree)
    for name, content in (("a.txt", b"after\r\n"), ("new.txt", b"new\r\n")):
        assert git(there.workspace, "cat-file", "blob", f"{commit}:{name}") == content


async def test_new_and_removed_files_are_in_the_checkpoint_as_git_would_put_them(tmp_path: Path) -> None:
    files = {
        "a/deep/one.txt": b"1\n",
        "a/two.txt": b"2\n",
        "turns.txt": b"3\n",
        "b/four.txt": b"4\n",
        "c/five.txt": b"5\n",
    }
    there = await place(tmp_path, files)
    tree = await there.known()
    root = there.workspace
    (root / "a/deep/one.txt").unlink()
    (root / "turns.txt").unlink()
    (root / "turns.txt").mkdir()
    (root / "turns.txt" / "inside.txt").write_text("a folder now\n")
    (root / "b/four.txt").unlink()
    (root / "b").rmdir()
    (root / "b").write_text("a file now\n")
    (root / "c/tool.sh").write_text("#!/bin/sh\n")
    (root / "c/tool.sh").chmod(0o755)
    (root / "new" / "ü").mkdir(parents=True)
    (root / "new" / "ü" / "new.txt").write_text("new\n")
    (root / "a/two.txt").write_text("changed\n")
    touched = (*files, "turns.txt/inside.txt", "b", "c/tool.sh", "new/ü/new.txt")
    tree.wrote(touched)
    assert await there.repository.changed_paths(root, tree=tree)
    before = tree.index
    commit = await there.repository.checkpoint(root, "turn", TRAILERS, tree=tree)
    index = tmp_path / "index"
    git(root, "read-tree", f"{commit}^", index=index)
    git(root, "add", "-A", index=index)
    assert git(root, "rev-parse", f"{commit}^{{tree}}") == git(root, "write-tree", index=index)
    # No index was needed for it, and it comes when a command does.
    assert tree.index == before
    await there.repository.settle(root, tree)
    assert git(root, "status", "--porcelain") == b""
    assert git(root, "rev-parse", "HEAD").decode().strip() == commit
    assert await there.repository.changed_paths(root, tree=tree) == []
    for path in [*root.rglob("*")]:
        if path.is_file() and path.name != ".git":
            path.unlink()
    empty = await there.repository.checkpoint(root, "turn", TRAILERS)
    assert git(root, "ls-tree", "-r", empty) == b""
    assert git(root, "status", "--porcelain") == b""


async def test_a_file_that_changed_twice_and_is_as_it_was_at_first_is_no_change(tmp_path: Path) -> None:
    there = await place(tmp_path, {"a.txt": b"before\n"})
    tree = await there.known()
    start = tree.commit
    for text, changed in (("after\n", ["a.txt"]), ("before\n", []), ("more\n", ["a.txt"])):
        (there.workspace / "a.txt").write_text(text)
        tree.wrote(["a.txt"])
        found = await there.repository.changed_paths(there.workspace, start, tree)
        assert [change.path for change in found] == changed
        await there.repository.checkpoint(there.workspace, "turn", TRAILERS, tree=tree)


async def test_git_is_told_of_checkpoints_before_it_looks(tmp_path: Path) -> None:
    """New files that a checkpoint without the index holds, seen by git's own comparison with an earlier commit."""
    there = await place(tmp_path, {"a.txt": b"before\n"})
    tree = await there.known()
    start = tree.commit
    for text in ("x\n", "y\n"):
        (there.workspace / ".gitignore").write_text("*.log\n")
        (there.workspace / "new.txt").write_text(text)
        tree.wrote(["new.txt", ".gitignore"])
        assert [c.path for c in await there.repository.changed_paths(there.workspace, start, tree)] == [
            ".gitignore",
            "new.txt",
        ]
        await there.repository.checkpoint(there.workspace, "turn", TRAILERS, tree=tree)
    (there.workspace / "new.txt").unlink()
    tree.wrote(["new.txt"])
    found = await there.repository.changed_paths(there.workspace, start, tree)
    assert [change.path for change in found] == [".gitignore"]


async def test_an_index_that_can_not_be_settled_in_this_process_is_left_to_git(tmp_path: Path) -> None:
    there = await place(tmp_path, {"a.txt": b"before\n"})
    tree = await there.known()
    (there.workspace / "a.txt").write_text("after\n")
    tree.wrote(["a.txt"])
    commit = await there.repository.checkpoint(there.workspace, "turn", TRAILERS, tree=tree)
    administration = there.worktree.administration
    (administration / "index").write_bytes(b"no index")
    assert not InnerGit(there.repository.path).settle(there.worktree, tree.indexed, commit)
    (administration / "index").unlink()
    await there.repository.settle(there.workspace, tree)
    assert git(there.workspace, "status", "--porcelain") == b""
    assert git(there.workspace, "rev-parse", "HEAD").decode().strip() == commit

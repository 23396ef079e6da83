"""What is asked inside this process is what git itself would say, and what is not sure is left to git."""

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from activities.inner_git import InnerGit
from activities.known_tree import KnownTree
from activities.repository import PrivateRepository

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
TRAILERS = {"Baton-Turn": "1"}


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


def git(folder: Path, *arguments: str, index: Path | None = None) -> bytes:
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    if index is not None:
        environment["GIT_INDEX_FILE"] = str(index)
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, check=True).stdout


Make = Callable[..., "Place"]


@dataclass(frozen=True)
class Place:
    """A private repository with a workspace."""

    repository: PrivateRepository
    workspace: Path

    @property
    def inner(self) -> InnerGit:
        found = InnerGit.of(self.workspace, self.repository.path / "worktrees" / "step-1")
        assert found is not None
        return found

    async def known(self) -> KnownTree:
        """What is known after a look at all of it."""
        tree = KnownTree()
        assert await self.repository.changed_paths(self.workspace, tree=tree) == []
        return tree


async def place(folder: Path, files: dict[str, bytes], *init: str) -> Place:
    source = folder / "source"
    for name, content in files.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(content)
    git(source, "init", "-q", *init)
    git(source, "config", "user.name", "Ada")
    git(source, "config", "user.email", "ada@example.org")
    git(source, "add", "-A")
    git(source, "commit", "-qm", "as it was")
    repository = PrivateRepository(folder / "task", {"PATH": os.environ["PATH"], "HOME": str(folder)})
    facts = await repository.inspect(str(source))
    await repository.create(facts)
    return Place(repository, await repository.open_workspace("step-1", facts.base_commit, "step-1"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_a_checkpoint_of_known_files_holds_what_git_would_put_into_it(tmp_path: Path, case: Case) -> None:
    there = await place(tmp_path, {".gitattributes": ATTRIBUTES.encode(), case.name: case.before, "other.txt": b"x\n"})
    tree = await there.known()
    (there.workspace / case.name).write_bytes(case.after)
    raw = case.name.encode()
    assert there.inner.compared([raw]) == ({raw: case.changes} if case.sure else {})
    tree.wrote([case.name])
    changed = await there.repository.changed_paths(there.workspace, tree=tree)
    assert [change.raw for change in changed] == ([raw] if case.changes else [])
    commit = await there.repository.checkpoint(there.workspace, "turn", TRAILERS, tree=tree)
    index = tmp_path / "index"
    git(there.workspace, "read-tree", "HEAD", index=index)
    git(there.workspace, "add", "-A", index=index)
    assert git(there.workspace, "rev-parse", f"{commit}^{{tree}}") == git(there.workspace, "write-tree", index=index)
    assert git(there.workspace, "status", "--porcelain") == b""
    assert git(there.workspace, "rev-parse", "HEAD", "refs/heads/step-1").split() == [commit.encode()] * 2
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
    assert there.inner.compared(asked) == {}
    assert there.inner.stage(asked) == frozenset()


async def test_a_repository_whose_format_is_not_known_is_left_to_git(tmp_path: Path) -> None:
    there = await place(tmp_path, {"a.txt": b"before\n"}, "--object-format=sha256")
    assert InnerGit.of(there.workspace, there.repository.path / "worktrees" / "step-1") is None
    tree = await there.known()
    (there.workspace / "a.txt").write_text("after\n")
    tree.wrote(["a.txt"])
    commit = await there.repository.checkpoint(there.workspace, "turn", TRAILERS, tree=tree)
    assert git(there.workspace, "show", f"{commit}:a.txt") == b"after\n"
    assert git(there.workspace, "rev-parse", "HEAD", "refs/heads/step-1").split() == [commit.encode()] * 2


async def test_a_commit_on_another_parent_than_the_last_checkpoint_is_refused(tmp_path: Path) -> None:
    there = await place(tmp_path, {"a.txt": b"before\n"})
    base = git(there.workspace, "rev-parse", "HEAD").decode().strip()
    first = there.inner.commit("refs/heads/step-1", base, "one\n", changed=False)
    assert first is not None
    assert there.inner.commit("refs/heads/step-1", base, "two\n", changed=False) is None
    assert there.inner.commit("refs/heads/other", base, "two\n", changed=False) is None
    assert git(there.workspace, "rev-parse", "refs/heads/step-1").decode().strip() == first


@pytest.mark.parametrize("place_of_rules", ["", "folder/", "gone"])
async def test_rules_that_libgit2_reads_otherwise_are_left_to_git(tmp_path: Path, place_of_rules: str) -> None:
    rules = f"{place_of_rules.removesuffix('gone')}.gitattributes"
    there = await place(tmp_path, {rules: QUOTED.encode(), "folder/a b.txt": b"before\n", "plain.txt": b"before\n"})
    if place_of_rules == "gone":
        (there.workspace / rules).unlink()
    for name in ("folder/a b.txt", "plain.txt"):
        (there.workspace / name).write_bytes(b"after\r\n")
    assert there.inner.compared([b"folder/a b.txt"]) == {}
    assert there.inner.compared([b"plain.txt"]) == ({b"plain.txt": True} if place_of_rules == "folder/" else {})


async def test_a_folder_of_git_that_names_another_place_is_left_to_git(tmp_path: Path) -> None:
    there = await place(tmp_path, {"a.txt": b"before\n"})
    administration = there.repository.path / "worktrees" / "step-1"
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.txt").write_text("of another place\n")
    (administration / "gitdir").write_text(f"{other}/.git\n")
    assert InnerGit.of(there.workspace, administration) is None
    (administration / "gitdir").unlink()
    assert InnerGit.of(there.workspace, administration) is None
    tree = KnownTree()
    (there.workspace / "a.txt").write_text("after\n")
    commit = await there.repository.checkpoint(there.workspace, "turn", TRAILERS, tree=tree)
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
    assert there.inner.compared([b"a.txt"]) == {b"a.txt": True}
    tree.wrote(["a.txt", "new.txt"])
    commit = await there.repository.checkpoint(there.workspace, "turn", TRAILERS, tree=tree)
    for name, content in (("a.txt", b"after\r\n"), ("new.txt", b"new\r\n")):
        assert git(there.workspace, "cat-file", "blob", f"{commit}:{name}") == content

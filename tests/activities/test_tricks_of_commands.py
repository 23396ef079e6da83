"""Commands that turn git's own files, names and links against the comparison with the last checkpoint."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from agents_bench import ENVIRONMENT, Agent, Bench, MakeBench, call, does, git, says
from place_bench import TRAILERS, Place, place
from place_bench import git as plain_git

from activities.known_tree import ChangeKind, KnownTree
from activities.repository import PrivateRepository
from activities.store import Store

ITEM = call("complete_item", item="src/a.py")


async def after_command(make_bench: MakeBench, command: str) -> tuple[Bench, Agent]:
    """An agent whose first turn ran the command."""
    bench = await make_bench(does(call("bash", command=command), ITEM), says("Next."))
    agent = await bench.start()
    await agent.turn()
    return bench, agent


def changed(agent: Agent) -> list[str]:
    between = (agent.assignment.start_commit, agent.state.commit)
    flags = ("--no-replace-objects", "diff", "--name-status", "--no-renames")
    return git(agent.bench.folder.repository.path, *flags, *between).split()


@pytest.mark.parametrize("mark", ["--assume-unchanged", "--skip-worktree"])
async def test_files_marked_as_not_to_be_looked_at_are_looked_at(make_bench: MakeBench, mark: str) -> None:
    both = "src/a.py docs/guide.md"
    command = f"git update-index {mark} {both}; for file in {both}; do echo spoiled > $file; done"
    bench, agent = await after_command(make_bench, command)
    assert changed(agent) == ["M", "src/a.py"]
    assert (agent.workspace / "docs/guide.md").read_text() == "# Guide\n"
    (agent.workspace / "src/b.py").write_text("left by a killed attempt\n")
    git(agent.workspace, "update-index", mark, "src/b.py")
    await bench.folder.repository.reset(agent.workspace)
    assert (agent.workspace / "src/b.py").read_text() == "B = 1\n"


async def test_what_stands_in_the_place_of_a_commit_is_no_commit(make_bench: MakeBench) -> None:
    command = (
        "export GIT_AUTHOR_NAME=m GIT_AUTHOR_EMAIL=m@x GIT_COMMITTER_NAME=m GIT_COMMITTER_EMAIL=m@x;"
        "base=$(git rev-parse HEAD); echo x > docs/guide.md; git commit -qam x; git replace -f $base HEAD"
    )
    _, agent = await after_command(make_bench, command)
    assert changed(agent) == []
    assert (agent.workspace / "docs/guide.md").read_text() == "# Guide\n"


@pytest.mark.parametrize(
    "command",
    [
        "git checkout -q step-2; echo spoiled > docs/guide.md; git commit -qam x",
        "echo spoiled > docs/guide.md; git commit -qam x; git update-ref refs/heads/step-2 HEAD",
        "echo spoiled > docs/guide.md; git checkout -qb x; git commit -qam x; git symbolic-ref refs/heads/step-2 HEAD",
        "echo spoiled > docs/guide.md; git branch -D step-2; git pack-refs --all",
    ],
)
async def test_a_branch_that_a_command_moved_is_no_checkpoint(make_bench: MakeBench, command: str) -> None:
    who = "; ".join(f"export GIT_{role}_NAME=m GIT_{role}_EMAIL=m@x" for role in ("AUTHOR", "COMMITTER"))
    bench, agent = await after_command(make_bench, f"{who}; {command}; echo 1 >> src/a.py")
    assert changed(agent) == ["M", "src/a.py"]
    assert (agent.workspace / "docs/guide.md").read_text() == "# Guide\n"
    assert agent.commits() == ["executor-2-converter · turn 1"]
    assert await bench.folder.repository.last_checkpoint(agent.workspace) == agent.state.commit


async def test_a_folder_of_others_that_became_a_link_is_put_back_and_nothing_behind_it_touched(
    make_bench: MakeBench, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "guide.md").write_text("of somebody else\n")
    bench, agent = await after_command(make_bench, f"rm -r docs; ln -s {outside} docs; echo 1 >> src/a.py")
    assert (outside / "guide.md").read_text() == "of somebody else\n"
    assert not (agent.workspace / "docs").is_symlink()
    assert (agent.workspace / "docs/guide.md").read_text() == "# Guide\n"
    assert changed(agent) == ["M", "src/a.py"]
    kept = [blob.read_bytes() for blob in (bench.folder.path / "store" / "blobs").glob("*/*")]
    assert b"of somebody else\n" not in kept


async def test_a_folder_of_others_that_became_a_file_is_put_back(make_bench: MakeBench) -> None:
    _, agent = await after_command(make_bench, "rm -r docs; echo x > docs; echo 1 >> src/a.py")
    assert (agent.workspace / "docs/guide.md").read_text() == "# Guide\n"
    assert changed(agent) == ["M", "src/a.py"]


@pytest.mark.parametrize("content", [b"no index", b""])
async def test_an_index_that_git_can_not_read_is_made_anew(tmp_path: Path, content: bytes) -> None:
    there = await place(tmp_path, {"a.txt": b"before\n"})
    index = there.worktree.administration / "index"
    (there.workspace / "a.txt").write_text("after\n")
    index.write_bytes(content)
    commit = await there.repository.checkpoint(there.workspace, "turn", TRAILERS)
    assert plain_git(there.workspace, "show", f"{commit}:a.txt") == b"after\n"
    assert plain_git(there.workspace, "status", "--porcelain") == b""
    (there.workspace / "a.txt").write_text("more\n")
    index.write_bytes(content)
    await there.repository.reset(there.workspace)
    assert (there.workspace / "a.txt").read_text() == "after\n"


async def test_names_that_git_refuses_are_left_out(tmp_path: Path) -> None:
    there = await place(tmp_path, {"a.txt": b"before\n"})
    names = ("GIT~1", "d/git~1 ./x", ".git /x", "d/.Git. /x", "d\\.git", ".git::$INDEX/x", "e/.git:x")
    good = ("git~2", ".gitx", "x.git", ".git x/y", "a:b")
    for name in (*names, *good):
        (there.workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (there.workspace / name).write_text("x\n")
    (there.workspace / ".gitmodules").symlink_to("a.txt")
    tree = KnownTree()
    commit = await there.repository.checkpoint(there.workspace, "turn", TRAILERS, tree=tree)
    assert set(plain_git(there.workspace, "ls-tree", "-r", "-z", "--name-only", commit).decode().split("\0")) == {
        "",
        "a.txt",
        *good,
    }
    assert {left.path for left in await there.repository.left_out(there.workspace)} == {*names, ".gitmodules"}


async def test_a_restored_rule_counts_again(tmp_path: Path) -> None:
    there = await place(tmp_path, {".gitignore": b"*.log\n"})
    (there.workspace / ".gitignore").unlink()
    (there.workspace / "x.log").write_text("ignored\n")
    tree = KnownTree()
    changes = await there.repository.changed_paths(there.workspace, tree=tree)
    assert [change.path for change in changes] == [".gitignore", "x.log"]
    await there.repository.restore(there.workspace, changes[:1], tree)
    assert await there.repository.changed_paths(there.workspace, tree=tree) == []


async def test_nothing_that_only_new_rules_ignored_outlives_a_reset(tmp_path: Path) -> None:
    there = await place(tmp_path, {"a.txt": b"before\n", ".gitignore": b"kept/\n"})
    for name, text in {
        ".gitignore": "*.log\n",
        "x.log": "x\n",
        "d/.gitignore": "*\n!.gitignore\n",
        "d/e/y.txt": "y\n",
        "kept/z": "z\n",
        ".gitattributes": "* text eol=crlf\n",
        "a.txt": "after\n",
    }.items():
        (there.workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (there.workspace / name).write_text(text)
    await there.repository.reset(there.workspace)
    found = {str(path.relative_to(there.workspace)) for path in there.workspace.rglob("*") if path.is_file()}
    assert found == {".git", "a.txt", ".gitignore", "kept/z"}
    assert (there.workspace / "a.txt").read_bytes() == b"before\n"


@pytest.mark.parametrize("also", ["", "d/new.txt"])
async def test_a_folder_that_moved_behind_a_link_is_back_after_a_reset(tmp_path: Path, also: str) -> None:
    there = await place(tmp_path, {"d/a.txt": b"1\n", "d/e/b.txt": b"2\n"})
    (there.workspace / "d").rename(there.workspace / "moved")
    (there.workspace / "d").symlink_to("moved")
    if also:
        (there.workspace / also).write_text("new\n")
    await there.repository.reset(there.workspace)
    found = {str(path.relative_to(there.workspace)) for path in there.workspace.rglob("*") if path.is_file()}
    assert found == {".git", "d/a.txt", "d/e/b.txt"}
    assert not (there.workspace / "d").is_symlink()
    assert plain_git(there.workspace, "status", "--porcelain") == b""


async def since(there: Place, start: str, tree: KnownTree) -> dict[str, ChangeKind]:
    found = await there.repository.changed_paths(there.workspace, start, tree)
    return {change.path: change.kind for change in found}


async def test_a_file_that_went_and_came_again_is_what_it_is(tmp_path: Path) -> None:
    there = await place(tmp_path, {"a.txt": b"before\n", "x.log": b"before\n"})
    tree, root = await there.known(), there.workspace
    start = tree.commit

    async def turn(**files: str | None) -> dict[str, ChangeKind]:
        for name, text in files.items():
            path = root / f"{name}.{'log' if name == 'x' else 'txt'}"
            path.unlink(missing_ok=True)
            if text is not None:
                path.write_text(text)
            tree.wrote([path.name])
        found = await since(there, start, tree)
        await there.repository.checkpoint(root, "turn", TRAILERS, tree=tree)
        assert await since(there, start, tree) == found == await since(there, start, KnownTree())
        return found

    assert await turn(a=None, x=None, new="1\n") == {
        "a.txt": ChangeKind.DELETED,
        "x.log": ChangeKind.DELETED,
        "new.txt": ChangeKind.ADDED,
    }
    assert await turn(a="after\n", x="after\n", new=None) == {
        "a.txt": ChangeKind.MODIFIED,
        "x.log": ChangeKind.MODIFIED,
    }
    assert await turn(a="before\n", x=None, new="2\n") == {"x.log": ChangeKind.DELETED, "new.txt": ChangeKind.ADDED}
    (root / ".gitignore").write_text("*.log\n")
    tree.wrote([".gitignore"])
    await turn(a=None, new=None)
    # Back as it was, but ignored now: in no commit.
    assert await turn(a="before\n", x="before\n") == {".gitignore": ChangeKind.ADDED, "x.log": ChangeKind.DELETED}


async def test_what_is_left_out_now_differs_as_the_last_checkpoint_has_it(tmp_path: Path) -> None:
    there = await place(tmp_path, {"a.txt": b"before\n", "b.txt": b"before\n"})
    tree, root = await there.known(), there.workspace
    start = tree.commit
    (root / "a.txt").write_text("after\n")
    tree.wrote(["a.txt"])
    await there.repository.checkpoint(root, "turn", TRAILERS, tree=tree)
    for name in ("a.txt", "b.txt"):
        (root / name).unlink()
        (root / name).symlink_to("/etc/passwd")
    tree.anything_changed()
    assert await since(there, start, tree) == {"a.txt": ChangeKind.MODIFIED}
    commit = await there.repository.checkpoint(root, "turn", TRAILERS, tree=tree)
    assert plain_git(root, "show", f"{commit}:a.txt") == b"after\n"
    assert await since(there, start, KnownTree()) == {"a.txt": ChangeKind.MODIFIED}


async def test_rules_that_the_index_still_has_do_not_count(tmp_path: Path) -> None:
    files = {".gitattributes": b"*.ids ident\n", "sub/.gitattributes": b"*.ids -ident\n", "sub/x.ids": b"before\n"}
    there = await place(tmp_path, files)
    tree = await there.known()
    (there.workspace / "sub/.gitattributes").unlink()
    tree.wrote(["sub/.gitattributes"])
    await there.repository.checkpoint(there.workspace, "turn", TRAILERS, tree=tree)
    (there.workspace / "sub/x.ids").write_text("$Id: after $\n")
    tree.wrote(["sub/x.ids"])
    commit = await there.repository.checkpoint(there.workspace, "turn", TRAILERS, tree=tree)
    assert plain_git(there.workspace, "cat-file", "blob", f"{commit}:sub/x.ids") == b"$Id$\n"


class SlowRepository(PrivateRepository):
    """Its checkpoints take a while, and it tells whether one is being made."""

    working = False

    async def checkpoint(self, *given: Any, **more: Any) -> str:
        self.working = True
        try:
            await asyncio.sleep(0.2)
            return await super().checkpoint(*given, **more)
        finally:
            self.working = False


class FullStore(Store):
    """There is no room for nodes."""

    def put(self, data: bytes) -> str:
        raise OSError(28, os.strerror(28))


async def test_no_checkpoint_is_made_on_when_its_node_can_not_be_stored(make_bench: MakeBench) -> None:
    bench = await make_bench(does(call("append", file_path="src/a.py", content="A2 = 2\n", at_line=1)))
    agent = await bench.start()
    folder = bench.folder
    folder.repository = slow = SlowRepository(folder.path, ENVIRONMENT)
    folder.store = FullStore(folder.path / "store")
    with pytest.raises(OSError, match="No space"):
        await agent.turn()
    assert not slow.working

"""A workspace made from the files of a closed one is exactly as a fresh one, whatever was done in the closed one."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from activities.repository import PrivateRepository
from activities.spare_checkouts import KEPT
from tests.activities.test_outside_parts import git

FILES = {
    "a.txt": "a\n",
    "twin.txt": "a\n",
    "src/b.py": "b\n",
    "src/deep/c.py": "c\n",
    "run.sh": "#!/bin/sh\n",
    "lines.txt": "one\ntwo\n",
    ".gitattributes": "*.txt text=auto\n",
    ".gitignore": "build/\n*.log\n",
    "name with 'quotes'\n.txt": "x\n",
}


def repository(folder: Path) -> Path:
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("src/b.py")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "x")
    return folder


async def opened(tmp_path: Path) -> tuple[PrivateRepository, str]:
    private = PrivateRepository(tmp_path / "task")
    facts = await private.inspect(str(repository(tmp_path / "source")))
    await private.create(facts)
    return private, facts.base_commit


def seen(workspace: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything below a workspace but its `.git` file: mode, links to it, content."""
    found = {}
    for place in sorted(workspace.rglob("*")):
        facts = place.lstat()
        name = str(place.relative_to(workspace))
        if stat.S_ISLNK(facts.st_mode):
            found[name] = (facts.st_mode, 1, os.fsencode(place.readlink()))
        elif place.is_dir():
            found[name] = (facts.st_mode, 0, b"")
        elif name != ".git":
            content = place.read_bytes() if place.is_file() else b""
            found[name] = (facts.st_mode, facts.st_nlink, content)
    return found


DAMAGE = {
    "nothing": "true",
    "changed": "echo changed >> a.txt; rm src/b.py; echo new > src/new.py",
    "left over": "mkdir -p build && echo x > build/x && echo y > src/y.log && mkdir empty",
    "a pipe": "mkfifo pipe src/pipe",
    "same size and time": "touch -r a.txt /tmp/$$; echo b > a.txt; touch -r /tmp/$$ a.txt; rm /tmp/$$",
    "modes": "chmod 444 a.txt; chmod 600 src/b.py; chmod -x run.sh; chmod 777 src/deep/c.py",
    "hard links": "ln -f a.txt twin.txt",
    "link to a moved folder": "mv src moved && ln -s moved src",
    "link outside": "rm -r src && mkdir ../../src && echo b > ../../src/b.py && ln -s ../../src src",
    "closed folder": "chmod 500 src/deep && mkdir -p shut/x && chmod 0 shut",
    "places changed": "rm -r src && echo x > src && rm a.txt && mkdir a.txt && echo y > a.txt/y",
    "line ends": "printf 'one\\r\\ntwo\\r\\n' > lines.txt",
    "bits": "git update-index --skip-worktree a.txt; git update-index --assume-unchanged twin.txt;"
    " tee a.txt twin.txt <run.sh",
    "own commit": "echo z > a.txt; git add -A; git -c user.name=m -c user.email=m@x commit -qm m; git branch -f mine",
    "stopped rebase": "touch $(git rev-parse --git-dir)/index.lock; mkdir $(git rev-parse --git-dir)/rebase-merge",
    "nested repository": "git init -q nested && echo x > nested/x && git init -q build/inner",
    "no git file": "rm .git && git init -q .",
    "no index": "rm $(git rev-parse --git-dir)/index $(git rev-parse --git-dir)/baton-index",
    "a broken index": "echo x > $(git rev-parse --git-dir)/baton-index",
    "nothing left": "find . -delete 2>/dev/null; true",
}


@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
async def test_a_used_checkout_becomes_as_a_fresh_one(damage: str, checkpointed: bool, tmp_path: Path) -> None:
    private, base = await opened(tmp_path)
    fresh = seen(await private.open_workspace("fresh", base, "fresh"))
    workspace = await private.open_workspace("step-1", base, "step-1")
    subprocess.run(["bash", "-c", damage], cwd=workspace, check=True)
    if checkpointed:
        await private.checkpoint(workspace, "turn", {})
    await private.close_workspace("step-1")
    assert not workspace.exists()
    workspace = await private.open_workspace("step-2", base, "step-2")
    assert seen(workspace) == fresh
    assert await private.changed_paths(workspace) == []
    assert git(workspace, "ls-files", "-v").splitlines() == git(tmp_path / "source", "ls-files", "-v").splitlines()
    assert git(workspace, "status", "--porcelain", "--ignored") == ""
    assert git(workspace, "rev-parse", "HEAD") == base
    (workspace / "a.txt").write_text("by the second\n")
    commit = await private.checkpoint(workspace, "turn", {})
    assert git(private.path, "diff", "--name-only", base, commit) == "a.txt"
    await private.remove_spares()
    assert not (tmp_path / "task/spares").exists()


async def test_files_are_kept_over_several_uses_and_follow_the_commit(tmp_path: Path) -> None:
    private, base = await opened(tmp_path)
    inodes = []
    for number in range(3):
        name = f"step-{number}"
        workspace = await private.open_workspace(name, await private.result(), name)
        inodes.append((workspace / "src/deep/c.py").stat().st_ino)
        assert sorted(path.name for path in workspace.glob("made-*")) == [f"made-{n}.txt" for n in range(number)]
        (workspace / f"made-{number}.txt").write_text("made\r\n")
        (workspace / "src/b.py").write_text(f"b = {number}\n")
        await private.checkpoint(workspace, "turn", {})
        await private.merge_step([name], "Step", {"Baton-Task": "task", "Baton-Step": str(number)})
        await private.close_workspace(name)
    assert len(set(inodes)) == 1, "the file was written once"
    workspace = await private.open_workspace("last", await private.result(), "last")
    assert (workspace / "made-0.txt").read_bytes() == b"made\n", "as the commit has it, not as an agent left it"
    assert (workspace / "src/b.py").read_text() == "b = 2\n"
    assert await private.changed_paths(workspace) == []
    workspace = await private.open_workspace("old", base, "old")
    assert sorted(path.name for path in workspace.glob("made-*")) == []


async def test_no_more_are_kept_than_a_few_and_none_with_submodules(tmp_path: Path) -> None:
    private, base = await opened(tmp_path)
    for number in range(KEPT + 2):
        await private.open_workspace(f"step-{number}", base, f"step-{number}")
    for number in range(KEPT + 2):
        await private.close_workspace(f"step-{number}")
    assert len(list((tmp_path / "task/spares").iterdir())) == KEPT
    await private.remove_spares()
    workspace = await private.open_workspace("step-8", base, "step-8")
    (workspace / ".gitmodules").write_text("")
    commit = await private.checkpoint(workspace, "turn", {})
    await private.open_workspace("step-9", commit, "step-9")
    await private.close_workspace("step-9")
    assert not (tmp_path / "task/spares").exists()


@pytest.mark.parametrize("kept", ["files", "index"])
async def test_a_spare_that_was_only_half_made_is_removed(kept: str, tmp_path: Path) -> None:
    private, base = await opened(tmp_path)
    await private.open_workspace("step-1", base, "step-1")
    await private.close_workspace("step-1")
    (spare,) = (tmp_path / "task/spares").iterdir()
    other = spare / ("index" if kept == "files" else "files")
    other.rename(tmp_path / "gone")
    workspace = await private.open_workspace("step-2", base, "step-2")
    assert (workspace / "a.txt").read_text() == "a\n"
    assert not spare.exists()

"""Random turns: each checkpoint is what plain git would commit from its parent and the disk, whatever index, HEAD and
rules went through, and what is said to differ from the start is what plain git finds."""

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from place_bench import Place, git, place

from activities.known_tree import KnownTree
from activities.repository import PrivateRepository

NAMES = ("a.txt", "d/a.txt", "d/e/c.log", "d", "x.ids", "sub/x.ids", "sub/y.auto", "-dash", "ü \"'.txt", "new\nl", "t")
CONTENTS = (b"", b"one\n", b"one\r\n", b"$Id$\n", b"$Id: x $\r\n", b"\0\r\n")
RULES = (b"", b"*.ids ident\n", b"* text=auto\n", b"*.auto text eol=crlf\n", b"*.ids -ident\n", b'"-*" text\n')
IGNORED = (b"", b"*.log\n", b"d/\n", b"*\n!.git*\n")
COMMANDS = (
    "git add -A",
    "git add -A; git commit -qm x",
    "git checkout -q -b other; git reset -q --hard; git stash -qu",
    "git rm -rq --cached .",
    "git update-index --assume-unchanged a.txt t; echo x >> a.txt; rm -f t",
    "git update-index --skip-worktree a.txt t; echo y >> t",
    "git update-index --split-index; git replace -f HEAD HEAD~1; git reset -q --soft HEAD~1",
    "git symbolic-ref HEAD refs/heads/none; echo z > GIT~1",
    "rm -f .git; echo junk > $ADMINISTRATION/index; touch $ADMINISTRATION/index.lock",
    "rm -rf d; echo file > d",
    "rm -f d; mkdir -p d; echo x > d/a.txt",
    "rm -rf d moved; mv sub moved; ln -s moved sub",
    "ln -sfn /etc d; ln -s a.txt .gitmodules",
    "rm -f a.txt; ln -s t a.txt",
    "chmod +x t a.txt",
    "rm -f .gitattributes .gitignore sub/.gitattributes",
    "echo '*.ids ident' > sub/.gitattributes",
    "git init -q nested; echo x > nested/f",
    "printf 'a\\r\\n' > sub/y.auto",
    "git pack-refs --all",
)
WRITES = st.one_of(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(CONTENTS)),
    st.tuples(st.sampled_from((".gitattributes", "sub/.gitattributes")), st.sampled_from(RULES)),
    st.tuples(st.sampled_from((".gitignore", "d/.gitignore")), st.sampled_from(IGNORED)),
)
TURNS = st.lists(
    st.tuples(st.lists(st.one_of(WRITES, st.sampled_from(COMMANDS)), max_size=4), st.booleans()),
    min_size=2,
    max_size=5,
)
Entries = dict[bytes, tuple[bytes, bytes]]


@dataclass
class Turns:
    """One workspace, turn after turn."""

    there: Place
    start: str
    tree: KnownTree

    def write(self, name: str, content: bytes) -> None:
        """As a file tool does, which goes through no link."""
        file = self.there.workspace / name
        if not any(path.is_symlink() or (path.exists() and not path.is_dir()) for path in file.parents[:-1]):
            file.parent.mkdir(parents=True, exist_ok=True)
            if not file.is_symlink() and not file.is_dir():
                file.write_bytes(content)
                self.tree.wrote([name])

    async def run(self, command: str) -> None:
        repository, workspace = self.there.repository, self.there.workspace
        await repository.settle(workspace, self.tree)
        self.looks_settled()
        self.tree.anything_changed()
        who = {f"GIT_{role}_{what}": "m" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        known = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        environment = {**known, **who, "ADMINISTRATION": str(self.there.worktree.administration)}
        subprocess.run(["bash", "-c", command], cwd=workspace, env=environment, capture_output=True, check=False)
        await repository.changes_there(workspace, self.start, self.tree)

    def looks_settled(self) -> None:
        """What a command sees that calls git."""
        last = git(self.there.repository.path, "rev-parse", "refs/heads/step-1")
        assert self.git("rev-parse", "HEAD") == last
        assert self.indexed(None) == self.committed(last.decode().strip())

    async def end(self, *, anew: bool) -> None:
        """`anew`: the next process knows nothing, and finds what a killed turn left."""
        repository, workspace = self.there.repository, self.there.workspace
        wanted = self.wanted(await repository.last_checkpoint(workspace))
        changed = {change.raw for change in await repository.changed_paths(workspace, self.start, self.tree)}
        commit = await repository.checkpoint(workspace, "turn", {"Baton-Result": "r"}, tree=self.tree)
        made, first = self.meant(self.committed(commit)), self.meant(self.committed(self.start))
        assert made == self.meant(wanted)
        assert {path for path in made.keys() | first.keys() if made.get(path) != first.get(path)} == {
            path for path in changed if path not in made or path not in first or made[path] != first[path]
        }
        self.tree = repository.tree_after(workspace, "r")
        if anew:
            repository = PrivateRepository(repository.path.parent, {"PATH": os.environ["PATH"], "HOME": os.devnull})
            self.there, self.tree = Place(repository, workspace), KnownTree()
            await repository.open_workspace("step-1", commit, "step-1")
            (workspace / ".gitignore").write_text("*.txt\n")
            (workspace / "left.txt").write_text("by a killed turn\n")
            await repository.reset(workspace, commit)
            assert self.meant(self.wanted(commit)) == made

    def wanted(self, commit: str) -> Entries:
        """What plain git would commit, without what is left out."""
        index = self.there.workspace.parent / "index"
        self.git("read-tree", commit, index=index)
        self.git("add", "-A", "--ignore-errors", index=index, may_fail=True)
        found, before = self.indexed(index), self.committed(commit)
        index.unlink()
        for path in [*found]:
            place = os.path.join(os.fsencode(self.there.workspace), path)  # noqa: PTH118
            outside = os.path.islink(place) and os.readlink(place).startswith(b"/")  # noqa: PTH114, PTH115
            if outside or found[path][0] == b"160000":
                del found[path]
                found |= {path: before[path]} if path in before else {}
        return found

    def meant(self, entries: Entries) -> Entries:
        """Mode and content, but for what rules that came later would convert of a file that nobody wrote."""
        return {path: (mode, self.converted(name)) for path, (mode, name) in entries.items()}

    def converted(self, blob: bytes) -> bytes:
        content = git(self.there.repository.path, "cat-file", "blob", blob.decode())
        return re.sub(rb"\$Id:[^$]*\$", b"$Id$", content.replace(b"\r\n", b"\n"))

    def committed(self, commit: str) -> Entries:
        return parsed(git(self.there.repository.path, "--no-replace-objects", "ls-tree", "-rz", commit))

    def indexed(self, index: Path | None) -> Entries:
        return parsed(self.git("ls-files", "-sz", index=index))

    def git(self, *arguments: str, index: Path | None = None, may_fail: bool = False) -> bytes:
        options = (f"--git-dir={self.there.worktree.administration}", f"--work-tree={self.there.workspace}")
        try:
            return git(self.there.workspace, *options, "--no-replace-objects", *arguments, index=index)
        except subprocess.CalledProcessError:
            if may_fail:
                return b""
            raise


def parsed(listed: bytes) -> Entries:
    """Lines of `ls-files --stage -z` or `ls-tree -z`: mode and object, among others, by path."""
    entries = [entry.partition(b"\t") for entry in listed.split(b"\0")[:-1]]
    return {path: (fields.split()[0], max(fields.split(), key=len)) for fields, _, path in entries}


@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(turns=TURNS, rules=st.sampled_from(RULES), ignored=st.sampled_from(IGNORED))
async def test_checkpoints_are_what_git_would_commit(
    turns: list[tuple[list[str | tuple[str, bytes]], bool]], rules: bytes, ignored: bytes
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = {name: CONTENTS[number % len(CONTENTS)] for number, name in enumerate(NAMES) if name != "d"}
        there = await place(Path(folder), {**files, ".gitattributes": rules, ".gitignore": ignored})
        started = Turns(there, await there.repository.last_checkpoint(there.workspace), KnownTree())
        for doings, anew in turns:
            for doing in doings:
                if isinstance(doing, str):
                    await started.run(doing)
                else:
                    started.write(*doing)
            await started.end(anew=anew)

"""Merges and conflicts with real git: every kind is recognised, laid out, taken by a side, verified, and done again."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from activities.credentials import Credentials
from activities.git import path_text
from activities.merging import Merging
from activities.repository import PrivateRepository
from activities.task_folder import TaskRecord, Tasks
from baton.merge_tree import ConflictKind
from baton.merging import PrepareConflict, PreparedConflict, SettleConflict, SettledConflict
from baton.messages import MergedStep, MergeStep, OpenedTask, TaskInput
from baton.settings import Settings

Write = Callable[[Path], None]
LINES = "".join(f"line {n}\n" for n in range(1, 21))


def lines(**changed: str) -> str:
    return "".join(changed.get(f"n{n}", f"line {n}") + "\n" for n in range(1, 21))


def put(name: str, text: str | bytes, mode: int = 0o644) -> Write:
    def write(root: Path) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        (root / name).chmod(mode)

    return write


def drop(name: str) -> Write:
    return lambda root: shutil.rmtree(root / name) if (root / name).is_dir() else (root / name).unlink()


def move(old: str, new: str) -> Write:
    return lambda root: shutil.move(root / old, root / new) and None


def link(name: str, target: str) -> Write:
    def write(root: Path) -> None:
        (root / name).unlink()
        (root / name).symlink_to(target)

    return write


def all_of(*writes: Write) -> Write:
    def write(root: Path) -> None:
        for one in writes:
            one(root)

    return write


OTHER = "".join(f"other {n}\n" for n in range(1, 21))
CRLF = LINES.replace("\n", "\r\n")
BASE = {
    "f.txt": LINES,
    "g.txt": OTHER,
    "crlf.txt": CRLF,
    "old/x.txt": LINES,
    "old/y.txt": LINES + "y\n",
    "b.bin": "a\0b",
    "tool": "#!/bin/sh\n",
}


class Case:
    """Two steps that conflict at `path` in a way, and the files that are left when either wins (None: no such file)."""

    def __init__(
        self,
        kind: ConflictKind,
        path: str,
        one: Write,
        two: Write,
        ours: dict[str, str | None],
        theirs: dict[str, str | None],
        marked: bool = False,
    ) -> None:
        self.kind, self.path, self.one, self.two = kind, path, one, two
        self.ours, self.theirs, self.marked = ours, theirs, marked


CASES = {
    "same line": Case(
        ConflictKind.CONTENT,
        "f.txt",
        put("f.txt", lines(n5="five", n15="fifteen")),
        put("f.txt", lines(n5="fünf", n1="eins")),
        {"f.txt": lines(n1="eins", n5="five", n15="fifteen")},
        {"f.txt": lines(n1="eins", n5="fünf", n15="fifteen")},
        marked=True,
    ),
    "both added": Case(
        ConflictKind.BOTH_ADDED,
        "new.txt",
        put("new.txt", "one\n"),
        put("new.txt", "two\n"),
        {"new.txt": "one\n"},
        {"new.txt": "two\n"},
        marked=True,
    ),
    "delete against modify": Case(
        ConflictKind.MODIFY_DELETE,
        "f.txt",
        drop("f.txt"),
        put("f.txt", lines(n5="five")),
        {"f.txt": None},
        {"f.txt": lines(n5="five")},
    ),
    "binary": Case(
        ConflictKind.BINARY,
        "b.bin",
        put("b.bin", "a\0c"),
        put("b.bin", "a\0d"),
        {"b.bin": "a\0c"},
        {"b.bin": "a\0d"},
    ),
    "renamed twice": Case(
        ConflictKind.RENAME_RENAME,
        "f.txt",
        move("f.txt", "f1.txt"),
        move("f.txt", "f2.txt"),
        {"f.txt": None, "f1.txt": LINES, "f2.txt": None},
        {"f.txt": None, "f1.txt": None, "f2.txt": LINES},
    ),
    "renamed and deleted": Case(
        ConflictKind.RENAME_DELETE,
        "f1.txt",
        move("f.txt", "f1.txt"),
        drop("f.txt"),
        {"f.txt": None, "f1.txt": LINES},
        {"f.txt": None, "f1.txt": None},
    ),
    "file against folder": Case(
        ConflictKind.FILE_DIRECTORY,
        "d~refs_heads_step-2",
        put("d/in.txt", "in\n"),
        put("d", "file\n"),
        {"d/in.txt": "in\n", "d~refs_heads_step-2": None},
        {"d": "file\n", "d~refs_heads_step-2": None},
    ),
    "new file in a renamed folder": Case(
        ConflictKind.DIRECTORY_RENAME,
        "new/z.txt",
        move("old", "new"),
        put("old/z.txt", "z\n"),
        {"new/z.txt": "z\n", "old/z.txt": None},
        {"new/z.txt": None, "old/z.txt": "z\n"},
    ),
    "file against link": Case(
        ConflictKind.TYPE,
        "tool",
        link("tool", "f.txt"),
        put("tool", "#!/bin/sh\necho\n"),
        {"tool": LINES, "tool~refs_heads_step-2": None},
        {"tool": "#!/bin/sh\necho\n", "tool~refs_heads_step-2": None},
    ),
    "two files renamed to one name": Case(
        ConflictKind.BOTH_ADDED,
        "n.txt",
        move("f.txt", "n.txt"),
        move("g.txt", "n.txt"),
        {"n.txt": LINES, "f.txt": None, "g.txt": None},
        {"n.txt": OTHER, "f.txt": None, "g.txt": None},
        marked=True,
    ),
    "links to two places": Case(
        ConflictKind.LINK,
        "tool",
        link("tool", "f.txt"),
        link("tool", "g.txt"),
        {"tool": LINES},
        {"tool": OTHER},
    ),
    "line ends against a line": Case(
        ConflictKind.CONTENT,
        "crlf.txt",
        put("crlf.txt", LINES),
        put("crlf.txt", CRLF.replace("line 5\r", "five\r")),
        {"crlf.txt": LINES},
        {"crlf.txt": CRLF.replace("line 5\r", "five\r")},
        marked=True,
    ),
    "folder against changed file": Case(
        ConflictKind.FILE_DIRECTORY,
        "tool~refs_heads_step-2",
        all_of(drop("tool"), put("tool/in.txt", "in\n")),
        put("tool", "#!/bin/sh\necho\n"),
        {"tool/in.txt": "in\n", "tool~refs_heads_step-2": None},
        {"tool": "#!/bin/sh\necho\n", "tool~refs_heads_step-2": None},
    ),
    "mode": Case(
        ConflictKind.MODE,
        "run.sh",
        put("run.sh", "x\n", 0o755),
        put("run.sh", "x\n", 0o644),
        {"run.sh": "x\n"},
        {"run.sh": "x\n"},
    ),
}


class Bench:
    """A task's folder whose private repository holds the base, and the activities on it."""

    def __init__(self, state: Path) -> None:
        self.tasks = Tasks(state)
        self.folder = self.tasks.folder("task")
        self.merging = Merging(self.tasks, Credentials(state / "credentials.json", {}))
        self.base = ""

    @property
    def repository(self) -> PrivateRepository:
        return self.folder.repository

    async def create(self, source: Path, files: dict[str, str]) -> None:
        source.mkdir()
        for name, text in files.items():
            put(name, text)(source)
        for command in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "base")):
            git(source, *command)
        facts = await self.repository.inspect(str(source))
        await self.repository.create(facts)
        self.base = facts.base_commit
        opened = OpenedTask(
            host_queue="q",
            source=str(source),
            base_commit=self.base,
            base_name="main",
            settings=Settings(),
            artifacts=str(self.tasks.folder("task").path / "artifacts"),
        )
        given = TaskInput(task="t", repository=str(source))
        self.folder.write_record(TaskRecord(task_id="task", input=given, opened=opened, environment={}))

    async def step(self, number: int, write: Write) -> None:
        """A step's branch with what it did, from the base."""
        workspace = await self.repository.open_workspace(f"step-{number}", self.base, f"step-{number}")
        write(workspace)
        await self.repository.checkpoint(workspace, "turn", {})

    async def merge(self, step: int, *branches: str) -> MergedStep:
        request = MergeStep(task_id="task", branches=branches or (f"step-{step}",), step=step, subject=f"Step {step}")
        merged: MergedStep = await self.run(self.merging.merge_step, request)
        return merged

    async def prepare(self, *branches: str, workspace: str = "resolve-1") -> PreparedConflict:
        request = PrepareConflict(task_id="task", step=2, branches=branches or ("step-2",), workspace=workspace)
        prepared: PreparedConflict = await self.run(self.merging.prepare_conflict, request)
        return prepared

    async def settle(self, prepared: PreparedConflict, choice: Any, owners: tuple[int, ...] = ()) -> SettledConflict:
        assert prepared.conflict is not None
        request = SettleConflict(
            task_id="task",
            workspace=Path(prepared.path).name,
            commit=prepared.commit,
            branch=prepared.conflict.branch,
            choice=choice,
            owners=owners,
        )
        settled: SettledConflict = await self.run(self.merging.settle_conflict, request)
        return settled

    async def text(self, name: str) -> str | None:
        """A file of the result, links followed."""
        head = await self.repository.result()
        workspace = await self.repository.open_workspace("look", head)
        await self.repository.reset(workspace, head)
        path = workspace / name
        return path.read_bytes().decode() if path.is_file() else None

    async def run(self, activity: Any, request: Any) -> Any:
        return await ActivityEnvironment().run(activity, request)


def git(folder: Path, *arguments: str) -> str:
    identity = {"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "Ada"}
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_COMMITTER_EMAIL": "a@b", **identity}
    done = subprocess.run(["git", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
async def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path / "state")
    await bench.create(tmp_path / "project", BASE)
    return bench


async def conflicting(bench: Bench, case: Case) -> MergedStep:
    """Step 1 is on the result, step 2 does not merge."""
    await bench.step(1, case.one)
    await bench.step(2, case.two)
    assert (await bench.merge(1)).merged
    return await bench.merge(2)


@pytest.mark.parametrize("name", CASES)
async def test_every_kind_is_recognised_and_laid_out(bench: Bench, name: str) -> None:
    case = CASES[name]
    refused = await conflicting(bench, case)
    head = await bench.repository.result()
    assert (refused.merged, refused.commit) == (False, head)
    conflict = refused.conflict
    assert conflict is not None
    found = {path.path: path for path in conflict.paths}
    assert found[case.path].kind is case.kind, found
    assert case.path in refused.conflicts
    assert (conflict.step, conflict.others, conflict.branch) == (2, (1,), "step-2")
    prepared = await bench.prepare()
    assert prepared.conflict is not None
    assert prepared.conflict.without_versions() == conflict
    laid_out = await bench.repository.read_file(prepared.commit, case.path) if case.marked else b""
    assert (b"<<<<<<< " in laid_out and b">>>>>>> refs/heads/step-2" in laid_out) is case.marked
    assert await bench.repository.result() == head


@pytest.mark.parametrize("side", ["ours", "theirs"])
@pytest.mark.parametrize("name", CASES)
async def test_a_side_may_win_and_what_merged_cleanly_stays(bench: Bench, name: str, side: str) -> None:
    case = CASES[name]
    await conflicting(bench, case)
    prepared = await bench.prepare()
    settled = await bench.settle(prepared, side)
    assert settled.faults == ()
    assert (await bench.settle(prepared, side)).faults == ()
    merged = await bench.merge(2, "resolve-1", *prepared.rest)
    assert merged.conflict is None
    for path, text in (case.ours if side == "ours" else case.theirs).items():
        assert await bench.text(path) == text, path
    log = git(bench.repository.path, "log", "--format=%s %P", f"{bench.base}..result").splitlines()
    assert all(len(line.split()) == 3 for line in log)


@pytest.mark.parametrize("name", CASES)
async def test_the_other_way_round_nothing_is_lost_either(bench: Bench, name: str) -> None:
    """The same with the sides changed over: seen, left alone, and each side may win."""
    case = CASES[name]
    await conflicting(bench, Case(case.kind, case.path, case.two, case.one, case.theirs, case.ours))
    prepared = await bench.prepare()
    assert prepared.conflict is not None
    assert case.kind in {path.kind for path in prepared.conflict.paths}
    head = await bench.repository.result()
    left = await bench.settle(prepared, "agent", (1, 2))
    assert bool(left.faults) >= case.marked
    assert await bench.repository.result() == head
    assert (await bench.settle(prepared, "theirs")).faults == ()
    assert (await bench.merge(2, "resolve-1", *prepared.rest)).conflict is None
    for path, text in case.ours.items():
        if "~" not in path:
            assert await bench.text(path) == text, path
    assert not any("~" in path for path in await bench.repository.list_files(await bench.repository.result()))


@pytest.mark.parametrize("first", [1, 2])
async def test_a_mode_on_one_side_and_text_on_the_other_are_both_kept(bench: Bench, first: int) -> None:
    await bench.step(1, put("tool", "#!/bin/sh\n", 0o755))
    await bench.step(2, put("tool", "#!/bin/sh\necho\n"))
    assert (await bench.merge(first)).merged
    assert (await bench.merge(3 - first)).merged
    assert await bench.text("tool") == "#!/bin/sh\necho\n"
    assert git(bench.repository.path, "ls-tree", "result", "tool").startswith("100755 ")


@pytest.mark.parametrize("first", [1, 2])
async def test_attributes_on_one_side_change_no_bytes_of_the_other(bench: Bench, first: int) -> None:
    """A file that new attributes would convert is not changed by the step that brings them."""
    changed = CRLF.replace("line 5\r", "five\r")
    await bench.step(1, put(".gitattributes", "*.txt text eol=lf\n"))
    await bench.step(2, put("crlf.txt", changed))
    files = {step: (await bench.merge(step)).files_changed for step in (first, 3 - first)}
    assert files == {1: (".gitattributes",), 2: ("crlf.txt",)}
    head = await bench.repository.result()
    assert await bench.repository.read_file(head, "crlf.txt") == changed.encode()
    assert await bench.repository.read_file(head, "f.txt") == LINES.encode()


async def test_a_file_whose_line_ends_a_step_does_write_conflicts_as_any(bench: Bench) -> None:
    await bench.step(1, all_of(put(".gitattributes", "*.txt text eol=lf\n"), put("crlf.txt", LINES)))
    await bench.step(2, put("crlf.txt", CRLF.replace("line 5\r", "five\r")))
    assert (await bench.merge(1)).files_changed == (".gitattributes", "crlf.txt")
    assert (await bench.merge(2)).conflicts == ("crlf.txt",)
    prepared = await bench.prepare()
    assert (await bench.settle(prepared, "agent", (1, 2))).faults
    assert (await bench.settle(prepared, "theirs")).faults == ()


@pytest.mark.parametrize("attributes", ["* merge=union", "* conflict-marker-size=3", "* -merge", "* merge=ours"])
async def test_attributes_of_the_project_hide_no_conflict(tmp_path: Path, attributes: str) -> None:
    bench = Bench(tmp_path / "state")
    await bench.create(tmp_path / "project", {**BASE, ".gitattributes": f"{attributes}\n"})
    await conflicting(bench, CASES["same line"])
    prepared = await bench.prepare()
    assert "<<<<<<< " in (Path(prepared.path) / "f.txt").read_text()
    assert (await bench.settle(prepared, "agent", (1, 2))).faults
    assert (await bench.settle(prepared, "theirs")).faults == ()


async def test_a_submodule_conflict_is_recognised(bench: Bench) -> None:
    sub = bench.folder.path / "sub"
    sub.mkdir()
    git(sub, "init", "-q")
    commits = []
    for number in range(3):
        put("f", str(number))(sub)
        git(sub, "add", "-A")
        git(sub, "commit", "-q", "-m", str(number))
        commits.append(git(sub, "rev-parse", "HEAD"))
    # Two branches of the submodule that do not follow each other.
    for step, commit in ((1, commits[1]), (2, commits[2])):
        await bench.step(step, lambda root: None)
        head = git(bench.repository.path, "rev-parse", f"step-{step}")
        index = {"GIT_INDEX_FILE": str(bench.folder.path / f"index-{step}")}
        environment = {"PATH": os.environ["PATH"], "HOME": str(sub), **index}
        for command in (
            ("read-tree", head),
            ("update-index", "--add", "--cacheinfo", f"160000,{commit},lib"),
        ):
            subprocess.run(["git", *command], cwd=bench.repository.path, env=environment, check=True)
        tree = subprocess.run(
            ["git", "write-tree", "--missing-ok"],
            cwd=bench.repository.path,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        new = git(bench.repository.path, "commit-tree", tree, "-p", head, "-m", "sub")
        git(bench.repository.path, "update-ref", f"refs/heads/step-{step}", new)
    assert (await bench.merge(1)).merged
    refused = await bench.merge(2)
    assert refused.conflict is not None
    assert [(path.path, path.kind) for path in refused.conflict.paths] == [("lib", ConflictKind.SUBMODULE)]
    prepared = await bench.prepare()
    assert (await bench.settle(prepared, "theirs")).faults == ()
    assert (await bench.merge(2, "resolve-1")).merged
    assert commits[2] in git(bench.repository.path, "ls-tree", "result", "lib")


@pytest.mark.parametrize("side", ["ours", "theirs"])
@pytest.mark.parametrize("removed", [False, True])
async def test_a_submodule_that_both_moved_or_one_removed(bench: Bench, side: str, removed: bool) -> None:
    base, one, two = (f"{number}" * 40 for number in (1, 2, 3))
    start = await point(bench, bench.base, base)
    for step, pointer in ((1, one), (2, None if removed else two)):
        git(bench.repository.path, "update-ref", f"refs/heads/step-{step}", await point(bench, start, pointer))
    git(bench.repository.path, "update-ref", "refs/heads/result", start)
    assert (await bench.merge(1)).merged
    refused = await bench.merge(2)
    assert refused.conflict is not None
    assert [(path.path, path.kind) for path in refused.conflict.paths] == [("lib", ConflictKind.SUBMODULE)]
    prepared = await bench.prepare()
    assert (await bench.settle(prepared, side)).faults == ()
    assert (await bench.merge(2, "resolve-1")).conflict is None
    wanted = one if side == "ours" else None if removed else two
    assert git(bench.repository.path, "ls-tree", "result", "lib") == (f"160000 commit {wanted}\tlib" if wanted else "")


async def point(bench: Bench, parent: str, pointer: str | None) -> str:
    """A commit on top of another with `lib` as a submodule at this commit, or without it."""
    tree = git(bench.repository.path, "ls-tree", parent).splitlines()
    rows = [row for row in tree if not row.endswith("\tlib")] + ([f"160000 commit {pointer}\tlib"] if pointer else [])
    made = subprocess.run(
        ["git", "mktree", "--missing"],
        cwd=bench.repository.path,
        env={"PATH": os.environ["PATH"]},
        input="\n".join(rows) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    return git(bench.repository.path, "commit-tree", made.stdout.strip(), "-p", parent, "-m", "lib")


async def test_a_secret_that_a_person_wrote_into_a_resolution_is_not_committed(bench: Bench) -> None:
    await conflicting(bench, CASES["same line"])
    prepared = await bench.prepare()
    place, token = Path(prepared.path) / "f.txt", "ghp_" + "k3Rw9ZbQ7mLx" * 3
    for secret in (token, "[secret]"):
        place.write_text(lines(n5=secret))
        told = await bench.settle(prepared, "edit")
        assert any(fault.startswith("f.txt holds a secret") for fault in told.faults)
        assert token not in git(bench.repository.path, "show", f"{told.commit}:f.txt")
        assert secret in place.read_text(), "the person's work stays"
    place.write_text(lines(n5="both"))
    assert (await bench.settle(prepared, "edit")).faults == ()
    assert (await bench.merge(2, "resolve-1")).merged
    assert await bench.text("f.txt") == lines(n5="both")


async def test_markers_are_never_committed_whatever_the_files_on_disk_say(bench: Bench) -> None:
    await conflicting(bench, CASES["same line"])
    prepared = await bench.prepare()
    workspace = Path(prepared.path)
    untouched = await bench.settle(prepared, "agent", (1, 2))
    assert any("f.txt still holds conflict markers" in fault for fault in untouched.faults)
    # Clean on disk, but not in what is committed.
    (workspace / "f.txt").write_text(lines(n5="both"))
    assert (await bench.settle(prepared, "agent", (1, 2))).faults
    edited = await bench.settle(prepared, "edit")
    assert edited.faults == ()
    assert (await bench.merge(2, "resolve-1")).merged
    assert await bench.text("f.txt") == lines(n5="both")


@pytest.mark.parametrize(
    ("text", "gave_way"),
    [
        (lines(n5="five", n15="fifteen"), ("f.txt",)),
        (lines(n1="eins", n5="five", n15="fifteen"), ()),
        (lines(n5="fünf", n1="eins"), ()),
    ],
)
async def test_a_step_of_whose_version_nothing_is_left_is_told(bench: Bench, text: str, gave_way: tuple[str]) -> None:
    await conflicting(bench, CASES["same line"])
    prepared = await bench.prepare()
    (Path(prepared.path) / "f.txt").write_text(text)
    assert (await bench.settle(prepared, "edit")).gave_way == gave_way


async def test_a_binary_file_left_as_the_result_has_it_gave_way(bench: Bench) -> None:
    await conflicting(bench, CASES["binary"])
    prepared = await bench.prepare()
    assert (await bench.settle(prepared, "agent", (1, 2))).gave_way == ("b.bin",)
    assert (await bench.settle(prepared, "theirs")).gave_way == ()


async def test_lines_that_only_look_like_markers_are_no_fault(bench: Bench) -> None:
    heading = "Title\n=======\n"
    await bench.step(1, put("f.txt", heading + lines(n5="five")))
    await bench.step(2, put("f.txt", heading + lines(n5="fünf")))
    await bench.merge(1)
    await bench.merge(2)
    prepared = await bench.prepare()
    (Path(prepared.path) / "f.txt").write_text(heading + lines(n5="both"))
    assert (await bench.settle(prepared, "edit")).faults == ()


async def test_names_that_git_made_up_and_files_of_others_are_faults(bench: Bench) -> None:
    await conflicting(bench, CASES["file against folder"])
    prepared = await bench.prepare()
    put("old/x.txt", "somebody else's\n")(Path(prepared.path))
    await bench.repository.checkpoint(Path(prepared.path), "turn", {})
    faults = (await bench.settle(prepared, "agent")).faults
    assert any("d~refs_heads_step-2" in fault for fault in faults)
    assert any(fault.startswith("old/x.txt") for fault in faults)


async def test_a_conflict_is_laid_out_afresh_after_a_kill(bench: Bench) -> None:
    await conflicting(bench, CASES["same line"])
    first = await bench.prepare()
    (Path(first.path) / "f.txt").write_text("half done\n")
    await bench.repository.checkpoint(Path(first.path), "turn", {})
    (bench.repository.path / "refs/heads/resolve-1.lock").touch()
    again = await bench.prepare()
    assert again.conflict == first.conflict
    assert "<<<<<<< " in (Path(again.path) / "f.txt").read_text()
    shutil.rmtree(again.path)
    assert (await bench.settle(again, "theirs")).faults == ()
    assert (await bench.merge(2, "resolve-1")).merged
    done = await bench.merge(2, "resolve-1")
    assert done.merged
    assert git(bench.repository.path, "rev-list", "--count", f"{bench.base}..result") == "2"


async def test_a_resolution_merges_into_a_result_that_went_on(bench: Bench) -> None:
    await bench.step(3, put("other.txt", "three\n"))
    await conflicting(bench, CASES["same line"])
    prepared = await bench.prepare()
    assert (await bench.merge(3)).merged
    assert (await bench.settle(prepared, "theirs")).faults == ()
    assert (await bench.merge(2, "resolve-1")).files_changed == ("f.txt",)
    assert await bench.text("other.txt") == "three\n"


async def test_shards_that_conflict_with_each_other_are_resolved_one_by_one(bench: Bench) -> None:
    for number, word in ((5, "one"), (6, "two"), (7, "three")):
        await bench.step(number, put("f.txt", lines(n5=word)))
    branches = ("step-5", "step-6", "step-7")
    assert (await bench.merge(2, *branches)).conflicts == ("f.txt",)
    prepared = await bench.prepare(*branches)
    assert prepared.rest == ("step-7",)
    await bench.settle(prepared, "theirs")
    again = await bench.prepare("resolve-1", *prepared.rest, workspace="resolve-2")
    assert again.conflict is not None
    await bench.settle(again, "ours")
    assert (await bench.merge(2, "resolve-2", *again.rest)).merged
    assert await bench.text("f.txt") == lines(n5="two")


async def test_a_merge_that_is_clean_by_now_needs_no_resolution(bench: Bench) -> None:
    await bench.step(1, put("f.txt", lines(n5="five")))
    await bench.merge(1)
    await bench.step(2, put("g.txt", "g\n"))
    assert (await bench.prepare()).conflict is None


async def test_paths_that_are_no_text_conflict_and_resolve(bench: Bench) -> None:
    name = os.fsdecode(b"b\xe4r.txt")
    await bench.step(1, put(name, "one\n"))
    await bench.step(2, put(name, "two\n"))
    await bench.merge(1)
    refused = await bench.merge(2)
    assert refused.conflicts == (path_text(os.fsencode(name)),)
    prepared = await bench.prepare()
    assert (await bench.settle(prepared, "theirs")).faults == ()
    assert (await bench.merge(2, "resolve-1")).merged
    assert await bench.text(name) == "two\n"

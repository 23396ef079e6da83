"""What git work costs in a large repository, beside plain git there: machines differ, ratios less."""

import asyncio
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from activities.repository import PrivateRepository
from activities.survey import survey
from benchmarks.table import Row
from tests.end_to_end.bench import git

FOLDERS, FILES_EACH = 200, 100
SURVEYED_FILES = 100_000
REPEATS = 3


async def measure(folder: Path) -> list[Row]:
    """Figures for a repository of 20 000 files, each beside what plain git needs in the user's checkout."""
    source = await asyncio.to_thread(_repository, folder / "large")
    private = PrivateRepository(folder / "task")
    facts = await private.inspect(str(source))
    workspace = private.workspace_path("step-1")
    trailers = {"Baton-Task": "task", "Baton-Step": "1"}
    rows = [Row("files", f"{FOLDERS * FILES_EACH:,}")]

    async def turn() -> None:
        (workspace / "d7" / "f7.py").write_text(f"changed = {time.perf_counter_ns()}\n", encoding="utf-8")
        await private.checkpoint(workspace, "turn", {"Baton-Turn": "1"})

    async def add(what: str, ours: float, plain: str, goal: float, *arguments: str) -> None:
        compared(what, ours, plain, goal, await _seconds(lambda: asyncio.to_thread(git, source, *arguments)))

    def compared(what: str, ours: float, plain: str, goal: float, theirs: float) -> None:
        value = f"{ours * 1000:.0f} ms ({ours / theirs:.1f} times {plain}, {theirs * 1000:.0f} ms)"
        rows.append(Row(what, value, f"at most {goal:g} times", ours <= goal * theirs))

    status = ("status", "--porcelain")
    creating = await _once(lambda: private.create(facts))
    await add("clone into the private repository", creating, "git status", 10, *status)
    await add("survey", await _seconds(lambda: survey(private, facts.base_commit)), "git status", 10, *status)
    openings, checkouts = [], []
    # In turn, each into a new folder: what a file system makes of so many new files changes from minute to minute.
    for name in ("step-1", "other"):
        openings.append(await _once(lambda name=name: private.open_workspace(name, facts.base_commit, name)))
        plain = ("checkout-index", "-a", "-f", f"--prefix={folder}/plain-{name}/")
        checkouts.append(await _once(lambda plain=plain: asyncio.to_thread(git, source, *plain)))
    compared("open a workspace", min(openings), "git checkout-index", 3, min(checkouts))
    await add("checkpoint of one changed file", await _seconds(turn), "git status", 6, *status)
    nothing = await _seconds(lambda: private.checkpoint(workspace, "turn", {}))
    await add("checkpoint of nothing", nothing, "git status", 6, *status)
    merging = await _once(lambda: private.merge_step(["step-1"], "Step", trailers))
    await add("merge of a step", merging, "git status", 3, *status)
    closing = await _once(lambda: private.close_workspace("step-1"))
    head = await private.result()
    again = closing + await _once(lambda: private.open_workspace("step-2", head, "step-2"))
    await add("close a workspace and open another", again, "git status", 20, *status)
    return [*rows, await _survey_of_many(folder)]


async def _survey_of_many(folder: Path) -> Row:
    """The survey of a repository that is five times as large, beside git's own listing of it."""
    source = await asyncio.to_thread(_imported, folder / "huge")
    private = PrivateRepository(folder / "huge-task")
    facts = await private.inspect(str(source))
    await private.create(facts)
    ours = await _seconds(lambda: survey(private, facts.base_commit))
    theirs = await _seconds(lambda: asyncio.to_thread(git, source, "ls-tree", "-r", "-l", "HEAD"))
    value = f"{ours:.2f} s ({ours / theirs:.1f} times git ls-tree -r -l, {theirs:.2f} s)"
    return Row(f"survey of {SURVEYED_FILES:,} files", value)


def _imported(folder: Path) -> Path:
    """A commit of many files, made without a checkout."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    lines = ["blob", "mark :1", "data 6", "x = 1", "", "commit refs/heads/main"]
    lines += ["committer Ada <ada@example.org> 1790000000 +0000", "data 6", "large", ""]
    lines += [f"M 100644 :1 d{n // 100}/f{n % 100}.py" for n in range(SURVEYED_FILES)]
    stream = "\n".join([*lines, "done", ""]).encode()
    command = ["git", "-C", str(folder), "fast-import", "--quiet", "--done"]
    subprocess.run(command, input=stream, check=True, capture_output=True)
    return folder


def _repository(folder: Path) -> Path:
    for number in range(FOLDERS):
        place = folder / f"d{number}"
        place.mkdir(parents=True)
        for file in range(FILES_EACH):
            (place / f"f{file}.py").write_text(f"value = {number * FILES_EACH + file}\n", encoding="utf-8")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "gc.auto", "0")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "as it was")
    # As git itself does after so many objects; beside the measurements it would take part in them.
    git(folder, "gc", "--quiet")
    return folder


async def _once(work: Callable[[], Awaitable[object]]) -> float:
    started = time.perf_counter()
    await work()
    return time.perf_counter() - started


async def _seconds(work: Callable[[], Awaitable[object]]) -> float:
    """The best of some repetitions: what else the machine does counts least there."""
    return min([await _once(work) for _ in range(REPEATS)])

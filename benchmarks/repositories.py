"""What git work costs in a large repository, beside plain git there: machines differ, ratios less."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from activities.repository import PrivateRepository
from activities.survey import survey
from benchmarks.table import Row
from tests.end_to_end.bench import git

FOLDERS, FILES_EACH = 200, 100
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
        theirs = await _seconds(lambda: asyncio.to_thread(git, source, *arguments))
        value = f"{ours * 1000:.0f} ms ({ours / theirs:.1f} times {plain}, {theirs * 1000:.0f} ms)"
        rows.append(Row(what, value, f"at most {goal:g} times", ours <= goal * theirs))

    status = ("status", "--porcelain")
    creating = await _once(lambda: private.create(facts))
    await add("clone into the private repository", creating, "git status", 10, *status)
    await add("survey", await _seconds(lambda: survey(private, facts.base_commit)), "git status", 10, *status)
    opening = await _once(lambda: private.open_workspace("step-1", facts.base_commit, "step-1"))
    await add(
        "open a workspace", opening, "git checkout-index", 3, "checkout-index", "-a", "-f", f"--prefix={folder}/x/"
    )
    await add("checkpoint of one changed file", await _seconds(turn), "git status", 6, *status)
    nothing = await _seconds(lambda: private.checkpoint(workspace, "turn", {}))
    await add("checkpoint of nothing", nothing, "git status", 6, *status)
    merging = await _once(lambda: private.merge_step(["step-1"], "Step", trailers))
    await add("merge of a step", merging, "git status", 3, *status)
    return rows


def _repository(folder: Path) -> Path:
    for number in range(FOLDERS):
        place = folder / f"d{number}"
        place.mkdir(parents=True)
        for file in range(FILES_EACH):
            (place / f"f{file}.py").write_text(f"value = {number * FILES_EACH + file}\n", encoding="utf-8")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "as it was")
    return folder


async def _once(work: Callable[[], Awaitable[object]]) -> float:
    started = time.perf_counter()
    await work()
    return time.perf_counter() - started


async def _seconds(work: Callable[[], Awaitable[object]]) -> float:
    """The best of some repetitions: what else the machine does counts least there."""
    return min([await _once(work) for _ in range(REPEATS)])

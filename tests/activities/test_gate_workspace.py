"""The workspace that gates use between merges: set-up is paid once, and nothing else of an earlier run stays."""

from pathlib import Path

import pytest

from activities.gate_workspace import GateWorkspace
from activities.repository import PrivateRepository
from baton.gate_configuration import may_change_set_up
from tests.end_to_end.bench import git
from tests.end_to_end.bench import repository as repository_of

SETUP = ("./prepare.sh",)


class Bench:
    """A private repository, and the gates' workspace in it."""

    def __init__(self, repository: PrivateRepository, source: Path, base: str) -> None:
        self.repository, self.source, self.base = repository, source, base
        self.gates = GateWorkspace(repository, "gates", SETUP)

    async def commit(self, name: str, text: str) -> str:
        workspace = await self.repository.open_workspace("work", self.base, "work")
        (workspace / name).write_text(text)
        return await self.repository.checkpoint(workspace, "turn", {})

    async def set_up(self, commit: str) -> tuple[Path, bool]:
        """As the gates do; set-up leaves a folder that is ignored and one that is not
        and that `prepare_workspace` excludes."""
        workspace, is_set_up = await self.gates.used_again(commit)
        if not is_set_up:
            for name in ("modules/x.js", "left [over]/y"):
                (workspace / name).parent.mkdir(exist_ok=True)
                (workspace / name).write_text("set up")
            await self.repository.exclude(await self.repository.untracked(workspace))
            await self.gates.remember(workspace, commit, frozenset())
        return workspace, is_set_up


@pytest.fixture
async def bench(tmp_path: Path) -> Bench:
    files = {".gitignore": "modules/\ndist/\n*.pyc\n", "a.js": "a\n", "package.json": "{}\n", "prepare.sh": "x\n"}
    source = repository_of(tmp_path / "project", files)
    repository = PrivateRepository(tmp_path / "task")
    facts = await repository.inspect(str(source))
    await repository.create(facts)
    return Bench(repository, source, facts.base_commit)


async def test_set_up_stays_and_what_gates_built_goes(bench: Bench) -> None:
    workspace, first = await bench.set_up(bench.base)
    for name in ("dist/out.js", "modules/cache/z", "new/deep.txt", "b.pyc"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text("built")
    (workspace / "a.js").write_text("changed by a gate\n")
    (workspace / "new/.git").mkdir()
    again, second = await bench.set_up(await bench.commit("a.js", "other\n"))
    assert (first, second, again) == (False, True, workspace)
    assert (workspace / "a.js").read_text() == "other\n"
    assert (workspace / "modules/x.js").read_text() == (workspace / "left [over]/y").read_text() == "set up"
    assert not any((workspace / name).exists() for name in ("dist", "new", "b.pyc"))


@pytest.mark.parametrize("name", ["package.json", "prepare.sh", "native/x.c"])
async def test_set_up_runs_again_where_it_may_read_what_changed(bench: Bench, name: str) -> None:
    await bench.set_up(bench.base)
    workspace = await bench.repository.open_workspace("work", bench.base, "work")
    (workspace / name).parent.mkdir(exist_ok=True)
    commit = await bench.commit(name, "{ }\n")
    place, is_set_up = await bench.gates.used_again(commit)
    assert not is_set_up
    assert not (place / "modules").exists()
    assert git(place, "rev-parse", "HEAD").strip() == commit


async def test_a_lost_workspace_and_an_unfinished_set_up_begin_anew(bench: Bench) -> None:
    workspace, _ = await bench.set_up(bench.base)
    (workspace / ".git").unlink()
    assert await bench.set_up(bench.base) == (workspace, True)
    await bench.repository.close_workspace("gates")
    workspace, is_set_up = await bench.gates.used_again(bench.base)
    assert not is_set_up
    (workspace / "half").write_text("done")
    _, is_set_up = await bench.gates.used_again(bench.base)
    assert not is_set_up
    assert not (workspace / "half").exists()


async def test_gates_that_decide_find_nothing_of_a_killed_attempt(bench: Bench) -> None:
    deciding = GateWorkspace(bench.repository, "result", SETUP)
    workspace = await deciding.fresh(bench.base)
    (workspace / "dist").mkdir()
    (workspace / "dist/out.js").write_text("built")
    assert await deciding.fresh(bench.base) == workspace
    assert not (workspace / "dist").exists()
    assert (workspace / "a.js").exists()


@pytest.mark.parametrize(
    ("path", "yes"),
    [
        ("package-lock.json", True), ("web/package.json", True), ("requirements-dev.txt", True), ("src/fast.pyx", True),
        ("setup.py", True), ("Makefile", True), ("src/app.py", False), ("src/setup.js", False), ("README.md", False),
    ],
)  # fmt: skip
def test_which_files_a_set_up_may_read(path: str, yes: bool) -> None:
    assert may_change_set_up(path) is yes

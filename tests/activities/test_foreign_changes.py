"""What a command changes outside its step's files is taken back, kept, and told to the model (invariant 3)."""

import os
from pathlib import Path

from agents_bench import FILES, Bench, MakeBench, Serve, call, does, git, make_source, says, texts

from activities.workspace_tools import ownership_of
from baton.ownership import Refused
from baton.plan import Plan, PlanStep

SECRET = "tr4cked-pass-7f3a9c"
READS = call("read", file_path="docs/run.md")
FOREIGN = "echo spoiled > docs/guide.md; echo mine >> src/a.py; echo new > src/notes.txt"


async def test_who_owns_what_follows_the_plan_and_is_worked_out_once_for_each(make_bench: MakeBench) -> None:
    bench = await make_bench()
    agent = await bench.start()
    opening = bench.folder.conversations.load(agent.state.head).opening
    mine = PlanStep(step=2, agent_type="converter", description="Modernise", items=opening.items)
    other = PlanStep(step=3, agent_type="writer", description="Write", items=("docs/guide.md",))

    def owner() -> str | None:
        found = ownership_of(bench.folder, agent.request(), opening)
        assert ownership_of(bench.folder, agent.request(), opening) is found
        verdict = found.may_write("docs/guide.md", exists=True)
        return verdict.owner if isinstance(verdict, Refused) else "mine"

    bench.folder.write_plan(Plan(task_id="t", plan=(mine,)))
    assert owner() is None
    bench.folder.write_plan(Plan(task_id="t", plan=(mine, other)))
    assert owner() == "step 3"


async def test_a_secret_that_was_put_back_is_known_again(tmp_path: Path, serve: Serve) -> None:
    """It stands in the commit only: nothing outside the workspace tells it."""
    files = {**FILES, ".env": f"DB_PASSWORD={SECRET}\n", "docs/run.md": f"use {SECRET} here\n"}
    source = make_source(tmp_path / "source", files)
    (source / ".env").unlink()
    bench = Bench(tmp_path / "state", source, serve(does(call("bash", command="rm .env")), does(READS), says("noted")))
    await bench.create()
    agent = await bench.start()
    await agent.turn()
    assert SECRET in (agent.workspace / ".env").read_text()
    await agent.turn()
    await agent.turn()
    assert "use [secret] here" in str(bench.sent()[-1]["content"][0]["content"])


async def test_what_the_model_is_told_first_is_masked_by_the_files_of_the_commit(tmp_path: Path, serve: Serve) -> None:
    source = make_source(tmp_path / "source", {**FILES, ".env": f"DB_PASSWORD={SECRET}\n"})
    (source / ".env").unlink()
    bench = Bench(tmp_path / "state", source, serve(says("noted")))
    await bench.create()
    agent = await bench.start(bench.assignment(guidance=(f"the password is {SECRET}",)))
    assert SECRET not in texts(bench.folder.conversations.load(agent.state.head).opening.content)


async def test_foreign_changes_of_a_command_are_restored_and_told(make_bench: MakeBench) -> None:
    bench = await make_bench(does(call("bash", command=FOREIGN)), says("noted"))
    agent = await (await bench.start()).furnished()
    before = {name: (agent.workspace / name).read_text() for name in ("docs/guide.md",)}
    outcome = await agent.turn()
    assert {name: (agent.workspace / name).read_text() for name in before} == before
    assert (agent.workspace / "src/a.py").read_text().endswith("mine\n")
    assert (agent.workspace / "src/notes.txt").read_text() == "new\n"
    assert outcome.files_changed == 2
    await agent.turn()
    told = texts(bench.sent()[-1]["content"])
    assert "A command changed files that are not yours" in told
    assert "docs/guide.md" in told
    assert "notes.txt" not in told
    kept = [path.read_bytes() for path in (bench.folder.path / "store" / "blobs").rglob("*") if path.is_file()]
    assert b"spoiled\n" in kept


async def test_a_command_that_changes_only_its_own_files_is_told_nothing(make_bench: MakeBench) -> None:
    bench = await make_bench(does(call("bash", command="echo mine >> src/a.py")), says("noted"))
    agent = await bench.start()
    assert (await agent.turn()).files_changed == 1
    await agent.turn()
    assert "not yours" not in texts(bench.sent()[-1]["content"])


async def test_a_deleted_file_of_somebody_else_comes_back(make_bench: MakeBench) -> None:
    bench = await make_bench(does(call("bash", command="rm docs/guide.md; mkdir docs/guide.md; touch docs/guide.md/x")))
    agent = await bench.start()
    await agent.turn()
    assert (agent.workspace / "docs/guide.md").read_text() == "# Guide\n"


async def test_names_that_are_no_utf8_are_taken_back_as_they_are(tmp_path: Path, serve: Serve) -> None:
    """Beside a file whose name reads like what people are told of the other one."""
    tracked, new, alike = os.fsdecode(b"n\xff.txt"), os.fsdecode(b"m\xfe.txt"), "n\\xff.txt"
    source = make_source(tmp_path / "source", {**FILES, tracked: "theirs\n", alike: "alike\n"})
    spoil = r"for name in n m; do echo spoiled >> $name$(printf '\377').txt; done; mv m* $(printf 'm\376.txt')"
    bench = Bench(tmp_path / "state", source, serve(does(call("bash", command=spoil)), says("noted")))
    await bench.create()
    step = bench.assignment().step
    assert step is not None
    other = step.model_copy(update={"step": 3, "items": (), "owns": ("m*.txt",)})
    bench.folder.write_plan(Plan(task_id="t", plan=(step, other)))
    agent = await bench.start()
    await agent.turn()
    assert (agent.workspace / tracked).read_text() == "theirs\n"
    assert (agent.workspace / alike).read_text() == "alike\n"
    assert not (agent.workspace / new).exists()
    assert git(agent.workspace, "diff", "--name-only", agent.assignment.start_commit, agent.state.commit) == ""
    await agent.turn()
    told = texts(bench.sent()[-1]["content"])
    assert r"n\xff.txt" in told
    assert r"m\xfe.txt" in told

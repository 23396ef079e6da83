"""Steps that conflict, through the real workflows and real git: resolved by an agent, by each choice of a person, or
left unmerged and never reported done. The stand-in runs errands that conflict, and resolves by rule."""

import asyncio
import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from temporalio.client import WorkflowFailureError
from temporalio.worker import ExecuteActivityInput

from baton.messages import MergeStep, RunGates, TaskInput
from baton.plan import DraftStep, PlanDraft
from baton.states import StepStatusWord, TaskState
from baton.status import AttentionItem, TaskResult
from emulator.server import EmulatorServer
from emulator.standin import StandIn
from tests.end_to_end import bench
from tests.end_to_end.bench import Handle, git, task, tree
from tests.workflows.rig import Around, Attempt, Rig, attention, status, until
from workflows import policies
from workflows.orchestration import OrchestrationWorkflow

pytestmark = pytest.mark.asyncio(loop_scope="module")

FILES = {"m.py": "x = 1\n", "m.txt": "text\n", "m.cfg": "a\nb\nn = 1\nc\nd\n", "m.ini": "i\n", "other.py": "y = 1\n"}
SAME_LINE = (
    "append `# one\\n` to `m.py`, replace `n = 1` by `n = 2` in `m.cfg`",
    "append `two\\n` to `m.txt`, replace `n = 1` by `n = 5` in `m.cfg`",
)
UNDECIDABLE = (
    "append `# one\\n` to `m.py`, replace `n = 1` by `n = undecidable` in `m.cfg`",
    "append `two\\n` to `m.txt`, replace `n = 1` by `n = 5` in `m.cfg`",
)
THIRD = "append `# three\\n` to `other.py`"


def conflicting(rig: Rig, descriptions: Sequence[str], files: dict[str, str] = FILES, **settings: Any) -> TaskInput:
    """A task whose first two steps own siblings with one stem, so both may change what else has it."""
    items = ("m.py", "m.txt", "other.py")
    steps = tuple(
        DraftStep(step=n, agent_type="editor", description=text, items=(items[n - 1],))
        for n, text in enumerate(descriptions, 1)
    )
    folder = rig.folder / f"project-{next(rig.numbers)}"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "user.name", "Ada")
    git(folder, "config", "user.email", "ada@example.org")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "as it was")
    given = task(folder, "m.py", **settings)
    return given.model_copy(update={"plan": PlanDraft(execution_strategy="parallel", plan=steps)})


def result_file(given: TaskInput, result: TaskResult, name: str) -> str:
    return git(Path(given.repository), "show", f"baton/{result.task_id}:{name}")


def commits(given: TaskInput, result: TaskResult) -> list[str]:
    return git(
        Path(given.repository), "log", "--reverse", "--format=%an %P|%s", f"main..baton/{result.task_id}"
    ).splitlines()


def steps_of(result: TaskResult) -> dict[int, str]:
    return {step.step: step.state for step in result.steps}


def agents(api: EmulatorServer) -> set[str]:
    return {(exchange.user_id or "").rpartition("/")[2] for exchange in api.requests}


async def choose(handle: Handle, item: AttentionItem, choice: str, comment: str = "") -> None:
    given = {"attention_id": item.id, "choice": choice, "comment": comment}
    await handle.signal(OrchestrationWorkflow.answer, given)


async def happenings(handle: Handle) -> str:
    return "\n".join(line.text for line in (await status(handle)).happenings)


async def test_a_resolver_resolves_what_git_cannot(rig: Rig) -> None:
    given = conflicting(rig, [*SAME_LINE, THIRD])
    before = tree(Path(given.repository), "main")
    with rig.api(StandIn()):
        handle = await rig.start(given)
        result = await handle.result()
        told = await happenings(handle)
    assert (result.state, result.agents) == (TaskState.DONE, 4), result.summary
    assert result_file(given, result, "m.cfg") == "a\nb\nn = 5\nc\nd\n"
    log = commits(given, result)
    assert len(log) == 3
    assert all(line.startswith("Ada ") and len(line.partition("|")[0].split()) == 2 for line in log), log
    assert tree(Path(given.repository), "main") == before
    assert "does not merge: m.cfg (both changed the same lines)" in told
    assert "is resolved by resolver-1 (agent)" in told
    second = yaml.safe_load((Path(result.artifacts) / "results/2.yaml").read_text())
    assert "resolved by resolver-1" in json.dumps(second["findings"]) + json.dumps(
        yaml.safe_load((Path(result.artifacts) / "results/1.yaml").read_text())["findings"]
    )


@pytest.mark.parametrize(
    ("first", "second", "left"),
    [
        (
            "append `# one\\n` to `m.py`, delete `m.cfg`",
            "append `two\\n` to `m.txt`, replace `n = 1` by `n = 5` in `m.cfg`",
            {"m.cfg": "a\nb\nn = 5\nc\nd\n"},
        ),
        (
            "append `# one\\n` to `m.py`, rename `m.ini` to `m.one`",
            "append `two\\n` to `m.txt`, rename `m.ini` to `m.two`",
            {},
        ),
        (
            "append `# one\\n` to `m.py`, create `m.new` with `one\\n`",
            "append `two\\n` to `m.txt`, create `m.new` with `two\\n`",
            {},
        ),
    ],
    ids=["delete against modify", "renamed twice", "both added"],
)
async def test_conflicts_with_and_without_markers_are_resolved(
    rig: Rig, first: str, second: str, left: dict[str, str]
) -> None:
    given = conflicting(rig, [first, second])
    with rig.api(StandIn()):
        result = await rig.run(given)
    assert (result.state, result.agents) == (TaskState.DONE, 3), result.summary
    for name, text in left.items():
        assert result_file(given, result, name) == text
    names = git(Path(given.repository), "ls-tree", "-r", "--name-only", f"baton/{result.task_id}").split()
    assert len({"m.one", "m.two"} & set(names)) == ("m.one" in first)
    if "m.new" in first:
        assert sorted(result_file(given, result, "m.new").split()) == ["one", "two"]


class Waiting:
    """A task whose second merge waits for a person."""

    def __init__(self, given: TaskInput, handle: Handle, item: AttentionItem) -> None:
        self.given, self.handle, self.item = given, handle, item
        self.later = item.step or 0
        """The step that does not merge: the later one to be ready."""


async def waiting(rig: Rig, given: TaskInput) -> Waiting:
    handle = await rig.start(given)
    return Waiting(given, handle, await attention(handle))


async def test_what_the_resolver_leaves_is_a_question_and_other_steps_go_on(rig: Rig) -> None:
    given = conflicting(rig, [*UNDECIDABLE, THIRD])
    with rig.api(StandIn()):
        one = await waiting(rig, given)
        assert (one.item.kind, one.item.choices) == ("conflict", ("ours", "theirs", "agent", "redo", "edit"))
        assert "a person must decide" in one.item.question
        await until(one.handle, lambda now: any(s.step == 3 and s.state == "ok" for s in now.steps))
        await choose(one.handle, one.item, "theirs")
        result = await one.handle.result()
    assert result.state is TaskState.DONE, result.summary
    wanted = "n = 5" if one.later == 2 else "n = undecidable"
    assert result_file(given, result, "m.cfg") == f"a\nb\n{wanted}\nc\nd\n"


async def test_ours_keeps_the_result_and_no_lost_item_counts_as_done(rig: Rig) -> None:
    """Both steps rewrite what stands beside their items; the item itself is not in conflict, so it stays done."""
    given = conflicting(rig, UNDECIDABLE)
    with rig.api(StandIn()):
        one = await waiting(rig, given)
        await choose(one.handle, one.item, "ours", "the first one is right")
        result = await one.handle.result()
    wanted = "n = undecidable" if one.later == 2 else "n = 5"
    assert result_file(given, result, "m.cfg") == f"a\nb\n{wanted}\nc\nd\n"
    assert result_file(given, result, "m.txt") == "text\ntwo\n"
    issues = json.loads((Path(result.artifacts) / "issues.json").read_text())
    assert any("ours was chosen (the first one is right)" in issue["issue"] for issue in issues)


async def test_an_agent_tries_again_with_the_remark(rig: Rig) -> None:
    given = conflicting(rig, UNDECIDABLE)
    with rig.api(StandIn()):
        one = await waiting(rig, given)
        await choose(one.handle, one.item, "agent", "keep ours")
        result = await one.handle.result()
    assert (result.state, result.agents) == (TaskState.DONE, 4), result.summary
    wanted = "n = undecidable" if one.later == 2 else "n = 5"
    assert wanted in result_file(given, result, "m.cfg")


async def test_a_step_is_done_again_on_top_of_the_result(rig: Rig) -> None:
    """What cannot be done any more is told; what can is done, by an agent with a number of its own."""
    given = conflicting(rig, UNDECIDABLE)
    with rig.api(StandIn()) as api:
        one = await waiting(rig, given)
        await choose(one.handle, one.item, "redo", "mind the number")
        result = await one.handle.result()
    assert result.state is TaskState.PARTIAL
    assert result_file(given, result, "m.txt") == "text\ntwo\n"
    assert git(Path(given.repository), "show", f"baton/{result.task_id}:m.py").count("# one") == 1
    again = [e.user_id or "" for e in api.requests if (e.user_id or "").endswith(f"executor-{one.later}-editor~2")]
    assert again
    assert len(commits(given, result)) == 2


@pytest.mark.parametrize("how", ["at once", "after a stop"])
async def test_what_both_added_belongs_to_the_step_that_is_done_again(rig: Rig, how: str) -> None:
    """Though it is there now, and no item of that step."""
    adding = (
        "append `# one\\n` to `m.py`, create `PLAN.txt` with `undecidable: one way\\n`",
        "append `two\\n` to `m.txt`, create `PLAN.txt` with `another way\\n`",
    )
    given = conflicting(rig, adding)
    with rig.api(StandIn()):
        one = await waiting(rig, given)
        assert "both added it" in one.item.question
        handle, item = one.handle, one.item
        if how == "after a stop":
            await handle.terminate()
            handle = await bench.start(rig.client, TaskInput(resume=True), handle.id)
            item = await attention(handle)
        await choose(handle, item, "redo")
        result = await handle.result()
    assert result.state is TaskState.DONE, result.summary
    wanted = "another way\n" if one.later == 2 else "undecidable: one way\n"
    assert result_file(given, result, "PLAN.txt") == wanted
    assert result_file(given, result, "m.txt") == "text\ntwo\n"
    assert result_file(given, result, "m.py") == "x = 1\n# one\n"


async def test_editing_by_hand_is_asked_for_again_while_markers_are_left(rig: Rig) -> None:
    given = conflicting(rig, UNDECIDABLE)
    with rig.api(StandIn()):
        one = await waiting(rig, given)
        found = re.search(r"yourself in (\S+), then", one.item.question)
        assert found is not None
        file = Path(found[1]) / "m.cfg"
        assert "<<<<<<< " in file.read_text()
        await choose(one.handle, one.item, "edit")
        await until(one.handle, lambda now: bool(now.attention) and now.attention[0].id != one.item.id)
        again = await attention(one.handle)
        assert "m.cfg still holds conflict markers" in again.question
        file.write_text("a\nb\nn = 9\nc\nd\n")
        await choose(one.handle, again, "edit")
        result = await one.handle.result()
    assert result.state is TaskState.DONE, result.summary
    assert result_file(given, result, "m.cfg") == "a\nb\nn = 9\nc\nd\n"


async def test_editing_beside_the_conflict_is_not_taken(rig: Rig) -> None:
    given = conflicting(rig, UNDECIDABLE, {**FILES, "gone with it.py": "z = 1\n"})
    with rig.api(StandIn()):
        one = await waiting(rig, given)
        found = re.search(r"yourself in (\S+), then", one.item.question)
        assert found is not None
        place = Path(found[1])
        (place / "m.cfg").write_text("a\nb\nn = 9\nc\nd\n")
        (place / "m.txt").write_text("text\ntwo\nby hand\n")
        (place / "other.py").write_text("y = 2\n")
        (place / "gone with it.py").unlink()
        await choose(one.handle, one.item, "edit")
        await until(one.handle, lambda now: bool(now.attention) and now.attention[0].id != one.item.id)
        again = await attention(one.handle)
        assert "other.py was changed too" in again.question
        assert "m.txt" not in again.question
        restoring = re.findall(r"git (restore --source=\w+ -- (?:'[^']+'|\S+)),", again.question)
        assert len(restoring) == 2
        for command in restoring:
            git(place, *shlex.split(command))
        await choose(one.handle, again, "edit")
        result = await one.handle.result()
    assert result.state is TaskState.DONE, result.summary
    assert result_file(given, result, "m.cfg") == "a\nb\nn = 9\nc\nd\n"
    assert result_file(given, result, "m.txt") == "text\ntwo\nby hand\n"
    assert result_file(given, result, "other.py") == "y = 1\n"
    assert result_file(given, result, "gone with it.py") == "z = 1\n"


async def test_a_cancelled_wait_leaves_the_step_unmerged_and_says_so(rig: Rig) -> None:
    given = conflicting(rig, UNDECIDABLE)
    with rig.api(StandIn()):
        one = await waiting(rig, given)
        await one.handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await one.handle.result()
        now = await status(one.handle)
    assert {step.step: step.state for step in now.steps}[one.later] == StepStatusWord.FAILED
    assert [step.items.failed for step in now.steps if step.step == one.later] == [1]
    assert len(git(Path(given.repository), "log", "--format=%s", f"main..baton/{now.task_id}").splitlines()) == 1


async def test_a_question_about_a_conflict_survives_a_new_run(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the worktree as the person left it, and without another agent."""
    given = conflicting(rig, UNDECIDABLE)
    with rig.api(StandIn()):
        one = await waiting(rig, given)
        found = re.search(r"yourself in (\S+), then", one.item.question)
        assert found is not None
        (Path(found[1]) / "m.cfg").write_text("a\nb\nn = 9\nc\nd\n")
        first_run = (await one.handle.describe()).run_id
        monkeypatch.setattr(policies, "MOST_EVENTS", 20)
        await one.handle.signal(OrchestrationWorkflow.guide, {"text": "Mind the numbers."})
        async with asyncio.timeout(20):
            while (await one.handle.describe()).run_id == first_run:
                await asyncio.sleep(0.05)
        monkeypatch.undo()
        assert (await attention(one.handle)) == one.item
        await choose(one.handle, one.item, "edit")
        result = await one.handle.result()
    assert (result.state, result.agents) == (TaskState.DONE, 3), result.summary
    assert result_file(given, result, "m.cfg") == "a\nb\nn = 9\nc\nd\n"


@pytest.mark.parametrize("how", ["cancelled", "terminated"])
async def test_what_a_stopped_task_left_in_conflict_reaches_a_person_again(rig: Rig, how: str) -> None:
    """Nothing of it is done a second time, and other steps need not wait for the answer."""
    given = conflicting(rig, [*UNDECIDABLE, THIRD])
    with rig.api(StandIn()) as api:
        one = await waiting(rig, given)
        if how == "cancelled":
            await one.handle.cancel()
            with pytest.raises(WorkflowFailureError):
                await one.handle.result()
        else:
            await one.handle.terminate()
        again = await bench.start(rig.client, TaskInput(resume=True), one.handle.id)
        item = await attention(again)
        assert (item.kind, item.step) == ("conflict", one.later)
        await until(again, lambda now: any(s.step == 3 and s.state == "ok" for s in now.steps))
        await choose(again, item, "theirs")
        result = await again.result()
    assert (result.state, result.items.done) == (TaskState.DONE, 3), result.summary
    wanted = "n = 5" if one.later == 2 else "n = undecidable"
    assert result_file(given, result, "m.cfg") == f"a\nb\n{wanted}\nc\nd\n"
    assert (result_file(given, result, "m.txt"), result_file(given, result, "m.py")) == (
        "text\ntwo\n",
        "x = 1\n# one\n",
    )
    assert not {name for name in agents(api) if name.startswith(f"executor-{one.later}-") and "~" in name}


async def test_what_a_stopped_task_left_in_conflict_may_be_done_again(rig: Rig) -> None:
    given = conflicting(rig, UNDECIDABLE)
    with rig.api(StandIn()) as api:
        one = await waiting(rig, given)
        await one.handle.terminate()
        again = await bench.start(rig.client, TaskInput(resume=True), one.handle.id)
        await choose(again, await attention(again), "redo")
        result = await again.result()
    assert result.state is TaskState.PARTIAL
    assert f"executor-{one.later}-editor~2" in agents(api)
    assert result_file(given, result, "m.txt") == "text\ntwo\n"


def moving_the_integrators_branch(rig: Rig, text: str) -> Around:
    """Before the integrator's first merge its branch holds another text of `m.cfg`, made from the base commit."""
    moved = []

    async def around(attempt: Attempt, called: ExecuteActivityInput) -> Any:
        request = called.args[0] if called.args else None
        if isinstance(request, MergeStep) and request.step is None and not moved:
            moved.append(request)
            folder = rig.folder_of(request.task_id)
            workspace = await folder.repository.open_workspace("elsewhere", folder.record.opened.base_commit)
            (workspace / "m.cfg").write_text(text)
            git(workspace, "add", "-A")
            git(workspace, "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "elsewhere")
            git(workspace, "update-ref", "refs/heads/integrate", "HEAD")
        return await attempt()

    return around


ONE = "append `# one\\n` to `m.py`, replace `n = 1` by `n = 2` in `m.cfg`"


async def test_the_integrators_work_goes_through_the_resolver(rig: Rig) -> None:
    given = conflicting(rig, [ONE]).model_copy(update={"integration": True})
    with rig.api(StandIn()) as api, rig.around(moving_the_integrators_branch(rig, "a\nb\nn = 7\nc\nd\n")):
        handle = await rig.start(given)
        result = await handle.result()
        told = await happenings(handle)
    assert result.state is TaskState.DONE, result.summary
    assert result_file(given, result, "m.cfg") == "a\nb\nn = 7\nc\nd\n"
    assert "the integrator's work does not merge: m.cfg" in told
    assert "resolver-1" in agents(api)
    issues = json.loads((Path(result.artifacts) / "issues.json").read_text())
    assert any("resolved by resolver-1" in issue["issue"] for issue in issues)
    assert len(commits(given, result)) == 2


@pytest.mark.parametrize("choice", ["ours", "theirs", "redo"])
async def test_a_person_decides_about_the_integrators_work(rig: Rig, choice: str) -> None:
    given = conflicting(rig, [ONE]).model_copy(update={"integration": True})
    with rig.api(StandIn()) as api, rig.around(moving_the_integrators_branch(rig, "a\nb\nn = undecidable\nc\nd\n")):
        one = await waiting(rig, given)
        assert one.item.question.startswith("The integrator's work conflicts with what step 1 changed")
        await choose(one.handle, one.item, choice)
        result = await one.handle.result()
    assert result.state is TaskState.DONE, result.summary
    wanted = "n = undecidable" if choice == "theirs" else "n = 2"
    assert result_file(given, result, "m.cfg") == f"a\nb\n{wanted}\nc\nd\n"
    assert ("general-integrator~2" in agents(api)) == (choice == "redo")


async def test_without_a_further_agent_a_person_is_asked_at_once(rig: Rig) -> None:
    given = conflicting(rig, SAME_LINE, maxAgents=2)
    with rig.api(StandIn()):
        one = await waiting(rig, given)
        assert "no further agent is allowed (maxAgents is 2)" in one.item.question
        await choose(one.handle, one.item, "theirs")
        result = await one.handle.result()
    assert (result.state, result.agents) == (TaskState.DONE, 2)


async def test_a_resolution_that_breaks_a_gate_comes_back_once_and_then_waits(rig: Rig) -> None:
    gate = {"name": "one number", "command": "test $(grep -c '^n' m.cfg) = 1", "kind": "lint"}
    words = [text.replace("n = 2", "n = two").replace("n = 5", "n = five") for text in SAME_LINE]
    given = conflicting(rig, words, gates=[gate])
    with rig.api(StandIn()) as api:
        one = await waiting(rig, given)
        assert "came back twice" in one.item.question
        assert "gate one number fails with this resolution" in one.item.question
        await choose(one.handle, one.item, "theirs")
        result = await one.handle.result()
    assert {"resolver-1", "resolver-1~2"} <= agents(api)
    wanted = "n = two" if one.later == 1 else "n = five"
    assert result_file(given, result, "m.cfg") == f"a\nb\n{wanted}\nc\nd\n"
    assert result.ready


async def test_a_merge_that_is_clean_and_breaks_a_gate_is_told_at_once(rig: Rig) -> None:
    """A rename against a new caller: git merges it, the gate does not pass any more."""
    files = FILES | {"m.py": "def old():\n    return 1\n", "m.use": "import m\nm.old()\n"}
    gate = {"name": "callers", "command": "! grep -q 'def new' m.py || ! grep -rq 'm.old' m.use", "kind": "lint"}
    given = conflicting(
        rig,
        [
            "replace `def old` by `def new` in `m.py`, replace `m.old()` by `m.new()` in `m.use`",
            "append `two\\n` to `m.txt`, append `m.old()\\n` to `m.use`",
        ],
        files | {"m.use": "import m\nm.old()\n" + "#\n" * 9},
        gates=[gate],
    )
    with rig.api(StandIn()):
        handle = await rig.start(given)
        result = await handle.result()
        told = await happenings(handle)
    assert "gate callers newly fails since step" in told
    assert not result.ready


async def test_a_failure_is_repaired_by_the_type_that_made_it_and_no_gate_runs_twice_on_a_commit(rig: Rig) -> None:
    """The gate names nothing, so only the runs between the merges tell who it was."""
    gate = {"name": "size", "command": "test $(wc -l < m.ini) = 1", "kind": "lint"}
    given = conflicting(
        rig,
        [
            "append `# one\\n` to `m.py`",
            "append `two\\n` to `m.txt`, append `more\\n` to `m.ini`",
            "append `# three\\n` to `other.py`",
        ],
        gates=[gate],
    ).model_copy(update={"integration": True})
    assert given.plan is not None
    steps = [step.model_copy(update={"agent_type": f"type-{step.step}"}) for step in given.plan.plan]
    given = given.model_copy(update={"plan": given.plan.model_copy(update={"plan": tuple(steps)})})
    ran: list[str] = []

    async def around(attempt: Attempt, called: ExecuteActivityInput) -> Any:
        if isinstance(called.args[0], RunGates):
            ran.append(called.args[0].commit)
        return await attempt()

    with rig.api(StandIn()), rig.around(around):
        handle = await rig.start(given)
        result = await handle.result()
        told = await happenings(handle)
    plan = json.loads((Path(result.artifacts) / "plan.json").read_text())["plan"]
    assert [step["agent_type"] for step in plan if step["repair_round"]] == ["type-2"]
    assert "m.ini" in plan[3]["owns"]
    assert len(ran) == len(set(ran)) == 4, told

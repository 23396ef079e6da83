"""The end of an agent and the beginning of the next: nothing is lost, whatever became of conversation and workspace."""

import json
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from agents_bench import AT, Bench, MakeBench, call, does, git, says, texts

from baton.agent import AgentState
from baton.chain import successor
from baton.facts import AgentFacts
from baton.knowledge import Decision, Issue, entries
from baton.ledger import ItemRecord, ItemStatus
from baton.manifest import FromAgent, Handing, HandoffReason, complete
from baton.messages import Assignment, ChainTotals
from baton.roles import agent_id

WORKS = does(
    call("edit", file_path="src/a.py", old_string="1", new_string="2"),
    call("complete_item", item="src/a.py"),
    call("record", decisions=[{"decision": "use f-strings", "rationale": "shorter"}]),
)


def blob(bench: Bench, name: str) -> Path:
    return bench.folder.path / "store" / "blobs" / name[:2] / name[2:]


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda path: path.unlink(), "is missing"),
        (lambda path: path.write_bytes(path.read_bytes()[:-9]), "is damaged"),
        (lambda path: path.write_bytes(b""), "is damaged"),
    ],
    ids=["deleted", "cut", "emptied"],
)
@pytest.mark.parametrize("node", ["last", "first"])
async def test_a_lost_conversation_is_replaced_by_what_the_workflow_knows(
    make_bench: MakeBench, damage: Callable[[Path], object], told: str, node: str
) -> None:
    bench = await make_bench(WORKS, says("Hm."))
    agent = await bench.start()
    await agent.go_on()
    damage(blob(bench, agent.state.head if node == "last" else agent.opening_head))
    bench.restart()
    following = await agent.succeed(HandoffReason.ERROR_RECOVERY)
    manifest = following.assignment.manifest
    assert manifest is not None
    assert (manifest.completed_items, manifest.pending_items) == (("src/a.py",), ("src/b.py",))
    assert [decision.decision for decision in manifest.decisions_made] == ["use f-strings"]
    assert "conversation is lost" in manifest.verification.corrections[0]
    assert told in manifest.verification.corrections[0]
    await following.go_on()
    tools = [tool["name"] for tool in (bench.server.bodies[-1] or {})["tools"]]
    assert "ask_predecessor" not in tools
    assert (following.workspace / "src/a.py").read_text() == "A = 2\n"
    assert bench.statuses() == [200, 200]


async def test_the_first_turn_makes_the_workspace_while_its_model_answers(make_bench: MakeBench) -> None:
    bench = await make_bench(WORKS)
    agent = await bench.start()
    assert not agent.workspace.exists()
    assert agent.state.commit == agent.assignment.start_commit
    await agent.go_on()
    assert (agent.workspace / "src/a.py").read_text() == "A = 2\n"


async def test_a_workspace_that_needs_more_than_its_files_is_made_before_the_model_is_asked(
    make_bench: MakeBench,
) -> None:
    bench = await make_bench(WORKS)
    record = bench.folder.record
    settings = record.opened.settings.model_copy(update={"setup": ("echo made > tool.cfg",)})
    opened = record.opened.model_copy(update={"settings": settings})
    bench.folder.write_record(record.model_copy(update={"opened": opened}))
    agent = await bench.start()
    assert (agent.workspace / "tool.cfg").read_text() == "made\n"
    assert bench.statuses() == []


async def test_a_branch_that_is_there_already_is_looked_at_before_the_model_is_asked(make_bench: MakeBench) -> None:
    """What a chain of an earlier run left on it is put aside."""
    bench = await make_bench(WORKS, WORKS)
    earlier = await bench.start()
    await earlier.go_on()
    await bench.folder.repository.close_workspace("step-2")
    bench.restart()
    agent = await bench.start(bench.assignment(generation=1), run_id="another")
    assert agent.state.commit == agent.assignment.start_commit
    assert (agent.workspace / "src/a.py").read_text() == "A = 1\n"


async def test_a_workspace_deleted_by_hand_comes_back(make_bench: MakeBench) -> None:
    bench = await make_bench(WORKS, says("Hm."), says("Hm."))
    agent = await bench.start()
    await agent.go_on()
    shutil.rmtree(agent.workspace)
    closed = await agent.close()
    assert closed.manifest.completed_items == ("src/a.py",)
    assert (agent.workspace / "src/a.py").read_text() == "A = 2\n"
    shutil.rmtree(agent.workspace)
    following = await agent.succeed()
    shutil.rmtree(agent.workspace)
    await following.go_on()
    assert (agent.workspace / "src/a.py").read_text() == "A = 2\n"
    assert following.state.commit == agent.state.commit


async def test_what_a_killed_turn_left_is_no_part_of_the_handoff(make_bench: MakeBench) -> None:
    bench = await make_bench(WORKS)
    agent = await bench.start()
    await agent.go_on()
    (agent.workspace / "src/b.py").write_text("half")
    (agent.workspace / "stray.py").write_text("half")
    manifest = (await agent.close()).manifest
    assert manifest.pending_items == ("src/b.py",)
    assert (agent.workspace / "src/b.py").read_text() == "B = 1\n"
    assert not (agent.workspace / "stray.py").exists()


async def test_closing_and_opening_again_changes_nothing(make_bench: MakeBench) -> None:
    """Both are activities that Temporal may run more than once."""
    bench = await make_bench(WORKS)
    agent = await bench.start()
    await agent.go_on()
    first = await agent.close()
    bench.restart()
    second = await agent.close()
    assert first == second
    assert [path.name for path in bench.folder.artifacts.glob("*handoff*")] == ["agent-1-handoff.json"]
    following = successor(agent.assignment, agent.state, first.manifest)
    opened = await bench.start(following)
    assert (await bench.start(following, opened.run_id)).opening_head == opened.opening_head


async def test_the_chain_of_custody_grows_by_one_link_per_handoff(make_bench: MakeBench) -> None:
    bench = await make_bench(WORKS, says("Hm."), says("Hm."))
    agent = await bench.start()
    heads = []
    for _ in range(3):
        await agent.go_on()
        heads.append(agent.state.commit)
        agent = await agent.succeed()
    manifest = agent.assignment.manifest
    assert manifest is not None
    names = ["executor-2-converter", "executor-2-converter~2", "executor-2-converter~3", "executor-2-converter~4"]
    assert [(link.from_, link.to) for link in manifest.chain] == list(pairwise(names))
    assert [link.commit for link in manifest.chain] == heads
    assert [decision.decision for decision in manifest.decisions_made] == ["use f-strings"]
    written = sorted(bench.folder.artifacts.glob("*handoff*"))
    assert [json.loads(path.read_text())["agent_id"] for path in written] == names[:-1]
    assert manifest.context.original_task == "Modernise the modules"
    assert manifest.context.completed_steps == (1,)
    assert manifest.context.success_criteria == ("works",)


async def test_a_successor_starts_with_the_manifest_and_no_transcript(make_bench: MakeBench) -> None:
    bench = await make_bench(WORKS, does(call("hand_off", notes="mind the tabs")), says("Hm."))
    agent = await bench.start()
    await agent.go_on()
    await agent.go_on()
    following = await agent.succeed()
    await following.go_on()
    (message,) = bench.sent()
    fields = json.loads(texts(message["content"]).partition("<assignment>")[2].partition("</assignment>")[0])
    assert fields["items"] == ["src/b.py"]
    assert fields["manifest"]["completed_items"] == ["src/a.py"]
    assert fields["manifest"]["notes"] == "mind the tabs"
    assert "use f-strings" in fields["knowledge"][0]
    assert fields["agent_id"] == "executor-2-converter~2"
    assert "old_string" not in texts(message["content"])


def long_chain(assignment: Assignment, agents: int, per_agent: int) -> Assignment:
    """The assignment after so many handoffs, each with items done and much to say."""
    for number in range(agents):
        name = agent_id(assignment.name, assignment.generation)
        done = tuple(
            ItemRecord(item=item, status=ItemStatus.CHANGED, agent_id=name) for item in assignment.items[:per_agent]
        )
        said = entries(
            name,
            AT,
            [Decision(decision=f"decision {number}.{k} " + "of some length " * 5) for k in range(10)],
            [f"pattern {number}.{k} " + "of some length " * 5 for k in range(10)],
            [Issue(issue=f"issue {number}.{k} " + "of some length " * 5, file=f"src/{k}.py") for k in range(10)],
        )
        state = AgentState(head="0" * 64, commit=assignment.start_commit, turn=40, records=done, knowledge=said)
        records = {record.item: record for record in done}
        facts = AgentFacts(items=assignment.items, records=records, knowledge=said)
        handing = Handing(
            agent_id=name,
            successor_id=agent_id(assignment.name, assignment.generation + 1),
            task_id=assignment.task_id,
            task=assignment.task,
            reason=HandoffReason.OUTPUT_LIMIT,
            from_agent=FromAgent(id=name, output_tokens=30_400, turns=40, model=assignment.model),
            step=assignment.step,
            completed_steps=assignment.completed_steps,
            done_before=assignment.done,
            inherited=assignment.manifest,
            chain=assignment.chain,
            at=AT,
        )
        assignment = successor(assignment, state, complete(handing, facts))
    return assignment.model_copy(update={"totals": ChainTotals(agents=agents)})


async def test_the_first_message_is_small_whatever_came_before(make_bench: MakeBench) -> None:
    """100 predecessors, 5 000 items and 3 000 entries of knowledge cost no more than 10, 500 and 300."""
    bench = await make_bench()
    sizes = {}
    for agents in (10, 100):
        items = tuple(f"src/package_{number % 40}/module_{number}.py" for number in range(agents * 50))
        plain = bench.assignment(items=items, workspace=f"step-{agents}")
        assert plain.step is not None
        first = plain.model_copy(update={"step": plain.step.model_copy(update={"items": items})})
        agent = await bench.start(long_chain(first, agents, per_agent=45))
        opening = bench.folder.conversations.load(agent.opening_head).opening
        text = texts(opening.content)
        sizes[agents] = len(text.encode())
        fields = json.loads(text.partition("<assignment>")[2].partition("</assignment>")[0])
        assert fields["manifest"]["agents_before"] == agents
        assert fields["manifest"]["pending_count"] == agents * 5
        assert len(fields["items"]) + fields["items_not_shown"] == agents * 5
        assert any("more entries are left out here" in line for line in fields["knowledge"])
    assert sizes[100] < 70_000
    assert sizes[100] < sizes[10] * 1.6


async def test_no_number_is_given_twice_and_a_chain_begins_where_it_is_told(make_bench: MakeBench) -> None:
    """A reset or a resume starts the same chain anew, on a branch that another one left behind."""
    bench = await make_bench(WORKS)
    agent = await bench.start()
    await agent.go_on()
    following = await agent.succeed()
    assert [agent.id, following.id] == ["executor-2-converter", "executor-2-converter~2"]
    left = agent.commits()
    again = await bench.start()
    assert again.id == "executor-2-converter~3"
    assert again.state.commit == again.assignment.start_commit
    assert (again.commits(), (again.workspace / "src/a.py").read_text()) == ([], "A = 1\n")
    aside = git(bench.folder.repository.path, "for-each-ref", "--format=%(contents:subject)", "refs/baton/aside")
    assert aside.splitlines() == left[-1:]

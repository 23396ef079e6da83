"""Bookkeeping through real turns: nothing is done, finished or handed over because the model says so."""

from typing import Any

import pytest
from agents_bench import Agent, Bench, MakeBench, call, does, says, texts

from baton.agent import MAX_REFUSED_SUBMISSIONS, Finish, HandOff, Stop
from baton.ledger import ItemStatus
from baton.manifest import HandoffReason, Manifest
from baton.roles import Role
from emulator.reply import Reply, ToolUse


async def results(bench: Bench, agent: Agent) -> list[str]:
    """The results of the last turn's calls, as the model will see them."""
    node = bench.folder.conversations.load(agent.state.head).last
    return [("! " if block.get("is_error") else "") + block["content"] for block in getattr(node, "results", ())]


async def test_changed_needs_a_change(make_bench: MakeBench) -> None:
    bench = await make_bench(
        does(call("complete_item", item="src/a.py"), call("complete_item", item="a.py")),
        does(
            call("edit", file_path="src/a.py", old_string="1", new_string="2"),
            call("complete_item", item="src/a.py", note="done"),
            call("complete_item", item="src/a.py"),
        ),
    )
    agent = await bench.start()
    assert (await agent.go_on()).items == ()
    claimed, mistaken = await results(bench, agent)
    assert claimed.startswith("! 'src/a.py' shows no change")
    assert mistaken.startswith("! 'a.py' is no item of this step. Did you mean 'src/a.py'?")
    (record,) = (await agent.go_on()).items
    assert (record.item, record.status, record.commit) == ("src/a.py", ItemStatus.CHANGED, agent.state.commit)
    assert (await results(bench, agent))[-1].startswith("! 'src/a.py' is already recorded as changed")


async def test_each_item_is_judged_by_what_was_written_until_then(make_bench: MakeBench) -> None:
    bench = await make_bench(
        does(
            call("complete_item", item="src/b.py"),
            call("edit", file_path="src/a.py", old_string="1", new_string="2"),
            call("complete_item", item="src/a.py"),
            call("read", file_path="src/b.py"),
            call("complete_item", item="src/b.py"),
            call("bash", command="echo >> src/b.py"),
            call("complete_item", item="src/b.py"),
        )
    )
    agent = await bench.start()
    items = (await agent.go_on()).items
    told = await results(bench, agent)
    assert [text.startswith("! 'src/b.py' shows no change") for text in told] == [
        True,
        *[False] * 3,
        True,
        *[False] * 2,
    ]
    assert {record.item: record.status for record in items} == dict.fromkeys(("src/a.py", "src/b.py"), "changed")


async def test_a_change_that_was_taken_back_is_none(make_bench: MakeBench) -> None:
    bench = await make_bench(
        does(
            call("write", file_path="src/a.py", content="A = 2\n"),
            call("write", file_path="src/a.py", content="A = 1\n"),
        ),
        does(call("complete_item", item="src/a.py")),
    )
    agent = await bench.start()
    await agent.go_on()
    assert (await agent.go_on()).items == ()


async def test_a_new_file_of_the_items_stem_is_its_change(make_bench: MakeBench) -> None:
    bench = await make_bench(
        does(
            call("write", file_path="src/a.pyi", content="A: int\n"),
            call("bash", command="rm src/b.py"),
            call("complete_item", item="src/a.py"),
            call("complete_item", item="src/b.py"),
        )
    )
    outcome = await (await bench.start()).go_on()
    assert [record.status for record in outcome.items] == [ItemStatus.CHANGED] * 2


async def test_unchanged_needs_a_look(make_bench: MakeBench) -> None:
    bench = await make_bench(
        does(call("complete_item", item="src/a.py", outcome="unchanged")),
        does(call("read", file_path="src/a.py"), call("complete_item", item="src/a.py", outcome="unchanged")),
        does(
            call("edit", file_path="src/b.py", old_string="1", new_string="2"),
            call("complete_item", item="src/b.py", outcome="unchanged"),
            call("complete_item", item="src/b.py", outcome="skipped", note="not ours"),
        ),
    )
    agent = await bench.start()
    assert (await agent.go_on()).items == ()
    assert "never read" in (await results(bench, agent))[0]
    assert [record.status for record in (await agent.go_on()).items] == [ItemStatus.UNCHANGED]
    assert [record.status for record in (await agent.go_on()).items] == [ItemStatus.SKIPPED]
    assert "was changed in this step" in (await results(bench, agent))[1]


async def test_a_step_is_not_finished_with_items_left(make_bench: MakeBench) -> None:
    finish = does(call("finish_step", status="ok", summary="All done, all tests pass."))
    bench = await make_bench(*[finish] * MAX_REFUSED_SUBMISSIONS)
    agent = await bench.start()
    for _ in range(MAX_REFUSED_SUBMISSIONS):
        assert (await agent.go_on()).submitted is None
    assert "2 items are not completed: src/a.py, src/b.py" in (await results(bench, agent))[0]
    move = agent.move()
    assert isinstance(move, Stop)
    assert move.blocked


async def test_partial_needs_a_reason(make_bench: MakeBench) -> None:
    bench = await make_bench(
        does(call("finish_step", status="partial", summary="Half.")),
        does(
            call("finish_step", status="partial", summary="Half.", blockers=["b.py cannot be parsed"]),
            call("write", file_path="src/a.py", content="late\n"),
        ),
    )
    agent = await bench.start()
    assert (await agent.go_on()).refused_submissions == 1
    assert (await agent.go_on()).submitted == "finish_step"
    assert agent.move() == Finish()
    assert (await results(bench, agent))[1].startswith("! Not run")
    assert (agent.workspace / "src/a.py").read_text() == "A = 1\n"
    closed = await agent.close(HandoffReason.SUBTASK_COMPLETE, has_successor=False)
    assert closed.file is None
    assert closed.submission is not None
    assert closed.submission.input["blockers"] == ["b.py cannot be parsed"]


async def test_a_plan_with_faults_goes_back_with_all_of_them(make_bench: MakeBench) -> None:
    steps = [
        {"step": 1, "agent_type": "x", "description": "d", "items": ["nowhere.py"], "depends_on": [2]},
        {"step": 2, "agent_type": "x", "description": "d", "items": ["src/a.py"], "depends_on": [1, 9]},
    ]
    sound = {"step": 1, "agent_type": "x", "description": "d", "select": {"include": ["src/*.py"]}}
    bench = await make_bench(does(call("submit_plan", plan=steps)), does(call("submit_plan", plan=[sound])))
    planner = bench.assignment(role=Role.PLANNER, name="planner", workspace="plan", step=None, items=(), survey="s")
    agent = await bench.start(planner)
    assert (await agent.go_on()).refused_submissions == 1
    (fault,) = await results(bench, agent)
    assert all(part in fault for part in ("nowhere.py", "step 9", "circle")), fault
    assert (await agent.go_on()).submitted == "submit_plan"
    closed = await agent.close(HandoffReason.SUBTASK_COMPLETE, has_successor=False)
    assert closed.plan is not None
    assert closed.plan.plan[0].items == ("src/a.py", "src/b.py")


async def handed_over(make_bench: MakeBench, hand_off: ToolUse, *, stop_reason: str | None = None) -> Manifest:
    """The manifest of an agent that changed a.py, completed nothing, and handed off with this call."""
    bench = await make_bench(
        does(
            call("edit", file_path="src/a.py", old_string="1", new_string="2"),
            call("complete_item", item="src/a.py"),
            call(
                "record", decisions=[{"decision": "use f-strings", "rationale": "shorter"}], issues=[{"issue": "slow"}]
            ),
            call("read", file_path="src/b.py"),
        ),
        Reply([hand_off], stop_reason),
    )
    agent = await bench.start()
    await agent.go_on()
    await agent.turn()
    assert isinstance(agent.move(), HandOff)
    closed = await agent.close()
    assert closed.file == "agent-1-handoff.json"
    return closed.manifest


FROM_FACTS = {"file": "src/b.py", "progress": 0, "last_action": "read, nothing changed yet"}


@pytest.mark.parametrize(
    ("hand_off", "in_progress", "correction"),
    [
        (call("hand_off"), FROM_FACTS, None),
        (
            call("hand_off", in_progress_item={"file": "src/b.py", "line_number": 1, "progress": 50}, notes="go on"),
            {"file": "src/b.py", "line_number": 1, "progress": 50},
            None,
        ),
        (call("hand_off", in_progress_item={"file": "src/a.py"}), None, "recorded as changed"),
        (call("hand_off", in_progress_item={"file": "src/z.py"}), None, "no open item of this step"),
        (call("hand_off", in_progress_item={"file": "src/b.py", "progress": 400}), FROM_FACTS, "could not be read"),
        (call("hand_off", in_progress_item="src/b.py"), FROM_FACTS, "could not be read"),
        (call("hand_off", decisions_made="many"), FROM_FACTS, "could not be read"),
        (call("hand_off", completed_items=["src/a.py", "src/b.py"]), FROM_FACTS, "could not be read"),
        (ToolUse("hand_off", '{"notes": "unfini'), FROM_FACTS, "could not be read"),
        (ToolUse("hand_off", "null"), FROM_FACTS, "could not be read"),
        (ToolUse("hand_off", "[]"), FROM_FACTS, "could not be read"),
    ],
    ids=["empty", "honest", "done", "no item", "bad value", "text", "bad list", "unknown field", "cut", "null", "list"],
)
async def test_a_hand_off_hands_off_whatever_it_says(
    make_bench: MakeBench, hand_off: ToolUse, in_progress: dict[str, Any] | None, correction: str | None
) -> None:
    manifest = await handed_over(make_bench, hand_off)
    assert manifest.completed_items == ("src/a.py",)
    found = manifest.in_progress_item
    assert (found.model_dump(exclude_defaults=True) if found else None) == in_progress
    assert set(manifest.pending_items) | ({found.file} if found else set()) == {"src/b.py"}
    assert [decision.decision for decision in manifest.decisions_made] == ["use f-strings"]
    assert [issue.issue for issue in manifest.issues_encountered] == ["slow"]
    assert correction is None or correction in " ".join(manifest.verification.corrections)
    assert manifest.to_agent is not None
    assert manifest.to_agent.id == "executor-2-converter~2"


async def test_an_agent_that_never_hands_off_is_replaced_from_facts(make_bench: MakeBench) -> None:
    bench = await make_bench(
        does(
            call("edit", file_path="src/a.py", old_string="1", new_string="2"), call("complete_item", item="src/a.py")
        ),
        says("word " * 4_000),
        says("I would rather go on."),
    )
    agent = await bench.start()
    await agent.go_on()
    await agent.turn(max_tokens=600)
    await agent.go_on()
    assert 'kind="budget_95"' in texts(bench.sent()[-1]["content"])
    assert agent.move() == HandOff(HandoffReason.OUTPUT_LIMIT)
    manifest = (await agent.close()).manifest
    assert (manifest.completed_items, manifest.pending_items) == (("src/a.py",), ("src/b.py",))
    assert manifest.verification.corrections == ("the agent left no hand_off; everything here comes from facts",)

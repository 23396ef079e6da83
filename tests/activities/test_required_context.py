"""What a manifest must say and does not is asked of the predecessor, else it becomes an issue; never silence."""

from agents_bench import Agent, Bench, MakeBench, call, does, says

from baton.manifest import HandoffReason
from emulator.reply import HttpError, Reply

CHANGES = does(call("read", file_path="src/a.py"), call("edit", file_path="src/a.py", old_string="1", new_string="2"))
HANDS_OFF = does(call("hand_off", notes="go on"))


async def successor(make_bench: MakeBench, *replies: Reply) -> tuple[Bench, Agent]:
    """The successor of an agent that left an item half done and said nothing of it."""
    bench = await make_bench(CHANGES, HANDS_OFF, *replies)
    first = await bench.start()
    await first.go_on()
    await first.go_on()
    return bench, await first.succeed()


def assignment_of(bench: Bench) -> str:
    """The first message of the newest request."""
    return str(bench.sent()[0]["content"][-1]["text"])


async def test_what_remains_is_asked_of_the_predecessor(make_bench: MakeBench) -> None:
    bench, agent = await successor(make_bench, says("The second function is still to do."), says("Hm."))
    asked = bench.sent(2)[-1]["content"][-1]["text"]
    assert "You were working on src/a.py" in asked
    assert agent.state.extra_usage.model_calls == 1
    await agent.turn()
    assert "The second function is still to do." in assignment_of(bench)
    assert "was asked of the predecessor" in assignment_of(bench)
    assert bench.statuses() == [200] * 4


async def test_without_an_answer_it_is_an_issue(make_bench: MakeBench) -> None:
    refused = Reply([], fault=HttpError(400, "invalid_request_error"))
    bench, agent = await successor(make_bench, refused, says("Hm."))
    await agent.turn()
    assert "it is not known what remains to be done" in assignment_of(bench)
    assert [entry.kind for entry in agent.state.inherited] == ["issue"]
    manifest = (await agent.close(HandoffReason.OUTPUT_LIMIT)).manifest
    assert [issue.file for issue in manifest.issues_encountered] == ["src/a.py"]


async def test_it_is_asked_once_however_often_the_successor_is_opened(make_bench: MakeBench) -> None:
    bench, agent = await successor(make_bench, says("The rest."), says("unused"))
    await bench.start(agent.assignment)
    assert len(bench.statuses()) == 3


async def test_an_item_that_was_only_read_needs_no_question(make_bench: MakeBench) -> None:
    bench = await make_bench(does(call("read", file_path="src/a.py")), HANDS_OFF, says("unused"))
    first = await bench.start()
    await first.go_on()
    await first.go_on()
    await first.succeed()
    assert bench.statuses() == [200, 200]

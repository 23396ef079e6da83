"""`ask_predecessor`: one short call on the stored conversation, paid once, and never the end of the one who asks."""

from collections.abc import Callable
from pathlib import Path

import pytest
from agents_bench import Agent, Answer, Bench, MakeBench, call, does, says, texts
from test_turn_kills import Killed, arm

from activities.predecessor import ANSWER_TOKENS, QUESTIONS_AT_MOST
from baton.facts import TurnFacts
from baton.manifest import HandoffReason
from baton.messages import TurnLimits
from baton.pricing import Usage
from emulator.reply import Cut, HttpError, Reply, Text, Thinking

READS = Reply([Thinking("I look."), call("read", file_path="src/a.py")])
HANDS_OFF = Reply([Thinking("Enough."), call("hand_off", notes="go on")])
ASKS = does(call("ask_predecessor", question="Why f-strings?"))


async def successor_of(make_bench: MakeBench, *replies: Answer) -> tuple[Bench, Agent, Agent]:
    """A predecessor that read and handed off, and its successor; the model goes on with these replies."""
    bench = await make_bench(READS, HANDS_OFF, *replies)
    first = await bench.start()
    await first.go_on()
    await first.go_on()
    return bench, first, await first.succeed()


def tools_of(bench: Bench, number: int) -> list[str]:
    return [tool["name"] for tool in (bench.server.bodies[number] or {})["tools"]]


async def test_the_answer_comes_from_the_stored_conversation(make_bench: MakeBench) -> None:
    bench, first, agent = await successor_of(make_bench, ASKS, says("Because they are shorter."), says("I see."))
    outcome = await agent.go_on()
    bodies = [body or {} for body in bench.server.bodies]
    of_first, asked = bodies[1], bodies[3]
    assert (asked["system"], asked["tools"], asked["model"]) == (
        of_first["system"],
        of_first["tools"],
        of_first["model"],
    )
    assert asked["metadata"] == of_first["metadata"]
    assert asked["max_tokens"] == ANSWER_TOKENS
    assert bench.sent(3)[:3] == bench.sent(1)
    hand_off, question = bench.sent(3)[3:]
    assert hand_off["content"][-1]["name"] == "hand_off"
    assert [block["type"] for block in question["content"]] == ["tool_result", "text"]
    assert "Why f-strings?" in question["content"][1]["text"]
    usage = bench.server.requests[3].usage
    assert usage is not None
    assert usage["cache_read_input_tokens"] > 1_000
    assert outcome.extra_usage.output_tokens == usage["output_tokens"]
    assert outcome.extra_usage.model_calls == 1
    assert outcome.usage.model_calls == 1
    await agent.go_on()
    assert bench.sent()[-1]["content"][0]["content"] == "Because they are shorter."
    assert bench.statuses() == [200] * 5
    assert first.state.head == agent.assignment.predecessor_head


async def test_only_a_successor_may_ask(make_bench: MakeBench) -> None:
    bench, _, agent = await successor_of(make_bench, says("Hm."))
    await agent.go_on()
    assert "ask_predecessor" not in tools_of(bench, 0)
    assert "ask_predecessor" in tools_of(bench, 2)


async def test_three_questions_and_no_more(make_bench: MakeBench) -> None:
    twice = does(*[call("ask_predecessor", question=f"{number}?") for number in range(2)])
    answers = [says(f"Answer {number}.") for number in range(QUESTIONS_AT_MOST)]
    bench, _, agent = await successor_of(make_bench, twice, *answers[:2], twice, answers[2], says("Well."))
    outcomes = [await agent.go_on() for _ in range(3)]
    results = [
        block for message in bench.sent()[2::2] for block in message["content"] if block["type"] == "tool_result"
    ]
    assert [result.get("is_error", False) for result in results] == [False, False, False, True]
    assert "3 questions to the predecessor are used up" in results[-1]["content"]
    assert sum((outcome.extra_usage for outcome in outcomes), Usage()).model_calls == QUESTIONS_AT_MOST


@pytest.mark.parametrize(
    ("reply", "says_why"),
    [
        (does(call("read", file_path="src/a.py")), "said nothing"),
        (says(), "said nothing"),
        (Reply([Thinking("hm " * 4_000)]), "said nothing"),
        (Reply([Text("half an answer")], fault=Cut(3)), "cannot be reached"),
        (Reply(fault=HttpError(529, "overloaded_error", "Overloaded")), "cannot be reached (Overloaded)"),
        (Reply(fault=HttpError(400, "invalid_request_error", "prompt is too long")), "prompt is too long"),
    ],
    ids=["call", "empty", "thinks", "cut", "overloaded", "too long"],
)
async def test_no_answer_is_an_answer(make_bench: MakeBench, reply: Reply, says_why: str) -> None:
    bench, _, agent = await successor_of(make_bench, ASKS, reply, says("Then without."))
    outcome = await agent.go_on()
    await agent.go_on()
    (result, *_) = bench.sent()[-1]["content"]
    assert result["is_error"]
    assert "No answer" in result["content"]
    assert says_why in result["content"]
    begun = bench.server.requests[3].status == 200
    assert outcome.extra_usage.model_calls == (1 if begun else 0)


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"x")], ids=["deleted", "damaged"])
async def test_a_lost_conversation_has_no_answer(make_bench: MakeBench, damage: Callable[[Path], object]) -> None:
    bench, first, agent = await successor_of(make_bench, ASKS, says("Then without."))
    head = first.state.head
    damage(bench.folder.path / "store" / "blobs" / head[:2] / head[2:])
    bench.restart()
    await agent.go_on()
    await agent.go_on()
    assert "conversation is lost" in bench.sent()[-1]["content"][0]["content"]
    assert bench.statuses() == [200] * 4


@pytest.mark.parametrize("point", ["response", "answer", "node", "checkpoint"])
async def test_an_answer_is_paid_once(make_bench: MakeBench, point: str) -> None:
    bench, _, agent = await successor_of(make_bench, ASKS, says("Because."), says("I see."))
    request = agent.request()
    arm(bench, point)
    with pytest.raises(Killed):
        await agent.attempt(request)
    bench.restart()
    outcome = await agent.attempt(request, number=2)
    assert outcome.extra_usage.model_calls == 1
    assert bench.statuses() == [200] * 4
    agent.state = agent.state.after(outcome)
    await agent.go_on()
    assert bench.sent()[-1]["content"][0]["content"] == "Because."


async def test_questions_belong_to_one_agent(make_bench: MakeBench) -> None:
    """The next successor may ask again, and asks its own predecessor."""
    bench, _, second = await successor_of(
        make_bench, ASKS, says("Because."), HANDS_OFF, ASKS, says("I was told."), says(".")
    )
    await second.go_on()
    await second.go_on()
    third = await second.succeed(HandoffReason.OUTPUT_LIMIT)
    await third.go_on()
    assert texts(bench.sent()[0]["content"]).count('"agent_id": "executor-2-converter~2"') >= 1
    facts = bench.folder.conversations.load(third.state.head).facts
    assert (facts.questions, TurnFacts().questions) == (1, 0)


@pytest.mark.parametrize(("calls", "asked"), [(1, 0), (2, 1), (3, 2)])
async def test_questions_end_with_what_is_left(make_bench: MakeBench, calls: int, asked: int) -> None:
    question = call("ask_predecessor", question="Why f-strings?"), call("ask_predecessor", question="Why not?")
    bench, _, agent = await successor_of(make_bench, does(*question), says("Shorter."), says("No reason."))
    agent.assignment = agent.assignment.model_copy(update={"allowance": TurnLimits(model_calls=calls)})
    outcome = await agent.go_on()
    assert outcome.usage.model_calls + outcome.extra_usage.model_calls == calls
    assert len(bench.statuses()) == 3 + asked


async def test_a_question_without_allowance_says_why(make_bench: MakeBench) -> None:
    bench, _, agent = await successor_of(make_bench, ASKS, says("I see."))
    agent.assignment = agent.assignment.model_copy(update={"allowance": TurnLimits(model_calls=1)})
    await agent.go_on()
    await agent.turn()
    told = bench.sent()[-1]["content"][0]
    assert (told["is_error"], "the limit of model calls is reached" in told["content"]) == (True, True)

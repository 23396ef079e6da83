"""Every way a response can end, and every call a model can get wrong: what the next request looks like.

The emulator refuses what the API refuses, so each case goes on for one more turn.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from agents_bench import KEY, MODEL, Agent, Bench, MakeBench, call, does, says, texts
from temporalio.exceptions import ApplicationError
from test_turn_kills import Killed, arm

from activities.model import ModelRequest, Progress
from baton import trace
from baton.agent import MAX_NUDGES, Ask, HandOff, Stop
from baton.conversation import Ending, NoticeKind, Response, Turn
from baton.manifest import HandoffReason
from baton.messages import TurnOutcome, TurnRequest
from baton.names import CONTEXT_TOO_LONG, CONVERSATION_LOST, NEEDS_PERSON, REQUEST_REFUSED
from baton.pricing import Usage
from baton.roles import Role
from emulator.reply import (
    Block,
    Cut,
    ErrorEvent,
    Fault,
    HttpError,
    NoMessageStop,
    Reply,
    ServerToolUse,
    Text,
    Thinking,
    ToolUse,
)

LONG = "x = 1\n" * 3_000


def kinds(content: Sequence[dict[str, Any]]) -> list[str]:
    return [block["type"] for block in content]


def assert_valid(bench: Bench, requests: int) -> None:
    assert bench.statuses() == [200] * requests


async def test_calls_are_answered_in_order_each_by_one_result(make_bench: MakeBench) -> None:
    bench = await make_bench(
        does(
            call("read", file_path="src/a.py"),
            call("read", file_path="src/none.py"),
            call("bash", command="sleep 5", timeout_ms=50),
            call("edit", file_path="docs/guide.md", old_string="Guide", new_string="X"),
            call("record", patterns=["small steps"]),
        ),
        says("Next."),
    )
    agent = await bench.start()
    outcome = await agent.go_on()
    assert (outcome.ending, outcome.calls, len(outcome.knowledge)) == (Ending.TOOLS, 5, 1)
    await agent.go_on()
    _, assistant, user = bench.sent()
    assert [block["tool_use_id"] for block in user["content"]] == [block["id"] for block in assistant["content"]]
    assert [block.get("is_error", False) for block in user["content"]] == [False, True, True, True, False]
    assert_valid(bench, 2)


@pytest.mark.parametrize(
    ("reply", "replayed"),
    [
        (says("All done."), ["text"]),
        (says("Shall I go on?"), ["text"]),
        (says("I will wait for the build."), ["text"]),
        (says('<tool_use name="write">{"file_path": "src/a.py", "content": ""}</tool_use>'), ["text"]),
        (says(), []),
        (says("", "  \n"), []),
        (Reply([Thinking("Hm.")]), []),
        (Reply([Thinking("Hm.", signed=False), Text("So.")]), ["text"]),
        (Reply([Thinking("Hm."), Text("So.")]), ["thinking", "text"]),
        (Reply([Text("So.")], "stop_sequence"), ["text"]),
        (Reply([Text("So.")], "tool_use"), ["text"]),
        (Reply([], "tool_use"), []),
    ],
    ids=[
        "finished",
        "question",
        "waits",
        "prose call",
        "empty",
        "blank",
        "thinks",
        "unsigned",
        "signed",
        "stop",
        "t",
        "te",
    ],
)
async def test_a_response_that_does_nothing_is_nudged(make_bench: MakeBench, reply: Reply, replayed: list[str]) -> None:
    bench = await make_bench(reply, says("Still here."))
    agent = await bench.start()
    assert (await agent.go_on()).calls == 0
    ask = agent.move()
    assert isinstance(ask, Ask)
    assert [notice.kind for notice in ask.notices] == [NoticeKind.NUDGE]
    await agent.go_on()
    first, *rest = bench.sent()
    assert [kinds(message["content"]) for message in rest] == ([replayed, ["text"]] if replayed else [])
    assert 'kind="nudge"' in texts((rest or [first])[-1]["content"])
    assert agent.commits() == []
    assert_valid(bench, 2)


async def test_nudges_are_bounded(make_bench: MakeBench) -> None:
    bench = await make_bench(*[says("I will wait.")] * (MAX_NUDGES + 1))
    agent = await bench.start()
    for _ in range(MAX_NUDGES + 1):
        await agent.go_on()
    assert isinstance(agent.move(), Stop)
    assert_valid(bench, MAX_NUDGES + 1)


@pytest.mark.parametrize(
    ("reply", "replayed", "results"),
    [
        (says("word " * 3_000), ["text"], 0),
        (Reply([Thinking("hm " * 5_000)]), [], 0),
        (does(call("write", file_path="src/a.py", content=LONG)), [], 0),
        (Reply([Text("I write."), call("write", file_path="src/a.py", content=LONG)]), ["text"], 0),
        (Reply([Thinking("Hm."), call("write", file_path="src/a.py", content=LONG)]), [], 0),
        (Reply([Text("A."), Thinking("Hm."), call("write", file_path="src/a.py", content=LONG)]), ["text"], 0),
        (
            does(
                call("write", file_path="src/a.py", content="A = 2\n"),
                call("write", file_path="src/b.py", content=LONG),
            ),
            ["tool_use"],
            1,
        ),
    ],
    ids=["text", "thinking", "first call", "text and call", "thinking and call", "text, thinking, call", "second call"],
)
async def test_a_cut_response_runs_nothing(
    make_bench: MakeBench, reply: Reply, replayed: list[str], results: int
) -> None:
    bench = await make_bench(reply, does(call("hand_off", notes="go on")))
    agent = await bench.start()
    outcome = await agent.turn(max_tokens=600)
    assert (outcome.ending, outcome.usage.output_tokens, outcome.calls) == (Ending.CUT, 600, 0)
    assert (agent.workspace / "src/a.py").read_text() == "A = 1\n"
    assert (agent.workspace / "src/b.py").read_text() == "B = 1\n"
    ask = agent.move()
    assert isinstance(ask, Ask)
    assert (ask.notices[-1].kind, ask.hand_off_asked) == (NoticeKind.BUDGET_95, True)
    await agent.go_on()
    first, *rest = bench.sent()
    if replayed:
        assistant, user = rest
        assert kinds(assistant["content"]) == replayed
        assert kinds(user["content"])[:results] == ["tool_result"] * results
        assert all(block["is_error"] for block in user["content"][:results])
    assert 'kind="budget_95"' in texts((rest or [first])[-1]["content"])
    assert agent.move() == HandOff(HandoffReason.OUTPUT_LIMIT)
    assert_valid(bench, 2)


async def test_a_full_context_hands_off_at_once(make_bench: MakeBench) -> None:
    bench = await make_bench(Reply([Text("So far.")], "model_context_window_exceeded"))
    agent = await bench.start()
    assert (await agent.go_on()).ending is Ending.CONTEXT_FULL
    assert agent.move() == HandOff(HandoffReason.CONTEXT_LIMIT)


async def test_a_pause_is_sent_back_unchanged(make_bench: MakeBench) -> None:
    bench = await make_bench(
        Reply([Text("I look it up."), ServerToolUse({"query": "x"})], "pause_turn"),
        does(call("read", file_path="src/a.py")),
        says("Well."),
    )
    agent = await bench.start()
    assert (await agent.go_on()).ending is Ending.PAUSED
    await agent.go_on()
    assert [message["role"] for message in bench.sent()] == ["user", "assistant"]
    assert kinds(bench.sent()[-1]["content"]) == ["text", "server_tool_use"]
    await agent.go_on()
    assert [message["role"] for message in bench.sent()] == ["user", "assistant", "user"]
    assert_valid(bench, 3)


async def test_a_refusal_stops_the_agent(make_bench: MakeBench) -> None:
    bench = await make_bench(Reply([Text("I cannot.")], "refusal", stop_details={"type": "refusal", "category": "x"}))
    agent = await bench.start()
    assert (await agent.go_on()).ending is Ending.REFUSED
    move = agent.move()
    assert isinstance(move, Stop)
    assert "refused" in move.detail


@pytest.mark.parametrize(
    "fault",
    [Cut(), Cut(3), NoMessageStop(), ErrorEvent("overloaded_error"), HttpError(529, "overloaded_error")],
    ids=repr,
)
async def test_after_a_broken_call_the_same_request_is_made_once_more(make_bench: MakeBench, fault: Fault) -> None:
    writes: list[Block] = [Text("I write."), call("write", file_path="src/a.py", content="A = 2\n")]
    bench = await make_bench(Reply(writes, fault=fault), Reply(writes), says("Next."))
    agent = await (await bench.start()).furnished()
    request = agent.request()
    with pytest.raises(ApplicationError) as caught:
        await agent.attempt(request)
    assert not caught.value.non_retryable
    assert (agent.workspace / "src/a.py").read_text() == "A = 1\n"
    outcome = await agent.attempt(request, number=2)
    agent.state = agent.state.after(outcome)
    begun = not isinstance(fault, HttpError) and fault != Cut()
    assert outcome.extra_usage.model_calls == begun
    assert (outcome.extra_usage.total_input_tokens > 0) == begun
    assert bench.sent(0) == bench.sent(1)
    await agent.go_on()
    assert [kinds(m["content"]) for m in bench.sent()] == [["text"], ["text", "tool_use"], ["tool_result"]]
    assert agent.commits() == ["executor-2-converter · turn 1"]


@pytest.mark.parametrize(
    ("beats", "tokens"),
    [
        ([{"doing": "model", "tokens": 700, "attempt": 1, "turn": 2}], 700),
        ([{"doing": "model", "tokens": 700, "attempt": 1, "turn": 1}], 0),
        ([], 0),
        ([{"doing": "waiting for the workspace", "tokens": 0, "attempt": 1}], 0),
    ],
    ids=["told", "told of the turn before", "killed before the first heartbeat", "told before it asked"],
)
async def test_a_response_that_a_kill_lost_is_counted(
    make_bench: MakeBench, beats: list[dict[str, Any]], tokens: int
) -> None:
    bench = await make_bench(does(call("read", file_path="src/a.py")), says("Lost."), says("Two."))
    agent = await bench.start()
    await agent.turn()
    request = agent.request()
    await killed_under_way(bench, agent, request)
    environment = bench.environment(agent.run_id, 2)
    environment.info = replace(environment.info, heartbeat_details=beats)
    outcome: TurnOutcome = await environment.run(bench.turns.execute_step, request)
    lost = outcome.extra_usage
    before = agent.state.usage
    assert (lost.output_tokens, lost.model_calls) == (tokens, 1)
    assert lost.cache_read_tokens == before.total_input_tokens + before.output_tokens
    assert lost.cost_usd > 0
    again: TurnOutcome = await bench.environment(agent.run_id, 3).run(bench.turns.execute_step, request)
    assert again == outcome
    told = trace.parse((bench.folder.artifacts / trace.NAME).read_text()).of("model")
    (killed,) = [line for line in told if line.outcome == "killed"]
    assert (killed.output_tokens, killed.turn, killed.attempt) == (tokens, 2, 1)
    assert sum(line.cost_usd for line in told) == before.cost_usd + outcome.usage.cost_usd + lost.cost_usd


async def killed_under_way(bench: Bench, agent: Agent, request: TurnRequest, number: int = 1) -> None:
    """One attempt whose process ends when the first of its answer has come."""
    respond = bench.model.respond

    async def watched(asked: ModelRequest, progress: Progress, *more: Any) -> Response:
        def told(tokens: int) -> None:
            progress(tokens)
            if tokens > 0:
                raise Killed

        return await respond(asked, told, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench.model, "respond", watched)
        with pytest.raises(Killed):
            await agent.attempt(request, number)
    bench.restart()


async def test_a_first_call_that_a_kill_lost_sent_what_the_next_one_sends(make_bench: MakeBench) -> None:
    bench = await make_bench(says("Lost."), says("One."))
    agent = await bench.start()
    await killed_under_way(bench, agent, agent.request())
    outcome = await agent.attempt(agent.request(), 2)
    assert outcome.extra_usage.model_calls == 1
    assert outcome.extra_usage.total_input_tokens == pytest.approx(outcome.usage.total_input_tokens, rel=0.5)
    assert outcome.extra_usage.cost_usd > 0


async def test_a_call_is_lost_once_however_often_its_turn_is_killed(make_bench: MakeBench) -> None:
    """What the first attempt told is there until another one tells something."""
    bench = await make_bench(says("Lost."), says("Lost too."), says("One."))
    agent = await bench.start()
    request = agent.request()
    await killed_under_way(bench, agent, request)
    await killed_under_way(bench, agent, request, 4)
    environment = bench.environment(agent.run_id, 6)
    beats = [{"doing": "model", "tokens": 700, "attempt": 1}]
    environment.info = replace(environment.info, heartbeat_details=beats)
    outcome: TurnOutcome = await environment.run(bench.turns.execute_step, request)
    assert (outcome.extra_usage.model_calls, outcome.extra_usage.output_tokens) == (2, 0)
    told = trace.parse((bench.folder.artifacts / trace.NAME).read_text()).of("model")
    assert [(line.outcome, line.attempt) for line in told] == [("killed", 1), ("killed", 4), ("end_turn", 6)]


@pytest.mark.parametrize("point", ["response", "outcome"])
async def test_a_response_that_is_there_is_no_lost_call(make_bench: MakeBench, point: str) -> None:
    bench = await make_bench(does(call("read", file_path="src/a.py")), says("Two."))
    agent = await bench.start()
    arm(bench, point)
    with pytest.raises(Killed):
        await agent.attempt(agent.request())
    bench.restart()
    agent.state = agent.state.after(await agent.attempt(agent.request(), 2))
    outcome = await agent.attempt(agent.request(), 2)
    assert agent.state.extra_usage + outcome.extra_usage == Usage()
    assert bench.statuses() == [200, 200]


async def test_a_call_that_was_refused_is_no_lost_call(make_bench: MakeBench) -> None:
    bench = await make_bench(Reply(fault=HttpError(529, "overloaded_error")), says("One."))
    agent = await bench.start()
    with pytest.raises(ApplicationError):
        await agent.attempt(agent.request())
    bench.restart()
    assert (await agent.attempt(agent.request(), 2)).extra_usage == Usage()


async def cancelled_under_way(bench: Bench, agent: Agent, request: TurnRequest, number: int = 1) -> None:
    """One attempt, cancelled as soon as some of its answer has come."""
    environment = bench.environment(agent.run_id, number)
    began, respond = asyncio.Event(), bench.model.respond

    async def watched(asked: ModelRequest, progress: Progress, *more: Any) -> Response:
        def told(tokens: int) -> None:
            progress(tokens)
            if tokens > 20:
                began.set()

        return await respond(asked, told, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench.model, "respond", watched)
        attempt = asyncio.ensure_future(environment.run(bench.turns.execute_step, request))
        async with asyncio.timeout(20):
            await began.wait()
        environment.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attempt


async def test_a_call_that_was_cancelled_is_paid_when_its_agent_is_closed(make_bench: MakeBench) -> None:
    bench = await make_bench(does(call("read", file_path="src/a.py")), says("word " * 2_000), tokens_per_second=300)
    agent = await bench.start()
    await agent.turn()
    assert (await agent.close(has_successor=True)).usage == Usage()
    await cancelled_under_way(bench, agent, agent.request())
    bench.restart()
    usage = (await agent.close(HandoffReason.CANCELLED, has_successor=False)).usage
    before = agent.state.usage
    assert usage.model_calls == 1
    assert usage.total_input_tokens > before.total_input_tokens
    assert 20 < usage.output_tokens < 1_000
    assert usage.cost_usd > 0
    _, line = trace.parse((bench.folder.artifacts / trace.NAME).read_text()).of("model")
    assert (line.outcome, line.turn, line.attempt) == ("cancelled", 2, 1)
    assert (line.output_tokens, line.cost_usd) == (usage.output_tokens, usage.cost_usd)


async def test_all_lost_calls_of_a_cancelled_turn_are_paid_once(make_bench: MakeBench) -> None:
    """Two broken attempts, then the turn is asked for once more, and that is cancelled; then tried once more."""
    long = [Text("word " * 2_000)]
    replies = [Reply(long, fault=Cut(8)), Reply(long, fault=Cut(8)), Reply(long), Reply(long)]
    bench = await make_bench(*replies, tokens_per_second=300)
    agent = await bench.start()
    request = agent.request()
    for number in (1, 2):
        with pytest.raises(ApplicationError):
            await agent.attempt(request, number)
    before = (await agent.close(HandoffReason.CANCELLED)).usage
    assert before.model_calls == 2
    again = request.model_copy(update={"asked_before": 1, "lost": before})
    await cancelled_under_way(bench, agent, again)
    await cancelled_under_way(bench, agent, again, 2)
    usage = (await agent.close(HandoffReason.CANCELLED)).usage
    told = trace.parse((bench.folder.artifacts / trace.NAME).read_text()).of("model")
    assert (usage.model_calls, len(told)) == (4, 4)
    assert usage.cost_usd == sum(line.cost_usd for line in told)
    assert usage.output_tokens == sum(line.output_tokens for line in told)
    assert (await agent.close(HandoffReason.CANCELLED)).usage == usage


async def test_a_response_whose_tools_were_cancelled_is_paid(make_bench: MakeBench) -> None:
    bench = await make_bench(does(call("bash", command="touch begun; sleep 60")))
    agent = await (await bench.start()).furnished()
    environment = bench.environment(agent.run_id)
    attempt = asyncio.ensure_future(environment.run(bench.turns.execute_step, agent.request()))
    async with asyncio.timeout(20):
        while not (agent.workspace / "begun").exists():
            await asyncio.sleep(0.02)
    environment.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    usage = (await agent.close(HandoffReason.CANCELLED)).usage
    (line,) = trace.parse((bench.folder.artifacts / trace.NAME).read_text()).of("model")
    assert (usage.model_calls, usage.cost_usd) == (1, line.cost_usd)


@pytest.mark.parametrize(
    ("status", "kind", "told"),
    [
        (400, "invalid_request_error", REQUEST_REFUSED),
        (413, "request_too_large", CONTEXT_TOO_LONG),
        (401, "authentication_error", NEEDS_PERSON),
    ],
)
async def test_a_refused_request_is_not_made_again(make_bench: MakeBench, status: int, kind: str, told: str) -> None:
    bench = await make_bench(Reply(fault=HttpError(status, kind)))
    agent = await bench.start()
    with pytest.raises(ApplicationError) as caught:
        await agent.turn()
    assert (caught.value.type, caught.value.non_retryable) == (told, True)


UNUSABLE = [
    (ToolUse("write", '{"file_path": "src/a.py", "content": "half'), "complete JSON object"),
    (ToolUse("write", '{"file_path": tru3}'), "complete JSON object"),
    (ToolUse("write", "null"), "complete JSON object"),
    (ToolUse("write", '["src/a.py"]'), "complete JSON object"),
    (ToolUse("write", ""), "`file_path` is missing"),
    (call("wirte", file_path="src/a.py", content=""), "Did you mean write"),
    (call("submit_plan", plan=[]), "There is no tool"),
    (call("ask_predecessor", question="?"), "There is no tool"),
    (call("write", file_path="src/a.py"), "`content` is missing"),
    (call("write", file_path="src/a.py", content="", mode="w"), "`mode` is not a field"),
    (call("write", file_path="src/a.py", content=None), "`content` is null"),
    (call("write", file_path=7, content=""), "`file_path` is a number"),
    (call("read", file_path="src/a.py", view_range="1-2"), "`view_range` is a string"),
    (call("bash", command="true", timeout_ms="soon"), "`timeout_ms` is a string"),
    (call("complete_item", item=["src/a.py"]), "`item` is an array"),
    (call("finish_step", status="done", summary="x"), "`status`"),
]


async def test_an_unusable_call_gets_an_error_that_helps(make_bench: MakeBench) -> None:
    """All of them in one response, and each in the API's sight again with the next request."""
    bench = await make_bench(does(*[unusable for unusable, _ in UNUSABLE]), says("Next."))
    agent = await bench.start()
    outcome = await agent.go_on()
    assert (outcome.calls, outcome.submitted, outcome.refused_submissions) == (len(UNUSABLE), None, 1)
    await agent.go_on()
    results = bench.sent()[-1]["content"]
    for result, (unusable, says_so) in zip(results, UNUSABLE, strict=True):
        assert result["is_error"], unusable
        assert says_so in result["content"], unusable
    assert (agent.workspace / "src/a.py").read_text() == "A = 1\n"
    assert_valid(bench, 2)


async def test_a_call_id_that_comes_twice_runs_once(make_bench: MakeBench) -> None:
    twice = ToolUse("append", {"file_path": "src/a.py", "content": "X = 1\n", "at_line": 1}, id="toolu_same")
    bench = await make_bench(does(twice, twice), says("Next."))
    agent = await bench.start()
    assert (await agent.go_on()).calls == 1
    assert (agent.workspace / "src/a.py").read_text() == "A = 1\nX = 1\n"
    await agent.go_on()
    assert [kinds(m["content"]) for m in bench.sent()] == [["text"], ["tool_use"], ["tool_result"]]
    assert_valid(bench, 2)


async def test_calls_of_a_response_that_does_not_ask_for_tools(make_bench: MakeBench) -> None:
    unfinished = ToolUse("write", '{"file_path": "src/a.py", "content": "half')
    bench = await make_bench(
        Reply([call("write", file_path="src/a.py", content=""), unfinished], "end_turn"), says("Oh.")
    )
    agent = await bench.start()
    assert (await agent.go_on()).calls == 0
    await agent.go_on()
    results = bench.sent()[-1]["content"]
    assert [block.get("is_error") for block in results] == [True, True, None]
    assert (agent.workspace / "src/a.py").read_text() == "A = 1\n"
    assert_valid(bench, 2)


async def test_the_longest_argument_a_model_can_write(make_bench: MakeBench) -> None:
    text = "x = 1\n" * 50_000
    bench = await make_bench(does(call("write", file_path="src/c.py", content=text)), says("Next."))
    agent = await bench.start()
    await agent.turn(max_tokens=128_000)
    assert (agent.workspace / "src/c.py").read_text() == text
    await agent.turn()
    assert_valid(bench, 2)


async def test_an_argument_of_five_megabytes(make_bench: MakeBench) -> None:
    """No model can write so much at once today, so it comes as the journaled response of an earlier attempt."""
    bench = await make_bench()
    agent = await bench.start()
    huge = {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "write",
        "input": {"file_path": "a", "content": "x" * 5_000_000},
    }
    response = Response(id="msg_1", model=MODEL, stop_reason="tool_use", content=(huge,))
    paid = {"user": [], "response": response.model_dump(mode="json")}
    bench.folder.store.enter(f"{agent.run_id}/1/{agent.state.head}/response", json.dumps(paid).encode())
    await agent.turn()
    node = bench.folder.conversations.node(agent.state.head)
    assert isinstance(node, Turn)
    assert "Write long files in parts" in node.results[0]["content"]
    assert not (agent.workspace / "a").exists()
    assert bench.statuses() == []


async def test_a_lost_conversation_is_no_retry(make_bench: MakeBench) -> None:
    bench = await make_bench(does(call("read", file_path="src/a.py")), says("Never."))
    agent = await bench.start()
    await agent.go_on()
    head = agent.state.head
    (bench.folder.path / "store" / "blobs" / head[:2] / head[2:]).write_bytes(b"{}")
    bench.restart()
    with pytest.raises(ApplicationError) as caught:
        await agent.turn()
    assert (caught.value.type, caught.value.non_retryable) == (CONVERSATION_LOST, True)
    assert_valid(bench, 1)


async def test_a_reader_works_on_when_its_workspace_was_deleted(make_bench: MakeBench) -> None:
    """Also one that may not write: its workspace is made again before its calls run."""
    bench = await make_bench(does(call("read", file_path="src/a.py")), says("Next."))
    planner = bench.assignment(
        role=Role.PLANNER, name="planner", workspace="plan", step=None, items=(), survey="two files"
    )
    agent = await (await bench.start(planner)).furnished()
    for path in sorted(agent.workspace.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    agent.workspace.rmdir()
    await agent.go_on()
    await agent.go_on()
    assert bench.sent()[-1]["content"][0]["content"] == "A = 1\n"


async def test_notices_and_answers_follow_the_results(make_bench: MakeBench) -> None:
    bench = await make_bench(does(call("read", file_path="src/a.py")), says("Next."))
    agent = await bench.start()
    await agent.go_on()
    request = agent.request(notices=[]).model_copy(update={"answers": ("Yes, both.", " ")})
    await agent.attempt(request)
    assert [block.get("text", "result") for block in bench.sent()[-1]["content"]] == ["result", "Yes, both."]


async def test_the_conversation_only_grows_and_is_read_from_the_cache(make_bench: MakeBench) -> None:
    reads = Reply([Thinking("I read on."), call("read", file_path="src/a.py")])
    bench = await make_bench(*[reads] * 6)
    agent = await bench.start()
    outcomes = [await agent.go_on() for _ in range(6)]
    for earlier, later in zip(range(5), range(1, 6), strict=True):
        assert bench.sent(later)[: len(bench.sent(earlier))] == bench.sent(earlier)
    assert all(outcome.usage.cache_read_tokens > 1_000 for outcome in outcomes[1:])
    assert_valid(bench, 6)


async def test_heartbeats_say_what_is_done_and_how_far_it_is(make_bench: MakeBench) -> None:
    slow = Reply([Text("word " * 500), call("bash", command="sleep 1.2")])
    bench = await make_bench(slow, tokens_per_second=180)
    agent = await bench.start()
    await agent.go_on()
    told = [(beat["doing"], beat["tokens"]) for beat in bench.heartbeats]
    while_writing = [tokens for doing, tokens in told if doing == "model"]
    assert while_writing == sorted(set(while_writing))
    assert len(while_writing) >= 2
    assert told[-1] == ("bash sleep 1.2", 0)


async def test_no_secret_is_kept(make_bench: MakeBench) -> None:
    """The model prints every environment and file it can reach; what is stored holds no credential of ours."""
    bench = await make_bench(
        does(
            call("bash", command="env; tr '\\0' '\\n' < /proc/$PPID/environ; cat ../../../../service/credentials.json"),
            call("bash", command='yes "$(cat ../../../../service/credentials.json)" | head -2000'),
        ),
        does(call("hand_off", notes="see the environment")),
    )
    agent = await bench.start()
    await agent.go_on()
    await agent.go_on()
    assert (await agent.close()).file is not None
    assert '"ANTHROPIC_BASE_URL": "http://127.0.0.1' in texts(bench.sent()[-1]["content"])
    kept = [path for path in bench.state.rglob("*") if path.is_file() and path.parent.name != "service"]
    assert sum(b"ANTHROPIC_API_KEY" in path.read_bytes() for path in kept) >= 2
    assert [path for path in kept if KEY.encode() in path.read_bytes()] == []

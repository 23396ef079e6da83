"""One streamed call through the real SDK: what counts as a response, and what every broken stream is told as."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import anthropic
import pytest
from agents_bench import MODEL, Serve, says

from activities.errors import Reaction
from activities.model import CORRECTION_WEIGHT, Model, ModelError, ModelRequest
from activities.quota import Gate
from baton.conversation import Ending, Response, calls, replayable
from baton.pricing import Usage
from emulator.reply import (
    BadData,
    Cut,
    ErrorEvent,
    Fault,
    NoMessageStop,
    Reply,
    ServerToolUse,
    Stall,
    Text,
    Thinking,
    ToolUse,
)
from emulator.server import EmulatorServer

BEYOND_THE_END = 10_000
TOOL = {"name": "write", "description": "Write", "input_schema": {"type": "object", "properties": {}}}


def model_of(
    server: EmulatorServer,
    longest_silence: timedelta = timedelta(seconds=20),
    longest_quiet: timedelta = timedelta(seconds=20),
) -> Model:
    def client() -> anthropic.AsyncAnthropic:
        return anthropic.AsyncAnthropic(api_key="k", base_url=server.url, max_retries=0, open_telemetry=False)

    return Model(client, longest_silence=longest_silence, gate=Gate(dice=lambda: 0), longest_quiet=longest_quiet)


def asking(model: str = MODEL, max_tokens: int = 4_000) -> ModelRequest:
    messages = [{"role": "user", "content": [{"type": "text", "text": "Go."}]}]
    return ModelRequest(model=model, system="s", tools=(TOOL,), messages=messages, max_tokens=max_tokens, user_id="t/a")


def test_the_body_is_what_was_asked_with_streaming() -> None:
    odd = "“quoted” \\ \u2028 \x00 日本 \U0001f600"
    request = replace(asking(), messages=[{"role": "user", "content": [{"type": "text", "text": odd}]}], effort="low")
    assert json.loads(request.body()) == {**request.arguments(), "stream": True}
    assert odd in json.loads(request.body())["messages"][0]["content"][0]["text"]


async def respond(
    server: EmulatorServer,
    model: str = MODEL,
    max_tokens: int = 4_000,
    progress: Callable[[int], None] = lambda _: None,
) -> Response:
    return await model_of(server).respond(asking(model, max_tokens), progress)


@contextmanager
def fails_with(reaction: Reaction) -> Iterator[list[ModelError]]:
    found: list[ModelError] = []
    with pytest.raises(ModelError) as caught:
        yield found
    found.append(caught.value)
    assert caught.value.fault.reaction is reaction, caught.value.fault


async def test_a_response_arrives_whole(serve: Serve) -> None:
    server = serve(Reply([Thinking("Hm."), Text("I write."), ToolUse("write", {"file_path": "ä.py", "content": "\n"})]))
    response = await respond(server)
    thinking, text, tool = response.content
    assert (thinking["thinking"], text["text"]) == ("Hm.", "I write.")
    assert thinking["signature"]
    assert tool["input"] == {"file_path": "ä.py", "content": "\n"}
    assert response.ending is Ending.TOOLS
    assert response.partial_inputs == {}
    exchange = server.requests[0]
    assert response.request_id == exchange.request_id
    assert exchange.usage is not None
    assert response.usage.output_tokens == exchange.usage["output_tokens"]
    assert response.usage.model_calls == 1
    assert response.usage.cost_usd > 0


async def test_usage_counts_every_kind_of_input(serve: Serve) -> None:
    server = serve(says("a"), says("b"))
    model = model_of(server)
    long_prompt = ModelRequest(**{**vars(asking()), "system": "word " * 2_000})
    first, second = [await model.respond(long_prompt, lambda _: None) for _ in range(2)]
    assert first.usage.cache_write_5m_tokens > 0
    assert second.usage.cache_read_tokens == first.usage.cache_write_5m_tokens
    assert first.usage.total_input_tokens == second.usage.total_input_tokens


@pytest.mark.parametrize(
    "fault",
    [
        Cut(),
        Cut(after_events=0),
        Cut(after_events=1),
        Cut(after_events=4),
        BadData(after_events=0),
        BadData(after_events=4),
        NoMessageStop(),
        NoMessageStop(left_out=2),
        ErrorEvent("overloaded_error"),
        ErrorEvent("rate_limit_error"),
        ErrorEvent("api_error"),
        ErrorEvent("timeout_error"),
        ErrorEvent("a_type_of_next_year"),
        ErrorEvent("overloaded_error", after_events=0),
    ],
    ids=repr,
)
async def test_a_broken_stream_is_tried_again(serve: Serve, fault: Fault) -> None:
    server = serve(Reply([Text("half a sentence that is long enough for several events " * 4)], fault=fault))
    with fails_with(Reaction.RETRY):
        await respond(server)


@pytest.mark.parametrize(
    ("kind", "reaction"),
    [
        ("invalid_request_error", Reaction.FAIL),
        ("request_too_large", Reaction.FAIL),
        ("authentication_error", Reaction.PERSON),
        ("billing_error", Reaction.PERSON),
        ("permission_error", Reaction.PERSON),
    ],
)
async def test_an_error_inside_a_stream_counts_by_its_type(serve: Serve, kind: str, reaction: Reaction) -> None:
    with fails_with(reaction):
        await respond(serve(Reply([Text("so far")], fault=ErrorEvent(kind))))


async def test_a_cut_after_the_whole_body_loses_nothing(serve: Serve) -> None:
    response = await respond(serve(Reply([Text("All of it.")], fault=Cut(after_events=BEYOND_THE_END))))
    assert response.content[0]["text"] == "All of it."


@pytest.mark.parametrize("after_events", [None, 3])
async def test_a_stalled_stream_is_given_up(serve: Serve, after_events: int | None) -> None:
    server = serve(Reply([Text("a b c d e f " * 50)], fault=Stall(30, after_events)))
    with fails_with(Reaction.RETRY) as caught:
        async with asyncio.timeout(10):
            await model_of(server, timedelta(milliseconds=300)).respond(asking(), lambda _: None)
    assert caught[0].fault.stalled


async def test_a_stream_that_only_keeps_alive_is_given_up(serve: Serve) -> None:
    server = serve(Reply([Text("a b c d e f " * 50)], fault=Stall(30, 3, pings=True)))
    with fails_with(Reaction.RETRY) as caught:
        async with asyncio.timeout(20):
            await model_of(server, longest_quiet=timedelta(seconds=1)).respond(asking(), lambda _: None)
    assert caught[0].fault.stalled


async def test_an_unknown_stop_reason_is_a_broken_stream(serve: Serve) -> None:
    with fails_with(Reaction.RETRY):
        await respond(serve(says("Hm.", stop_reason="moon_phase")))


async def test_nobody_listening(serve: Serve) -> None:
    def client() -> anthropic.AsyncAnthropic:
        return anthropic.AsyncAnthropic(api_key="k", base_url="http://127.0.0.1:1", max_retries=0, open_telemetry=False)

    with fails_with(Reaction.RETRY):
        await Model(client).respond(asking(), lambda _: None)


@pytest.mark.parametrize(
    ("raw", "readable"),
    [
        ('{"file_path": "a.py", "content": "half', {"file_path": "a.py"}),
        ('{"file_path": tru3}', {}),
        ('{"a": 1} {"b": 2}', {"a": 1}),
        ('{"a": NaN}', {}),
        ('{"a": "\\ud83d"}', {}),
        ("null", {}),
        ('["a"]', {}),
        ('"a"', {}),
    ],
)
async def test_a_call_with_unusable_json_keeps_the_response(
    serve: Serve, raw: str, readable: dict[str, object]
) -> None:
    response = await respond(serve(Reply([ToolUse("write", raw), ToolUse("write", {"file_path": "b", "content": ""})])))
    broken, sound = calls(response)
    assert broken.fault is not None
    assert sound.fault is None
    assert response.partial_inputs == {broken.id: raw}
    assert [block["input"] for block in replayable(response)] == [readable, {"file_path": "b", "content": ""}]


async def test_a_call_without_any_input_has_an_empty_one(serve: Serve) -> None:
    (found,) = calls(await respond(serve(Reply([ToolUse("write", "")]))))
    assert (found.input, found.fault) == ({}, None)


@pytest.mark.parametrize(("sent", "kept"), [("half \ud83d", "half \ufffd"), ("\ud83d\ude00 ä\0", "😀 ä\0")])
async def test_text_can_be_stored_whatever_the_model_writes(serve: Serve, sent: str, kept: str) -> None:
    response = await respond(serve(Reply([Text(sent), ToolUse("write", '{"content": "' + sent[:1] + '"}')])))
    assert response.content[0]["text"] == kept
    assert Response.model_validate_json(response.model_dump_json()) == response


async def test_blocks_of_server_tools_are_kept(serve: Serve) -> None:
    response = await respond(serve(Reply([Text("I look."), ServerToolUse({"query": "x"})], "pause_turn")))
    assert response.ending is Ending.PAUSED
    assert response.content[1]["input"] == {"query": "x"}


async def test_estimates_grow_and_follow_what_the_model_really_costs(serve: Serve) -> None:
    """Thinking in three-byte characters costs three times what its length says."""
    text = "語" * 700
    server = serve(*[Reply([Thinking(text), ToolUse("write", {"content": text})]) for _ in range(12)])
    model = model_of(server)
    ends = []
    for _ in range(12):
        seen: list[int] = []
        response = await model.respond(asking(), seen.append)
        assert seen == sorted(seen)
        assert len(set(seen)) > 5
        ends.append(seen[-1])
    actual, first = response.usage.output_tokens, ends[0]
    assert actual > 2 * first
    assert ends[1] == pytest.approx(first * (1 + CORRECTION_WEIGHT * (actual / first - 1)), rel=0.01)
    assert ends == sorted(ends)
    assert ends[-1] <= 2 * first + 1


async def test_each_model_has_its_own_correction(serve: Serve) -> None:
    reply = says("語" * 700)
    model = model_of(serve(*[reply] * 6))
    ends: dict[str, list[int]] = {MODEL: [], "claude-haiku-5-5": []}
    for name in (MODEL, MODEL, MODEL, "claude-haiku-5-5"):
        seen: list[int] = []
        await model.respond(asking(name), seen.append)
        ends[name].append(seen[-1])
    assert ends[MODEL][2] > ends[MODEL][0] == ends["claude-haiku-5-5"][0]


async def test_a_broken_stream_teaches_nothing(serve: Serve) -> None:
    model = model_of(serve(Reply([Text("語" * 700)], fault=NoMessageStop(2)), says("語" * 700), says("語" * 700)))
    seen: list[int] = []
    with fails_with(Reaction.RETRY):
        await model.respond(asking(), seen.append)
    again: list[int] = []
    await model.respond(asking(), again.append)
    assert again[-1] == seen[-1]


async def test_facts_of_a_model(serve: Serve) -> None:
    facts = await model_of(serve()).facts("claude-haiku-4-5")
    assert (facts.max_input_tokens, facts.max_tokens) == (200_000, 64_000)
    with fails_with(Reaction.PERSON):
        await model_of(serve()).facts("claude-nobody-1")


async def test_max_tokens_is_exact_in_the_middle_of_a_call(serve: Serve) -> None:
    response = await respond(
        serve(Reply([ToolUse("write", {"file_path": "a.py", "content": "x\n" * 4_000})])), max_tokens=600
    )
    assert (response.ending, response.usage.output_tokens) == (Ending.CUT, 600)
    assert calls(response) == ()
    assert response.usage != Usage()

"""Answers as the real SDK receives them: cut, cached, signed, paced and broken."""

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any

import anthropic
import httpx2
import pytest

from emulator.cache import PromptCache
from emulator.catalogue import all_models, find_model
from emulator.journal import duplicate_turns, read_journal
from emulator.prompt import prompt_of
from emulator.reply import (
    BadData,
    Cut,
    ErrorEvent,
    Fault,
    HttpError,
    NoMessageStop,
    Reply,
    ScriptedModel,
    ServerToolUse,
    Stall,
    Text,
    Thinking,
    ToolUse,
)
from emulator.server import EmulatorServer, listen
from emulator.tokens import text_tokens

Connect = Callable[[EmulatorServer], anthropic.AsyncAnthropic]
Serve = Callable[..., EmulatorServer]

TOOLS: Any = [{"name": "write", "input_schema": {"type": "object", "properties": {"content": {"type": "string"}}}}]
ASK: Any = [{"role": "user", "content": "Write it."}]
LONG = "Every word of this sentence costs something. " * 40


async def ask(client: anthropic.AsyncAnthropic, **changes: Any) -> anthropic.types.Message:
    """One streamed request, as the worker makes it."""
    request: Any = {"model": "claude-sonnet-5-5", "max_tokens": 4000, "messages": ASK, "tools": TOOLS, **changes}
    async with client.messages.stream(**request) as stream:
        return await stream.get_final_message()


@pytest.mark.parametrize("limit", [1, 2, 77, 200])
async def test_text_is_cut_at_the_exact_token(serve: Serve, connect: Connect, limit: int) -> None:
    message = await ask(connect(serve(ScriptedModel([Reply([Text(LONG)])]))), max_tokens=limit)
    assert (message.stop_reason, message.usage.output_tokens) == ("max_tokens", limit)
    (block,) = message.content
    assert isinstance(block, anthropic.types.TextBlock)
    assert LONG.startswith(block.text)
    assert text_tokens(block.text) == limit


async def test_a_reply_that_just_fits_is_whole(serve: Serve, connect: Connect) -> None:
    model = ScriptedModel([Reply([Text("x" * 35)]), Reply([Text("x" * 36)])])
    client = connect(serve(model))
    whole, cut = await ask(client, max_tokens=10), await ask(client, max_tokens=10)
    assert (whole.stop_reason, whole.usage.output_tokens) == ("end_turn", 10)
    assert (cut.stop_reason, cut.usage.output_tokens) == ("max_tokens", 10)


@pytest.mark.parametrize("limit", [21, 60, 333])
async def test_a_call_is_cut_in_the_middle_of_its_input(serve: Serve, connect: Connect, limit: int) -> None:
    client = connect(serve(ScriptedModel([Reply([ToolUse("write", {"content": "ü" * 3000})])])))
    pieces: list[str] = []
    async with client.messages.stream(model="claude-sonnet-5-5", max_tokens=limit, messages=ASK, tools=TOOLS) as stream:
        async for event in stream:
            if event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                pieces.append(event.delta.partial_json)
        message = await stream.get_final_message()
    assert (message.stop_reason, message.usage.output_tokens) == ("max_tokens", limit)
    written = "".join(pieces)
    assert '{"content": "üüü'.startswith(written) or written.startswith('{"content": "üüü')
    assert not written.endswith("}")
    assert message.content[0].type == "tool_use"


async def test_a_call_whose_beginning_does_not_fit_is_not_seen(serve: Serve, connect: Connect) -> None:
    reply = Reply([Text("x" * 35), ToolUse("write", {"content": "y"})])
    message = await ask(connect(serve(ScriptedModel([reply]))), max_tokens=25)
    assert [block.type for block in message.content] == ["text"]
    assert (message.stop_reason, message.usage.output_tokens) == ("max_tokens", 25)


async def test_the_context_ends_before_max_tokens(serve: Serve, connect: Connect) -> None:
    client = connect(serve(ScriptedModel([Reply([Text(LONG)])])))
    room = 50
    filler = "x" * int((200_000 - room - 4) * 3.5)
    question: Any = [{"role": "user", "content": filler}]
    request: Any = {"model": "claude-haiku-4-5", "messages": question}
    used = (await client.messages.count_tokens(**request)).input_tokens
    message = await ask(client, **request, tools=[], max_tokens=1000)
    assert message.stop_reason == "model_context_window_exceeded"
    assert message.usage.output_tokens == 200_000 - used


async def test_the_cache_is_written_once_and_read_after(serve: Serve, connect: Connect) -> None:
    client = connect(serve(ScriptedModel([Reply([Text("ok")])] * 4)))
    mark = {"type": "ephemeral"}
    system = [{"type": "text", "text": "Know this. " * 800, "cache_control": mark}]
    first_user = {"role": "user", "content": [{"type": "text", "text": "One " * 700, "cache_control": mark}]}
    later = [
        first_user,
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": [{"type": "text", "text": "Two " * 700, "cache_control": mark}]},
    ]
    first = (await ask(client, system=system, messages=[first_user])).usage
    assert first.cache_read_input_tokens == 0
    assert first.cache_creation_input_tokens
    assert first.input_tokens == 0  # the last block is a breakpoint
    second = (await ask(client, system=system, messages=later)).usage
    assert second.cache_read_input_tokens == first.cache_creation_input_tokens
    assert second.cache_creation_input_tokens == text_tokens("Two " * 700) + text_tokens("ok") + 8
    assert second.cache_creation is not None
    assert second.cache_creation.ephemeral_5m_input_tokens == second.cache_creation_input_tokens
    changed = [{**system[0], "text": "Know that. " * 800}]
    third = (await ask(client, system=changed, messages=later)).usage
    assert third.cache_read_input_tokens == 0
    small = (await ask(client, system=[{**system[0], "text": "Short."}], tools=[])).usage
    assert (small.cache_creation_input_tokens, small.cache_read_input_tokens) == (0, 0)


def test_cache_entries_expire_by_their_ttl_and_reads_refresh_them() -> None:
    now = 0.0
    cache = PromptCache(lambda: now)
    card = find_model("claude-opus-5")

    def charge(ttl: str) -> tuple[int, int]:
        block = {"type": "text", "text": "x" * 7000, "cache_control": {"type": "ephemeral", "ttl": ttl}}
        body = {"model": card.id, "messages": [{"role": "user", "content": [block]}]}
        usage = cache.charge(body, prompt_of(body), card)
        return usage.read, usage.written_5m + usage.written_1h

    assert charge("5m") == (0, 2004)
    now = 299
    assert charge("5m") == (2004, 0)
    now = 299 + 299  # refreshed by the read
    assert charge("5m") == (2004, 0)
    now = 299 + 299 + 301
    assert charge("1h") == (0, 2004)
    now += 3599
    assert charge("1h") == (2004, 0)


def test_the_look_back_ends_after_twenty_blocks() -> None:
    cache = PromptCache(lambda: 0.0)
    card = find_model("claude-opus-5")
    mark = {"type": "ephemeral"}
    first = {"type": "text", "text": "x" * 7000, "cache_control": mark}

    def read_with(blocks_between: int) -> int:
        plain = {"type": "text", "text": "x" * 7000}
        blocks = [plain, *({"type": "text", "text": str(n)} for n in range(blocks_between))]
        last = {"type": "text", "text": f"end {blocks_between}", "cache_control": mark}
        return charge([*blocks, last])

    def charge(content: list[Any]) -> int:
        body = {"model": card.id, "messages": [{"role": "user", "content": content}]}
        return cache.charge(body, prompt_of(body), card).read

    charge([first])
    assert read_with(18) == 2004
    assert read_with(25) == 0


async def test_thinking_is_bound_to_its_prefix(serve: Serve, connect: Connect) -> None:
    replies = [Reply([Thinking("Let me see."), Text("So."), ToolUse("write", {"content": "x"})])]
    client = connect(serve(ScriptedModel([*replies, *[Reply([Text("Done.")])] * 8])))
    first = await ask(client)
    history: list[Any] = [
        *ASK,
        first.to_param(),
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": first.content[2].id, "content": "ok"}]},  # type: ignore[union-attr]
    ]
    assert (await ask(client, messages=history)).stop_reason == "end_turn"
    marked = [
        {"role": "user", "content": [{"type": "text", "text": "Write it.", "cache_control": {"type": "ephemeral"}}]}
    ]
    assert await ask(client, messages=[*marked, *history[1:]])  # markers may move
    for changes in (
        {"messages": [{"role": "user", "content": "Write this."}, *history[1:]]},
        {"system": "New."},
        {"tools": [{**TOOLS[0], "description": "New."}]},
    ):
        with pytest.raises(anthropic.BadRequestError, match="bound to the conversation"):
            await ask(client, **{"messages": history, **changes})
    assert await ask(client, model="claude-opus-5-5", messages=history)  # another model's thought is dropped


async def test_thinking_that_is_cut_off_is_unsigned_and_refused(serve: Serve, connect: Connect) -> None:
    client = connect(serve(ScriptedModel([Reply([Thinking(LONG)])])))
    message = await ask(client, max_tokens=20)
    (block,) = message.content
    assert (block.type, message.stop_reason) == ("thinking", "max_tokens")
    assert isinstance(block, anthropic.types.ThinkingBlock)
    assert block.signature == ""
    assert message.usage.output_tokens_details is not None
    assert message.usage.output_tokens_details.thinking_tokens == 20
    with pytest.raises(anthropic.BadRequestError, match="Invalid `signature`"):
        await ask(client, messages=[*ASK, message.to_param(), *ASK])


async def test_models(serve: Serve, connect: Connect) -> None:
    client = connect(serve(ScriptedModel([])))
    info = await client.models.retrieve("claude-haiku-4-5")
    assert (info.max_input_tokens, info.max_tokens, info.lifecycle) == (200_000, 64_000, "active")
    assert "no AI" in info.display_name
    assert info.capabilities is not None
    assert info.capabilities.thinking.types.disabled.supported
    newest = await client.models.retrieve("claude-opus-5-5")
    assert newest.capabilities is not None
    assert not newest.capabilities.thinking.types.disabled.supported
    assert [model.id async for model in client.models.list()] == [card.id for card in all_models()]
    with pytest.raises(anthropic.NotFoundError, match="model: claude-nobody"):
        await client.models.retrieve("claude-nobody")
    with pytest.raises(anthropic.NotFoundError):
        await ask(client, model="claude-nobody")


async def test_counting_is_what_a_request_is_charged(serve: Serve, connect: Connect) -> None:
    client = connect(serve(ScriptedModel([Reply([Text("ok")])])))
    counted = await client.messages.count_tokens(model="claude-sonnet-5-5", messages=ASK, tools=TOOLS, system="S")
    usage = (await ask(client, system="S")).usage
    assert counted.input_tokens == usage.input_tokens


def test_each_piece_of_an_answer_leaves_at_once() -> None:
    """Where a socket is not named as TCP, asyncio lets it gather small pieces: the end of an answer is held back."""
    with listen(0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.proto == socket.IPPROTO_TCP


async def test_events_come_in_the_order_of_the_api(serve: Serve, connect: Connect) -> None:
    server = serve(ScriptedModel([Reply([Text("Hello."), ToolUse("write", {"content": "x"})])]))
    kinds: list[str] = []
    async with connect(server).messages.stream(
        model="claude-sonnet-5-5", max_tokens=99, messages=ASK, tools=TOOLS
    ) as stream:
        async for event in stream:
            kinds.append(event.type)
    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    raw = [kind for kind in kinds if kind not in ("text", "input_json", "ping")]
    assert raw == [
        "message_start",
        *block,
        *("content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"),
        "message_delta",
        "message_stop",
    ]


async def test_an_answer_without_streaming_is_the_same(serve: Serve, connect: Connect) -> None:
    reply = Reply([Thinking("Hm."), Text("Hello."), ToolUse("write", {"content": "x"})])
    client = connect(serve(ScriptedModel([reply, reply])))
    streamed = await ask(client)
    plain = await client.messages.create(model="claude-sonnet-5-5", max_tokens=4000, messages=ASK, tools=TOOLS)
    assert [block.to_dict() for block in plain.content] == [
        {key: value for key, value in block.to_dict().items() if key != "parsed_output"} for block in streamed.content
    ]
    assert plain.usage.output_tokens == streamed.usage.output_tokens


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Cut(), anthropic.APIConnectionError),
        (Cut(after_events=4), httpx2.RemoteProtocolError),
        (BadData(after_events=4), ValueError),
        (ErrorEvent(), anthropic.APIStatusError),
        (HttpError(529, "overloaded_error", headers={"retry-after": "7"}), anthropic.InternalServerError),
        (HttpError(429, "rate_limit_error", headers={"retry-after": "7"}), anthropic.RateLimitError),
    ],
)
async def test_faults_arrive_as_the_real_ones_do(
    serve: Serve, connect: Connect, fault: Fault, error: type[Exception]
) -> None:
    server = serve(ScriptedModel([Reply([Text(LONG)], fault=fault), Reply([Text("Well again.")])]))
    client = connect(server)
    with pytest.raises(error) as caught:
        await ask(client)
    if isinstance(fault, HttpError):
        assert isinstance(caught.value, anthropic.APIStatusError)
        assert caught.value.response.headers["retry-after"] == "7"
        assert caught.value.type == fault.kind
    assert (await ask(client)).stop_reason == "end_turn"
    assert [exchange.complete for exchange in server.requests] == [False, True]
    assert server.requests[0].error is not None


async def test_a_stream_without_its_end_and_a_cut_after_it(serve: Serve, connect: Connect) -> None:
    faults: list[Fault] = [NoMessageStop(1), NoMessageStop(2), Cut(after_events=999)]
    client = connect(serve(ScriptedModel([Reply([Text("Hi.")], fault=fault) for fault in faults])))
    assert (await ask(client)).stop_reason == "end_turn"
    assert (await ask(client)).stop_reason is None
    with pytest.raises(httpx2.RemoteProtocolError):
        await ask(client)


async def test_an_answer_takes_the_time_that_it_is_given(serve: Serve, connect: Connect) -> None:
    client = connect(serve(ScriptedModel([Reply([Text("word " * 200)], seconds=0.4)] * 2)))
    request: Any = {"model": "claude-sonnet-5-5", "max_tokens": 4000, "messages": ASK}
    began = time.monotonic()
    async with await client.messages.create(**request, stream=True) as stream:
        came = [time.monotonic() - began async for event in stream if event.type == "content_block_delta"]
    assert came[0] < came[-1] / 2
    assert came[-1] >= 0.4
    began = time.monotonic()
    assert (await client.messages.create(**request)).stop_reason == "end_turn"
    assert time.monotonic() - began >= 0.4


async def test_a_stall_is_silent_and_then_goes_on(serve: Serve, connect: Connect) -> None:
    client = connect(serve(ScriptedModel([Reply([Text("Hi.")], fault=Stall(0.4, after_events=3))] * 2)))
    began = time.monotonic()
    assert (await ask(client)).stop_reason == "end_turn"
    assert time.monotonic() - began >= 0.4
    with pytest.raises(httpx2.ReadTimeout):
        await ask(client, timeout=httpx2.Timeout(5, read=0.1))


async def test_odd_but_complete_answers(serve: Serve, connect: Connect) -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": None}
    replies = [
        Reply([], stop_reason="refusal", stop_details=details),
        Reply([Text("Wait."), ServerToolUse()], stop_reason="pause_turn"),
        Reply([Text("?")], stop_reason="something_new"),
        Reply([ToolUse("write", {}, id="toolu_a"), ToolUse("write", {}, id="toolu_a")]),
        Reply([ToolUse("write", '{"content": "unfinished')], stop_reason="end_turn"),
        Reply([Text("Limits.")], headers={"anthropic-ratelimit-requests-remaining": "12"}),
    ]
    client = connect(serve(ScriptedModel(replies)))
    refusal = await ask(client)
    assert refusal.stop_reason == "refusal"
    assert refusal.stop_details is not None
    assert refusal.stop_details.category == "cyber"
    paused = await ask(client)
    assert (paused.stop_reason, paused.content[-1].type) == ("pause_turn", "server_tool_use")
    assert str((await ask(client)).stop_reason) == "something_new"
    assert [block.id for block in (await ask(client)).content] == ["toolu_a", "toolu_a"]  # type: ignore[union-attr]
    assert (await ask(client)).stop_reason == "end_turn"
    request: Any = {"model": "claude-sonnet-5-5", "max_tokens": 10, "messages": ASK}
    async with client.messages.stream(**request) as stream:
        assert stream.response.headers["anthropic-ratelimit-requests-remaining"] == "12"
        await stream.until_done()


async def test_output_is_paced(serve: Serve, connect: Connect) -> None:
    client = connect(serve(ScriptedModel([Reply([Text("x" * 350)])]), tokens_per_second=250))
    began = time.monotonic()
    await ask(client)
    assert 0.4 <= time.monotonic() - began < 2


async def test_the_journal_tells_duplicates_from_broken_and_different_turns(
    serve: Serve, connect: Connect, tmp_path: Any
) -> None:
    file = tmp_path / "deep" / "journal.jsonl"
    replies = [Reply([Text(LONG)], fault=Cut(5)), *[Reply([Text("Hi.")])] * 3]
    mine: Any = {"metadata": {"user_id": "task/one"}}
    client = connect(serve(ScriptedModel(replies), journal=file))
    with pytest.raises(httpx2.RemoteProtocolError):
        await ask(client, **mine)
    await ask(client, **mine)
    await ask(client, metadata={"user_id": "task/two"})
    assert duplicate_turns(read_journal(file)) == []
    await ask(client, **mine)
    again = connect(serve(ScriptedModel([]), journal=file))  # a second emulator shares the file
    with pytest.raises(anthropic.BadRequestError):
        await ask(again, max_tokens=0)
    exchanges = read_journal(file)
    assert all(0 < exchange.seconds < 60 for exchange in exchanges)
    assert [exchange.status for exchange in exchanges] == [200, 200, 200, 200, 400]
    assert exchanges[1].user_id == "task/one"
    assert (exchanges[1].messages, exchanges[1].max_tokens, exchanges[1].stop_reason) == (1, 4000, "end_turn")
    assert exchanges[1].usage is not None
    assert exchanges[1].usage["output_tokens"] == 1
    (duplicate,) = duplicate_turns(exchanges)
    assert duplicate == ("task/one", exchanges[1].body_sha256)


async def test_a_client_that_leaves_is_no_completed_turn(serve: Serve, connect: Connect) -> None:
    server = serve(ScriptedModel([Reply([Text(LONG)])]), tokens_per_second=20)
    client = connect(server)
    async with client.messages.stream(model="claude-sonnet-5-5", max_tokens=999, messages=ASK) as stream:
        async for _ in stream:
            break
    for _ in range(50):
        if server.requests:
            break
        await asyncio.sleep(0.02)
    (exchange,) = server.requests
    assert (exchange.complete, exchange.error) == (False, "the client closed the connection")

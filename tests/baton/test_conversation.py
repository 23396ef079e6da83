"""What is sent again of a response, and that earlier messages never change."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.conversation import (
    Block,
    Ending,
    Notice,
    NoticeKind,
    Opening,
    Response,
    Turn,
    calls,
    messages,
    replayable,
    tool_result,
    unrun_results,
    user_content,
    with_cache_breakpoints,
)

OPENING = Opening(
    agent_id="a", model="m", user_id="t/a", system="s", tools=(), content=({"type": "text", "text": "go"},)
)


def text(value: str) -> Block:
    return {"type": "text", "text": value}


def call(name: str, arguments: Any = None) -> Block:
    return {"type": "tool_use", "id": name, "name": "read", "input": {} if arguments is None else arguments}


def thinking(signature: str = "s") -> Block:
    return {"type": "thinking", "thinking": "hm", "signature": signature}


def response(stop_reason: str, *content: Block, **fields: Any) -> Response:
    return Response(id="r", model="m", stop_reason=stop_reason, content=content, **fields)


def test_calls_run_only_when_the_response_asks_for_them() -> None:
    assert [c.id for c in calls(response("tool_use", text("x"), call("a"), call("b")))] == ["a", "b"]
    for reason in ("max_tokens", "end_turn", "refusal", "model_context_window_exceeded", "pause_turn"):
        assert calls(response(reason, call("a"))) == ()


def test_a_repeated_call_id_is_used_once() -> None:
    twice = response("tool_use", call("a"), call("a", {"file_path": "x"}))
    assert [c.input for c in calls(twice)] == [{}]
    assert replayable(twice) == (call("a"),)


def test_an_input_that_is_no_object_is_told_and_replayed_as_an_empty_one() -> None:
    broken = response("tool_use", call("a", "oops"))
    assert "complete JSON object" in (calls(broken)[0].fault or "")
    assert replayable(broken)[0]["input"] == {}


@pytest.mark.parametrize(
    ("given_response", "kept"),
    [
        (response("tool_use", thinking(""), text(" "), call("a")), (call("a"),)),
        (response("tool_use", thinking(), call("a")), (thinking(), call("a"))),
        (response("max_tokens", text("x"), call("a"), call("b")), (text("x"), call("a"))),
        (response("max_tokens", text("x")), (text("x"),)),
        (response("max_tokens", thinking()), ()),
        (response("end_turn"), ()),
        (response("end_turn", thinking()), ()),
    ],
)
def test_what_is_sent_again(given_response: Response, kept: tuple[Block, ...]) -> None:
    assert replayable(given_response) == kept


def test_complete_calls_of_a_cut_response_get_error_results() -> None:
    cut = response("max_tokens", call("a"), call("b"))
    results = unrun_results(replayable(cut), cut)
    assert [(r["tool_use_id"], r["is_error"]) for r in results] == [("a", True)]


def test_results_come_first_then_answers_then_notices() -> None:
    turn = Turn(parent="p", turn=1, response=response("tool_use", call("a")), results=(tool_result("a", "done"),))
    content = user_content(turn, ["yes"], [Notice(kind=NoticeKind.NUDGE, text="go on")])
    assert [block["type"] for block in content] == ["tool_result", "text", "text"]
    assert content[2]["text"] == '<notice kind="nudge">go on</notice>'


def test_a_result_is_never_empty() -> None:
    assert tool_result("a", "")["content"]


def test_an_empty_answer_leaves_no_empty_message() -> None:
    silent = Turn(parent="p", turn=1, response=response("end_turn"), replay=())
    sent = messages(OPENING, [silent], [text("nudge")])
    assert sent == [{"role": "user", "content": [text("go"), text("nudge")]}]


def test_unknown_stop_reasons_have_no_ending() -> None:
    with pytest.raises(KeyError):
        _ = response("something_new").ending
    assert response("end_turn").ending is Ending.SILENT


def test_breakpoints_are_on_the_last_two_user_messages_of_a_copy() -> None:
    turns = [
        Turn(parent="p", turn=n, user=(text(f"u{n}"),), response=response("end_turn"), replay=(text(f"a{n}"),))
        for n in range(1, 4)
    ]
    sent = messages(OPENING, turns, [text("last")])
    marked = with_cache_breakpoints(sent)
    with_marks = [n for n, message in enumerate(marked) if "cache_control" in message["content"][-1]]
    assert with_marks == [4, 6]
    assert "cache_control" not in str(sent)


blocks = st.one_of(
    st.builds(text, st.text(max_size=5)),
    st.builds(thinking, st.sampled_from(["", "s"])),
    st.builds(call, st.sampled_from("abc")),
)
responses = st.builds(
    lambda reason, content: response(reason, *content),
    st.sampled_from(["tool_use", "end_turn", "max_tokens", "refusal", "model_context_window_exceeded"]),
    st.lists(blocks, max_size=4),
)


def conversation(given_responses: list[Response]) -> list[Turn]:
    """Turns as the turn activity makes them."""
    turns: list[Turn] = []
    previous: Opening | Turn = OPENING
    for number, one in enumerate(given_responses, 1):
        renamed = one.model_copy(update={"content": tuple(_unique(block, number) for block in one.content)})
        replay = replayable(renamed)
        wanted = calls(renamed)
        results = tuple(tool_result(c.id, "ok") for c in wanted) if wanted else unrun_results(replay, renamed)
        notices = [] if results or number == 1 else [Notice(kind=NoticeKind.NUDGE, text="go on")]
        user = () if number == 1 else user_content(previous, [], notices or [])
        previous = Turn(parent="p", turn=number, user=user, response=renamed, replay=replay, results=results)
        turns.append(previous)
    return turns


def _unique(block: Block, number: int) -> Block:
    return {**block, "id": f"{block['id']}{number}"} if block["type"] == "tool_use" else block


@given(st.lists(responses, min_size=1, max_size=6))
def test_every_conversation_keeps_the_rules_of_the_api(given_responses: list[Response]) -> None:
    turns = conversation(given_responses)
    sent = messages(OPENING, turns, user_content(turns[-1], [], [Notice(kind=NoticeKind.NUDGE, text="go on")]))
    assert [message["role"] for message in sent] == ["user", "assistant"] * (len(sent) // 2) + ["user"]
    for before, message in zip([None, *sent], sent, strict=False):
        asked = [b["id"] for b in before["content"] if b["type"] == "tool_use"] if before else []
        answered = [b["tool_use_id"] for b in message["content"] if b["type"] == "tool_result"]
        if message["role"] == "user":
            assert answered == asked
            kinds = [b["type"] == "tool_result" for b in message["content"]]
            assert kinds == sorted(kinds, reverse=True)
        for block in message["content"]:
            assert block["type"] != "text" or block["text"].strip()
            assert block["type"] != "thinking" or block["signature"]


@given(st.lists(responses, min_size=2, max_size=6))
def test_history_only_grows(given_responses: list[Response]) -> None:
    turns = conversation(given_responses)
    earlier: list[Block] = []
    for count in range(1, len(turns) + 1):
        user = turns[count - 1].user
        sent = messages(OPENING, turns[: count - 1], user)
        flat = [(message["role"], block) for message in sent for block in message["content"]]
        assert flat[: len(earlier)] == earlier
        earlier = flat

"""What is known of a conversation saves work, and never changes an answer: with it every request is answered as by an
emulator that was just started."""

import copy
import json
from collections.abc import Callable
from typing import Any

import anthropic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.beginnings import MOST_CONVERSATIONS, Beginnings
from emulator.errors import ApiError
from emulator.prompt import Link, prompt_of
from emulator.reply import Reply, ScriptedModel, Text, ToolUse
from emulator.request import Request
from emulator.server import EmulatorServer
from emulator.signatures import sign_thinking
from emulator.strictness import check

Body = dict[str, Any]
Connect = Callable[[EmulatorServer], anthropic.AsyncAnthropic]
Serve = Callable[..., EmulatorServer]

MARK: Body = {"type": "ephemeral"}
SCHEMA: Body = {"type": "object", "properties": {}}
HEAD: Body = {
    "model": "claude-sonnet-5-5",
    "system": [{"type": "text", "text": "Be brief.", "cache_control": MARK}],
    "tools": [{"name": "edit", "input_schema": SCHEMA}, {"name": "read", "input_schema": SCHEMA}],
}


def answer(number: int) -> Body:
    """The assistant's message of a turn."""
    call = {"type": "tool_use", "id": f"toolu_{number}", "name": "edit", "input": {"line": 1, "new": "x"}}
    return {"role": "assistant", "content": [{"type": "text", "text": f"Turn {number}."}, call]}


def results(number: int) -> Body:
    """The user's message that follows."""
    result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": "edited", "is_error": True}
    return {"role": "user", "content": [result, {"type": "text", "text": "Go on."}]}


def history(turns: int) -> list[Body]:
    """A conversation in which the first answer began with a signed thought."""
    messages: list[Body] = [{"role": "user", "content": [{"type": "text", "text": "Edit."}]}]
    for number in range(turns):
        messages += [answer(number), results(number)]
    signature = sign_thinking(HEAD["model"], prompt_of({**HEAD, "messages": messages[:1]}), "Hm.")
    messages[1]["content"].insert(0, {"type": "thinking", "thinking": "Hm.", "signature": signature})
    return messages


def sent(messages: list[Body], user_id: str = "task/one", **changes: Any) -> Body:
    """The request as the worker sends it: the last two messages of the user are marked."""
    head, messages = copy.deepcopy((HEAD, messages))
    for message in [message for message in messages if message["role"] == "user"][-2:]:
        message["content"][-1]["cache_control"] = MARK
    return {**head, "messages": messages, "max_tokens": 99, "metadata": {"user_id": user_id}, **changes}


def outcome(body: Body, beginnings: Beginnings) -> str | list[Link]:
    """What is answered: why it is refused, or all links of the prompt."""
    known = beginnings.of(body)
    try:
        request = Request.parse(body, known.messages)
        prompt = check(request, body, known)
    except ApiError as error:
        return error.message
    beginnings.keep(known, request, body, prompt)
    return prompt.links


def after(turns: int, user_id: str = "task/one") -> Beginnings:
    """What is known when so many requests of the conversation were answered."""
    beginnings = Beginnings()
    for number in range(1, turns + 1):
        assert isinstance(outcome(sent(history(number), user_id), beginnings), list)
    return beginnings


def put(path: str, value: Any) -> Callable[[Body], None]:
    def change(body: Body) -> None:
        node: Any = body
        *parents, last = [int(key) if key.isdigit() else key for key in path.split(".")]
        for key in parents:
            node = node[key]
        node[last] = value

    return change


def reorder(body: Body) -> None:
    call = body["messages"][3]["content"][1]
    call["input"] = dict(reversed(call["input"].items()))


CHANGED = [
    ("a blank text", put("messages.3.content.0.text", " "), "messages.3.content.0: text content blocks must contain"),
    ("a marked empty text", put("messages.3.content.0", {"type": "text", "text": "", "cache_control": MARK}), "empty"),
    ("another field", put("messages.4.content.1.index", 1), "Extra inputs are not permitted"),
    ("a number for a truth", put("messages.4.content.0.is_error", 1), "is_error: Input should be a valid boolean"),
    ("another role", put("messages.4.role", "system"), "messages.4.role: Input should be"),
    ("no content", put("messages.4.content", []), "messages.4: all messages must have non-empty content"),
    (
        "a call without result",
        put("messages.4.content", [{"type": "text", "text": "So?"}]),
        "without `tool_result` blocks",
    ),
    ("a result of nothing", put("messages.4.content.0.tool_use_id", "toolu_9"), "unexpected `tool_use_id`"),
    ("an id again", put("messages.3", answer(0)), "ids must be unique"),
    ("an undeclared tool", put("messages.3.content.1.name", "write"), 'Tool "write" is not in `tools`'),
    ("the tools", put("tools.0.name", "write"), "is not in `tools`"),
    ("no tools", put("tools", []), "must define tools"),
    ("a tool's description", put("tools.0.description", "New."), "bound to the conversation"),
    ("the system prompt", put("system.0.text", "Be long."), "bound to the conversation"),
    ("the first message", put("messages.0.content.0.text", "Read."), "bound to the conversation"),
    ("a thought", put("messages.1.content.0.thinking", "Ha."), "Invalid `signature`"),
    ("one marker more", put("messages.2.content.0.cache_control", MARK), None),
    ("the order of an input", reorder, None),
    ("a truth for a number", put("messages.3.content.1.input.line", True), None),
]


@pytest.mark.parametrize(("change", "message"), [case[1:] for case in CHANGED], ids=[case[0] for case in CHANGED])
def test_a_changed_old_message_is_checked_as_if_it_were_new(
    change: Callable[[Body], None], message: str | None
) -> None:
    beginnings = after(8)
    assert len(beginnings.of(sent(history(9))).messages) > 4
    body = sent(history(9))
    change(body)
    found = outcome(body, beginnings)
    assert found == outcome(body, Beginnings())
    assert isinstance(found, str) == (message is not None)
    assert found != outcome(sent(history(9)), Beginnings())
    assert (message or "") in str(found)
    # Neither is the refused request remembered, nor what was known before spoilt.
    assert outcome(body, beginnings) == found
    assert outcome(sent(history(9)), beginnings) == outcome(sent(history(9)), Beginnings())


def test_another_model_looks_at_everything_again() -> None:
    body = sent(history(9), model="claude-opus-5-5")
    assert not after(8).of(body).messages
    assert outcome(body, after(8)) == outcome(body, Beginnings())


def test_only_the_last_turns_of_a_long_conversation_are_new() -> None:
    for turns in (3, 10, 60):
        body = sent(history(turns))
        assert len(body["messages"]) - len(after(turns - 1).of(body).messages) <= 6


@pytest.mark.parametrize(
    ("added", "message"),
    [
        ([answer(1), results(1)], "ids must be unique"),
        ([answer(9)], "Prefilling"),
        ([answer(9), {"role": "user", "content": "So?"}], "without `tool_result` blocks"),
        ([answer(9), results(1)], "unexpected `tool_use_id`"),
    ],
)
def test_what_is_new_is_held_against_what_is_known(added: list[Body], message: str) -> None:
    body = {**sent(history(9)), "messages": [*sent(history(9))["messages"], *added]}
    found = outcome(body, after(9))
    assert message in str(found)
    assert found == outcome(body, Beginnings())


def test_a_turn_that_goes_on_is_checked_as_a_whole() -> None:
    """After a message of the user comes another one, instead of the answer that came before."""
    known = len(after(8).of(sent(history(9))).messages)
    again = {"role": "user", "content": [results(known // 2 - 1)["content"][0]]}
    body = {**sent([]), "messages": [*history(9)[:known], again]}
    found = outcome(body, after(8))
    assert "single result" in str(found)
    assert found == outcome(body, Beginnings())


def test_an_answer_in_two_messages_is_one_turn() -> None:
    beginnings, messages = Beginnings(), [*history(9), answer(9), {"role": "assistant", "content": "Done."}, results(9)]
    for _ in range(2):
        body = {**sent([]), "messages": messages}
        assert outcome(body, beginnings) == outcome(body, Beginnings())
    assert len(beginnings.of(body).messages) == len(history(9))


def test_a_rewound_conversation_goes_on_from_where_it_was_taken_up() -> None:
    beginnings = after(9)
    other = answer(2) | {"content": [{"type": "text", "text": "Another way."}, answer(2)["content"][1]]}
    rewound = [*history(2), other, results(2)]
    for number, messages in enumerate([rewound, [*rewound, answer(3), results(3)], history(9)]):
        assert outcome(sent(messages), beginnings) == outcome(sent(messages), Beginnings()), number
    forgotten = [*rewound, answer(3), results(8)]
    assert "unexpected `tool_use_id`" in str(outcome(sent(forgotten), beginnings))


def test_two_agents_with_the_same_beginning_go_their_own_ways() -> None:
    beginnings = after(5)
    for number in range(1, 9):
        mine, theirs = history(number), [*history(1), *({**m} for m in history(number)[3:])]
        if number > 2:
            theirs[5] = {**theirs[5], "content": [{"type": "text", "text": "My own."}, *theirs[5]["content"][1:]]}
        for body in (sent(mine), sent(theirs, "task/two"), sent(theirs), sent(mine, "task/two")):
            assert outcome(body, beginnings) == outcome(body, Beginnings())


def test_half_a_surrogate_pair_has_an_exact_form_too() -> None:
    beginnings, messages = Beginnings(), history(9)
    messages[4]["content"][1]["text"] = "\ud800"
    for turns in range(3, 9):
        outcome(sent(messages[: 2 * turns + 1]), beginnings)
    assert len(beginnings.of(sent(messages)).messages) > 4
    changed = copy.deepcopy(messages)
    changed[4]["content"][1]["text"] = "\udfff"
    assert not beginnings.of(sent(changed)).messages


def test_only_so_many_conversations_are_known() -> None:
    beginnings = after(4, "task/first")
    for number in range(MOST_CONVERSATIONS - 1):
        outcome(sent(history(4), f"task/{number}"), beginnings)
    assert beginnings.of(sent(history(4), "task/first")).messages
    outcome(sent(history(4), "task/last"), beginnings)
    assert not beginnings.of(sent(history(4), "task/first")).messages
    assert beginnings.of(sent(history(4), "task/last")).messages


@pytest.mark.parametrize("body", [{}, {"messages": 5}, {"messages": [5] * 20}, {"messages": [], "metadata": "x"}])
def test_nothing_is_known_of_what_is_no_request(body: Body) -> None:
    assert not after(8).of({"metadata": {"user_id": "task/one"}, **body}).messages


BLOCKS = [
    {"type": "text", "text": "Well."},
    {"type": "text", "text": "Well.", "cache_control": MARK},
    {"type": "text", "text": " "},
    *(block for number in range(3) for block in (answer(number)["content"][1], results(number)["content"][0])),
    {**answer(1)["content"][1], "name": "write"},
    {"type": "server_tool_use", "id": "toolu_1", "name": "web_search", "input": {}},
    history(1)[1]["content"][0],
]
MESSAGES = st.builds(
    lambda role, content: {"role": role, "content": content},
    st.sampled_from(["user", "assistant"]),
    st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=2),
)
CHANGES = st.tuples(st.integers(0, 12), st.integers(0, 2), st.lists(MESSAGES, max_size=2), st.booleans())


@given(st.lists(CHANGES, max_size=6))
@settings(max_examples=300, deadline=None)
def test_no_course_of_requests_makes_another_answer(course: list[tuple[int, int, list[Body], bool]]) -> None:
    """A conversation grows a turn at a time, and now and then is cut, put together otherwise, or marked elsewhere."""
    beginnings = after(3)
    messages = history(3)
    for place, removed, put_in, is_marked in course:
        messages = [*messages[:place], *put_in, *messages[place + removed :]]
        body = sent(messages) if is_marked else {**sent([]), "messages": messages}
        assert outcome(body, beginnings) == outcome(body, Beginnings()), json.dumps(messages)


async def test_the_emulator_hands_on_what_it_knows_and_refuses_what_was_changed(serve: Serve, connect: Connect) -> None:
    seen: list[Request] = []

    def turn(request: Request) -> Reply:
        seen.append(request)
        return Reply([Text("I edit."), ToolUse("edit", {"number": len(seen)})])

    client = connect(serve(ScriptedModel([turn] * 10)))
    messages: list[Body] = [{"role": "user", "content": [{"type": "text", "text": "Edit."}]}]
    for _ in range(8):
        response = await client.messages.create(**sent(messages))
        (call,) = (block for block in response.content if block.type == "tool_use")
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "edited"}
        messages += [response.to_param(), {"role": "user", "content": [result]}]  # type: ignore[list-item]
    assert seen[-1].messages[0] is seen[-2].messages[0]
    assert [message.text for message in seen[-1].messages[:3]] == ["Edit.", "I edit.", ""]
    changed = copy.deepcopy(messages)
    changed[2]["content"][0]["tool_use_id"] = "toolu_0"
    with pytest.raises(anthropic.BadRequestError, match=r"messages\.2.*unexpected `tool_use_id`"):
        await client.messages.create(**sent(changed))
    again, other = [await client.messages.create(**sent(messages, user_id)) for user_id in ("task/one", "task/two")]
    assert again.id == other.id  # made from the whole prompt

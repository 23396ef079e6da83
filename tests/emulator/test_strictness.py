"""What the emulator refuses, and with which words; every case differs from a valid request in one thing."""

import copy
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from emulator.prompt import prompt_of
from emulator.server import EmulatorServer
from emulator.signatures import mint_call_id

Body = dict[str, Any]

TOOL: Body = {"name": "read", "input_schema": {"type": "object", "properties": {}}}
USE: Body = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"file_path": "a.py"}}
RESULT: Body = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "text"}
MARK: Body = {"type": "ephemeral"}
VALID: Body = {
    "model": "claude-sonnet-5-5",
    "max_tokens": 100,
    "system": [{"type": "text", "text": "Be brief.", "cache_control": MARK}],
    "tools": [TOOL],
    "messages": [
        {"role": "user", "content": "Read a.py"},
        {"role": "assistant", "content": [{"type": "text", "text": "Yes."}, USE]},
        {"role": "user", "content": [RESULT, {"type": "text", "text": "Go on."}]},
    ],
    "metadata": {"user_id": "task/agent"},
}
HEADERS = {"x-api-key": "test", "anthropic-version": "2026-10-21"}


def put(path: str, value: Any) -> Callable[[Body], None]:
    """Set the field at a dotted path."""

    def change(body: Body) -> None:
        node: Any = body
        *parents, last = path.split(".")
        for key in parents:
            node = node[int(key) if key.isdigit() else key]
        node[int(last) if last.isdigit() else last] = value

    return change


def drop(key: str) -> Callable[[Body], None]:
    def change(body: Body) -> None:
        del body[key]

    return change


def conversation(*messages: Body) -> Callable[[Body], None]:
    return put("messages", list(messages))


def user(*blocks: Body) -> Body:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Body) -> Body:
    return {"role": "assistant", "content": list(blocks)}


def text(words: str, **more: Any) -> Body:
    return {"type": "text", "text": words, **more}


ASK = {"role": "user", "content": "Read a.py"}

REFUSED = [
    ("no model", drop("model"), "model: Field required"),
    ("no max_tokens", drop("max_tokens"), "max_tokens: Field required"),
    ("no messages", drop("messages"), "messages: Field required"),
    ("empty messages", conversation(), "messages: List should have at least 1 item"),
    ("max_tokens zero", put("max_tokens", 0), "max_tokens: Input should be greater than or equal to 1"),
    ("max_tokens as text", put("max_tokens", "100"), "max_tokens: Input should be a valid integer"),
    ("max_tokens over the model", put("max_tokens", 128_001), "max_tokens: 128001 > 128000"),
    ("temperature", put("temperature", 0.5), "temperature: Extra inputs are not permitted"),
    ("top_p", put("top_p", 1), "top_p: Extra inputs are not permitted"),
    ("top_k", put("top_k", 1), "top_k: Extra inputs are not permitted"),
    ("unknown role", put("messages.0.role", "system"), "messages.0.role: Input should be"),
    ("first not user", conversation(assistant(text("Hi")), ASK), "first message must use the `user` role"),
    ("prefill", conversation(ASK, assistant(text("The"))), "Prefilling assistant messages is not supported"),
    ("empty content", put("messages.0.content", []), "messages.0: all messages must have non-empty content"),
    ("empty string", put("messages.0.content", ""), "messages.0: all messages must have non-empty content"),
    ("empty text block", conversation(user(text(""))), "text content blocks must be non-empty"),
    ("blank text block", conversation(user(text(" \n"))), "must contain non-whitespace text"),
    ("empty system block", put("system.0.text", ""), "system: text content blocks must be non-empty"),
    ("unknown block", put("messages.2.content.1.type", "video"), "messages.2.content.1: Input tag 'video'"),
    ("block with extra field", put("messages.2.content.1.index", 0), "Extra inputs are not permitted"),
    ("call without result", put("messages.2.content", [text("Go on.")]), "without `tool_result` blocks"),
    ("text before result", put("messages.2.content", [text("So:"), RESULT]), "without `tool_result` blocks"),
    ("text in a message before", conversation(ASK, assistant(USE), ASK, user(RESULT)), "without `tool_result`"),
    ("result without call", conversation(user(RESULT)), "unexpected `tool_use_id`"),
    ("result of an older call", conversation(ASK, assistant(USE), user(RESULT), user(RESULT)), "single result"),
    ("two results", put("messages.2.content", [RESULT, RESULT]), "must have a single result"),
    ("call id twice", conversation(ASK, assistant(USE, USE), user(RESULT)), "ids must be unique"),
    (
        "call id again later",
        conversation(ASK, assistant(USE), user(RESULT), assistant(USE), user(RESULT)),
        "ids must be unique",
    ),
    ("call by the user", conversation(user(USE)), "can only be in `assistant` messages"),
    ("result by the model", conversation(ASK, assistant(RESULT), ASK), "can only be in `user` messages"),
    ("call of an undeclared tool", put("tools.0.name", "write"), 'Tool "read" is not in `tools`'),
    ("calls without tools", drop("tools"), "must define tools"),
    ("bad tool name", put("tools.0.name", "read file"), "tools.0.name: String should match pattern"),
    ("tool name twice", put("tools", [TOOL, TOOL]), "Tool names must be unique"),
    ("schema no object", put("tools.0.input_schema", {"type": "string"}), "input_schema.type"),
    ("schema missing", put("tools.0", {"name": "read"}), "tools.0.input_schema: Field required"),
    ("loose strict tool", put("tools.0.strict", True), "'additionalProperties' must be set to false"),
    ("forced any", put("tool_choice", {"type": "any"}), "tool_choice.type: 'any' is not supported"),
    ("forced tool", put("tool_choice", {"type": "tool", "name": "read"}), "'tool' is not supported"),
    ("chosen tool unknown", put("tool_choice", {"type": "tool", "name": "x"}), "not found in provided tools"),
    ("unsigned thinking", put("messages.1.content.0", {"type": "thinking", "thinking": "hm"}), "Field required"),
    (
        "forged thinking",
        put("messages.1.content.0", {"type": "thinking", "thinking": "hm", "signature": "x.y.z"}),
        "messages.1.content.0: Invalid `signature` in `thinking` block",
    ),
    (
        "five breakpoints",
        put("messages.2.content", [RESULT, *(text("x", cache_control=MARK) for _ in range(4))]),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    ("marked empty text", conversation(user(text("", cache_control=MARK))), "cannot be set for empty text"),
    ("unknown ttl", put("system.0.cache_control", {"type": "ephemeral", "ttl": "2h"}), "ttl"),
    (
        "1h after 5m",
        put("messages.2.content.1", text("x", cache_control={"type": "ephemeral", "ttl": "1h"})),
        "must not come after",
    ),
    ("user id no text", put("metadata.user_id", 5), "metadata.user_id: Input should be a valid string"),
    ("stop sequences", put("stop_sequences", ["x"]), "not supported by this emulator"),
    ("manual thinking", put("thinking", {"type": "enabled", "budget_tokens": 1024}), "use 'adaptive'"),
    ("too long", put("messages.0.content", "x" * 3_600_000), "prompt is too long: "),
]


@pytest.mark.parametrize(("change", "message"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_refuses_with_the_words_of_the_api(
    greeter: EmulatorServer, change: Callable[[Body], None], message: str
) -> None:
    body = copy.deepcopy(VALID)
    change(body)
    response = post(greeter, body)
    assert response.status_code == 400
    answer = response.json()
    assert answer["type"] == "error"
    assert answer["error"]["type"] == "invalid_request_error"
    assert message in answer["error"]["message"]
    assert answer["request_id"] == response.headers["request-id"]


@pytest.mark.parametrize(
    ("model", "field", "value"),
    [
        ("claude-opus-5-5", "thinking", {"type": "disabled"}),
        ("claude-fable-5-2", "thinking", {"type": "disabled"}),
        ("claude-opus-5-5", "tool_choice", {"type": "any"}),
        ("claude-fable-5-2", "tool_choice", {"type": "tool", "name": "read"}),
    ],
)
def test_what_one_model_refuses_another_takes(greeter: EmulatorServer, model: str, field: str, value: Body) -> None:
    refused = post(greeter, {**VALID, "model": model, field: value})
    assert refused.status_code == 400
    assert refused.json()["error"]["message"].startswith(f"{field}.type")
    assert post(greeter, {**VALID, "model": "claude-opus-5", field: value}).status_code == 200


def test_takes_the_valid_request_and_old_models_take_prefill(greeter: EmulatorServer) -> None:
    assert post(greeter, VALID).status_code == 200
    prefilled = {**VALID, "model": "claude-haiku-4-5", "messages": [ASK, assistant(text("The"))]}
    assert post(greeter, prefilled).status_code == 200


def test_a_tool_name_that_the_model_made_up_may_be_replayed(greeter: EmulatorServer) -> None:
    call = {**USE, "name": "raed", "id": mint_call_id(prompt_of(VALID), 0, "raed")}
    result = {**RESULT, "tool_use_id": call["id"], "is_error": True}
    assert post(greeter, {**VALID, "messages": [ASK, assistant(call), user(result)]}).status_code == 200
    renamed = {**call, "name": "raad"}
    assert post(greeter, {**VALID, "messages": [ASK, assistant(renamed), user(result)]}).status_code == 400


def test_a_paused_turn_may_end_the_request(greeter: EmulatorServer) -> None:
    paused = assistant({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}})
    assert post(greeter, {**VALID, "messages": [ASK, paused]}).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status", "kind"),
    [
        ({"anthropic-version": "2026-10-21"}, 401, "authentication_error"),
        ({"x-api-key": "", "anthropic-version": "2026-10-21"}, 401, "authentication_error"),
        ({"x-api-key": "k"}, 400, "invalid_request_error"),
        ({"authorization": "Bearer k", "anthropic-version": "2026-10-21"}, 200, None),
    ],
)
def test_wants_a_key_and_a_version(
    greeter: EmulatorServer, headers: dict[str, str], status: int, kind: str | None
) -> None:
    response = httpx2.post(f"{greeter.url}/v1/messages", json=VALID, headers=headers)
    assert response.status_code == status
    assert response.json().get("error", {}).get("type") == kind


def test_unknown_model_route_and_broken_json(greeter: EmulatorServer) -> None:
    unknown = post(greeter, {**VALID, "model": "claude-nobody-9"})
    assert (unknown.status_code, unknown.json()["error"]["message"]) == (404, "model: claude-nobody-9")
    nowhere = httpx2.get(f"{greeter.url}/v1/files", headers=HEADERS)
    assert (nowhere.status_code, nowhere.json()["error"]["type"]) == (404, "not_found_error")
    broken = httpx2.post(f"{greeter.url}/v1/messages", content=b'{"model": ', headers=HEADERS)
    assert (broken.status_code, broken.json()["error"]["type"]) == (400, "invalid_request_error")
    assert httpx2.get(f"{greeter.url}/health").json()["status"] == "ok"


def post(server: EmulatorServer, body: Body) -> httpx2.Response:
    return httpx2.post(f"{server.url}/v1/messages", json=body, headers=HEADERS, timeout=30)

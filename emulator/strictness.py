"""What the API refuses in a well-formed request: order and pairing of messages, and what each model rejects.

One function per rule group, run in order; the first fault is answered with 400 in the API's own words.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from emulator.beginnings import Beginning
from emulator.errors import invalid
from emulator.pairing import check_pairing
from emulator.prompt import Prompt, head_of
from emulator.request import (
    CacheControl,
    Message,
    Request,
    TextBlock,
    ThinkingBlock,
    TokenRequest,
    ToolResultBlock,
    ToolUseBlock,
)
from emulator.signatures import is_minted, verify_thinking

MAX_BREAKPOINTS = 4

_Numbered = Sequence[tuple[int, Message]]


def check(request: TokenRequest, body: Mapping[str, Any], known: Beginning | None = None) -> Prompt:
    """Refuse what the API refuses; else the request's prompt. What is known of its first messages is not checked again.

    Raises:
        ApiError: 400, or 404 for an unknown model.
    """
    card = request.card
    _check_tools(request)
    _check_tool_choice(request)
    _check_thinking_mode(request)
    if isinstance(request, Request):
        _check_limits(request)
    _check_roles(request)
    known = known or Beginning()
    first = len(known.messages)
    new = list(enumerate(request.messages))[first:]
    _check_contents(request, new)
    _check_cache(request, new)
    check_pairing(request.messages, first, known.calls)
    _check_declared(request, new)
    prompt = known.prompt.before(first) if known.prompt else head_of(body)
    for number, message in enumerate(body["messages"][first:], first):
        verify_thinking(number, message, prompt, request.model, card)
        prompt.read(message)
    tokens = prompt.end.tokens
    if isinstance(request, Request) and tokens > card.context_tokens:
        raise invalid(f"prompt is too long: {tokens} tokens > {card.context_tokens} maximum")
    return prompt


def _check_tools(request: TokenRequest) -> None:
    seen: set[str] = set()
    for number, tool in enumerate(request.tools or ()):
        where = f"tools.{number}.custom"
        if tool.name in seen:
            raise invalid("tools: Tool names must be unique.")
        seen.add(tool.name)
        if tool.input_schema.get("type") != "object":
            raise invalid(f"{where}.input_schema.type: Input should be 'object'")
        properties = tool.input_schema.get("properties", {})
        if not isinstance(properties, dict):
            raise invalid(f"{where}.input_schema.properties: Input should be a valid dictionary")
        required = tool.input_schema.get("required", [])
        if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
            raise invalid(f"{where}.input_schema.required: Input should be a valid list of strings")
        if tool.strict and tool.input_schema.get("additionalProperties") is not False:
            raise invalid(f"{where}.input_schema: For strict tools 'additionalProperties' must be set to false")


def _check_tool_choice(request: TokenRequest) -> None:
    choice = request.tool_choice
    if choice is None:
        return
    if not request.tools:
        raise invalid("tool_choice: tool_choice may only be specified while providing tools.")
    if choice.type == "tool" and choice.name not in request.tool_names:
        raise invalid(f"tool_choice.name: Tool '{choice.name}' not found in provided tools")
    if choice.type in ("any", "tool") and not request.card.forced_tool_choice:
        raise invalid(f"tool_choice.type: '{choice.type}' is not supported by {request.model}; use 'auto'")


def _check_thinking_mode(request: TokenRequest) -> None:
    thinking, card = request.thinking, request.card
    if thinking is None:
        return
    if thinking.type in ("disabled", "between_tools") and not card.thinking_can_be_off:
        raise invalid(f"thinking.type: '{thinking.type}' is not supported by {request.model}")
    if thinking.type == "between_tools":
        raise invalid("thinking.type: 'between_tools' is not supported by this emulator")
    if thinking.type == "adaptive" and not card.adaptive_thinking:
        raise invalid(f"thinking.type: adaptive thinking is not supported by {request.model}")
    if thinking.type == "enabled":
        if card.preserved_thinking:
            raise invalid(f"thinking.type: 'enabled' is not supported by {request.model}; use 'adaptive'")
        if thinking.budget_tokens is None:
            raise invalid("thinking.enabled.budget_tokens: Field required")


def _check_limits(request: Request) -> None:
    card = request.card
    if request.max_tokens > card.max_output_tokens:
        raise invalid(
            f"max_tokens: {request.max_tokens} > {card.max_output_tokens}, which is the maximum allowed "
            f"number of output tokens for {request.model}"
        )
    budget = request.thinking.budget_tokens if request.thinking else None
    if budget is not None and budget >= request.max_tokens:
        raise invalid("max_tokens: `max_tokens` must be greater than `thinking.budget_tokens`.")
    if request.stop_sequences:
        raise invalid("stop_sequences: not supported by this emulator")
    if request.output_config and request.output_config.format:
        raise invalid("output_config.format: not supported by this emulator")


def _check_roles(request: TokenRequest) -> None:
    messages = request.messages
    if messages[0].role != "user":
        raise invalid("messages.0: first message must use the `user` role")
    last = messages[-1]
    paused = last.blocks and last.blocks[-1].type == "server_tool_use"
    if last.role == "assistant" and not paused and not request.card.prefill:
        raise invalid(
            f"messages.{len(messages) - 1}: Prefilling assistant messages is not supported for this model; "
            "the conversation must end with a user message."
        )


def _check_contents(request: TokenRequest, new: _Numbered) -> None:
    for part in request.system if isinstance(request.system, list) else ():
        if not part.text:
            raise invalid("system: text content blocks must be non-empty")
    for number, message in new:
        if not message.content:
            raise invalid(f"messages.{number}: all messages must have non-empty content")
        for index, block in enumerate(message.blocks):
            _check_block(message, block, f"messages.{number}.content.{index}")


def _check_block(message: Message, block: object, where: str) -> None:
    match block:
        case TextBlock():
            _check_text(block, where)
        case ToolResultBlock():
            if message.role != "user":
                raise invalid(f"{where}: `tool_result` blocks can only be in `user` messages")
            for part in block.content if isinstance(block.content, list) else ():
                if isinstance(part, TextBlock):
                    _check_text(part, f"{where}.content")
        case ToolUseBlock() | ThinkingBlock():
            if message.role != "assistant":
                raise invalid(f"{where}: `{block.type}` blocks can only be in `assistant` messages")
        case _:
            pass


def _check_text(block: TextBlock, where: str) -> None:
    if block.text.strip():
        return
    if block.cache_control:
        raise invalid(f"{where}.text: cache_control cannot be set for empty text blocks")
    fault = "contain non-whitespace text" if block.text else "be non-empty"
    raise invalid(f"{where}: text content blocks must {fault}")


def _check_cache(request: TokenRequest, new: _Numbered) -> None:
    marks = list(_breakpoints(request, new))
    if len(marks) > MAX_BREAKPOINTS:
        raise invalid(f"A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided. Found {len(marks)}.")
    lifetimes = [mark.ttl for mark in marks]
    if lifetimes != sorted(lifetimes):  # "1h" sorts before "5m"
        raise invalid("cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' one")


def _breakpoints(request: TokenRequest, new: _Numbered) -> Iterator[CacheControl]:
    """All of a request: a known message has none."""
    system = request.system if isinstance(request.system, list) else []
    blocks: Sequence[object] = [
        *(request.tools or ()),
        *system,
        *(block for _, message in new for block in message.blocks),
    ]
    for block in blocks:
        mark = getattr(block, "cache_control", None)
        if isinstance(mark, CacheControl):
            yield mark
    if request.cache_control:
        yield request.cache_control


def _check_declared(request: TokenRequest, new: _Numbered) -> None:
    """Calls in the history need their tool, unless the model itself made up the name (the id proves it)."""
    for number, message in new:
        for index, block in enumerate(message.blocks):
            if not isinstance(block, ToolUseBlock | ToolResultBlock) or block.type == "server_tool_use":
                continue
            if not request.tools:
                raise invalid("Requests which include `tool_use` or `tool_result` blocks must define tools")
            if isinstance(block, ToolUseBlock) and block.name not in request.tool_names:
                if is_minted(block.id, block.name):
                    continue
                raise invalid(f"messages.{number}.content.{index}: Tool {json.dumps(block.name)} is not in `tools`")

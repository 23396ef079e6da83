"""The spans of an agent's calls: `chat` for each model call, `execute_tool` for each tool call."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from activities.telemetry import Place, here, measure, measure_usage, tell
from baton import telemetry_names as names
from baton.conversation import Block, Response, ToolCall
from baton.pricing import Usage
from baton.telemetry import (
    Attributes,
    Event,
    Key,
    Span,
    clean_json,
    input_content,
    known,
    output_content,
    response_attributes,
)


def model_called(
    request: Mapping[str, Any], result: Response | str, began: datetime, spent: Usage | None = None
) -> None:
    """A model call ended with a response, or with an error of this type. `request`: the arguments of the API's call;
    `spent`: what it cost all the same."""
    place = here()
    if place is None:
        return
    model, limit, ended = str(request["model"]), int(request["max_tokens"]), datetime.now(UTC)
    if isinstance(result, Response):
        span = _chat(place, model, limit, result, began, ended)
    else:
        key: Key = ("chat", place.agent, place.turn, began.isoformat())
        span = Span(_named(model), key, began, ended, _asked(place, model, limit), error=result, is_request=True)
    if place.exporting.content:
        span.attributes[names.INPUT_MESSAGES] = input_content(request["messages"], place.exporting.clean)
    tell(place, place.around, span)
    measure(span, names.CHAT, known(REQUEST_MODEL=model))
    if isinstance(result, Response):
        measure_usage(result.usage, model, result.model)
    elif spent is not None:
        measure_usage(spent, model)


def response_found(model: str, max_tokens: int, response: Response, at: str, seconds: float) -> None:
    """A later attempt goes on with a response whose span may have died with the earlier one: it is told again.

    `at`: when the response had come. It was measured when it came.
    """
    place = here()
    if place is None or not at:
        return
    ended = datetime.fromisoformat(at)
    tell(place, place.around, _chat(place, model, max_tokens, response, ended - timedelta(seconds=seconds), ended))


def model_killed(model: str, spent: Usage) -> None:
    """A model call was killed while it answered: only what it cost is known, by estimate."""
    if here() is not None:
        measure_usage(spent, model)


def tool_called(call: ToolCall, result: Block, began: datetime, *, refused: bool, number: int, attempt: int) -> None:
    """A tool call ended: the `number`-th of its turn, in this attempt of it. `refused`: the file is another's."""
    place = here()
    if place is None:
        return
    ended = datetime.now(UTC)
    attributes = place.attributes(names.EXECUTE_TOOL)
    attributes |= known(TOOL_NAME=call.name, TOOL_CALL_ID=call.id, TOOL_TYPE="function", ATTEMPT=attempt)
    if place.exporting.content:
        attributes[names.TOOL_ARGUMENTS] = clean_json(call.input, place.exporting.clean)
        attributes[names.TOOL_RESULT] = clean_json(result.get("content"), place.exporting.clean)
    error = ""
    if result.get("is_error"):
        error = "ownership_refused" if refused else "tool_error"
    span = Span(
        f"{names.EXECUTE_TOOL} {call.name}",
        ("tool", place.agent, place.turn, number, place.work, attempt),
        began,
        ended,
        attributes,
        (Event(names.REFUSAL_EVENT, ended, known(TOOL_NAME=call.name)),) if refused else (),
        error,
    )
    tell(place, place.around, span)
    measure(span, names.EXECUTE_TOOL, known(TOOL_NAME=call.name))


def _chat(place: Place, model: str, max_tokens: int, response: Response, began: datetime, ended: datetime) -> Span:
    attributes = _asked(place, model, max_tokens) | response_attributes(response)
    if place.exporting.content:
        attributes[names.OUTPUT_MESSAGES] = output_content(response, place.exporting.clean)
    return Span(_named(model), ("chat", response.id), began, ended, attributes, is_request=True)


def _asked(place: Place, model: str, max_tokens: int) -> Attributes:
    asked = known(PROVIDER_NAME=names.PROVIDER, REQUEST_MODEL=model, REQUEST_MAX_TOKENS=max_tokens)
    return place.attributes(names.CHAT) | asked


def _named(model: str) -> str:
    return f"{names.CHAT} {model}"

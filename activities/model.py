"""One streamed model call.

With worker.py the only importer of the Anthropic client. A response counts only when `message_stop` arrived; whatever
else happens is told as a `ModelFault`, once, without a retry of our own: Temporal retries.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import anthropic
import httpx2
from anthropic.types import RawMessageStreamEvent

from activities.errors import ModelFault
from baton.conversation import ENDINGS, Block, Response
from baton.pricing import Price, Usage, priced

STREAM_READ_SECONDS = 120.0
"""Longest silence within a stream; the API sends pings much more often."""

CHARACTERS_PER_TOKEN = {"text": 3.5, "thinking": 3.5, "tool_use": 3.0}
TOKENS_PER_CALL = 50

Progress = Callable[[int], None]
"""Gets the live estimate of output tokens of the response so far."""


class ModelError(Exception):
    """A model call failed; `fault` says how."""

    def __init__(self, fault: ModelFault) -> None:
        self.fault = fault
        super().__init__(fault.message)


@dataclass(frozen=True)
class ModelRequest:
    """One request, complete."""

    model: str
    system: str
    tools: tuple[Block, ...]
    messages: list[Block]
    max_tokens: int
    user_id: str
    effort: str | None = None

    def arguments(self) -> dict[str, Any]:
        """The arguments of the SDK's `messages.stream`."""
        arguments: dict[str, Any] = {
            "model": self.model,
            "max_tokens": self.max_tokens,
            "system": [{"type": "text", "text": self.system, "cache_control": {"type": "ephemeral"}}],
            "messages": self.messages,
            "metadata": {"user_id": self.user_id},
        }
        if self.tools:
            arguments["tools"] = list(self.tools)
        if self.effort:
            arguments["output_config"] = {"effort": self.effort}
        return arguments


@dataclass(frozen=True)
class ModelFacts:
    """What the API says of a model."""

    max_input_tokens: int | None
    max_tokens: int | None


class Model:
    """Calls to the Messages API. `client` makes a client when it is needed, so that a new key is used at once."""

    def __init__(
        self, client: Callable[[], anthropic.AsyncAnthropic], prices: Mapping[str, Price] | None = None
    ) -> None:
        self._client = client
        self._prices = prices

    async def facts(self, model: str) -> ModelFacts:
        """Limits of a model. Raises `ModelError`, for an unknown model too."""
        try:
            found = await self._client().models.retrieve(model)
        except Exception as error:
            raise ModelError(fault_of(error)) from error
        return ModelFacts(max_input_tokens=found.max_input_tokens, max_tokens=found.max_tokens)

    async def respond(
        self, request: ModelRequest, progress: Progress, prices: Mapping[str, Price] | None = None
    ) -> Response:
        """The response to one request. Raises `ModelError`."""
        collected = _Collected()
        try:
            timeout = httpx2.Timeout(STREAM_READ_SECONDS, connect=30.0)
            async with self._client().messages.stream(**request.arguments(), timeout=timeout) as stream:
                request_id = stream.response.headers.get("request-id")
                async for event in stream:
                    collected.take(event)  # type: ignore[arg-type]
                    progress(collected.estimated_tokens)
                message = stream.current_message_snapshot
        except Exception as error:
            raise ModelError(fault_of(error)) from error
        if not collected.stopped or message.stop_reason not in ENDINGS:
            raise ModelError(
                ModelFault(f"the stream ended without a complete response (stop reason {message.stop_reason})")
            )
        usage = _usage(message.usage, prices or self._prices, message.model)
        return Response(
            id=message.id,
            model=message.model,
            stop_reason=message.stop_reason,
            content=tuple(block.to_dict(mode="json") for block in message.content),
            usage=usage,
            partial_inputs=collected.broken_inputs(message.content),
            request_id=request_id,
        )


def fault_of(error: Exception) -> ModelFault:
    """What an exception of the SDK or of its transport means."""
    if isinstance(error, anthropic.APIStatusError):
        return ModelFault(
            message=_message(error),
            status=error.status_code,
            type=error.type,
            retry_after=_retry_after(error.response.headers),
        )
    if isinstance(error, anthropic.APIConnectionError):
        return ModelFault(f"the model's API could not be reached: {error.__cause__ or error}")
    if isinstance(error, anthropic.AnthropicError) and "api_key" in str(error):
        return ModelFault("no API key is set", status=401, type="authentication_error")
    if isinstance(error, httpx2.HTTPError | json.JSONDecodeError | anthropic.APIError):
        return ModelFault(f"the stream broke: {type(error).__name__}: {error}")
    return ModelFault(f"{type(error).__name__}: {error}", status=400)


@dataclass
class _Collected:
    """What is seen of a stream while it runs."""

    stopped: bool = False
    characters: dict[int, float] = field(default_factory=dict)
    calls: int = 0
    raw_inputs: dict[int, list[str]] = field(default_factory=dict)

    @property
    def estimated_tokens(self) -> int:
        return int(sum(self.characters.values())) + self.calls * TOKENS_PER_CALL

    def take(self, event: RawMessageStreamEvent) -> None:
        if event.type == "message_stop":
            self.stopped = True
        elif event.type == "content_block_start" and event.content_block.type == "tool_use":
            self.calls += 1
        elif event.type == "content_block_delta":
            delta = event.delta
            text, kind = "", "text"
            if delta.type == "text_delta":
                text = delta.text
            elif delta.type == "thinking_delta":
                text, kind = delta.thinking, "thinking"
            elif delta.type == "input_json_delta":
                text, kind = delta.partial_json, "tool_use"
                self.raw_inputs.setdefault(event.index, []).append(text)
            self.characters[event.index] = self.characters.get(event.index, 0) + len(text) / CHARACTERS_PER_TOKEN[kind]

    def broken_inputs(self, content: list[Any]) -> dict[str, str]:
        """Raw JSON by call id, of calls whose input is no complete JSON object."""
        broken = {}
        for index, pieces in self.raw_inputs.items():
            raw = "".join(pieces)
            if index < len(content) and raw and not _is_object(raw):
                broken[content[index].id] = raw
        return broken


def _is_object(raw: str) -> bool:
    try:
        return isinstance(json.loads(raw), dict)
    except json.JSONDecodeError:
        return False


def _usage(usage: Any, prices: Mapping[str, Price] | None, model: str) -> Usage:
    creation = usage.cache_creation
    written = usage.cache_creation_input_tokens or 0
    hour = creation.ephemeral_1h_input_tokens if creation else 0
    counted = Usage(
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cache_read_input_tokens or 0,
        cache_write_5m_tokens=written - hour,
        cache_write_1h_tokens=hour,
        output_tokens=usage.output_tokens,
        model_calls=1,
    )
    return priced(model, counted, prices)


def _message(error: anthropic.APIStatusError) -> str:
    body = error.body
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        return str(body["error"].get("message", error.message))
    return str(error.message)


def _retry_after(headers: Mapping[str, str]) -> timedelta | None:
    value = headers.get("retry-after")
    try:
        return timedelta(seconds=float(value)) if value else None
    except ValueError:
        return None

"""One streamed model call.

With worker.py the only importer of the Anthropic client. A response counts only when `message_stop` arrived; whatever
else happens is told as a `ModelFault`, once, without a retry of our own: Temporal retries. Every call first asks the
gate (`activities/quota.py`), and tells it what came of it. The blocks are put together here from the stream's events:
the SDK gives up a whole response when the model wrote one call's JSON wrong.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import anthropic
import httpx2
from anthropic import AsyncStream
from anthropic.types import Message, RawContentBlockDelta, RawMessageStreamEvent
from anthropic.types import Usage as RawUsage
from pydantic_core import from_json, to_json

from activities.call_telemetry import model_called
from activities.errors import ModelFault
from activities.quota import Gate, NotNow, Place
from baton.conversation import ENDINGS, Block, Response
from baton.pricing import Price, Usage, priced
from baton.quota import account_hash, left_of, told
from baton.trace import CANCELLED

LONGEST_SILENCE = timedelta(seconds=120)
"""Within a stream; the API sends pings much more often."""

LONGEST_QUIET = timedelta(minutes=10)
"""Within a stream that is alive, for pings come, but brings nothing; a model may think that long."""

TEXT_CHARACTERS_PER_TOKEN = 3.5
JSON_CHARACTERS_PER_TOKEN = 3.0
TOKENS_PER_CALL = 50
CORRECTION_WEIGHT = 0.3
SMALLEST_CORRECTION, LARGEST_CORRECTION = 0.5, 2.0

Progress = Callable[[int], None]
"""Gets the live estimate of output tokens of the response so far; 0 at first, when the request goes out."""
Waiting = Callable[[bool], None]
"""Told when a call has to wait for the provider, and when it waits no longer."""


class ModelError(Exception):
    """A model call failed; `fault` says how. `spent`: what it cost by estimate; None where no answer had begun.

    `lost`: what all broken calls of its turn cost, where that is known.
    """

    def __init__(self, fault: ModelFault, spent: Usage | None = None) -> None:
        self.fault = fault
        self.spent = spent
        self.lost: Usage | None = None
        super().__init__(fault.message)


class ModelCancelled(asyncio.CancelledError):
    """The caller was cancelled while a call was under way. `spent`: what it cost by estimate; None where no answer had
    begun."""

    def __init__(self, spent: Usage | None) -> None:
        self.spent = spent
        super().__init__("cancelled while the model answered")


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
        """The fields of the request's body, without `stream`."""
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

    def body(self) -> bytes:
        """The body of the streamed request. The SDK would copy the whole conversation piece by piece before it writes
        it as JSON, with the event loop stopped for longer each turn."""
        return to_json({**self.arguments(), "stream": True})

    @property
    def estimated_tokens(self) -> int:
        """Its input, by its length."""
        return int(len(self.body()) / TEXT_CHARACTERS_PER_TOKEN)


@dataclass(frozen=True)
class ModelFacts:
    """What the API says of a model."""

    max_input_tokens: int | None
    max_tokens: int | None


class Model:
    """Calls to the Messages API. `client` gives the client of one call, so that a new key is used at once."""

    def __init__(
        self,
        client: Callable[[], AbstractAsyncContextManager[anthropic.AsyncAnthropic]],
        prices: Mapping[str, Price] | None = None,
        longest_silence: timedelta = LONGEST_SILENCE,
        gate: Gate | None = None,
        longest_quiet: timedelta = LONGEST_QUIET,
    ) -> None:
        self._client = client
        self._gate = gate or Gate()
        self._prices = prices
        self._quiet_seconds = longest_quiet.total_seconds()
        self._timeout = httpx2.Timeout(longest_silence.total_seconds(), connect=30.0)
        self._corrections: dict[str, float] = {}

    async def facts(self, model: str) -> ModelFacts:
        """Limits of a model. Raises `ModelError`, for an unknown model too."""
        try:
            async with self._client() as client:
                found = await client.models.retrieve(model)
        except Exception as error:
            raise ModelError(fault_of(error)) from error
        return ModelFacts(max_input_tokens=found.max_input_tokens, max_tokens=found.max_tokens)

    async def respond(
        self,
        request: ModelRequest,
        progress: Progress,
        prices: Mapping[str, Price] | None = None,
        waiting: Waiting = lambda _: None,
    ) -> Response:
        """The response to one request. Raises `ModelError`; `ModelCancelled` when it is cancelled under way."""
        collected = _Collected(correction=self._corrections.get(request.model, 1.0))
        prices = prices or self._prices
        try:
            response = await self._respond(request, collected, progress, prices, waiting)
        except asyncio.CancelledError as error:
            if collected.began is None:
                raise
            spent = collected.spent(prices)
            model_called(request.arguments(), CANCELLED, collected.began, spent)
            raise ModelCancelled(spent) from error
        except ModelError as error:
            if collected.began is not None:
                model_called(request.arguments(), error.fault.type or "broken", collected.began, error.spent)
            raise
        if collected.began is not None:
            model_called(request.arguments(), response, collected.began)
        return response

    async def _respond(
        self,
        request: ModelRequest,
        collected: "_Collected",
        progress: Progress,
        prices: Mapping[str, Price] | None,
        waiting: Waiting,
    ) -> Response:
        try:
            async with self._client() as client, self._gate.place(_account(client), waiting) as place:
                await self._stream(client, request, collected, progress, place, prices)
        except NotNow as error:
            text = f"{told(error.pause)}: {error.pause.reason}"
            raise ModelError(ModelFault(text, pause=error.pause)) from error
        except ModelError:
            raise
        except Exception as error:
            if not collected.stopped:
                raise ModelError(fault_of(error)) from error
        response = collected.response(prices)
        self._learn(request.model, collected, response.usage.output_tokens)
        return response

    async def _stream(
        self,
        client: anthropic.AsyncAnthropic,
        request: ModelRequest,
        collected: "_Collected",
        progress: Progress,
        place: Place,
        prices: Mapping[str, Price] | None,
    ) -> None:
        """Collect one stream in its place. Raises `ModelError` when it did not come to its end."""
        collected.began = datetime.now(UTC)
        progress(0)
        try:
            async with await client.post(
                "/v1/messages",
                content=request.body(),
                options={"timeout": self._timeout},
                cast_to=Message,
                stream=True,
                stream_cls=AsyncStream[RawMessageStreamEvent],
            ) as stream:
                collected.request_id = stream.response.headers.get("request-id")
                await place.accepted(left_of(stream.response.headers))
                async with asyncio.timeout(self._quiet_seconds) as quiet:
                    async for event in stream:
                        quiet.reschedule(asyncio.get_running_loop().time() + self._quiet_seconds)
                        collected.take(event)
                        progress(collected.estimated_tokens)
        except Exception as error:
            # After message_stop nothing is missing, however the connection ends.
            if not collected.stopped:
                raise ModelError(await self._refused(error, place), collected.spent(prices)) from error
        if collected.stopped:
            place.succeeded()

    async def _refused(self, error: Exception, place: Place) -> ModelFault:
        """What a failed call means, for this one and for all others of the account."""
        fault = fault_of(error)
        if fault.is_overload:
            left = left_of(error.response.headers) if isinstance(error, anthropic.APIStatusError) else ()
            pause, delay = await place.overloaded(fault.text, fault.retry_after, left)
            return replace(fault, pause=pause, retry_after=delay)
        if fault.concerns_account:
            return replace(fault, pause=await place.needs_person(fault.text))
        return fault

    def _learn(self, model: str, collected: "_Collected", actual_tokens: int) -> None:
        """Let the estimates of this model follow what its responses really cost: a moving average of the ratio."""
        if collected.uncorrected_tokens > 0:
            before = self._corrections.get(model, 1.0)
            after = before + CORRECTION_WEIGHT * (actual_tokens / collected.uncorrected_tokens - before)
            self._corrections[model] = min(max(after, SMALLEST_CORRECTION), LARGEST_CORRECTION)


def fault_of(error: Exception) -> ModelFault:
    """What an exception of the SDK or of its transport means."""
    if isinstance(error, anthropic.APIStatusError):
        return ModelFault(
            message=_message(error),
            status=error.status_code,
            type=error.type,
            code=error.error_code,
            retry_after=_retry_after(error.response.headers),
        )
    if isinstance(error, TimeoutError | httpx2.ReadTimeout) or isinstance(error.__cause__, httpx2.ReadTimeout):
        return ModelFault("the model fell silent: nothing came for too long", stalled=True)
    if isinstance(error, anthropic.APIConnectionError):
        return ModelFault(f"the model's API could not be reached: {error.__cause__ or error}")
    if isinstance(error, TypeError | anthropic.AnthropicError) and "api_key" in str(error):
        return ModelFault("no API key is set", status=401, type="authentication_error")
    if isinstance(error, httpx2.HTTPError | json.JSONDecodeError | anthropic.APIError):
        return ModelFault(f"the stream broke: {type(error).__name__}: {error}")
    return ModelFault(f"{type(error).__name__}: {error}", status=400)


@dataclass
class _Collected:
    """What came of a response so far. `correction`: how the estimates of earlier responses have to be mended. `began`:
    when it was asked for."""

    correction: float = 1.0
    began: datetime | None = None
    request_id: str | None = None
    id: str = ""
    model: str = ""
    usage: RawUsage | None = None
    stop_reason: str | None = None
    stopped: bool = False
    content: list[Block] = field(default_factory=list)
    raw_inputs: dict[int, list[str]] = field(default_factory=dict)
    uncorrected_tokens: float = 0.0

    @property
    def estimated_tokens(self) -> int:
        return int(self.uncorrected_tokens * self.correction)

    def take(self, event: RawMessageStreamEvent) -> None:
        match event.type:
            case "message_start":
                self.id, self.model, self.usage = event.message.id, event.message.model, event.message.usage
            case "content_block_start":
                self.content.append(event.content_block.to_dict(mode="json"))
                if event.content_block.type == "tool_use":
                    self.uncorrected_tokens += TOKENS_PER_CALL
            case "content_block_delta":
                self._grow(event.index, event.delta)
            case "message_delta":
                self.stop_reason = event.delta.stop_reason
                for name, total in event.usage.to_dict(mode="json").items():
                    if total is not None and self.usage is not None:
                        setattr(self.usage, name, total)
            case "message_stop":
                self.stopped = True

    def response(self, prices: Mapping[str, Price] | None) -> Response:
        """The complete response. Raises `ModelError` when it is not complete."""
        if not self.stopped or self.usage is None or self.stop_reason not in ENDINGS:
            fault = ModelFault(f"the stream ended without a complete response (stop reason {self.stop_reason})")
            raise ModelError(fault, self.spent(prices))
        broken = self._settle_inputs()
        for block in self.content:
            if block["type"] == "text":
                block["text"] = _storable(block["text"])
        return Response(
            id=self.id,
            model=self.model,
            stop_reason=self.stop_reason,
            content=tuple(self.content),
            usage=_usage(self.usage, prices, self.model),
            partial_inputs=broken,
            request_id=self.request_id,
        )

    def spent(self, prices: Mapping[str, Price] | None) -> Usage | None:
        """What an answer that did not arrive whole cost, by estimate; None where it had not begun."""
        if self.usage is None:
            return None
        told = _usage(self.usage, prices, self.model)
        guessed = told.model_copy(update={"output_tokens": max(told.output_tokens, self.estimated_tokens)})
        return priced(self.model, guessed.model_copy(update={"unpriced_calls": 0}), prices)

    def _grow(self, index: int, delta: RawContentBlockDelta) -> None:
        block = self.content[index]
        match delta.type:
            case "text_delta":
                block["text"] += delta.text
                self.uncorrected_tokens += len(delta.text) / TEXT_CHARACTERS_PER_TOKEN
            case "thinking_delta":
                block["thinking"] += delta.thinking
                self.uncorrected_tokens += len(delta.thinking) / TEXT_CHARACTERS_PER_TOKEN
            case "signature_delta":
                block["signature"] = delta.signature
            case "input_json_delta":
                self.raw_inputs.setdefault(index, []).append(delta.partial_json)
                self.uncorrected_tokens += len(delta.partial_json) / JSON_CHARACTERS_PER_TOKEN
            case "citations_delta":
                block["citations"] = [*(block.get("citations") or ()), delta.citation.to_dict(mode="json")]

    def _settle_inputs(self) -> dict[str, str]:
        """Give every call its input; returns the raw JSON, by call id, of inputs that are no complete JSON object."""
        broken = {}
        for index, pieces in self.raw_inputs.items():
            raw = _storable("".join(pieces))
            if not raw:
                continue
            block = self.content[index]
            found = _object(raw)
            if found is None:
                broken[block["id"]] = raw
                found = _object(raw, partial=True) or {}
            block["input"] = found
        return broken


def _account(client: anthropic.AsyncAnthropic) -> str:
    return account_hash(client.api_key or client.auth_token or "", str(client.base_url))


def _storable(text: str) -> str:
    """The text with surrogate pairs made one character, and halves of them, which no UTF-8 can hold, replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _object(raw: str, *, partial: bool = False) -> dict[str, Any] | None:
    """The JSON object, if it is one that can be sent again; `partial`: its readable beginning will do."""
    try:
        found = from_json(raw, allow_inf_nan=False, allow_partial=partial)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


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
        return timedelta(seconds=max(float(value), 0)) if value else None
    except (ValueError, OverflowError):
        return None

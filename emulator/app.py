"""The HTTP face of the emulator: routes, authentication, error form, and one journal line per request."""

import asyncio
import json
import time
import uuid
from collections.abc import Callable, Collection
from typing import Any

from pydantic_core import from_json
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from emulator.beginnings import Beginnings
from emulator.cache import PromptCache
from emulator.catalogue import STAND_IN, all_models, describe, find_model
from emulator.errors import ApiError, invalid
from emulator.journal import Journal, Record
from emulator.render import Rendered, render
from emulator.reply import HttpError, Model, Reply
from emulator.request import Request, TokenRequest
from emulator.streaming import HangUp, Pace, StreamedAnswer
from emulator.strictness import check

LARGEST_BODY_BYTES = 32 * 1024 * 1024
VERSIONS = ("2023-06-01", "2026-10-21")


class MessagesApi:
    """The endpoints around one model; `asgi` is the application to serve. Keys may be refused while it is served."""

    def __init__(self, model: Model, journal: Journal, hang_up: HangUp, tokens_per_second: float = 0) -> None:
        self.refused_keys: set[str] = set()
        self._model = model
        self._journal = journal
        self._hang_up = hang_up
        self._rate = tokens_per_second
        self._cache = PromptCache(time.monotonic)
        self._beginnings = Beginnings()
        self.asgi = Starlette(
            routes=[
                Route("/v1/messages", self._messages, methods=["POST"]),
                Route("/v1/messages/count_tokens", self._count_tokens, methods=["POST"]),
                Route("/v1/models", self._models),
                Route("/v1/models/{model_id:path}", self._model_info),
                Route("/health", self._health),
                Route("/{path:path}", self._nothing, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
            ]
        )

    async def _health(self, http: HttpRequest) -> Response:
        return JSONResponse({"status": "ok", "model": STAND_IN})

    async def _nothing(self, http: HttpRequest) -> Response:
        record = _record(http)
        return self._refuse(record, ApiError(404, "not_found_error", f"Not found: {http.url.path}"))

    async def _models(self, http: HttpRequest) -> Response:
        models = [describe(card) for card in all_models()]
        edges = {"first_id": models[0]["id"], "last_id": models[-1]["id"]}
        return self._answer_get(http, lambda: {"data": models, "has_more": False, **edges})

    async def _model_info(self, http: HttpRequest) -> Response:
        return self._answer_get(http, lambda: describe(find_model(http.path_params["model_id"])))

    def _answer_get(self, http: HttpRequest, make: Callable[[], dict[str, Any]]) -> Response:
        record = _record(http)
        try:
            _authenticate(http, self.refused_keys)
            body = make()
        except ApiError as error:
            return self._refuse(record, error)
        return self._answer(record, body)

    async def _count_tokens(self, http: HttpRequest) -> Response:
        raw = await http.body()
        record = _record(http, raw)
        try:
            body = _decode(http, raw, record, self.refused_keys)
            tokens = check(TokenRequest.parse(body), body).end.tokens
        except ApiError as error:
            return self._refuse(record, error)
        return self._answer(record, {"input_tokens": tokens})

    async def _messages(self, http: HttpRequest) -> Response:
        raw = await http.body()
        record = _record(http, raw)
        try:
            body = _decode(http, raw, record, self.refused_keys)
            known = self._beginnings.of(body)
            request = Request.parse(body, known.messages)
            prompt = check(request, body, known)
            self._beginnings.keep(known, request, body, prompt)
            reply = await self._respond(request)
        except ApiError as error:
            return self._refuse(record, error)
        charged = self._cache.charge(body, prompt, request.card)
        return await self._send(request, render(reply, request, prompt, charged), reply, record)

    async def _respond(self, request: Request) -> Reply:
        try:
            reply = await asyncio.to_thread(self._model.respond, request)
        except Exception as error:
            raise ApiError(500, "api_error", f"The model failed: {error!r}") from error
        if isinstance(reply.fault, HttpError):
            fault = reply.fault
            raise ApiError(fault.status, fault.kind, fault.message, fault.headers)
        return reply

    async def _send(self, request: Request, rendered: Rendered, reply: Reply, record: Record) -> Response:
        record.update(status=200, usage=rendered.usage, stop_reason=rendered.stop_reason)
        headers = {"request-id": record.fields["request_id"], **reply.headers}
        tokens = rendered.usage["output_tokens"]
        rate = tokens / reply.seconds if reply.seconds else self._rate
        if request.stream:
            pace = Pace(rate, reply.fault)
            return StreamedAnswer(rendered, headers, pace, record, self._journal, self._hang_up)
        if reply.fault is not None:
            return self._refuse(record, ApiError(500, "api_error", "This fault needs `stream: true`"))
        if rate > 0:
            await asyncio.sleep(tokens / rate)
        return self._answer(record, rendered.message, headers)

    def _answer(self, record: Record, body: dict[str, Any], headers: dict[str, str] | None = None) -> Response:
        record.update(status=200, complete=True)
        self._journal.close(record)
        return JSONResponse(body, headers=headers or {"request-id": record.fields["request_id"]})

    def _refuse(self, record: Record, error: ApiError) -> Response:
        request_id = record.fields["request_id"]
        record.update(status=error.status, error=f"{error.kind}: {error.message}")
        self._journal.close(record)
        headers = {"request-id": request_id, **error.headers}
        return JSONResponse(error.body(request_id), status_code=error.status, headers=headers)


def _record(http: HttpRequest, raw: bytes = b"") -> Record:
    return Record(http.method, http.url.path, f"req_{uuid.uuid4().hex[:24]}", raw)


def _authenticate(http: HttpRequest, refused: Collection[str]) -> None:
    """Any key will do that is not refused, but there must be one, and a version of the API."""
    bearer = http.headers.get("authorization", "").removeprefix("Bearer").strip()
    key = http.headers.get("x-api-key", "").strip() or bearer
    if not key:
        raise ApiError(401, "authentication_error", "x-api-key header is required")
    if key in refused:
        raise ApiError(401, "authentication_error", "invalid x-api-key")
    version = http.headers.get("anthropic-version")
    if version is None:
        raise invalid("anthropic-version: header is required")
    if version not in VERSIONS:
        raise invalid(f"anthropic-version: {json.dumps(version)} is not a valid version")


def _decode(http: HttpRequest, raw: bytes, record: Record, refused: Collection[str]) -> dict[str, Any]:
    """The JSON body of an authenticated request; the record learns what it can even of a bad one."""
    _authenticate(http, refused)
    if len(raw) > LARGEST_BODY_BYTES:
        raise ApiError(413, "request_too_large", "Request exceeds the maximum allowed number of bytes.")
    try:
        body = _parsed(raw)
    except ValueError as error:
        raise invalid(f"The request body is not valid JSON: {error}") from None
    record.describe(body)
    if not isinstance(body, dict):
        raise invalid("Input should be a valid dictionary")
    return body


def _parsed(raw: bytes) -> object:
    """The JSON value. The fast parser knows no half surrogate pairs and nests less deep: what it refuses, the other
    one decides on."""
    try:
        return from_json(raw)
    except ValueError:
        return json.loads(raw)

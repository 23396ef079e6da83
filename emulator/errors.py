"""The error form of the Messages API: one exception that knows its status, type and message."""

from collections.abc import Mapping
from typing import Any


class ApiError(Exception):
    """A request that is answered with an HTTP error status and the API's error body."""

    def __init__(self, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.headers = dict(headers or {})

    def body(self, request_id: str) -> dict[str, Any]:
        """`{"type": "error", "error": {"type", "message"}, "request_id"}`."""
        return {
            "type": "error",
            "error": {"type": self.kind, "message": self.message},
            "request_id": request_id,
        }


def invalid(message: str) -> ApiError:
    """A 400 `invalid_request_error`; `message` begins with the path of the field, as the API's do."""
    return ApiError(400, "invalid_request_error", message)

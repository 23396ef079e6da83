"""Outside errors, by who reacts: retry, wait for a quota, a person, or nobody.

The one place that knows which failure of a model call means what; sources: the error table of the Messages API and
failures seen in the field (a stream's own error event arrives inside a 200 and is told apart by its type).
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from http import HTTPStatus

from temporalio.exceptions import ApplicationError

from baton.names import CONTEXT_TOO_LONG, NEEDS_PERSON, REQUEST_REFUSED

LONGEST_RETRY_AFTER = timedelta(hours=6)
MESSAGE_LIMIT = 2_000
"""Failure texts are kept short: an oversized one is never reported by Temporal."""

RETRIED_STATUSES = frozenset({408, 409, 429})
PERSON_STATUSES = frozenset({401, 402, 403, 404})
STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
}
"""What an error inside a stream, whose own status is 200, would have had; every other type passes by itself."""
SPEND_LIMIT_CODES = frozenset({"enforced_spend_limit_reached", "contract_spend_limit_reached"})
SPEND_LIMIT_MESSAGE = "You have reached your specified API usage limits"


class Reaction(StrEnum):
    """Who reacts."""

    RETRY = "retry"
    PERSON = "person"
    FAIL = "fail"


@dataclass(frozen=True)
class ModelFault:
    """A failed model call, as far as it is known. `status` is None when no response came."""

    message: str
    status: int | None = None
    type: str | None = None
    code: str | None = None
    retry_after: timedelta | None = None

    @property
    def reaction(self) -> Reaction:
        """Who reacts to it."""
        if self.code in SPEND_LIMIT_CODES or self.message.startswith(SPEND_LIMIT_MESSAGE):
            return Reaction.PERSON
        status = STATUS_OF_TYPE.get(self.type or "") if self.status == HTTPStatus.OK else self.status
        if status is None or status in RETRIED_STATUSES or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return Reaction.RETRY
        return Reaction.PERSON if status in PERSON_STATUSES else Reaction.FAIL

    def error(self) -> ApplicationError:
        """The error that Temporal sees."""
        told = " ".join(str(part) for part in (self.status, self.type) if part)
        text = (f"{told}: {self.message}" if told else self.message)[:MESSAGE_LIMIT]
        if self.reaction is Reaction.PERSON:
            return ApplicationError(text, type=NEEDS_PERSON, non_retryable=True)
        if self.reaction is Reaction.FAIL:
            too_long = self.status == 413 or "too long" in self.message
            return ApplicationError(text, type=CONTEXT_TOO_LONG if too_long else REQUEST_REFUSED, non_retryable=True)
        delay = min(self.retry_after, LONGEST_RETRY_AFTER) if self.retry_after else None
        return ApplicationError(text, type="ModelUnavailable", next_retry_delay=delay)

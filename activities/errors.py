"""Outside errors, by who reacts: retry, wait for a quota, a person, or nobody.

The one place that knows which failure of a model call means what; sources: the error table of the Messages API and
failures seen in the field (a stream's own error event arrives inside a 200 and is told apart by its type).
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from temporalio.exceptions import ApplicationError

from baton.messages import NEEDS_PERSON, REQUEST_REFUSED

LONGEST_RETRY_AFTER = timedelta(hours=6)
MESSAGE_LIMIT = 2_000
"""Failure texts are kept short: an oversized one is never reported by Temporal."""

RETRIED_STATUSES = frozenset({408, 409, 429, 529})
PERSON_STATUSES = frozenset({401, 402, 403, 404})
RETRIED_TYPES = frozenset(
    {"overloaded_error", "api_error", "timeout_error", "rate_limit_error", "internal_server_error"}
)
SPEND_LIMIT_TYPES = frozenset({"enforced_spend_limit_reached", "contract_spend_limit_reached"})
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
    retry_after: timedelta | None = None

    @property
    def reaction(self) -> Reaction:
        """Who reacts to it."""
        if self.type in SPEND_LIMIT_TYPES or self.message.startswith(SPEND_LIMIT_MESSAGE):
            return Reaction.PERSON
        if self.status is None or self.type in RETRIED_TYPES:
            return Reaction.RETRY
        if self.status in PERSON_STATUSES:
            return Reaction.PERSON
        if self.status in RETRIED_STATUSES or self.status >= 500 or self.status == 200:
            return Reaction.RETRY
        return Reaction.FAIL

    def error(self) -> ApplicationError:
        """The error that Temporal sees."""
        told = " ".join(str(part) for part in (self.status, self.type) if part)
        text = (f"{told}: {self.message}" if told else self.message)[:MESSAGE_LIMIT]
        if self.reaction is Reaction.PERSON:
            return ApplicationError(text, type=NEEDS_PERSON, non_retryable=True)
        if self.reaction is Reaction.FAIL:
            return ApplicationError(text, type=REQUEST_REFUSED, non_retryable=True)
        delay = min(self.retry_after, LONGEST_RETRY_AFTER) if self.retry_after else None
        return ApplicationError(text, type="ModelUnavailable", next_retry_delay=delay)

"""Outside errors, by who reacts: retry, wait for a quota, a person, or nobody.

The one place that knows which failure of a model call means what; sources: the error table of the Messages API and
failures seen in the field (a stream's own error event arrives inside a 200 and is told apart by its type). And which
failure of a git that asks another host passes by itself, by the words of git, curl and ssh.
"""

import re
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from http import HTTPStatus

from temporalio.exceptions import ApplicationError

from baton.names import CONTEXT_TOO_LONG, NEEDS_PERSON, QUOTA_PAUSED, REQUEST_REFUSED, STALLED
from baton.pricing import Usage
from baton.quota import Pause

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
OVERLOAD_STATUSES = frozenset({429, 503, 529})
OVERLOAD_TYPES = frozenset({"overloaded_error", "rate_limit_error"})
"""What concerns every call of the account, not only the one that met it."""
ACCOUNT_STATUSES = frozenset({401, 402})
SPEND_LIMIT_CODES = frozenset({"enforced_spend_limit_reached", "contract_spend_limit_reached"})
SPEND_LIMIT_MESSAGE = "You have reached your specified API usage limits"

_GIT_REFUSED = re.compile(
    r"authentication failed|permission denied|could not read (username|password)|host key verification failed|"
    r"not found|does not exist|not appear to be a git repository|returned error: 4(?!08|29)",
    re.IGNORECASE,
)
_GIT_PASSES = re.compile(
    r"could not resolve|temporary failure|failed to connect|couldn't connect|network is unreachable|no route to host|"
    r"connection (was )?(refused|reset|timed out|closed)|operation timed out|broken pipe|hung up unexpectedly|"
    r"early eof|unexpected disconnect|failed to (create link|copy file|start iterator)|"
    r"rpc failed|transfer closed|kex_exchange|ssl_(read|error_syscall)|gnutls|"
    r"returned error: (408|429|5\d\d)|stopped at its time limit",
    re.IGNORECASE,
)
"""A link or file that fails: a local repository was packed anew meanwhile. What is said by neither is no passing
trouble: no space, no such protocol, a damaged repository."""


class Reaction(StrEnum):
    """Who reacts."""

    RETRY = "retry"
    QUOTA = "quota"
    PERSON = "person"
    FAIL = "fail"


@dataclass(frozen=True)
class ModelFault:
    """A failed model call, as far as it is known. `status` is None when no response came.

    `pause`: no call of the account leaves for now, this one included or because of it. `stalled`: the provider did
    not refuse, it fell silent.
    """

    message: str
    status: int | None = None
    type: str | None = None
    code: str | None = None
    retry_after: timedelta | None = None
    pause: Pause | None = None
    stalled: bool = False

    @property
    def text(self) -> str:
        """The fault in words, short enough to be reported."""
        told = " ".join(str(part) for part in (self.status, self.type) if part)
        return (f"{told}: {self.message}" if told else self.message)[:MESSAGE_LIMIT]

    @property
    def is_overload(self) -> bool:
        """Whether the provider has too much to do, or the account's rate limit is reached."""
        return self.reaction is Reaction.RETRY and (
            self.status in OVERLOAD_STATUSES or (self.type or "") in OVERLOAD_TYPES
        )

    @property
    def concerns_account(self) -> bool:
        """Whether only a person can help, and every agent of the account needs that help: a spend limit, a refused
        key. What is forbidden or unknown (403, 404) may be so for one model only."""
        return self._is_spend_limit or self._status in ACCOUNT_STATUSES

    @property
    def _is_spend_limit(self) -> bool:
        return self.code in SPEND_LIMIT_CODES or self.message.startswith(SPEND_LIMIT_MESSAGE)

    @property
    def _status(self) -> int | None:
        return STATUS_OF_TYPE.get(self.type or "") if self.status == HTTPStatus.OK else self.status

    @property
    def reaction(self) -> Reaction:
        """Who reacts to it."""
        if self.pause is not None:
            return Reaction.QUOTA
        if self._is_spend_limit:
            return Reaction.PERSON
        status = self._status
        if status is None or status in RETRIED_STATUSES or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return Reaction.RETRY
        return Reaction.PERSON if status in PERSON_STATUSES else Reaction.FAIL

    def error(self, lost: Usage | None = None) -> ApplicationError:
        """The error that Temporal sees. `lost`: what the calls of this turn cost so far that brought nothing."""
        text = self.text
        if self.pause is not None:
            return ApplicationError(text, self.pause, lost or Usage(), type=QUOTA_PAUSED, non_retryable=True)
        if self.stalled:
            return ApplicationError(text, lost or Usage(), type=STALLED, non_retryable=True)
        if self.reaction is Reaction.PERSON:
            return ApplicationError(text, type=NEEDS_PERSON, non_retryable=True)
        if self.reaction is Reaction.FAIL:
            too_long = self.status == 413 or "too long" in self.message
            return ApplicationError(text, type=CONTEXT_TOO_LONG if too_long else REQUEST_REFUSED, non_retryable=True)
        delay = min(self.retry_after, LONGEST_RETRY_AFTER) if self.retry_after else None
        return ApplicationError(text, type="ModelUnavailable", next_retry_delay=delay)


def git_passes(said: str) -> bool:
    """Whether what git said when it asked another host may be otherwise in a moment."""
    return _GIT_REFUSED.search(said) is None and _GIT_PASSES.search(said) is not None

"""Time limits and retries of every activity, in one table.

A turn may be tried for a day with pauses of up to a minute, so that an overloaded provider costs no agent; what can
never succeed by trying again is named.
"""

from datetime import timedelta
from typing import Any

from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType

from baton.findings import RERUNS
from baton.names import (
    BAD_INPUT,
    CONTEXT_TOO_LONG,
    CONVERSATION_LOST,
    NEEDS_PERSON,
    QUOTA_PAUSED,
    REQUEST_REFUSED,
    STALLED,
)
from baton.synthesis import ATTEMPTS

HEARTBEAT = timedelta(seconds=6)
"""What a killed worker did is tried again after it and the retry's second: under ten in all. A second attempt while the
first still lives waits for the workspace, so one that comes too early costs nothing."""
NEVER_RETRIED = [
    BAD_INPUT,
    NEEDS_PERSON,
    QUOTA_PAUSED,
    STALLED,
    REQUEST_REFUSED,
    CONTEXT_TOO_LONG,
    CONVERSATION_LOST,
    "PayloadsTooLarge",
    "UnknownTaskError",
    "ValueError",
]

MOST_EVENTS = 4_000
"""With a longer history a task goes on in a new run as soon as no agent is at work; the server suggests it a little
later, and refuses 51 200 events."""

_COMMON: dict[str, Any] = {
    "heartbeat_timeout": HEARTBEAT,
    "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
}


def _retry(attempts: int) -> RetryPolicy:
    return RetryPolicy(
        initial_interval=timedelta(seconds=1),
        maximum_interval=timedelta(seconds=60),
        maximum_attempts=attempts,
        non_retryable_error_types=NEVER_RETRIED,
    )


GIT: dict[str, Any] = {**_COMMON, "start_to_close_timeout": timedelta(minutes=5), "retry_policy": _retry(5)}
"""What works on repositories and files."""

OPEN: dict[str, Any] = {**_COMMON, "start_to_close_timeout": timedelta(minutes=30), "retry_policy": _retry(5)}
"""Cloning, and preparing a workspace with the project's set-up commands."""

COMMANDS: dict[str, Any] = {**_COMMON, "start_to_close_timeout": timedelta(hours=1), "retry_policy": _retry(10)}
"""A slice of a step's commands, its set-up and its longest command; a retry goes on behind the last checkpoint."""

NOTIFY: dict[str, Any] = {
    **_COMMON,
    "start_to_close_timeout": timedelta(minutes=1),
    "schedule_to_close_timeout": timedelta(minutes=5),
    "retry_policy": _retry(2),
}
"""Telling a person; a host that stays away does not hold the task up."""

SUMMARY: dict[str, Any] = {
    **_COMMON,
    "start_to_close_timeout": timedelta(minutes=5),
    "schedule_to_close_timeout": timedelta(minutes=15),
    "retry_policy": _retry(ATTEMPTS),
}
"""The summary of the report; a task ends without it rather than wait for long."""

GATE_ATTEMPTS = 10
"""A gate that fails is a result; what is tried again is only a worker that died, and that may happen several times."""


def gates(limits: list[timedelta]) -> dict[str, Any]:
    """Gates have limits of their own; the activity gets their sum, time to set up, and time to run what fails again."""
    total = (1 + RERUNS) * sum(limits, timedelta()) + timedelta(minutes=30)
    return {**_COMMON, "start_to_close_timeout": total, "retry_policy": _retry(GATE_ATTEMPTS)}


def turn(max_tokens: int) -> dict[str, Any]:
    """One turn: 20 tokens a second at the slowest, and time for its tools."""
    return {
        **_COMMON,
        "start_to_close_timeout": timedelta(seconds=120 + max_tokens / 20) + timedelta(minutes=30),
        "schedule_to_close_timeout": timedelta(hours=24),
        "retry_policy": _retry(0),
    }

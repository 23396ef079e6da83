"""What a failure says: its type, which decides who reacts, and its reason in words; and whether it is the end."""

import asyncio

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from baton.pricing import Usage


def type_of(error: BaseException) -> str | None:
    """The type of the application error behind a failure; None when there is none."""
    cause = error.cause if isinstance(error, ActivityError) else error
    return cause.type if isinstance(cause, ApplicationError) else None


def lost_in(error: ActivityError) -> Usage:
    """What a turn without an answer cost: the last detail of its failure."""
    details = error.cause.details if isinstance(error.cause, ApplicationError) else ()
    return Usage.model_validate(details[-1]) if details else Usage()


def reason_of(error: BaseException) -> str:
    """What went wrong, in the words of the cause; short enough to be shown."""
    cause = error.cause if isinstance(error, ActivityError) else error
    return str(cause or error)[:1000]


def raise_if_cancelled() -> None:
    """A cancellation can be swallowed by an activity that completes in the same moment; so it is looked for again."""
    if workflow.cancellation_reason() is not None:
        raise asyncio.CancelledError

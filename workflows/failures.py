"""What a failure says: its type, which decides who reacts, and its reason in words."""

from temporalio.exceptions import ActivityError, ApplicationError


def type_of(error: BaseException) -> str | None:
    """The type of the application error behind a failure; None when there is none."""
    cause = error.cause if isinstance(error, ActivityError) else error
    return cause.type if isinstance(cause, ApplicationError) else None


def reason_of(error: BaseException) -> str:
    """What went wrong, in the words of the cause; short enough to be shown."""
    cause = error.cause if isinstance(error, ActivityError) else error
    return str(cause or error)[:1000]

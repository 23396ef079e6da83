"""How a command ends: the exit codes that scripts may rely on, and the two errors that a person is told of."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every command."""

    DONE = 0
    FAILED = 1
    BAD_INPUT = 2
    PARTIAL = 3
    WAITING = 4
    INTERRUPTED = 130


class Refused(Exception):  # noqa: N818 - not a fault of the program: what was given cannot be used
    """Exit 2. The message says what is wrong, where, and what to do."""


class ServiceError(RuntimeError):
    """Exit 1. The service cannot be used; the message says what is wrong, where, and what to do."""

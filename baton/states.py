"""The words for how a task stands, how a step came out and how a chain of agents ended."""

from enum import StrEnum


class TaskState(StrEnum):
    """How a task stands, everywhere it is shown."""

    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELLED = "cancelled"


class StepStatusWord(StrEnum):
    """How a step came out, in the words of `results/<step>.yaml`."""

    OK = "ok"
    PARTIAL = "partial"
    BLOCKED = "blocked"
    FAILED = "failed"
    NOT_ATTEMPTED = "not_attempted"


class AgentEnd(StrEnum):
    """How a chain of agents ended."""

    FINISHED = "finished"
    STOPPED = "stopped"
    REPLAN = "replan"
    BLOCKED = "blocked"
    FAILED = "failed"
    CANCELLED = "cancelled"

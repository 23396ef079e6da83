"""Lines of the worker's log that tell what a workflow decides and waits for: once, not again when it is replayed."""

import logging

from temporalio import workflow

_logger = workflow.LoggerAdapter(logging.getLogger("baton.task"), None)
# The line itself says what task it belongs to (`activities/logs.py`).
_logger.workflow_info_on_message = False


def say(text: str, *, agent: str = "", step: int | None = None) -> None:
    """One line."""
    _logger.info("%s", text, extra={"event": {"agent": agent, "step": step}})

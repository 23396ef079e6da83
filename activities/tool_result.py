"""The answer to one tool call, and the exception that becomes one."""

from pydantic import Field

from baton.models import Stored


class ToolResult(Stored):
    """What the model gets for one call, and the facts about it.

    Paths are relative to the workspace, links resolved. `left_out_bytes` were cut from `content`; then `whole` has all
    of it, for the blob store. What `bash` changed is not in `changed_paths`: only a diff can tell. `refused`: the path
    belongs to somebody else.
    """

    content: str
    is_error: bool = False
    refused: bool = False
    changed_paths: tuple[str, ...] = ()
    read_paths: tuple[str, ...] = ()
    left_out_bytes: int = 0
    whole: str | None = Field(default=None, repr=False)


class CallRefused(Exception):  # noqa: N818 - an answer to the model, not a failure of ours
    """A call that cannot be done. The message is for the model: no host path, and what to do instead."""


class NotOwned(CallRefused):
    """A write to what somebody else owns."""

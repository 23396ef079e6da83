"""What can be saved of a long `write` or `append` that was cut off at the token limit.

A cut call never runs as it was asked. But the whole lines it already held can be put at the end of a new or growing
file, so that the successor goes on there instead of starting again. An existing file is never replaced by a part.
"""

from typing import Any

from pydantic_core import from_json

from baton.conversation import Ending, Response
from baton.models import Stored

STATE_KEPT_CHARACTERS = 2_000
"""Of what cannot be put on disk so much is kept in the manifest."""


class PartialWrite(Stored):
    """A cut `write` or `append`, as far as its raw JSON went. `at_line` is None where it was not written (yet)."""

    tool: str
    file_path: str
    content: str
    at_line: int | None = None

    @property
    def whole_lines(self) -> str:
        """The content up to the last line end."""
        return self.content[: self.content.rfind("\n") + 1]

    @property
    def rest(self) -> str:
        """What stands after the last line end."""
        return self.content[len(self.whole_lines) :]


def partial_write(response: Response) -> PartialWrite | None:
    """The cut call at the end of a response, when it is a `write` or `append` whose target is known."""
    if response.ending not in {Ending.CUT, Ending.CONTEXT_FULL} or not response.content:
        return None
    last = response.content[-1]
    if last["type"] != "tool_use" or last["name"] not in {"write", "append"}:
        return None
    arguments = _readable(response.partial_inputs.get(last["id"])) or last["input"]
    if not arguments or list(arguments)[-1] != "content":
        return None  # whatever came last may be cut itself, and half a path names another file
    path, content, at_line = (arguments.get(key) for key in ("file_path", "content", "at_line"))
    if not isinstance(path, str) or not isinstance(content, str):
        return None
    return PartialWrite(
        tool=last["name"], file_path=path, content=content, at_line=at_line if isinstance(at_line, int) else None
    )


def _readable(raw: str | None) -> dict[str, Any] | None:
    """The object in JSON that ends anywhere, its last string as far as it goes."""
    if not raw:
        return None
    try:
        found = from_json(raw, allow_partial="trailing-strings")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None

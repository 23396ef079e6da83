"""The trace that a task was started in, as the W3C header `traceparent` names it."""

import re
from typing import NamedTuple

VARIABLE = "TRACEPARENT"
"""The environment variable by which commands hand the header on."""
_HEADER = re.compile(r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})")
_FIRST, _NONE = "00", "ff"
_SAMPLED = 1


class Caller(NamedTuple):
    """The span in which a task was started: its trace, itself, and whether its trace is recorded."""

    trace: int
    span: int
    sampled: bool


def caller_of(header: str) -> Caller | None:
    """The caller that a header names; None for one that is none.

    The form is that of version 00. A later version may have more behind it, a dash in between, and is read as far.
    """
    text = header.strip()
    found = _HEADER.match(text)
    if found is None or found["version"] == _NONE:
        return None
    rest = text[found.end() :]
    if rest and (found["version"] == _FIRST or not rest.startswith("-")):
        return None
    trace, span = int(found["trace"], 16), int(found["span"], 16)
    return Caller(trace, span, bool(int(found["flags"], 16) & _SAMPLED)) if trace and span else None

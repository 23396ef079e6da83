"""Durations as people write them: `90s`, `15m`, `2h`, `1d`, `1h30m`, or a number of seconds."""

import re
from datetime import timedelta
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_WRITTEN = re.compile(r"(?:\d+(?:\.\d+)?[smhd])+")


def parse_duration(value: object) -> timedelta:
    """The duration that `value` names. ValueError with the accepted forms when it names none."""
    if isinstance(value, timedelta):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return timedelta(seconds=value)
    text = str(value).strip().lower()
    if _WRITTEN.fullmatch(text):
        return timedelta(seconds=sum(float(n) * UNITS[u] for n, u in re.findall(r"(\d+(?:\.\d+)?)([smhd])", text)))
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return timedelta(seconds=float(text))
    raise ValueError(f"{value!r} is no duration; write for example 90s, 15m, 2h or 1h30m")


def format_duration(duration: timedelta) -> str:
    """A duration for people: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`."""
    seconds = duration.total_seconds()
    if 0 < seconds < 1:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(lambda duration: duration.total_seconds(), return_type=float, when_used="json"),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string", "pattern": f"^(?:{_WRITTEN.pattern})$"}, {"type": "number", "minimum": 0}],
            "examples": ["90s", "15m", "2h", "1h30m"],
        }
    ),
]
"""A timedelta that reads what people write and is stored as seconds."""

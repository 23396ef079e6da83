"""Where an attempt of an agent ended without a word: time in which nothing was told, before the next attempt began."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from baton.models import Stored
from baton.trace import KILLED, TraceLine


class Gap(Stored):
    """From what an agent told last (`last`) to the beginning of the next attempt's first call (`again`)."""

    last: TraceLine
    again: TraceLine

    @property
    def begin(self) -> datetime:
        """The last moment of which anything is known."""
        return self.last.at

    @property
    def end(self) -> datetime:
        """When the next attempt went on."""
        return self.again.began

    @property
    def length(self) -> timedelta:
        """How long nothing was told; never zero."""
        return self.end - self.begin


def gaps(lines: Sequence[TraceLine]) -> tuple[Gap, ...]:
    """The gaps among the lines of one agent, in order of time."""
    found, last, attempts = list[Gap](), None, dict[int, int]()
    told = (line for line in lines if line.outcome != KILLED and line.kind != "gap")
    for line in sorted(told, key=lambda line: line.began):
        again = line.attempt > attempts.get(line.turn, 1)
        attempts[line.turn] = max(line.attempt, attempts.get(line.turn, 1))
        if again and last is not None and last.kind != "wait" and line.kind != "wait" and line.began > last.at:
            found.append(Gap(last=last, again=line))
        last = line if last is None or line.at > last.at else last
    return tuple(found)

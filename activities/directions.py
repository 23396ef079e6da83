"""How many directions agents got, by the run of their workflow: guidance, pauses, limits.

The workflow notes it, and a turn's activity that might go on by itself looks whether there are more than it was asked
with. Both are in one process where a host has one worker. It is a hint, of which nothing comes but an earlier end of
the activity: where it is missing, a direction is seen when the activity ends.
"""

import threading
from collections import OrderedDict

_KEPT = 1_000
_numbers: OrderedDict[str, int] = OrderedDict()
_lock = threading.Lock()


def note(run_id: str, number: int) -> None:
    """The agent of this run got so many by now; told again by a replay, which begins with the first."""
    with _lock:
        _numbers[run_id] = max(number, _numbers.pop(run_id, 0))
        while len(_numbers) > _KEPT:
            _numbers.popitem(last=False)


def number_of(run_id: str | None) -> int:
    """How many this process knows of."""
    return _numbers.get(run_id or "", 0)

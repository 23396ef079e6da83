"""How many directions agents got, by the run of their workflow: guidance, pauses, limits.

The workflow notes it, and a turn's activity that might go on by itself looks whether there are more than it was asked
with. Both are in one process where a host has one worker. It is a hint: where it is missing, a direction is seen some
seconds later.
"""

from collections import OrderedDict

_KEPT = 1_000
_numbers: OrderedDict[str, int] = OrderedDict()


def note(run_id: str, number: int) -> None:
    """The agent of this run got so many by now."""
    _numbers[run_id] = number
    _numbers.move_to_end(run_id)
    while len(_numbers) > _KEPT:
        _numbers.popitem(last=False)


def number_of(run_id: str | None) -> int:
    """How many this process knows of."""
    return _numbers.get(run_id or "", 0)

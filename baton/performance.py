"""What a result costs beside the base commit: how long its tests and builds take, and how large what is built is.

Nothing here blocks a result. Each time is one run on a machine that did other work as well, so small differences are
noise and are called that; what was not measured on both sides is not compared, and that is said.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from baton.findings import GateKind, GateVerdict, VerdictStatus
from baton.models import Stored

TIMED_KINDS = (GateKind.BUILD, GateKind.TEST)
NOISE_SECONDS = 1.0
NOISE_RATIO = 1.25
"""A time within a second or a quarter of the earlier one is the same."""
SIZE_RATIO = 1.01
"""Sizes are exact; a difference within one in a hundred is told as the same all the same."""
NOISE_NOTE = "Times are of single runs beside other work: less than 1 s or a quarter of difference says nothing."
_COMPARABLE = frozenset((VerdictStatus.PASSED, VerdictStatus.KNOWN_FAILURE, VerdictStatus.FLAKY))

Word = Literal["same", "more", "less", "not compared"]


class Size(Stored):
    """What a path or glob of `sizes` came to after the gates. `bytes` is None where nothing was there."""

    pattern: str
    bytes: int | None = None
    files: int = 0


class Timing(Stored):
    """How long a gate took, in seconds, on the base commit and on the result. `why`: why it is not compared."""

    gate: str
    kind: GateKind
    before: float | None = None
    now: float | None = None
    ratio: float | None = None
    word: Word = "not compared"
    why: str = ""


class SizeChange(Stored):
    """The size of a path or glob in bytes, on the base commit and on the result."""

    pattern: str
    before: int | None = None
    now: int | None = None
    ratio: float | None = None
    word: Word = "not compared"
    why: str = ""


def timings(verdicts: Iterable[GateVerdict]) -> tuple[Timing, ...]:
    """A line for each gate that builds or tests."""
    return tuple(_timing(verdict) for verdict in verdicts if verdict.kind in TIMED_KINDS)


def size_changes(before: Sequence[Size], now: Sequence[Size]) -> tuple[SizeChange, ...]:
    """A line for each configured size, in the order of the setting."""
    earlier, later = ({size.pattern: size for size in sizes} for sizes in (before, now))
    return tuple(_size_change(name, earlier.get(name), later.get(name)) for name in {**earlier, **later})


def _timing(verdict: GateVerdict) -> Timing:
    row = Timing(
        gate=verdict.name,
        kind=verdict.kind or GateKind.CUSTOM,
        before=verdict.seconds_before,
        now=verdict.seconds,
    )
    if verdict.seconds is None:
        return row.model_copy(update={"why": "it did not run to its end"})
    if verdict.seconds_before is None:
        return row.model_copy(update={"why": "it did not run to its end on the base commit"})
    if verdict.status not in _COMPARABLE:
        return row.model_copy(update={"why": "it did not end in the same way on the base commit"})
    ratio = verdict.seconds / verdict.seconds_before if verdict.seconds_before else None
    near = abs(verdict.seconds - verdict.seconds_before) < NOISE_SECONDS
    return row.model_copy(update={"ratio": _rounded(ratio), "word": "same" if near else _word(ratio, NOISE_RATIO)})


def _size_change(pattern: str, before: Size | None, now: Size | None) -> SizeChange:
    was, is_now = (size.bytes if size else None for size in (before, now))
    row = SizeChange(pattern=pattern, before=was, now=is_now)
    if was is None and is_now is None:
        return row.model_copy(update={"why": "nothing was there, before and now: not measured"})
    if was is None or is_now is None:
        side = "on the base commit" if was is None else "on the result"
        return row.model_copy(update={"why": f"nothing was there {side}"})
    ratio = is_now / was if was else None
    same = was == is_now
    return row.model_copy(update={"ratio": _rounded(ratio), "word": "same" if same else _word(ratio, SIZE_RATIO)})


def _word(ratio: float | None, noise: float) -> Word:
    if ratio is None or ratio > noise:
        return "more"
    return "less" if ratio < 1 / noise else "same"


def _rounded(ratio: float | None) -> float | None:
    return None if ratio is None else round(ratio, 3)

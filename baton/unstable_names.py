"""Failures whose names change from run to run, so that no name says whether they came again.

Such a failure is named by what stays of its name; where nothing stays, it is a failure of the gate as a whole.
"""

import re
from collections.abc import Iterable, Sequence

from baton.failures import Failure
from baton.findings import GateOutcome, GateResult, suspects

_CHANGING = re.compile(r"(?:[^\W\d_]|…)*[\d…](?:[^\W_]|…)*")
"""A word with a digit in it, or with what was taken out before."""


def shape(name: str) -> str:
    """What stays of a name when every word with a digit in it is left out."""
    return _CHANGING.sub("#", name)


def is_nothing_new(before: GateResult | None, outcome: GateOutcome, names: Sequence[str]) -> bool:
    """Whether a run shows no failure that the base commit does not have: it passed, or failed as it does there."""
    if outcome is GateOutcome.PASSED:
        return True
    known = frozenset(before.failures) if before is not None else frozenset()
    fresh = [name for name in suspects(before, names) if shape(name) not in known]
    return outcome is GateOutcome.FAILED and bool(names) and not fresh


def steadied(
    gate: str, exit_code: int | None, failures: Sequence[Failure], fresh: Iterable[str], runs: Sequence[Iterable[str]]
) -> tuple[Failure, ...]:
    """The failures under names that another run can be compared by.

    `fresh`: names among them that are not known; `runs`: what each further run that failed too named.
    """
    again = frozenset(name for names in runs for name in names)
    shapes = frozenset(map(shape, again))
    changing = frozenset(fresh) - again if runs else frozenset[str]()
    kept: dict[str, Failure] = {}
    for number, failure in enumerate(failures):
        if failure.name not in changing:
            kept[f"{number}"] = failure
            continue
        stays = shape(failure.name)
        name = stays if stays in shapes else f"{gate} fails with exit code {exit_code} and other words in every run"
        kept.setdefault(name, failure.model_copy(update={"name": name, "text": failure.text or failure.name}))
    return tuple(kept.values())

"""Files that a step leaves for later ones and that do not belong in the repository: their names and who expects them.

Agents know them as `@outputs/<step>/<name>`; people find them as `outputs/<step>/<name>` among the artifacts. A plan
says in `input_context` what a step needs: `<step>/<name>`, or just the name where one step alone can have written it.
"""

import re
from collections.abc import Collection, Mapping, Sequence

from baton.plan import DraftStep, PlanStep

PREFIX = "@outputs/"
SHOWN_CHARACTERS = 20_000
"""Of an `input_context` in the first message; the rest can be read."""

_NAMED = re.compile(r"(?:@?outputs/)?(?P<step>\d+)/(?P<name>.+)")


def output_of(given: str) -> tuple[int, str] | None:
    """The step and the name of `1/order.json`, `outputs/1/order.json` or `@outputs/1/order.json`; None for others."""
    found = _NAMED.fullmatch(given)
    return (int(found["step"]), found["name"]) if found else None


def address(input_context: str) -> str:
    """Where an agent finds what a plan's `input_context` names: an output, or a file of the repository."""
    found = output_of(input_context)
    return f"{PREFIX}{found[0]}/{found[1]}" if found else input_context


def expected(steps: Sequence[PlanStep], number: int) -> tuple[str, ...]:
    """Names that later steps want from this one."""
    wanted = (output_of(step.input_context) for step in steps if step.input_context)
    return tuple(dict.fromkeys(found[1] for found in wanted if found is not None and found[0] == number))


def settled_context(
    step: DraftStep, steps: Mapping[int, DraftStep], files: Collection[str]
) -> tuple[str | None, str | None]:
    """The `input_context` with its step, and what is wrong with it."""
    given = (step.input_context or "").strip()
    if not given or given in files:
        return given or None, None
    writers = [n for n in dict.fromkeys(step.depends_on) if n in steps and steps[n].run is None]
    found = output_of(given)
    if found is None and len(writers) == 1:
        found = (writers[0], given.removeprefix("@").removeprefix("outputs/"))
    if found is None:
        who = "it depends on no step with an agent" if not writers else f"steps {writers} could write it"
        return None, (
            f"step {step.step}: input_context {given!r} is no file of the repository, and {who}; name the step that "
            "writes it as <step>/<name>, and depend on it"
        )
    number, name = found
    if ".." in name.split("/") or name.startswith(("/", ".")):
        return None, f"step {step.step}: input_context {given!r} is not the name of an output"
    if not _comes_before(number, step, steps) or steps[number].run is not None:
        return (
            None,
            f"step {step.step}: nobody writes input_context {given!r}: it does not wait for an agent's step {number}",
        )
    return f"{number}/{name}", None


def _comes_before(number: int, step: DraftStep, steps: Mapping[int, DraftStep]) -> bool:
    reached, left = set[int](), [step.step]
    while left:
        current = steps.get(left.pop())
        new = [n for n in current.depends_on if n not in reached] if current is not None else []
        reached.update(new)
        left += new
    return number in reached and number in steps

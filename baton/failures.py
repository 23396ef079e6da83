"""What one run of a gate saw: test cases and failures, each under a name that two runs can be compared by.

A name holds no line number, counter or duration, so that code which only moved does not look new.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

from baton.models import Stored

FAILURES_KEPT = 200
"""More would not fit a small payload; the fingerprint covers all of them."""
FAILURE_CHARACTERS = 240
DETAILS_KEPT = 40
TEXT_CHARACTERS = 600
FILES_KEPT = 8
_PLACE = re.compile(r'(?:File "|\(|^|\s)((?:[\w.@+-]+/)*[\w.@+-]+\.\w+)(?:", line |:)\d+', re.MULTILINE)


class Outcome(StrEnum):
    """How one test ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Failure(Stored):
    """One failed test or one finding. `files`: paths that it names, the most telling one first; `text`: its message."""

    name: str
    files: tuple[str, ...] = ()
    text: str = ""


class Case(Stored):
    """One test of a run."""

    name: str
    outcome: Outcome
    files: tuple[str, ...] = ()
    text: str = ""


class Observed(Stored):
    """What a gate's output tells. `cases` is None where it lists no tests; `findings` are those of a static checker.

    `repeats`: the same files always give the same answer, so that a second run has nothing to add.
    """

    cases: tuple[Case, ...] | None = None
    findings: tuple[Failure, ...] = ()
    repeats: bool = False

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Failed tests, then findings."""
        failed = (case for case in self.cases or () if case.outcome is Outcome.FAILED)
        return (*(Failure(name=case.name, files=case.files, text=case.text) for case in failed), *self.findings)


def finding(file: str, rule: str, message: str, line: str | int = "") -> Failure:
    """A checker's finding, named by file, rule and message. `line` is told in its text only."""
    name = re.sub(r"\s+", " ", f"{file}: {rule} {message}" if rule else f"{file}: {message}").strip()
    where = f"{file}:{line}" if line else file
    return Failure(name=name[:FAILURE_CHARACTERS], files=(file,), text=f"{where}: {rule} {message}"[:TEXT_CHARACTERS])


def failure_fields(failures: Iterable[str]) -> tuple[tuple[str, ...], int, str]:
    """`failures`, `failures_left_out` and `fingerprint` of a result, from the names of everything that failed."""
    ordered = sorted(_numbered(failures))
    digest = hashlib.sha256("\n".join(ordered).encode("utf-8", "replace")).hexdigest() if ordered else ""
    kept = tuple(name[: FAILURE_CHARACTERS + 8] for name in ordered[:FAILURES_KEPT])
    return kept, len(ordered) - len(kept), digest


def details_of(failures: Iterable[Failure]) -> tuple[Failure, ...]:
    """What there is to say of the failures, of bounded size."""
    return tuple(
        Failure(
            name=failure.name[:FAILURE_CHARACTERS],
            files=failure.files[:FILES_KEPT],
            text=failure.text[:TEXT_CHARACTERS],
        )
        for failure in sorted(failures, key=lambda failure: failure.name)[:DETAILS_KEPT]
    )


def paths_in(text: str) -> tuple[str, ...]:
    """Relative paths that stand before a line number in a message or traceback, the innermost first."""
    return tuple(dict.fromkeys(reversed(_PLACE.findall(text))))


def _numbered(failures: Iterable[str]) -> list[str]:
    """Equal names made different, so that a second occurrence of a known failure is a new one."""
    seen: Counter[str] = Counter()
    numbered = []
    for name in failures:
        seen[name] += 1
        numbered.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return numbered

"""Circuit breakers: when an agent goes round in circles, by what its turns left and never by how long they took.

Each trip names its evidence and what to do. First the agent is told, then a fresh one goes on with a re-brief, then the
chain ends with what it has. An agent that changes files, finishes items or records what it found is never tripped for
reading much or for being slow; only the very same edit, made again and again, counts against it.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum

from baton.conversation import Block, Response, calls, canonical_json
from baton.models import Stored

SAME_CALLS = 4
"""Turns with the same calls and the same results, with nothing done in between."""
SAME_INPUTS = 12
"""The same calls whatever they answered: waiting for something that changes is allowed for a while."""
SAME_ERRORS = 5
SAME_WORDS = 5
SAME_EDITS = 3
"""The same edit in one agent: what was done in between took it back."""
IDLE_TURNS = 30
IDLE_TURNS_WITHOUT_ITEMS = 60
"""Turns that only read. Work without items may be to look at much."""
IDLE_SECONDS = 2 * 60 * 60
"""Model time without progress."""
TURNS_KEPT = 80

_WORDS_AT_LEAST = 40
_WRITES = frozenset(("write", "append", "edit"))


StepChanges = dict[str, tuple[str, str]]
"""By path the names of its content before and after a step; empty where there is no such file."""


class TripKind(StrEnum):
    """Why a chain was stopped."""

    LOOP_DETECTED = "loop_detected"
    MAX_CALLS = "max_calls"
    MAX_DEPTH = "max_depth"
    TIMEOUT = "timeout"
    TOKEN_LIMIT = "token_limit"  # noqa: S105 - no password


class Trip(Stored):
    """A breaker that tripped: what shows it, and what to do about it."""

    kind: TripKind
    evidence: str
    recommendation: str

    @property
    def sentence(self) -> str:
        """All of it in a line."""
        return f"{self.kind}: {self.evidence}; {self.recommendation}"


class TurnSigns(Stored):
    """Fingerprints of one turn, empty where there is nothing: of its calls, their results, its edits, its error when
    every call failed, and its words. `seconds`: how long the model took."""

    calls: str = ""
    results: str = ""
    edits: str = ""
    error: str = ""
    words: str = ""
    seconds: float = 0.0


class Seen(Stored):
    """What the breakers remember of a turn. `progress`: it changed a file, finished an item or recorded something."""

    turn: int
    doing: str = ""
    progress: bool = False
    signs: TurnSigns = TurnSigns()


def signs_of(response: Response, results: Sequence[Block], seconds: float = 0.0) -> TurnSigns:
    """The fingerprints of a turn that was run."""
    wanted = [(call.name, call.input) for call in calls(response)]
    words = " ".join(" ".join(b["text"] for b in response.content if b["type"] == "text").split())
    answered = [str(result.get("content")) for result in results]
    failed = bool(results) and all(result.get("is_error") for result in results)
    writes = [call for call in wanted if call[0] in _WRITES]
    return TurnSigns(
        calls=_mark(wanted),
        results=_mark(answered),
        edits=_mark(writes) if not failed else "",
        error=_mark(answered) if failed else "",
        words=_mark([words]) if len(words) >= _WORDS_AT_LEAST else "",
        seconds=round(max(seconds, 0.0), 1),
    )


def remembered(before: Sequence[Seen], turn: Seen) -> tuple[Seen, ...]:
    """The turns that still matter after one more."""
    return (*before, turn)[-TURNS_KEPT:]


def tripped(turns: Sequence[Seen], *, has_items: bool) -> Trip | None:
    """The breaker that these turns of an agent trip, if any; the newest turn is the last."""
    if not turns or (turns[-1].progress and not turns[-1].signs.edits):
        return None
    since = since_progress(turns)
    return (
        _same_edits(turns)
        or _repeated(since, lambda s: _pair(s.calls, s.results), SAME_CALLS, "the same calls with the same results")
        or _repeated(since, lambda s: s.calls, SAME_INPUTS, "the same calls")
        or _repeated(since, lambda s: s.error, SAME_ERRORS, "the same error")
        or _repeated(since, lambda s: _pair(s.words, s.results), SAME_WORDS, "the same words and results")
        or _idle(since, has_items=has_items)
    )


def undone(before: Iterable[tuple[int, StepChanges]], now: StepChanges) -> dict[int, tuple[str, ...]]:
    """By earlier step: the paths whose change `now` took back to the very content they had before that step.

    A file that one step made and another removed is no conflict of opinions, and does not count.
    """
    found: dict[int, list[str]] = {}
    for step, changes in before:
        for path, (old, new) in changes.items():
            if old and new and old != new and now.get(path, ("", ""))[1] == old and now[path][0] != old:
                found.setdefault(step, []).append(path)
    return {step: tuple(paths) for step, paths in found.items()}


def undoing_trip(undoes: Mapping[int, Sequence[str]]) -> Trip | None:
    """Two steps that undo each other's work."""
    if not undoes:
        return None
    told = "; ".join(f"what step {step} did to {', '.join(paths[:5])}" for step, paths in sorted(undoes.items()))
    return Trip(
        kind=TripKind.LOOP_DETECTED,
        evidence=f"this step took back {told}",
        recommendation="decide which of the two is right, and say so in the task before it is done again",
    )


def limit_trip(kind: TripKind, evidence: str) -> Trip:
    """A chain that was stopped by a bound it may not pass."""
    return Trip(kind=kind, evidence=evidence, recommendation=_AT_A_LIMIT[kind])


_AT_A_LIMIT = {
    TripKind.LOOP_DETECTED: "look at its last turns, then say in the task what it could not find out",
    TripKind.MAX_CALLS: "raise the limit if what is done so far is worth it, or split the step",
    TripKind.MAX_DEPTH: "split the step into smaller ones, or give its agents a larger output budget",
    TripKind.TIMEOUT: "raise the time limit, or leave out what takes so long",
    TripKind.TOKEN_LIMIT: "raise the limit if what is done so far is worth it, or choose a cheaper model",
}


def since_progress(turns: Sequence[Seen]) -> Sequence[Seen]:
    """The turns after the last one that brought something."""
    for position in range(len(turns) - 1, -1, -1):
        if turns[position].progress:
            return turns[position + 1 :]
    return turns


def _repeated(turns: Sequence[Seen], mark: Callable[[TurnSigns], str], most: int, what: str) -> Trip | None:
    if not turns or not (last := mark(turns[-1].signs)):
        return None
    again = [turn for turn in turns if mark(turn.signs) == last]
    if len(again) < most:
        return None
    return Trip(
        kind=TripKind.LOOP_DETECTED,
        evidence=f"{what} {len(again)} times and nothing done in between ({_places(again)})",
        recommendation="do not repeat it: try another way, record what is in the way, or end this work as it is",
    )


def _same_edits(turns: Sequence[Seen]) -> Trip | None:
    last = turns[-1].signs.edits
    again = [turn for turn in turns if last and turn.signs.edits == last and turn.progress]
    if len(again) < SAME_EDITS:
        return None
    return Trip(
        kind=TripKind.LOOP_DETECTED,
        evidence=f"the same edit was made {len(again)} times, so it was taken back in between ({_places(again)})",
        recommendation="decide for one of the two, record the decision, and leave it",
    )


def _idle(turns: Sequence[Seen], *, has_items: bool) -> Trip | None:
    seconds = sum(turn.signs.seconds for turn in turns)
    most = IDLE_TURNS if has_items else IDLE_TURNS_WITHOUT_ITEMS
    # Turns that an older version ran left no fingerprints, and do not count.
    marked = [turn for turn in turns if turn.signs.calls]
    if len(marked) >= most:
        return Trip(
            kind=TripKind.LOOP_DETECTED,
            evidence=f"{len(marked)} turns without a change, an item or a record ({_places(marked)})",
            recommendation="act on what is known now, record what was found, or say what is missing and end this work",
        )
    if seconds >= IDLE_SECONDS:
        return Trip(
            kind=TripKind.TIMEOUT,
            evidence=f"{seconds / 60:.0f} minutes of model time without a change, an item or a record",
            recommendation="take a smaller step, or say what is missing and end this work",
        )
    return None


def _places(turns: Sequence[Seen]) -> str:
    numbers = f"turns {turns[0].turn} to {turns[-1].turn}"
    return f"{numbers}, last: {turns[-1].doing}" if turns[-1].doing else numbers


def _pair(first: str, second: str) -> str:
    return f"{first}/{second}" if first and second else ""


def _mark(values: Iterable[object]) -> str:
    rows = list(values)
    return hashlib.sha256(canonical_json(rows)).hexdigest()[:12] if rows else ""

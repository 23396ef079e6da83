"""Knowledge: decisions, patterns and issues that agents recorded, append-only, with who and when.

Every later agent inherits it within a token limit of its own, by three strategies in this order: keep what is most
used and most recent, have the rest summarised, else keep the essentials of it. What is left out is said.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal

from pydantic import Field

from baton.models import Stored, Submitted
from baton.path_patterns import matches

CHARACTERS_PER_TOKEN = 3.5
SHARE_FOR_USED = 0.4
SHARE_FOR_REST = 0.25
"""Of the limit so much goes to what is used most, and to a summary of what would be left out."""
ESSENTIAL_CHARACTERS = 90


class Decision(Submitted):
    """A choice that others should follow."""

    decision: str
    rationale: str = ""


class Issue(Submitted):
    """Something that went wrong or needs attention."""

    issue: str
    file: str | None = None
    resolution: str | None = None


class Need(Submitted):
    """A change that somebody needs in a file of another step."""

    file: str = Field(description="The file, as in the refusal or the plan", min_length=1)
    need: str = Field(description="What it must hold, precisely enough to do it without asking", min_length=1)


class Entry(Stored):
    """One thing known: a decision, a pattern, an issue, or a need in a file of somebody else.

    `uses`: how often agents recorded the same."""

    kind: Literal["decision", "pattern", "issue", "need"]
    text: str
    rationale: str | None = None
    file: str | None = None
    resolution: str | None = None
    agent_id: str
    at: datetime
    uses: int = 1

    @property
    def subject(self) -> tuple[str, str, str | None]:
        """Two entries with the same subject say the same."""
        return (self.kind, self.text, self.file)

    def line(self) -> str:
        """The entry as one line for a prompt or a report."""
        place = f" [{self.file}]" if self.file else ""
        why = f" ({self.rationale or self.resolution})" if self.rationale or self.resolution else ""
        return f"{self.kind}{place}: {self.text}{why} — {self.agent_id}"


class Knowledge(Stored):
    """All entries in order of time."""

    entries: tuple[Entry, ...] = ()

    def with_entries(self, new: Iterable[Entry]) -> "Knowledge":
        """This knowledge and the new entries; what is said again counts as used once more."""
        known = {entry.subject: entry for entry in self.entries}
        for entry in new:
            earlier = known.get(entry.subject)
            known[entry.subject] = entry if earlier is None else earlier.model_copy(update={"uses": earlier.uses + 1})
        return Knowledge(entries=tuple(known.values()))


class Selection(Stored):
    """What fits a limit, in order of time, and what does not."""

    kept: tuple[Entry, ...]
    left_out: tuple[Entry, ...] = ()


def select(knowledge: Knowledge, limit_tokens: int) -> Selection:
    """The most used and the most recent entries within the limit; everything when it fits."""
    if _tokens(entry.line() for entry in knowledge.entries) <= limit_tokens:
        return Selection(kept=knowledge.entries)
    room = limit_tokens * (1 - SHARE_FOR_REST)
    newest_first = list(reversed(knowledge.entries))
    used = sorted((entry for entry in newest_first if entry.uses > 1), key=lambda entry: -entry.uses)
    kept = _fitting(used, limit_tokens * SHARE_FOR_USED)
    rest = [entry for entry in newest_first if entry.subject not in kept]
    kept |= _fitting(rest, room - _tokens(entry.line() for entry in knowledge.entries if entry.subject in kept))
    return Selection(
        kept=tuple(entry for entry in knowledge.entries if entry.subject in kept),
        left_out=tuple(entry for entry in knowledge.entries if entry.subject not in kept),
    )


def essentials(entries: Sequence[Entry], limit_tokens: int) -> list[str]:
    """Decisions first, each in a few words, as many as fit; the number of the others is told."""
    newest_first = list(reversed(entries))
    ordered = [e for e in newest_first if e.kind == "decision"] + [e for e in newest_first if e.kind != "decision"]
    lines: list[str] = []
    for entry in ordered:
        text = entry.text if len(entry.text) <= ESSENTIAL_CHARACTERS else f"{entry.text[:ESSENTIAL_CHARACTERS]}…"
        if _tokens([*lines, text]) > limit_tokens * SHARE_FOR_REST:
            break
        lines.append(f"{entry.kind}: {text}")
    missing = len(entries) - len(lines)
    return [*lines, *([f"({missing} more entries are left out here; all are in knowledge.json)"] if missing else [])]


def needs_of(claims: Iterable[str], knowledge: Knowledge) -> tuple[Entry, ...]:
    """Recorded needs that concern a file which one of `claims` (paths or globs) names."""
    named = tuple(claims)
    found = (entry for entry in knowledge.entries if entry.kind == "need" and entry.file)
    return tuple(e for e in found if any(claim == e.file or matches(claim, e.file or "") for claim in named))


def entries(
    agent_id: str,
    at: datetime,
    decisions: Iterable[Decision] = (),
    patterns: Iterable[str] = (),
    issues: Iterable[Issue] = (),
    needs: Iterable[Need] = (),
) -> tuple[Entry, ...]:
    """What an agent recorded in one call, as entries."""
    return (
        *(
            Entry(kind="decision", text=d.decision, rationale=d.rationale or None, agent_id=agent_id, at=at)
            for d in decisions
        ),
        *(Entry(kind="pattern", text=pattern, agent_id=agent_id, at=at) for pattern in patterns),
        *(
            Entry(kind="issue", text=i.issue, file=i.file, resolution=i.resolution, agent_id=agent_id, at=at)
            for i in issues
        ),
        *(Entry(kind="need", text=n.need, file=n.file, agent_id=agent_id, at=at) for n in needs),
    )


def _fitting(candidates: Iterable[Entry], room_tokens: float) -> set[tuple[str, str, str | None]]:
    chosen = set()
    for entry in candidates:
        room_tokens -= _tokens([entry.line()])
        if room_tokens < 0:
            break
        chosen.add(entry.subject)
    return chosen


def _tokens(lines: Iterable[str]) -> float:
    return sum((len(line) + 4) / CHARACTERS_PER_TOKEN for line in lines)

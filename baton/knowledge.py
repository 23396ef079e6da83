"""Knowledge: decisions, patterns and issues that agents recorded, append-only, with who and when.

Every later agent inherits it within a token limit of its own; what is left out is said.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from baton.models import Stored, Submitted

CHARACTERS_PER_TOKEN = 3.5


class Decision(Submitted):
    """A choice that others should follow."""

    decision: str
    rationale: str = ""


class Issue(Submitted):
    """Something that went wrong or needs attention."""

    issue: str
    file: str | None = None
    resolution: str | None = None


class Entry(Stored):
    """One thing known: a decision, a pattern or an issue."""

    kind: Literal["decision", "pattern", "issue"]
    text: str
    rationale: str | None = None
    file: str | None = None
    resolution: str | None = None
    agent_id: str
    at: datetime

    def line(self) -> str:
        """The entry as one line for a prompt or a report."""
        place = f" [{self.file}]" if self.file else ""
        why = f" ({self.rationale or self.resolution})" if self.rationale or self.resolution else ""
        return f"{self.kind}{place}: {self.text}{why} — {self.agent_id}"


class Knowledge(Stored):
    """All entries in order of time."""

    entries: tuple[Entry, ...] = ()

    def with_entries(self, new: Iterable[Entry]) -> "Knowledge":
        """This knowledge and the new entries; an entry that says the same again is not added."""
        seen = {(entry.kind, entry.text, entry.file) for entry in self.entries}
        added = []
        for entry in new:
            key = (entry.kind, entry.text, entry.file)
            if key not in seen:
                seen.add(key)
                added.append(entry)
        return Knowledge(entries=(*self.entries, *added))


def lines_within(knowledge: Knowledge, limit_tokens: int) -> list[str]:
    """Lines for a prompt, newest entries kept, in order of time; says how many were left out."""
    kept: list[str] = []
    left_tokens = float(limit_tokens)
    for entry in reversed(knowledge.entries):
        line = entry.line()
        left_tokens -= len(line) / CHARACTERS_PER_TOKEN
        if left_tokens < 0:
            break
        kept.append(line)
    left_out = len(knowledge.entries) - len(kept)
    return (
        [f"({left_out} older entries are left out here; all of them are in knowledge.json)"] if left_out else []
    ) + kept[::-1]


def entries(
    agent_id: str,
    at: datetime,
    decisions: Iterable[Decision] = (),
    patterns: Iterable[str] = (),
    issues: Iterable[Issue] = (),
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
    )

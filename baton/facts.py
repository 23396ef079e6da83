"""What an agent's calls established, turn by turn, and what they all together say.

Each turn's node holds a `TurnFacts`; folding them over the conversation gives `AgentFacts`. Nothing here comes from
a model's word alone: a call is only recorded after its evidence was checked.
"""

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field

from baton.knowledge import Entry
from baton.ledger import ItemRecord, ItemStatus
from baton.models import Stored, Submitted

JsonObject = dict[str, Any]
"""A submission in the form its tool's schema gives it."""


class InProgressItem(Submitted):
    """The item an agent was working on when it handed off."""

    file: str
    line_number: int | None = None
    progress: int | None = Field(default=None, ge=0, le=100)
    last_action: str | None = None
    remaining_work: tuple[str, ...] = ()
    partial_state: str | None = None


class Submission(Stored):
    """The call that ended an agent's work: `finish_step`, `submit_plan`, `hand_off`, …"""

    tool: str
    input: JsonObject = Field(default_factory=dict)


class SavedPart(Stored):
    """What was saved of a long `write` or `append` that the token limit cut off.

    `line_number`: so many lines of the file are on disk. `replaces`: the call would have replaced an existing file,
    which was left as it was.
    """

    file: str
    line_number: int
    replaces: bool = False
    rest: str = ""


class Question(Stored):
    """A question to a person that a call asked; the answer becomes the call's result."""

    call_id: str
    question: str
    options: tuple[str, ...] = ()


class TurnFacts(Stored):
    """What one turn added. `remarks` go to the agent with its next user message."""

    items: tuple[ItemRecord, ...] = ()
    knowledge: tuple[Entry, ...] = ()
    read: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    current_item: str | None = None
    submission: Submission | None = None
    refused_submissions: int = 0
    saved_part: SavedPart | None = None
    questions: int = 0
    asked: tuple[Question, ...] = ()
    remarks: tuple[str, ...] = ()

    def with_more(self, other: "TurnFacts") -> "TurnFacts":
        """These facts and those of a later call of the same turn."""
        return TurnFacts(
            items=(*self.items, *other.items),
            knowledge=(*self.knowledge, *other.knowledge),
            read=tuple(dict.fromkeys((*self.read, *other.read))),
            written=tuple(dict.fromkeys((*self.written, *other.written))),
            current_item=other.current_item or self.current_item,
            submission=other.submission or self.submission,
            refused_submissions=self.refused_submissions + other.refused_submissions,
            saved_part=other.saved_part or self.saved_part,
            questions=self.questions + other.questions,
            asked=(*self.asked, *other.asked),
            remarks=(*self.remarks, *other.remarks),
        )


class AgentFacts(Stored):
    """Everything an agent did, and what it took over from its predecessors."""

    items: tuple[str, ...] = ()
    records: dict[str, ItemRecord] = Field(default_factory=dict)
    knowledge: tuple[Entry, ...] = ()
    read: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()
    current_item: str | None = None
    submission: Submission | None = None
    refused_submissions: int = 0
    saved_part: SavedPart | None = None
    questions: int = 0

    def open_items(self) -> tuple[str, ...]:
        """Items on which work is left, in the order of the step."""
        return tuple(item for item in self.items if item not in self.records)

    def after(self, turn: TurnFacts) -> "AgentFacts":
        """These facts and one turn's."""
        records = dict(self.records)
        for record in turn.items:
            records.setdefault(record.item, record)
        current = turn.current_item or self.current_item
        return AgentFacts(
            items=self.items,
            records=records,
            knowledge=(*self.knowledge, *turn.knowledge),
            read=self.read | set(turn.read),
            written=self.written | set(turn.written),
            current_item=None if current in records else current,
            submission=turn.submission or self.submission,
            refused_submissions=self.refused_submissions + turn.refused_submissions,
            saved_part=turn.saved_part or (self.saved_part if not turn.written else None),
            questions=self.questions + turn.questions,
        )


def fold(start: AgentFacts, turns: Iterable[TurnFacts]) -> AgentFacts:
    """The facts after all these turns."""
    facts = start
    for turn in turns:
        facts = facts.after(turn)
    return facts


Outcome = Literal["changed", "unchanged", "skipped"]


def judge_completion(
    facts: AgentFacts, item: str, outcome: Outcome, *, has_diff: bool, was_read: bool
) -> ItemStatus | str:
    """The status an item gets from `complete_item`, or the sentence that says why it gets none.

    `has_diff`: the item, or a path in its folder with its stem, differs from where the step started.
    `was_read`: this agent read the item itself.
    """
    if item not in facts.items:
        near = [known for known in facts.items if known.rsplit("/", 1)[-1] == item.rsplit("/", 1)[-1]]
        hint = f" Did you mean {near[0]!r}?" if near else " Its items are in the assignment."
        return f"{item!r} is no item of this step.{hint}"
    if item in facts.records:
        return f"{item!r} is already recorded as {facts.records[item].status}. Go on with the next item."
    if outcome == "changed":
        if not has_diff:
            return (
                f"{item!r} shows no change against the start of this step, so it is not done. "
                "Make the change first, or use outcome unchanged if it was right as it is."
            )
        return ItemStatus.CHANGED
    if outcome == "unchanged":
        if has_diff:
            return f"{item!r} was changed in this step. Use outcome changed, or undo the change first."
        if not was_read:
            return f"{item!r} was never read in this step. Read it first, then say that it needs no change."
        return ItemStatus.UNCHANGED
    return ItemStatus.SKIPPED

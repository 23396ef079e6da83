"""The ledger: what is known of every item of a step, from facts, never from a model's word.

An item that is done stays done (invariant 2): `merge` never replaces a finished record by an unfinished one.
"""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from itertools import groupby

from baton.models import Stored


class ItemStatus(StrEnum):
    """Where an item stands."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"
    FAILED = "failed"

    @property
    def finished(self) -> bool:
        """Nothing more will be done for it."""
        return self not in {ItemStatus.PENDING, ItemStatus.IN_PROGRESS}

    @property
    def done(self) -> bool:
        """It is as the step wanted it: changed, or found right as it was."""
        return self in {ItemStatus.CHANGED, ItemStatus.UNCHANGED}


class ItemRecord(Stored):
    """What is known of one item: its status, which agent finished it and at which checkpoint."""

    item: str
    status: ItemStatus = ItemStatus.PENDING
    agent_id: str | None = None
    commit: str | None = None
    note: str | None = None


class RecordGroup(Stored):
    """Neighbouring items of which the same is known: a ledger in a fifth of its size."""

    status: ItemStatus
    agent_id: str | None = None
    commit: str | None = None
    note: str | None = None
    items: tuple[str, ...] = ()


def grouped(records: Iterable[ItemRecord]) -> tuple[RecordGroup, ...]:
    """These records in the same order, neighbours that say the same as one."""
    runs = groupby(records, key=lambda record: (record.status, record.agent_id, record.commit, record.note))
    return tuple(
        RecordGroup(status=status, agent_id=agent, commit=commit, note=note, items=tuple(r.item for r in run))
        for (status, agent, commit, note), run in runs
    )


def ungrouped(groups: Iterable[RecordGroup]) -> tuple[ItemRecord, ...]:
    """The records of these groups."""
    return tuple(
        ItemRecord(item=item, **group.model_dump(exclude={"items"})) for group in groups for item in group.items
    )


class ItemCounts(Stored):
    """How many items stand where."""

    total: int = 0
    changed: int = 0
    unchanged: int = 0
    skipped: int = 0
    failed: int = 0
    open: int = 0

    @property
    def done(self) -> int:
        """Changed and unchanged ones."""
        return self.changed + self.unchanged

    def __add__(self, other: "ItemCounts") -> "ItemCounts":
        return ItemCounts(**{name: getattr(self, name) + getattr(other, name) for name in ItemCounts.model_fields})


def counts(records: Iterable[ItemRecord]) -> ItemCounts:
    """Counts of these records."""
    by_status = Counter(record.status for record in records)
    return ItemCounts(
        total=sum(by_status.values()),
        changed=by_status[ItemStatus.CHANGED],
        unchanged=by_status[ItemStatus.UNCHANGED],
        skipped=by_status[ItemStatus.SKIPPED],
        failed=by_status[ItemStatus.FAILED],
        open=by_status[ItemStatus.PENDING] + by_status[ItemStatus.IN_PROGRESS],
    )


def merge(items: Iterable[str], *record_sets: Iterable[ItemRecord]) -> tuple[ItemRecord, ...]:
    """One record per item, in the order of `items`; the first finished record of an item wins."""
    known: dict[str, ItemRecord] = {}
    for records in record_sets:
        for record in records:
            earlier = known.get(record.item)
            if earlier is None or not earlier.status.finished:
                known[record.item] = record
    return tuple(known.get(item, ItemRecord(item=item)) for item in items)

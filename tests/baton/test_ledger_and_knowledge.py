"""An item that is done stays done; knowledge only grows and stays within its limit in prompts."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from baton.facts import AgentFacts, TurnFacts, fold, judge_completion
from baton.knowledge import Entry, Knowledge, lines_within
from baton.ledger import ItemRecord, ItemStatus, counts, merge, open_items

AT = datetime(2026, 11, 30, tzinfo=UTC)
records = st.builds(ItemRecord, item=st.sampled_from("abc"), status=st.sampled_from(ItemStatus), agent_id=st.just("x"))


@given(st.lists(st.lists(records, max_size=5), max_size=4))
def test_the_first_finished_record_of_an_item_holds(sets: list[list[ItemRecord]]) -> None:
    merged = merge("abc", *sets)
    for record in merged:
        finished = [r for rows in sets for r in rows if r.item == record.item and r.status.finished]
        assert not finished or record == finished[0]
    totals = counts(merged)
    assert totals.total == 3 == totals.done + totals.skipped + totals.failed + totals.open
    assert len(open_items(merged)) == totals.open


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=3), max_size=5))
def test_folding_turns_never_changes_a_finished_item(turns: list[list[str]]) -> None:
    start = AgentFacts(items=("a", "b", "c"))
    deltas = [
        TurnFacts(items=tuple(ItemRecord(item=i, status=ItemStatus.CHANGED, agent_id=f"turn-{n}") for i in rows))
        for n, rows in enumerate(turns)
    ]
    facts = fold(start, deltas)
    for item, record in facts.records.items():
        first = next(n for n, rows in enumerate(turns) if item in rows)
        assert record.agent_id == f"turn-{first}"


def judged(outcome: str, *, diff: bool, read: bool, item: str = "src/a.py") -> object:
    return judge_completion(AgentFacts(items=("src/a.py",)), item, outcome, has_diff=diff, was_read=read)  # type: ignore[arg-type]


def test_completion_needs_evidence() -> None:
    assert judged("changed", diff=True, read=False) is ItemStatus.CHANGED
    assert "no change" in str(judged("changed", diff=False, read=True))
    assert judged("unchanged", diff=False, read=True) is ItemStatus.UNCHANGED
    assert "never read" in str(judged("unchanged", diff=False, read=False))
    assert "was changed" in str(judged("unchanged", diff=True, read=True))
    assert judged("skipped", diff=False, read=False) is ItemStatus.SKIPPED
    assert "Did you mean 'src/a.py'" in str(judged("changed", diff=True, read=True, item="lib/a.py"))


def entry(number: int) -> Entry:
    return Entry(kind="decision", text=f"decision number {number}", agent_id="x", at=AT)


def test_the_same_word_is_not_recorded_twice() -> None:
    knowledge = Knowledge().with_entries([entry(1), entry(1)]).with_entries([entry(1), entry(2)])
    assert [e.text for e in knowledge.entries] == ["decision number 1", "decision number 2"]


@given(st.integers(0, 300), st.integers(0, 500))
def test_prompts_get_the_newest_entries_within_the_limit(count: int, limit: int) -> None:
    lines = lines_within(Knowledge(entries=tuple(entry(n) for n in range(count))), limit)
    shown = [line for line in lines if line.startswith("decision")]
    assert sum(len(line) / 3.5 for line in shown) <= limit
    if len(shown) < count:
        assert lines[0] == f"({count - len(shown)} older entries are left out here; all of them are in knowledge.json)"
    if shown:
        assert f"number {count - 1} " in shown[-1]

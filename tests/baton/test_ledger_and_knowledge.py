"""An item that is done stays done; knowledge only grows and stays within its limit in prompts."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from baton.facts import AgentFacts, TurnFacts, fold, judge_completion
from baton.knowledge import Entry, Knowledge, essentials, select
from baton.ledger import ItemRecord, ItemStatus, counts, merge

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


def entry(number: int, **fields: object) -> Entry:
    return Entry(**{"kind": "decision", "text": f"decision number {number}", "agent_id": "x", "at": AT, **fields})  # type: ignore[arg-type]


def tokens(lines: list[str]) -> float:
    return sum((len(line) + 4) / 3.5 for line in lines)


def test_what_is_said_again_counts_as_used_and_is_not_added() -> None:
    knowledge = Knowledge().with_entries([entry(1), entry(1)]).with_entries([entry(1), entry(2)])
    assert [(e.text, e.uses) for e in knowledge.entries] == [("decision number 1", 3), ("decision number 2", 1)]


def test_everything_is_kept_while_it_fits() -> None:
    knowledge = Knowledge(entries=tuple(entry(n) for n in range(10)))
    assert select(knowledge, 1_000).kept == knowledge.entries
    assert select(knowledge, 1_000).left_out == ()


def test_the_most_used_and_the_most_recent_are_kept() -> None:
    knowledge = Knowledge(entries=(entry(0, uses=9), *(entry(n) for n in range(1, 200))))
    kept = {e.text for e in select(knowledge, 300).kept}
    assert "decision number 0" in kept
    assert "decision number 199" in kept
    assert "decision number 50" not in kept


@given(
    st.lists(st.tuples(st.integers(0, 99), st.integers(1, 5)), max_size=120, unique_by=lambda pair: pair[0]),
    st.integers(1, 800),
)
def test_a_selection_loses_nothing_and_stays_within_its_limit(pairs: list[tuple[int, int]], limit: int) -> None:
    knowledge = Knowledge(entries=tuple(entry(n, uses=uses) for n, uses in pairs))
    chosen = select(knowledge, limit)
    assert {e.text for e in (*chosen.kept, *chosen.left_out)} == {e.text for e in knowledge.entries}
    assert len(chosen.kept) + len(chosen.left_out) == len(pairs)
    assert tokens([e.line() for e in chosen.kept]) <= limit
    assert list(chosen.kept) == [e for e in knowledge.entries if e in chosen.kept]


def test_essentials_put_decisions_first_and_tell_what_is_missing() -> None:
    rows = [entry(n, kind="pattern", text="a pattern " * 30) for n in range(30)] + [entry(n) for n in range(30)]
    lines = essentials(rows, 400)
    assert lines[0] == "decision: decision number 29"
    assert lines[-1].startswith(f"({60 - len(lines) + 1} more entries are left out")
    assert tokens(lines[:-1]) <= 130

"""Progress: what is told piece by piece is the same as the whole, in whatever order pieces are lost or told twice."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.knowledge import Entry
from baton.ledger import ItemRecord, ItemStatus, grouped, ungrouped
from baton.manifest import HandoffReason
from baton.messages import AgentResult, HandoffRow, StepResult
from baton.plan import Plan, PlanStep
from baton.progress import ChainEnd, OtherRevisionError, Progress, added, after, grouped_records
from baton.states import AgentEnd, StepStatusWord
from baton.status import TaskStatus

AT = datetime(2026, 11, 30, tzinfo=UTC)

RECORDS = st.builds(
    ItemRecord,
    item=st.sampled_from([f"src/{n}.py" for n in range(9)]),
    status=st.sampled_from(ItemStatus),
    agent_id=st.sampled_from([None, "executor-1-x", "executor-1-x~2"]),
    commit=st.sampled_from([None, "c1", "c2"]),
    note=st.sampled_from([None, "because"]),
)


def entry(number: int, uses: int = 1) -> Entry:
    return Entry(kind="decision", text=f"decision {number}", agent_id="a", at=AT, uses=uses)


def handoff(number: int) -> HandoffRow:
    return HandoffRow(agent_id=f"a~{number}", successor_id="b", reason=HandoffReason.OUTPUT_LIMIT, at=AT)


def plan(steps: int) -> Plan:
    return Plan(task_id="t", plan=tuple(PlanStep(step=n, agent_type="x", description="d") for n in range(1, steps + 1)))


def chain_end(records: list[ItemRecord]) -> ChainEnd:
    return ChainEnd.of(AgentResult(agent_id="a", end=AgentEnd.FINISHED, items=tuple(records)))


STATES = st.builds(
    Progress,
    task_id=st.just("t"),
    status=st.builds(TaskStatus, phase=st.sampled_from(["planning", "executing"]), agents=st.integers(0, 9)),
    head=st.sampled_from(["", "h1", "h2"]),
    active=st.timedeltas(timedelta(), timedelta(days=2)),
    plan=st.none() | st.integers(0, 3).map(plan),
    approved=st.booleans(),
    results=st.dictionaries(
        st.integers(1, 4), st.builds(StepResult, step=st.integers(1, 4), status=st.sampled_from(StepStatusWord))
    ),
    records=st.dictionaries(st.integers(1, 4), st.lists(RECORDS)).map(grouped_records),
    chains=st.dictionaries(st.sampled_from(["1", "2.1"]), st.lists(RECORDS, max_size=3).map(chain_end), max_size=2),
    knowledge=st.lists(st.integers(0, 4), unique=True).flatmap(
        lambda numbers: st.just(tuple(entry(n, uses=1 + n % 2) for n in numbers))
    ),
    handoffs=st.integers(0, 4).map(lambda count: tuple(handoff(n) for n in range(count))),
).map(lambda state: state.model_copy(update={"labels": tuple(state.chains)}))


@given(st.lists(RECORDS))
def test_grouping_keeps_every_record_and_the_order(records: list[ItemRecord]) -> None:
    assert list(ungrouped(grouped(records))) == records


@given(st.lists(STATES, min_size=1), st.data())
def test_what_is_told_piece_by_piece_is_the_whole(states: list[Progress], data: st.DataObject) -> None:
    kept: Progress | None = None
    told: Progress | None = None
    for number, state in enumerate(states, 1):
        now = state.model_copy(update={"revision": f"run-{number}"})
        piece = now if told is None else added(told, now)
        piece = Progress.model_validate_json(piece.model_dump_json())
        kept = after(kept, piece)
        if data.draw(st.booleans()):
            kept = after(kept, piece)
        told = now
        assert kept == now
        assert Progress.model_validate_json(kept.model_dump_json()) == now


def test_a_piece_that_does_not_fit_is_refused() -> None:
    first, second, third = (Progress(revision=f"run-{n}") for n in (1, 2, 3))
    with pytest.raises(OtherRevisionError, match="there is no state"):
        after(None, added(first, second))
    with pytest.raises(OtherRevisionError, match="run-2 does not fit: there is the state run-1"):
        after(first, added(second, third))
    assert after(first, third) == third


def test_a_merge_tells_only_what_it_brought() -> None:
    items = tuple(ItemRecord(item=f"src/module_{n}.py", status=ItemStatus.CHANGED) for n in range(5_000))
    before = Progress(revision="r-1", plan=plan(3), records={1: grouped(items)}, knowledge=(entry(1), entry(2)))
    result = StepResult(step=2, status=StepStatusWord.OK)
    now = before.model_copy(
        update={"revision": "r-2", "results": {2: result}, "knowledge": (entry(1), entry(2, uses=2), entry(3))}
    )
    piece = added(before, now)
    assert (piece.plan, piece.records, piece.results) == (None, {}, {2: result})
    assert piece.knowledge == (entry(2, uses=2), entry(3))
    assert len(piece.model_dump_json()) < 4_000
    assert after(before, piece) == now

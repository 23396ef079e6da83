"""A new plan takes over what is open; what nobody takes stays visible as open."""

from baton.ledger import ItemRecord, ItemStatus, counts
from baton.messages import StepResult
from baton.plan import Plan, PlanStep
from baton.replan import remark, replanned
from baton.states import StepStatusWord


def step(number: int, *items: str, depends_on: tuple[int, ...] = ()) -> PlanStep:
    return PlanStep(step=number, agent_type="t", description=f"do {number}", items=items, depends_on=depends_on)


ROWS = (ItemRecord(item="a", status=ItemStatus.CHANGED), ItemRecord(item="b"), ItemRecord(item="c"))
BEFORE = Plan(task_id="t", plan=(step(1, "a", "b", "c"), step(2, "d", depends_on=(1,))))
STUCK = StepResult(step=1, status=StepStatusWord.PARTIAL, items=counts(ROWS), blockers=("stuck at b",))


def test_numbers_go_on_and_dropped_steps_are_gone() -> None:
    after = replanned(
        BEFORE, {1: STUCK}, {1: ROWS}, Plan(task_id="t", plan=(step(1, "b"), step(2, "d", depends_on=(1,))))
    )
    assert [(s.step, s.depends_on) for s in after.plan.plan] == [(1, ()), (3, ()), (4, (3,))]


def test_an_item_that_nobody_takes_stays_open() -> None:
    after = replanned(BEFORE, {1: STUCK}, {1: ROWS}, Plan(task_id="t", plan=(step(1, "b"),)))
    assert [r.item for r in after.records[1]] == ["a", "c"]
    assert (after.results[1].status, after.results[1].items.open) == (StepStatusWord.PARTIAL, 1)


def test_a_step_whose_open_items_all_went_elsewhere_is_ok() -> None:
    after = replanned(BEFORE, {1: STUCK}, {1: ROWS}, Plan(task_id="t", plan=(step(1, "b", "c"),)))
    assert (after.results[1].status, after.results[1].blockers) == (StepStatusWord.OK, ())
    assert "2 open items went to later steps" in after.results[1].findings[0]["finding"]


def test_the_planner_learns_what_is_left() -> None:
    told = remark(BEFORE, {1: STUCK}, {1: ROWS})
    assert "still open: b, c; in the way: stuck at b" in told
    assert "Not started: step 2, do 2 (1 items)" in told

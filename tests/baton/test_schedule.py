"""Steps start when they may, and shards lose no item."""

from hypothesis import given
from hypothesis import strategies as st

from baton.budget import Budget
from baton.messages import StepResult
from baton.plan import HandoffStrategy, Plan, PlanStep
from baton.schedule import MOST_SHARDS, blocked_by_failure, others_paths, startable, units
from baton.states import StepStatusWord


def step(number: int, *depends_on: int, **fields: object) -> PlanStep:
    return PlanStep(step=number, agent_type="t", description="d", depends_on=depends_on, **fields)  # type: ignore[arg-type]


def result(number: int, status: StepStatusWord = StepStatusWord.OK) -> StepResult:
    return StepResult(step=number, status=status)


PLAN = Plan(task_id="t", plan=(step(1), step(2, 1), step(3), step(4, 2, 3)))


def test_a_step_starts_when_its_own_dependencies_are_done() -> None:
    assert startable(PLAN, [1, 2, 3, 4], {}) == (1, 3)
    assert startable(PLAN, [2, 4], {1: result(1)}) == (2,)
    assert startable(PLAN, [4], {n: result(n) for n in (1, 2, 3)}) == (4,)


def test_failure_reaches_every_dependant_and_nobody_else() -> None:
    failed = {1: result(1, StepStatusWord.FAILED)}
    assert [blocked_by_failure(PLAN, n, failed) for n in (2, 3, 4)] == [True, False, True]
    partly = {1: result(1, StepStatusWord.PARTIAL)}
    assert not blocked_by_failure(PLAN, 2, partly)


def test_a_sequential_step_is_one_chain() -> None:
    assert [u.label for u in units(step(2, items=tuple("abcdef")), Budget(tokens=4_000))] == ["2"]


def test_a_small_parallel_step_is_not_cut() -> None:
    small = step(2, items=("a", "b"), handoff_strategy=HandoffStrategy.PARALLEL)
    assert [u.label for u in units(small, Budget())] == ["2"]


paths = st.lists(st.from_regex(r"[a-c]/[a-z]{1,3}\.(py|js)", fullmatch=True), unique=True, max_size=400)


@given(paths, st.integers(4_000, 64_000), st.none() | st.integers(0, 10**7))
def test_shards_hold_every_item_once_and_keep_stems_together(
    items: list[str], tokens: int, estimate: int | None
) -> None:
    parallel = step(2, items=tuple(items), handoff_strategy=HandoffStrategy.PARALLEL, estimated_output_tokens=estimate)
    cut = units(parallel, Budget(tokens=tokens))
    assert sorted(item for unit in cut for item in unit.items) == sorted(items)
    assert len(cut) <= MOST_SHARDS + 1
    assert len({unit.label for unit in cut}) == len(cut)
    stems = [{item.rsplit(".", 1)[0] for item in unit.items} for unit in cut]
    assert sum(len(one) for one in stems) == len(set().union(*stems))


def test_what_others_own() -> None:
    plan = (step(1, items=("a.py",), owns=("docs/**",)), step(2, items=("b.py", "c.py")))
    assert others_paths(plan, 2, ["b.py"]) == {
        "a.py": "step 1",
        "docs/**": "step 1",
        "c.py": "another agent of step 2",
    }

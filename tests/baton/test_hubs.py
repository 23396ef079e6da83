"""Hub files: one owner, who comes after all that need something there; nothing else is put in sequence for them."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from baton.expansion import expand
from baton.hubs import with_hub_owners
from baton.knowledge import Entry, Knowledge, needs_of
from baton.overlaps import in_sequence, ordered, steps_before
from baton.plan import Plan, PlanDraft, PlanStep, execution_order

AT = datetime(2026, 11, 30, tzinfo=UTC)
FILES = frozenset({"a.js", "b.js", "c.js", "package.json", "src/index.js", "theme.css"})


def step(number: int, *items: str, owns: tuple[str, ...] = (), depends_on: tuple[int, ...] = ()) -> PlanStep:
    return PlanStep(step=number, agent_type="x", description="d", items=items, owns=owns, depends_on=depends_on)


def owners(*steps: PlanStep) -> tuple[dict[int, PlanStep], list[str]]:
    found, notes = with_hub_owners(steps, FILES)
    return {one.step: one for one in found}, notes


def test_a_hub_that_nobody_has_as_an_item_gets_a_step_of_its_own() -> None:
    hub = ("package.json", "src/new.js")
    steps, notes = owners(step(1, "a.js", owns=hub), step(2, "b.js", owns=hub), step(3, "c.js"))
    assert (steps[1].owns, steps[2].owns) == ((), ())
    assert (steps[4].items, steps[4].owns, steps[4].depends_on) == (("package.json",), ("src/new.js",), (1, 2))
    assert steps[4].only_needs
    assert notes[0] == "only step 4 changes package.json: steps 1 and 2 record what they need there"


def test_the_step_whose_item_it_is_owns_it_and_comes_last() -> None:
    steps, notes = owners(step(1, "theme.css"), step(2, "a.js", owns=("theme.css",)), step(3, "b.js"))
    assert (steps[1].depends_on, steps[1].items, steps[2].owns) == ((2,), ("theme.css",), ())
    assert not steps[1].only_needs
    assert notes == ["only step 1 changes theme.css: step 2 records what it needs there"]


def test_what_is_work_of_each_or_in_sequence_anyway_is_no_hub() -> None:
    for steps in (
        (step(1, "a.js"), step(2, "a.js")),
        (step(1, "a.js", owns=("theme.css",)), step(2, "b.js", owns=("theme.css",), depends_on=(1,))),
        (step(1, "a.js", owns=("src/**",)), step(2, "b.js", owns=("src/**",))),
        (step(1, owns=("theme.css",)), step(2, owns=("theme.css",))),
        (step(1, "package.json").model_copy(update={"run": "x"}), step(2, "b.js", owns=("package.json",))),
    ):
        assert owners(*steps) == ({one.step: one for one in steps}, [])


def test_files_that_are_hubs_by_their_name() -> None:
    steps, _ = owners(step(1, "a.js", "src/index.js"), step(2, "b.js", "src/index.js"))
    assert (steps[1].items, steps[2].items, steps[3].items) == (("a.js",), ("b.js",), ("src/index.js",))


def test_only_parallel_plans_have_hubs() -> None:
    plan = [
        {"step": number, "agent_type": "x", "description": "d", "items": [item], "owns": ["package.json"]}
        for number, item in ((1, "a.js"), (2, "b.js"))
    ]
    sequential = expand(PlanDraft.model_validate({"plan": plan}), "t", FILES)
    assert sequential.step(2).depends_on == (1,)
    parallel = expand(PlanDraft.model_validate({"plan": plan, "execution_strategy": "parallel"}), "t", FILES)
    assert [one.depends_on for one in parallel.plan] == [(), (), (1, 2)]
    assert parallel.notes == ("only step 3 changes package.json: steps 1 and 2 record what they need there",)


PATHS = st.lists(st.sampled_from([*sorted(FILES), "new.js", "src/**"]), max_size=4, unique=True)


@st.composite
def plans(draw: st.DrawFn) -> list[PlanStep]:
    return [
        step(
            number,
            *(path for path in draw(PATHS) if path in FILES),
            owns=tuple(draw(PATHS)),
            depends_on=tuple(draw(st.lists(st.integers(1, number - 1), max_size=2, unique=True)) if number > 1 else ()),
        )
        for number in range(1, draw(st.integers(1, 6)) + 1)
    ]


@given(plans())
def test_whatever_the_plan_no_path_has_two_owners_side_by_side(given_steps: list[PlanStep]) -> None:
    changed, _ = with_hub_owners(given_steps, FILES)
    steps, _ = in_sequence(changed, FILES)
    order = execution_order(Plan(task_id="t", plan=tuple(steps)))
    assert sorted(order) == sorted(one.step for one in steps), "no circle"
    before = steps_before(steps)
    claims = {one.step: {*one.items, *one.owns} for one in steps}
    for one in steps:
        for other in steps:
            if one.step < other.step and not ordered(before, one.step, other.step):
                assert not claims[one.step] & claims[other.step]
    claimed = set().union(*claims.values())
    wanted = {path for one in given_steps for path in (*one.items, *one.owns)}
    assert claimed == wanted, "nothing is lost"
    for one in given_steps:
        for path in {*one.items, *one.owns} - claims[one.step]:
            assert any(one.step in before[owner.step] and path in claims[owner.step] for owner in steps)


def test_needs_find_the_owner_of_their_file() -> None:
    entries = tuple(
        Entry(kind="need", text=f"need {file}", file=file, agent_id="e", at=AT) for file in ("src/index.js", "a.js")
    )
    known = Knowledge(entries=(*entries, Entry(kind="issue", text="x", file="a.js", agent_id="e", at=AT)))
    assert [entry.text for entry in needs_of(("src/*.js", "b.js"), known)] == ["need src/index.js"]
    assert [entry.text for entry in needs_of(("a.js",), known)] == ["need a.js"]

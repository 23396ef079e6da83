"""What agents chose, compared: what counts as the same subject, who wins, and what is done again."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.bounds import REPAIR_ROUNDS
from baton.consistency import MOST_FILES, MOST_TOLD, Comparison, Contradiction, compared, redo_steps, redone_in, settled
from baton.knowledge import Entry, Knowledge
from baton.ledger import ItemRecord, ItemStatus
from baton.messages import StepResult
from baton.plan import Plan, PlanStep
from baton.repairs import judged_by_gates
from baton.states import StepStatusWord
from baton.tool_inputs import Ruling
from baton.topics import topic_choices

AT = datetime(2026, 11, 30, tzinfo=UTC)
PLAN = Plan(
    task_id="t",
    plan=(
        PlanStep(step=1, agent_type="converter", description="Convert", items=("a.ts",), depends_on=(2,)),
        PlanStep(step=2, agent_type="converter", description="Convert", items=("b.ts", "c.ts")),
        PlanStep(step=3, agent_type="writer", description="Write", items=("d.ts",), depends_on=(2,)),
    ),
)
RESULTS = {
    1: StepResult(step=1, status=StepStatusWord.OK, files_changed=("a.ts",)),
    2: StepResult(step=2, status=StepStatusWord.OK, files_changed=("b.ts", "c.ts")),
    3: StepResult(step=3, status=StepStatusWord.PARTIAL, files_changed=("d.ts",)),
}


def entry(label: str, text: str, kind: str = "decision", generation: str = "") -> Entry:
    return Entry.model_validate(
        {"kind": kind, "text": text, "agent_id": f"executor-{label}-converter{generation}", "at": AT}
    )


def found(*entries: Entry, results: dict[int, StepResult] = RESULTS) -> Comparison:
    return compared(Knowledge(entries=entries), PLAN, results)


@pytest.mark.parametrize(
    ("one", "other", "subject", "certain"),
    [
        ("Functions are named in snake_case.", "camelCase for functions", "naming of functions", True),
        ("Use relative imports", "All modules use absolute imports", "import paths", True),
        ("Errors are thrown", "errors are returned as a Result", "error handling", True),
        ("Tests use pytest", "The tests are written for unittest", "test framework", True),
        ("Retry limit: 3", "retry limit: `5`", "retry limit", False),
        ("Use zod for validation", "We use yup for validation.", "validation", False),
        ("The build targets Node 18", "The build targets Node 20", "build targets node …", False),
    ],
)
def test_the_same_subject_with_another_choice_is_found(one: str, other: str, subject: str, certain: bool) -> None:
    (only,) = found(entry("3", one), entry("2", other)).contradictions
    assert (only.subject, only.certain) == (subject, certain)
    assert [choice.step for choice in only.choices] == [2, 3], "the earlier in plan order comes first"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Functions are snake_case", "Classes are PascalCase"),
        ("Use snake_case for functions instead of camelCase", "snake_case for functions"),
        ("Functions were camelCase and are snake_case now", "functions in snake_case"),
        ("Raise exceptions in the parser; return errors in the API", "Errors are thrown"),
        ("`foo` becomes `bar`", "`baz` becomes `qux`"),
        ("Formatting follows flynt.", "Templates stay as they are."),
        ("Retry limit: 3", "retry limit: `3`."),
    ],
)
def test_what_does_not_contradict(one: str, other: str) -> None:
    assert not found(entry("1", one), entry("2", other)).contradictions


def test_a_chain_that_changed_its_mind_counts_with_its_last_word() -> None:
    said = (entry("2", "Retry limit: 3"), entry("2", "Retry limit: 5", generation="~2"), entry("3", "Retry limit: 5"))
    comparison = found(*said)
    assert not comparison.contradictions
    assert [(one.subject, one.choice, one.steps) for one in comparison.agreed] == [("retry limit", "5", (2, 3))]


def test_what_failed_or_is_no_executor_does_not_count() -> None:
    failed = RESULTS | {3: StepResult(step=3, status=StepStatusWord.FAILED)}
    assert not found(entry("2", "Retry limit: 3"), entry("3", "Retry limit: 5"), results=failed).contradictions
    other = entry("2", "Retry limit: 5").model_copy(update={"agent_id": "planner"})
    assert not found(entry("2", "Retry limit: 3"), other, entry("9", "Retry limit: 7")).contradictions


def contradiction(subject_text: tuple[str, str] = ("snake_case functions", "camelCase functions")) -> Contradiction:
    (only,) = found(entry("2", subject_text[0]), entry("3", subject_text[1])).contradictions
    return only


def ruling(**more: object) -> Ruling:
    return Ruling.model_validate({"subject": "Naming of functions", "contradicts": True} | more)


def test_without_a_ruling_the_earlier_step_wins_where_it_is_certain_and_nobody_where_it_is_not() -> None:
    (certain,) = settled([contradiction()], [])
    assert (certain.choice, certain.by, certain.redo) == ("snake_case", "earlier step", True)
    (unsure,) = settled([contradiction(("Retry limit: 3", "Retry limit: 5"))], [])
    assert (unsure.by, unsure.redo) == ("", False)


def test_the_integrators_ruling_holds() -> None:
    (other,) = settled([contradiction()], [ruling(choice="camelcase", redo=True, reason="as the API has it")])
    assert (other.choice, other.by, other.redo, other.reason) == ("camelCase", "integrator", True, "as the API has it")
    assert [choice.step for choice in other.others] == [2]
    (none,) = settled([contradiction()], [ruling(contradicts=False, reason="different layers")])
    assert (none.by, none.redo) == ("no contradiction", False)
    own = settled([], [ruling(subject="log format", choice="JSON", redo=True, files=["d.ts", "/etc/passwd"])])
    (step,) = redo_steps(PLAN, RESULTS, {}, own)
    assert (step.owns, step.settles) == (("d.ts",), ("log format",))


def test_what_chose_otherwise_is_done_again_by_its_own_type_in_its_files() -> None:
    (step,) = redo_steps(PLAN, RESULTS, {}, settled([contradiction()], []))
    assert (step.step, step.agent_type, step.owns) == (4, "writer", ("d.ts",))
    assert "naming of functions: “snake_case” instead of “camelCase”" in step.description
    after = PLAN.model_copy(update={"plan": (*PLAN.plan, step)})
    assert redo_steps(after, RESULTS, {}, settled([contradiction()], [])) == ()
    assert step.step in judged_by_gates(after)
    assert redone_in(after, RESULTS, "naming of functions") == ((4,), False)
    done = RESULTS | {4: StepResult(step=4, status=StepStatusWord.OK)}
    assert redone_in(after, done, "naming of functions") == ((4,), True)
    assert REPAIR_ROUNDS > 1


def test_shards_are_told_apart_by_their_items() -> None:
    (only,) = found(entry("2.1", "Use tabs for indentation"), entry("2.2", "Indentation: 4 spaces")).contradictions
    records = {
        2: [
            ItemRecord(item="b.ts", status=ItemStatus.CHANGED, agent_id="executor-2.1-converter"),
            ItemRecord(item="c.ts", status=ItemStatus.CHANGED, agent_id="executor-2.2-converter~2"),
        ]
    }
    (step,) = redo_steps(PLAN, RESULTS, records, settled([only], []))
    assert step.owns == ("c.ts",)


def test_contradictions_in_the_same_files_are_one_step() -> None:
    both = [contradiction(), contradiction(("relative imports", "absolute imports"))]
    (step,) = redo_steps(PLAN, RESULTS, {}, settled(both, []))
    assert set(step.settles) == {"naming of functions", "import paths"}


def test_many_files_are_several_steps_and_none_is_left_out() -> None:
    files = tuple(f"src/{number:03}.ts" for number in range(2 * MOST_FILES + 1))
    results = RESULTS | {3: RESULTS[3].model_copy(update={"files_changed": files})}
    steps = redo_steps(PLAN, results, {}, settled([contradiction()], []))
    assert [len(step.owns) for step in steps] == [MOST_FILES, MOST_FILES, 1]
    assert tuple(path for step in steps for path in step.owns) == files
    assert [step.step for step in steps] == [4, 5, 6]
    after = PLAN.model_copy(update={"plan": (*PLAN.plan, *steps)})
    done = results | {step.step: StepResult(step=step.step, status=StepStatusWord.OK) for step in steps[:2]}
    assert redone_in(after, done, "naming of functions") == ((4, 5, 6), False)
    assert redone_in(after, done | {6: done[4]}, "naming of functions") == ((4, 5, 6), True)
    assert redone_in(after, done, "quotes") == ((), False)


def test_patterns_that_name_their_subject_are_compared_too() -> None:
    (only,) = found(entry("2", "Log format: JSON", "pattern"), entry("3", "Log format: plain text")).contradictions
    assert (only.subject, only.certain) == ("log format", False)
    assert not found(entry("2", "Every loop ends at 3", "pattern"), entry("3", "Every loop ends at 5")).contradictions


def test_what_is_certain_is_never_left_out() -> None:
    nouns = ("functions", "methods", "variables", "constants", "classes", "components", "types", "modules", "keys")
    sure = [(f"snake_case {noun}", f"camelCase {noun}") for noun in nouns]
    sure += [(f"{one} imports", f"{other} imports") for one, other in [("relative", "absolute")]]
    rows = [*[(f"Limit {n}x: 1", f"Limit {n}x: 2") for n in range(30)], *sure]
    comparison = found(*(e for one, other in rows for e in (entry("2", one), entry("3", other))))
    assert sum(one.certain for one in comparison.contradictions) == len(sure)
    assert len(comparison.contradictions) == MOST_TOLD


words = st.lists(
    st.sampled_from(["camelCase", "snake_case", "functions", "not", "use", "for", "3", "`x`", ":", "tests"])
)


@given(st.lists(st.tuples(st.sampled_from(["1", "2", "2.1", "3"]), words.map(" ".join)), max_size=8))
def test_whatever_is_recorded_a_contradiction_has_two_choices_of_two_chains(rows: list[tuple[str, str]]) -> None:
    comparison = found(*(entry(label, text) for label, text in rows if text))
    for one in comparison.contradictions:
        assert len({choice.choice for choice in one.choices}) > 1
        assert len({choice.chain for choice in one.choices}) == len(one.choices)
    subjects = {one.subject for one in comparison.contradictions}
    assert not subjects & {one.subject for one in comparison.agreed}
    for settlement in settled(comparison.contradictions, []):
        assert settlement.by == "" or settlement.choice == settlement.choices[0].choice


@given(st.text())
def test_any_text_names_each_subject_once(text: str) -> None:
    subjects = [subject for subject, _ in topic_choices(text)]
    assert len(subjects) == len(set(subjects))

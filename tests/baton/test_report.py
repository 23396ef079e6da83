"""The report as people read it: every part of a run in its section, and no word that breaks the form."""

from datetime import UTC, datetime, timedelta

from baton.consistency import Agreement, Choice, Contradiction, settled
from baton.findings import GateKind, GateVerdict, VerdictStatus
from baton.ledger import ItemCounts, ItemRecord, ItemStatus
from baton.messages import StepResult
from baton.performance import Size
from baton.plan import Plan, PlanStep
from baton.report import plan_artifacts, report_artifacts
from baton.report_facts import ReportFacts, issues, undone
from baton.report_markdown import markdown
from baton.states import StepStatusWord, TaskState
from baton.status import TaskStatus, Wait
from baton.synthesis import LeftOut, Synthesis

OK, PARTIAL = StepStatusWord.OK, StepStatusWord.PARTIAL


def choice(step: int, word: str) -> Choice:
    return Choice(choice=word, text=f"Use {word}", step=step, chain=str(step), agent_id="a")


def facts(**more: object) -> ReportFacts:
    steps = (
        PlanStep(step=1, agent_type="x", description="First"),
        PlanStep(step=2, agent_type="x", description="Second"),
        PlanStep(step=3, agent_type="x", description="In line\n- with more", settles=("quotes",), repair_round=1),
    )
    given = {
        "status": TaskStatus(
            task_id="t",
            task="Do it",
            state=TaskState.PARTIAL,
            summary="1 of 2 items done",
            started_at=datetime(2026, 11, 30, 8, tzinfo=UTC),
            closed_at=datetime(2026, 11, 30, 9, tzinfo=UTC),
        ),
        "plan": Plan(task_id="t", plan=steps),
        "results": (
            StepResult(step=1, description="First", status=OK, summary="Did it.", verification_gaps=("no tests",)),
            StepResult(step=2, description="Second", status=PARTIAL, blockers=("stuck",), files_changed=("b.py",)),
            StepResult(step=3, description="In line\n- with more", status=OK, summary="Changed quotes."),
        ),
    }
    return ReportFacts.model_validate(given | more)


QUOTES = Contradiction(subject="quotes", choices=(choice(1, "single"), choice(2, "double")), certain=True)
LIMIT = Contradiction(subject="limit", choices=(choice(1, "3"), choice(2, "5")))


def test_contradictions_are_told_with_their_end_and_what_is_open_is_an_issue() -> None:
    given = facts(
        settlements=settled([QUOTES, LIMIT], ()), agreed=(Agreement(subject="exports", choice="named", steps=(1, 2)),)
    )
    text = markdown(given)
    assert (
        "✓ quotes: “single” (step 1) against “double” (step 2). “single” holds by the word of the earlier step" in text
    )
    assert "step 3 brought the rest in line" in text
    assert "✗ limit: “3” (step 1) against “5” (step 2). Nobody settled it." in text
    assert "✓ exports: named (steps 1, 2)" in text
    assert [issue["issue"].split(":")[0] for issue in issues(given)] == ["step 2 is partial", "steps chose differently"]


def test_what_was_to_be_brought_in_line_and_was_not_is_an_issue() -> None:
    results = (*facts().results[:2], StepResult(step=3, status=StepStatusWord.FAILED, description="In line"))
    given = facts(settlements=settled([QUOTES], ()), results=results)
    assert "✗ quotes" in markdown(given)
    (found,) = [issue for issue in issues(given) if issue["issue"].startswith("not everything is in line")]
    assert found["files"] == ["b.py"]


def test_notes_stand_under_their_own_step_and_a_subject_is_one_line() -> None:
    text = markdown(facts())
    assert "**1. First.** Did it.\n\n- not verified: no tests\n" in text
    assert "**2. Second.**\n\n- in the way: stuck\n" in text
    assert "**3. In line.** Changed quotes." in text


def test_what_commands_printed_stays_in_its_point_of_a_list() -> None:
    printed = "`make` failed (exit code 2):\n# Traceback\n- not a point\n\n````\nlast"
    stuck = StepResult(step=2, description="Second", status=PARTIAL, blockers=(printed, "stuck"))
    finding = {"severity": "low", "finding": printed, "suggested_action": "look"}
    text = markdown(facts(results=(stuck,), integration={"findings": [finding]}))
    block = "\n\n  `````\n  # Traceback\n  - not a point\n\n  ````\n  last\n  `````\n"
    assert f"- in the way: `make` failed (exit code 2):{block}\n- in the way: stuck" in text
    assert f"- **low** `make` failed (exit code 2): → look{block}" in text
    assert "→ look at its results file, then resume the task\n\n  `````\n  # Traceback" in text
    inside = [line for line in text.splitlines() if "Traceback" in line or "not a point" in line or "last" in line]
    assert inside
    assert all(line.startswith("  ") for line in inside)


def test_items_that_are_not_done_are_named_with_the_reason() -> None:
    rows = [
        ItemRecord(item="a.py", status=ItemStatus.CHANGED),
        ItemRecord(item="odd\nname.py", status=ItemStatus.SKIPPED, note="no\nPython 3"),
        *(ItemRecord(item=f"{n}.py") for n in range(30)),
    ]
    result = StepResult(
        step=2, description="Second", status=PARTIAL, items=ItemCounts(total=32, changed=1, skipped=1, open=30)
    )
    given = facts(results=(result,), undone=undone({1: rows[:1], 2: rows}))
    assert "\n- skipped: `'odd\\nname.py'` (no Python 3)\n- pending: `0.py`\n" in markdown(given)
    assert "\n- and 11 more items, see `ledger.json`" in markdown(given)
    (issue,) = issues(given)
    assert issue["files"][:2] == ["odd\nname.py", "0.py"]
    assert "(no Python 3)" in issue["evidence"]


def test_sections_come_in_the_order_of_the_form() -> None:
    verdict = GateVerdict(
        name="build", kind=GateKind.BUILD, status=VerdictStatus.PASSED, seconds_before=10.0, seconds=14.0
    )
    text = markdown(
        facts(
            verdicts=(verdict,),
            integration={"consistency": ["fine"]},
            sizes_before=(Size(pattern="dist", bytes=1000, files=1),),
            sizes=(Size(pattern="dist", bytes=1500, files=1),),
        )
    )
    names = [
        "Consistency Checks",
        "Quality Gates",
        "Performance Validation",
        "Summary",
        "Issues Requiring Review",
        "Steps",
    ]
    places = [text.index(f"## {name}\n") for name in names]
    assert places == sorted(places)
    assert "| build | 10.0 s | 14.0 s | slower (× 1.40) |" in text
    assert "| `dist` | 1 000 bytes | 1 500 bytes | larger (× 1.50) |" in text
    assert "- duration: 1 h" in text


def test_the_form_is_the_same_where_there_was_nothing_to_tell() -> None:
    text = markdown(facts())
    assert "## Consistency Checks\n\nNo two agents recorded a choice" in text
    assert "## Performance Validation\n\nNothing was measured" in text
    assert "## Quality Gates\n\nNo gate was run" in text
    assert "Performance Validation" not in markdown(facts(results=()))


def test_time_in_which_a_question_was_open_is_counted_once() -> None:
    at = datetime(2026, 11, 30, 8, tzinfo=UTC)
    spans = ((0, 10), (5, 20), (6, 7), (30, 40))
    waits = tuple(
        Wait(kind="limit", since=at + timedelta(minutes=start), until=at + timedelta(minutes=end))
        for start, end in spans
    )
    given = facts()
    given = given.model_copy(update={"status": given.status.model_copy(update={"waits": waits})})
    assert given.waited == timedelta(minutes=30)
    assert "- duration: 1 h (30 min of it waiting for a person)" in markdown(given)
    assert "waiting" not in markdown(facts())


def test_struck_sentences_are_told_with_the_reason() -> None:
    said = Synthesis(text="It works.", left_out=(LeftOut(sentence="All | done.", why="the task is partial"),))
    text = markdown(facts(synthesis=said))
    assert "It works." in text
    assert "- ~~All / done.~~ (the task is partial)" in text
    assert "There is no summary by a model: the limit." in markdown(facts(synthesis=Synthesis(why="the limit")))


def test_steps_that_never_started_have_a_result_file_too() -> None:
    results = (StepResult(step=7, status=StepStatusWord.NOT_ATTEMPTED, blockers=("cancelled",)),)
    names = [artifact.name for artifact in report_artifacts(facts(results=results))]
    assert names[0] == "results/7.yaml"
    assert "report.md" in names


def test_the_spec_of_a_step_names_what_it_may_write() -> None:
    step = PlanStep(step=1, agent_type="x", description="Go", success_criteria=("it works",), owns=("src/**",))
    spec = plan_artifacts(Plan(task_id="t", plan=(step,)))[1].value
    assert spec["constraints"] == ["it works", "may also write: src/**"]

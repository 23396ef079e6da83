"""The summary in words: what its model reads is bounded, and no sentence stands that says more than the facts."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.findings import GateVerdict, VerdictStatus
from baton.ledger import ItemCounts
from baton.messages import StepResult
from baton.states import StepStatusWord, TaskState
from baton.synthesis import SUMMARY_CHARACTERS, SynthesisFacts, assignment, checked, is_wanted

OK, FAILED = StepStatusWord.OK, StepStatusWord.FAILED


def step(number: int, status: StepStatusWord = OK, **more: object) -> StepResult:
    given = {
        "step": number,
        "status": status,
        "summary": "Converted to Python 3.11.",
        "files_changed": ("a.py", "b.py"),
        "items": ItemCounts(total=3, changed=2, failed=0 if status is OK else 1, unchanged=1 if status is OK else 0),
    }
    return StepResult.model_validate(given | more)


def facts(state: TaskState = TaskState.PARTIAL, *gates: GateVerdict, **more: object) -> SynthesisFacts:
    given = {
        "task_id": "t",
        "task": "Convert",
        "state": state,
        "results": (step(1), step(2, FAILED, files_changed=())),
        "verdicts": gates,
    }
    return SynthesisFacts.model_validate(given | more)


GATES = (
    GateVerdict(name="tests", status=VerdictStatus.NEW_FAILURE, blocks=True),
    GateVerdict(name="lint", status=VerdictStatus.PASSED),
)


@pytest.mark.parametrize(
    "sentence",
    [
        "All items were converted.",
        "Every file is done.",
        "The task is complete.",
        "The migration was completed successfully.",
        "Step 2 converted everything successfully.",
        "The result is ready to merge.",
        "17 files were changed.",
        "It took 42 minutes.",
        "The agents changed 3,000 lines.",
        "All tests pass.",
        "The tests are green.",
        "Step 1 and step 2 fully work.",
        "99% of the items are done.",
    ],
)
def test_what_the_facts_contradict_is_left_out(sentence: str) -> None:
    found = checked(f"Step 1 used f-strings. {sentence} Templates stay.", facts(TaskState.PARTIAL, *GATES))
    assert found.text == "Step 1 used f-strings. Templates stay."
    assert [one.sentence for one in found.left_out] == [sentence]
    assert found.left_out[0].why


@pytest.mark.parametrize(
    "sentence",
    [
        "The code now needs Python 3.11.",
        "Step 1 converted all its files.",
        "2 files were changed.",
        "Not all items were converted.",
        "The lint gate passes.",
        "The tests do not pass.",
        "Step 2 failed.",
    ],
)
def test_what_agrees_stands(sentence: str) -> None:
    assert checked(sentence, facts(TaskState.PARTIAL, *GATES)).text == sentence


def test_a_task_that_is_done_may_be_called_done_but_gates_speak_for_themselves() -> None:
    done = facts(
        TaskState.DONE, GateVerdict(name="tests", status=VerdictStatus.KNOWN_FAILURE), results=(step(1), step(2))
    )
    found = checked("All items were converted. All tests pass.", done)
    assert (found.text, len(found.left_out)) == ("All items were converted.", 1)
    assert checked("All tests pass.", facts(TaskState.DONE, results=(step(1), step(2)))).text == ""


def test_headings_and_paragraphs() -> None:
    found = checked("## What happened\n\nStep 1 did it.\n\nStep 2 failed.", facts())
    assert found.text == "What happened\n\nStep 1 did it.\n\nStep 2 failed."


def test_one_result_needs_no_summary() -> None:
    assert not is_wanted([step(1), step(2, StepStatusWord.NOT_ATTEMPTED)])
    assert is_wanted([step(1), step(2, FAILED)])


texts = st.text(max_size=3_000)
results = st.builds(
    StepResult,
    step=st.integers(1, 500),
    status=st.sampled_from(StepStatusWord),
    summary=texts,
    description=texts,
    findings=st.lists(st.fixed_dictionaries({"finding": texts}), max_size=30).map(tuple),
    files_changed=st.lists(texts, max_size=30).map(tuple),
    blockers=st.lists(texts, max_size=30).map(tuple),
)


@given(st.lists(results, max_size=3), st.integers(1, 40), texts)
def test_what_the_model_reads_is_bounded_and_says_what_is_missing(
    rows: list[StepResult], times: int, task: str
) -> None:
    given = facts(task=task, results=tuple(rows) * times)
    fields = assignment(given)
    assert len(json.dumps(fields, ensure_ascii=False)) < 600_000
    assert len(fields["results"]) + fields["results_left_out"] == len(given.results)


@given(st.text())
def test_any_text_is_checked_within_bounds(text: str) -> None:
    found = checked(text, facts())
    assert len(found.text) <= SUMMARY_CHARACTERS + 1
    for one in found.left_out:
        assert one.sentence not in found.text.split("\n\n")

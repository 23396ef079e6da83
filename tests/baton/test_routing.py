"""The way of a task: what facts decide alone, what a person may choose, and what the planner is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.routing import MODES, Route, choices, chosen, decided_by_facts, planner_settings, task_facts, unattended

FILES = ("src/a.py", "src/b.py", "src/cart.ts", "docs/a.md", "tests/test_a.py")


@pytest.mark.parametrize(
    ("task", "named"),
    [
        ("Fix the rounding in src/cart.ts.", ("src/cart.ts",)),
        ("Rename total in cart.ts", ("src/cart.ts",)),
        ("Use a.py and src/b.py", ("src/a.py", "src/b.py")),
    ],
)
def test_a_task_that_names_few_files_is_one_agents_work(task: str, named: tuple[str, ...]) -> None:
    facts = task_facts(task, FILES)
    assert facts.named == named
    route = decided_by_facts(facts)
    assert route is not None
    assert (route.mode, route.by) == ("single", "facts")


@pytest.mark.parametrize(
    "task",
    [
        "Fix the rounding in src/cart.ts and everywhere it is used",
        "Convert src/**/*.py as in src/a.py",
        "Make the tests faster",
        "Merge src/a.py, src/b.py, src/cart.ts and tests/test_a.py",
    ],
)
def test_a_task_that_reaches_further_is_not_decided_by_facts(task: str) -> None:
    assert decided_by_facts(task_facts(task, FILES)) is None


def test_globs_and_suffixes_are_counted() -> None:
    facts = task_facts("Convert src/**/*.py", FILES)
    assert (facts.globbed, facts.suffixes[".py"], facts.files) == (2, 3, 5)


def test_a_tiny_repository_needs_no_thought() -> None:
    route = decided_by_facts(task_facts("Modernise everything", FILES[:3]))
    assert route is not None
    assert route.mode == "single"


UNSURE = Route(mode="parallel", confidence=0.5, question="Which way?", options=("keep the API", "break the API"))


def test_a_persons_answer_is_a_mode_or_goes_to_the_planner() -> None:
    assert choices(UNSURE) == ("keep the API", "break the API")
    route, told = chosen(UNSURE, "break the API")
    assert (route.mode, route.by, route.is_sure) == ("parallel", "person", True)
    assert told == "A person was asked: Which way? The answer: break the API"
    plain = UNSURE.model_copy(update={"options": ()})
    assert choices(plain) == MODES
    single, told = chosen(plain, "single")
    assert (single.mode, single.by, told) == ("single", "person", "")


def test_where_nobody_is_there_steps_go_in_a_row() -> None:
    assert planner_settings(unattended(UNSURE)) == {"mode": "orchestrated", "strategy": "sequential", "mode_reason": ""}


@given(st.text(max_size=200), st.sets(st.text(min_size=1, max_size=12), max_size=8))
def test_any_text_and_any_names_give_facts(task: str, files: set[str]) -> None:
    facts = task_facts(task, files)
    assert set(facts.named) <= files
    assert facts.globbed <= facts.files

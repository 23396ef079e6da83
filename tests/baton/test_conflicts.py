"""What may be done about a conflict: who takes part, what a person is asked, which gates follow a merge."""

from datetime import UTC, datetime

import pytest

from baton.bookkeeping import Evidence, judge
from baton.facts import AgentFacts
from baton.findings import GateKind, GateOutcome, GateResult, GateSpec
from baton.first_message import assignment_fields
from baton.knowledge import Decision, Issue, Knowledge, entries
from baton.ledger import ItemRecord, ItemStatus
from baton.merge_tree import ConflictKind
from baton.merging import (
    Conflict,
    PathConflict,
    Resolution,
    cheap_gates,
    conflict_ownership,
    given_up_items,
    given_up_paths,
    question,
    redo_guidance,
    settling,
    with_intents,
)
from baton.messages import Assignment
from baton.ownership import Allowed, Refused
from baton.plan import Plan, PlanStep
from baton.roles import Role
from baton.tool_inputs import SubmitResolution

CONFLICT = Conflict(
    step=3,
    branch="step-3",
    head="h",
    others=(1,),
    paths=(
        PathConflict(path="a.cfg", kind=ConflictKind.CONTENT, stages=("base", "ours", "theirs")),
        PathConflict(path="new.py", kind=ConflictKind.RENAME_DELETE, other_paths=("old.py",)),
    ),
)
PLAN = Plan(
    task_id="t",
    plan=(
        PlanStep(step=1, agent_type="x", description="Raise the version.", items=("a.py",), owns=("docs/**",)),
        PlanStep(step=2, agent_type="x", description="Something else.", items=("b.py",)),
        PlanStep(step=3, agent_type="x", description="Add a setting.", items=("a.txt",)),
    ),
)


def test_both_sides_intents_and_the_knowledge_about_the_paths_are_named() -> None:
    at = datetime(2026, 11, 30, tzinfo=UTC)
    known = entries(
        "executor-1",
        at,
        decisions=[Decision(decision="a.cfg keeps its order"), Decision(decision="tabs, not spaces")],
        issues=[Issue(issue="it is used twice", file="old.py")],
    )
    whole = with_intents(CONFLICT, PLAN, {1: "raised it"}, Knowledge(entries=known))
    assert [(i.step, i.description, i.summary) for i in whole.intents] == [
        (3, "Add a setting.", ""),
        (1, "Raise the version.", "raised it"),
    ]
    assert len(whole.knowledge) == 2
    assert not any("tabs" in line for line in whole.knowledge)


def test_a_resolver_may_change_the_conflict_and_what_both_steps_own_only() -> None:
    owned = conflict_ownership(CONFLICT.names, PLAN.plan, CONFLICT.owners)
    for path in ("a.cfg", "old.py", "a.py", "a.txt", "docs/x.md"):
        assert isinstance(owned.may_write(path, exists=True), Allowed), path
    assert isinstance(owned.may_write("b.py", exists=True), Refused)
    assert isinstance(owned.may_write("brand_new.py", exists=False), Allowed)


def test_the_assignment_tells_the_conflict_and_not_the_names_of_branches() -> None:
    assignment = Assignment(
        task_id="t", task="do", role=Role.RESOLVER, name="resolver-1", model="m", workspace="resolve-1",
        start_commit="c", conflict=with_intents(CONFLICT, PLAN, {}, Knowledge()),
    )  # fmt: skip
    shown = assignment_fields(assignment, ["a line"])
    assert shown["conflict"]["step"] == 3
    assert shown["conflict"]["paths"][0] == {"path": "a.cfg", "kind": "content", "stages": ["base", "ours", "theirs"]}
    assert "branch" not in shown["conflict"]
    assert shown["knowledge"] == ["a line"]


def test_the_question_names_places_reasons_and_every_choice() -> None:
    asked = question(CONFLICT, "/here", ["The resolver is at its end."])
    for part in ("Step 3", "step 1", "a.cfg (both changed the same lines)", "resolver is at its end.", "/here"):
        assert part in asked
    assert "raised on" not in redo_guidance(CONFLICT, "")
    assert redo_guidance(CONFLICT, "mind X").endswith("The person says: mind X")


def test_many_paths_are_counted() -> None:
    many = CONFLICT.model_copy(update={"paths": CONFLICT.paths * 5, "paths_left_out": 7})
    assert many.described().endswith("and 9 more")


def test_items_that_gave_way_are_not_done() -> None:
    names = [Resolution(by="a", choice=choice, paths=(f"{choice}.cfg",)) for choice in ("ours", "theirs")]
    assert given_up_paths(names) == {"ours.cfg"}
    by_agent = Resolution(by="resolver-1", paths=("a.cfg", "b.cfg"), gave_way=("b.cfg",))
    assert given_up_paths([*names, by_agent]) == {"ours.cfg", "b.cfg"}
    records = [ItemRecord(item=name, status=ItemStatus.CHANGED) for name in ("a.cfg", "b.cfg")]
    kept, other = given_up_items(records, CONFLICT.names)
    assert (kept.status, other.status) == (ItemStatus.SKIPPED, ItemStatus.CHANGED)


@pytest.mark.parametrize(
    ("kind", "seconds", "outcome", "cheap"),
    [
        (GateKind.LINT, 59, GateOutcome.PASSED, True),
        (GateKind.LINT, 61, GateOutcome.PASSED, False),
        (GateKind.TYPES, 5, GateOutcome.FAILED, True),
        (GateKind.TEST, 9, GateOutcome.PASSED, True),
        (GateKind.TEST, 11, GateOutcome.PASSED, False),
        (GateKind.COVERAGE, 1, GateOutcome.PASSED, False),
        (GateKind.BUILD, 1, GateOutcome.INCONCLUSIVE, False),
    ],
)
def test_gates_after_a_merge_are_those_that_were_fast(
    kind: GateKind, seconds: float, outcome: GateOutcome, cheap: bool
) -> None:
    gate = GateSpec(name="g", command="c", kind=kind)
    before = GateResult(name="g", kind=kind, command="c", outcome=outcome, duration_seconds=seconds)
    assert cheap_gates([gate], [before]) == ((gate,) if cheap else ())
    assert cheap_gates([gate], []) == ()


def test_only_what_settles_a_workspace_is_taken_for_it() -> None:
    assert settling("edit") == "edit"
    with pytest.raises(ValueError, match="redo"):
        settling("redo")


def test_markers_come_back_once_and_then_say_that_a_person_decides() -> None:
    said = SubmitResolution(resolution="r", rationale="why")
    left = Evidence(facts=AgentFacts(), agent_id="r", at=datetime(2026, 1, 1, tzinfo=UTC), unresolved=("a (line 2)",))
    first = judge("submit_resolution", said, left)
    assert first.is_error
    assert "a (line 2)" in first.text
    again = Evidence(facts=AgentFacts().after(first.facts), agent_id="r", at=left.at, unresolved=left.unresolved)
    second = judge("submit_resolution", said, again)
    assert second.facts.submission is not None
    assert second.facts.submission.input["unresolved"] == ["a (line 2)"]
    clean = judge("submit_resolution", said, Evidence(facts=AgentFacts(), agent_id="r", at=left.at))
    assert clean.facts.submission is not None
    assert clean.facts.submission.input["unresolved"] == []

"""Reviews: when there is one and why, what several verdicts come to, and what is sent back."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.bookkeeping import Evidence, judge
from baton.bounds import REVIEW_RETRIES
from baton.facts import AgentFacts, Submission
from baton.first_message import assignment_fields
from baton.ledger import ItemRecord, ItemStatus
from baton.messages import AgentResult, Assignment, ChainTotals
from baton.plan import PlanStep
from baton.pricing import Usage
from baton.reviews import Decision, Review, Subject, review_findings, review_gaps, subjects, synthesis
from baton.roles import Role
from baton.states import AgentEnd
from baton.supervision import BEYOND_ITEMS, after_retry, failed_by_review, review_reasons, sent_back, subject
from baton.tool_inputs import FinishStep, SubmitReview

AT = datetime(2026, 11, 30, tzinfo=UTC)
STEP = PlanStep(step=1, agent_type="x", description="Do it.", items=("a.py", "b.py"), success_criteria=("tests pass",))
EVIDENT = [{"criterion": "tests pass", "met": True, "evidence": "pytest -q: 12 passed"}]


def done(said: dict[str, Any] | None = None, **fields: Any) -> AgentResult:
    """A chain that ended by itself and did its items."""
    claims = {"status": "ok", "summary": "did it", "criteria": EVIDENT} | (said or {})
    return AgentResult(
        **{
            "agent_id": "executor-1-x",
            "end": AgentEnd.FINISHED,
            "submission": Submission(tool="finish_step", input=claims),
            "items": tuple(ItemRecord(item=i, status=ItemStatus.CHANGED, agent_id="executor-1-x") for i in STEP.items),
            "changed": ("a.py", "b.py"),
            "totals": ChainTotals(agents=1, usage=Usage(output_tokens=100)),
            "commit": "c1",
            **fields,
        }
    )


def test_work_that_claims_what_facts_show_and_is_not_risky_is_not_reviewed() -> None:
    assert review_reasons("auto", STEP, done()) == ()
    assert review_reasons("never", STEP, done({"criteria": []})) == ()
    assert review_reasons("always", STEP, done()) == ("every step is reviewed (review: always)",)


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (done({"criteria": []}), "it says ok and nothing of tests pass"),
        (done({"criteria": [{"criterion": "tests pass", "met": True}]}), "without evidence that this is met: tests"),
        (done({"criteria": [{"criterion": "tests pass", "met": False}]}), "says ok though this is not met: tests pass"),
        (done({"blockers": ["no network"]}), "says ok though something is in the way: no network"),
        (done(changed=("src/auth/login.py",)), "risky to get wrong: src/auth/login.py"),
        (done(changed=tuple(f"f{n}.py" for n in range(BEYOND_ITEMS + 1))), "11 files beside its items"),
        (done(totals=ChainTotals(agents=2, trips=1)), "an agent of it was replaced"),
    ],
)
def test_claims_beyond_facts_and_risks_are_reviewed(result: AgentResult, reason: str) -> None:
    (told,) = review_reasons("auto", STEP, result)
    assert reason in told


@pytest.mark.parametrize(
    "result",
    [
        done(changed=("src/author.py", "docs/authors.md")),
        done(totals=ChainTotals(agents=9, handoffs=8)),
        done(changed=tuple(f"f{n}.py" for n in range(BEYOND_ITEMS))),
        done({"criteria": [{"criterion": "tests pass", "met": False, "evidence": "left to the gates"}]}),
        done({"status": "blocked", "blockers": ["x"], "criteria": []}),
        done({"criteria": []}, end=AgentEnd.STOPPED),
    ],
)
def test_near_twins_are_not(result: AgentResult) -> None:
    assert review_reasons("auto", STEP, result) == ()


def test_what_was_sent_back_is_looked_at_again_and_what_nobody_could_review_is_left() -> None:
    again = done(reviews=(Review(decision=Decision.RETRY),))
    assert review_reasons("auto", STEP, again) == ("it was sent back and done again",)
    assert review_reasons("auto", STEP, done({"criteria": []}, reviews=(Review(decision=Decision.NOT_REVIEWED),))) == ()


APPROVED = {"approved": True, "retry": False, "feedback": ""}
AGAIN = {"approved": False, "retry": True, "feedback": "a.py is wrong", "reopen": ["a.py"]}
NEITHER = {"approved": False, "retry": False, "feedback": "the step is wrong"}


@pytest.mark.parametrize(
    ("verdicts", "retries", "decision"),
    [
        ([APPROVED], 0, Decision.APPROVED),
        ([APPROVED, None], 0, Decision.APPROVED),
        ([APPROVED, AGAIN], 0, Decision.RETRY),
        ([AGAIN, AGAIN], REVIEW_RETRIES, Decision.ESCALATED),
        ([AGAIN, NEITHER], 0, Decision.ESCALATED),
        ([None, None], 0, Decision.NOT_REVIEWED),
    ],
)
def test_several_verdicts_come_to_one(verdicts: list[Any], retries: int, decision: Decision) -> None:
    named = [(f"lens {number}", verdict) for number, verdict in enumerate(verdicts)]
    assert synthesis(named, ["why"], retries).decision is decision


VERDICTS = st.lists(st.sampled_from([APPROVED, AGAIN, NEITHER, None]), min_size=1, max_size=5)


@given(VERDICTS, st.integers(0, 5))
def test_nothing_is_approved_over_a_refusal_and_retries_end(verdicts: list[Any], retries: int) -> None:
    review = synthesis([("", verdict) for verdict in verdicts], [], retries)
    refused = any(verdict is not None and not verdict["approved"] for verdict in verdicts)
    assert (review.decision is Decision.APPROVED) == (not refused and any(v is not None for v in verdicts))
    assert review.decision is not Decision.RETRY or retries < REVIEW_RETRIES
    assert len(review.silent) == sum(verdict is None for verdict in verdicts)


def test_findings_of_several_views_are_put_together_the_gravest_first() -> None:
    small = {"finding": "A name is unclear", "files": ["a.py"], "severity": "low"}
    grave = {"finding": "Input reaches a shell", "files": ["b.py"], "severity": "high"}
    same = {"finding": "a  name is unclear", "files": ["a.py"], "severity": "medium"}
    review = synthesis(
        [
            ("maintainability", APPROVED | {"findings": [small]}),
            ("security", AGAIN | {"findings": [grave, same]}),
            ("speed", None),
        ],
        ["why"],
        0,
    )
    assert [(f["finding"], f["severity"]) for f in review.findings] == [
        ("Input reaches a shell", "high"),
        ("a  name is unclear", "medium"),
    ]
    assert review.findings[1]["lenses"] == ["maintainability", "security"]
    assert review.score == 100 - 25 - 10
    assert (review.feedback, review.reopen) == ("security: a.py is wrong", ("a.py",))
    assert review_gaps([review]) == ("not reviewed: speed gave no verdict",)
    assert review_findings([review]) == ()


def test_a_view_for_each_lens_and_the_users_own_words_are_one() -> None:
    about = Subject(result={}, since="c")
    assert subjects(about, ()) == (about,)
    security, own = subjects(about, ("security", " Is the wording kind? ", "security"))
    assert "injection" in security.looks_for
    assert (own.lens, own.looks_for) == ("Is the wording kind?", "")


def test_a_retry_keeps_what_was_not_named() -> None:
    assignment = Assignment(
        task_id="t",
        task="x",
        role=Role.EXECUTOR,
        name="executor-1-x",
        model="m",
        workspace="step-1",
        start_commit="c0",
        step=STEP,
        items=STEP.items,
    )
    review = Review(decision=Decision.RETRY, feedback="a.py is wrong", reopen=("a.py", "elsewhere.py"))
    result = done(agent_id="executor-1-x~3")
    again = sent_back(assignment, result, review, AT)
    assert (again.generation, again.items, [r.item for r in again.done]) == (4, ("a.py",), ["b.py"])
    assert (again.workspace, again.start_commit) == ("step-1", "c0")
    assert again.manifest is not None
    assert again.manifest.notes is not None
    assert "a.py is wrong" in again.manifest.notes
    assert again.manifest.to_agent is not None
    assert again.manifest.to_agent.id == "executor-1-x~4"
    assert again.manifest.chain[-1].commit == "c1"
    second = done(items=(ItemRecord(item="a.py"), *result.items[1:]), totals=ChainTotals(agents=2))
    whole = after_retry(result, second)
    assert whole.totals.agents == 3
    assert whole.items[0].status is ItemStatus.PENDING


def test_what_a_person_failed_is_neither_done_nor_merged() -> None:
    failed = failed_by_review(done(), "it is wrong")
    assert failed.rejected
    assert {record.status for record in failed.items} == {ItemStatus.FAILED}
    assert failed.end is AgentEnd.BLOCKED


def test_a_reviewer_sees_the_diff_the_claims_and_why() -> None:
    about = subject(STEP, done(), "c0", ["why"])
    assignment = Assignment(
        task_id="t",
        task="x",
        role=Role.REVIEWER,
        name="reviewer-1",
        model="m",
        workspace="reviewer-1",
        start_commit="c1",
        step=STEP,
        subject=about,
    )
    shown = assignment_fields(assignment, (), diff="+ new line")
    assert shown["diff"] == "+ new line"
    assert shown["result"]["criteria"] == EVIDENT
    assert shown["reasons"] == ["why"]
    assert shown["step"]["success_criteria"] == ["tests pass"]
    assert "since" not in shown


def evidence(**facts: Any) -> Evidence:
    return Evidence(facts=AgentFacts(**facts), agent_id="a", at=AT)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"approved": True, "retry": True}, "contradict"),
        ({"approved": False, "retry": True}, "needs feedback"),
        ({"approved": False}, "needs feedback"),
    ],
)
def test_a_verdict_that_says_nothing_comes_back(fields: dict[str, Any], message: str) -> None:
    judgement = judge("submit_review", SubmitReview(**fields), evidence())
    assert judgement.is_error
    assert message in judgement.text
    assert judgement.facts.refused_submissions == 1


def test_done_without_anything_to_see_is_sent_back_and_with_it_is_not() -> None:
    bare = FinishStep(status="ok", summary="All good.")
    judgement = judge("finish_step", bare, evidence())
    assert judgement.is_error
    assert "Nothing shows" in judgement.text
    evident = FinishStep(status="ok", summary="All good.", criteria=EVIDENT)
    assert not judge("finish_step", evident, evidence()).is_error
    assert not judge("finish_step", bare, evidence(written=frozenset({"a.py"}))).is_error

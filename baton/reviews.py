"""Reviews of steps: what a reviewer is asked, and what the verdicts of several views come to together.

A reviewer that gives no verdict approves nothing and refuses nothing: that is said, and the facts decide.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from baton.bounds import REVIEW_RETRIES
from baton.models import Stored
from baton.severity import SEVERITIES, Severity

APPROVE, RETRY, FAIL = "approve", "retry", "fail"
CHOICES = (APPROVE, RETRY, FAIL)

LENSES: Mapping[str, str] = {
    "correctness": "does it do what the step asks, in every case; edge cases, error paths, broken callers",
    "security": "injection, paths, secrets, permissions, unsafe defaults, untrusted input",
    "performance": "work in loops, needless input and output, memory that grows, blocking calls",
    "maintainability": "names, duplication, dead code, missing tests, a style that differs from its neighbours",
}
"""What a named lens looks for; any other text is a lens of the user's own, in their words."""

COSTS = {Severity.LOW: 3, Severity.MEDIUM: 10, Severity.HIGH: 25, Severity.CRITICAL: 60}
"""Points that a finding takes from a score of 100."""

FINDINGS_KEPT = 40
FEEDBACK_CHARACTERS = 4_000


class Subject(Stored):
    """What a reviewer looks at: what the agent claims, since which commit, why, and with which view."""

    result: dict[str, Any]
    since: str
    reasons: tuple[str, ...] = ()
    lens: str | None = None
    looks_for: str = ""
    feedback_before: tuple[str, ...] = ()


class Decision(StrEnum):
    """What becomes of a reviewed step."""

    APPROVED = "approved"
    RETRY = "retry"
    ESCALATED = "escalated"
    NOT_REVIEWED = "not_reviewed"


class Review(Stored):
    """What one round of reviewing came to. `score`: 100 less what its findings cost; None when nobody gave a verdict.
    `silent`: the views that gave none. `reopen`: items named as wrong. `answer`: what a person chose."""

    decision: Decision
    reasons: tuple[str, ...] = ()
    feedback: str = ""
    findings: tuple[dict[str, Any], ...] = ()
    score: int | None = None
    lenses: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    reopen: tuple[str, ...] = ()
    plan_adjustments: tuple[str, ...] = ()
    answer: str | None = None


def subjects(subject: Subject, lenses: Sequence[str]) -> tuple[Subject, ...]:
    """One subject for each view; one without a lens when none is set."""
    wanted = [lens for lens in dict.fromkeys(lens.strip() for lens in lenses) if lens]
    views = [{"lens": lens, "looks_for": LENSES.get(lens.lower(), "")} for lens in wanted]
    return tuple(subject.model_copy(update=view) for view in views) or (subject,)


def synthesis(
    verdicts: Sequence[tuple[str, Mapping[str, Any] | None]], reasons: Sequence[str], earlier_retries: int
) -> Review:
    """The verdicts of all views as one. All that answered must approve. A retry needs that all others want one, and
    that one is left; else a person decides."""
    given = [(lens, verdict) for lens, verdict in verdicts if verdict is not None]
    against = [(lens, verdict) for lens, verdict in given if not verdict.get("approved")]
    findings = _findings(given)
    cost = sum(COSTS[_severity(finding)] for finding in findings)
    return Review(
        decision=_decision(given, against, earlier_retries),
        reasons=tuple(reasons),
        feedback="\n".join(_told(lens, verdict) for lens, verdict in against)[:FEEDBACK_CHARACTERS],
        findings=findings,
        score=max(0, 100 - cost) if given else None,
        lenses=tuple(lens for lens, _ in given if lens),
        silent=tuple(lens or "the review" for lens, verdict in verdicts if verdict is None),
        reopen=tuple(dict.fromkeys(str(item) for _, verdict in against for item in verdict.get("reopen") or ())),
        plan_adjustments=tuple(
            dict.fromkeys(str(v["plan_adjustment"]) for _, v in given if str(v.get("plan_adjustment") or "").strip())
        ),
    )


def review_findings(reviews: Sequence[Review]) -> tuple[dict[str, Any], ...]:
    """What reviews found in work that was not sent back afterwards."""
    return tuple(f for review in reviews if review.decision is not Decision.RETRY for f in review.findings)


def review_gaps(reviews: Sequence[Review]) -> tuple[str, ...]:
    """Views that were wanted and gave no verdict."""
    return tuple(f"not reviewed: {view} gave no verdict" for review in reviews for view in review.silent)


def _decision(
    given: Sequence[tuple[str, Mapping[str, Any]]], against: Sequence[tuple[str, Mapping[str, Any]]], retries: int
) -> Decision:
    if not given:
        return Decision.NOT_REVIEWED
    if not against:
        return Decision.APPROVED
    wanted = all(verdict.get("retry") for _, verdict in against)
    return Decision.RETRY if wanted and retries < REVIEW_RETRIES else Decision.ESCALATED


def _findings(given: Sequence[tuple[str, Mapping[str, Any]]]) -> tuple[dict[str, Any], ...]:
    """The findings of all views, the gravest first; what two views say in the same words counts once."""
    found: dict[tuple[str, tuple[str, ...]], dict[str, Any]] = {}
    for lens, verdict in given:
        for row in verdict.get("findings") or ():
            key = (" ".join(str(row.get("finding", "")).lower().split()), tuple(sorted(row.get("files") or ())))
            before = found.get(key)
            lenses = [*(before["lenses"] if before else ()), *([lens] if lens else [])]
            graver = before if before and _rank(before) >= _rank(row) else row
            found[key] = {**graver, "lenses": list(dict.fromkeys(lenses))}
    ordered = sorted(found.values(), key=_rank, reverse=True)
    return tuple(ordered[:FINDINGS_KEPT])


def _rank(finding: Mapping[str, Any]) -> int:
    return SEVERITIES.index(_severity(finding))


def _severity(finding: Mapping[str, Any]) -> Severity:
    try:
        return Severity(str(finding.get("severity", Severity.MEDIUM)))
    except ValueError:
        return Severity.MEDIUM


def _told(lens: str, verdict: Mapping[str, Any]) -> str:
    feedback = str(verdict.get("feedback") or "no reason was given").strip()
    return f"{lens}: {feedback}" if lens else feedback

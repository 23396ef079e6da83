"""What a person decides about the issues of a task, kept in `issues.json` beside each of them."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from baton.names import LONGEST_TASK_ID

Issue = dict[str, Any]
"""One entry of `issues.json`; `decision`, `decided_at`, `comment` and `follow_up` are there once a person decided."""

_DECIDED = ("decision", "decided_at", "comment", "follow_up")


class Decision(StrEnum):
    """What becomes of an issue: lived with, no issue at all, or to be mended by a task that follows."""

    ACCEPT = "accept"
    DISMISS = "dismiss"
    NEW_STEP = "new_step"


def decided(issue: Issue, decision: Decision, comment: str, at: datetime) -> Issue:
    """The issue with the decision."""
    return {**issue, "decision": str(decision), "decided_at": at.isoformat(timespec="seconds"), "comment": comment}


def undecided(issues: Sequence[Issue]) -> list[Issue]:
    """Those that wait for a person."""
    return [issue for issue in issues if not issue.get("decision")]


def to_hand_on(issues: Sequence[Issue]) -> list[Issue]:
    """Those that shall become a step, and no task was started for yet."""
    return [issue for issue in issues if issue.get("decision") == Decision.NEW_STEP and not issue.get("follow_up")]


def with_decisions(issues: Sequence[Issue], before: Sequence[Issue]) -> list[Issue]:
    """Issues found anew, with what was decided before about the same ones: the same words about the same files."""
    known = {_same(issue): {key: issue[key] for key in _DECIDED if key in issue} for issue in before}
    return [{**issue, **known.get(_same(issue), {})} for issue in issues]


def follow_up_task(task_id: str, issues: Sequence[Issue]) -> str:
    """The text of a task that mends these issues."""
    lines = [f"Mend {len(issues)} {'issue' if len(issues) == 1 else 'issues'} of {task_id}", ""]
    lines.append("A review of the result of that task found them. Change nothing that they do not ask for.")
    for number, issue in enumerate(issues, 1):
        lines += ["", f"{number}. ({issue.get('severity', 'medium')}) {issue.get('issue', '')}"]
        details = {
            "Files": ", ".join(map(str, issue.get("files") or ())),
            "Evidence": issue.get("evidence"),
            "Wanted": issue.get("comment") or issue.get("suggested_action"),
        }
        lines += [f"   {name}: {value}" for name, value in details.items() if value]
    return "\n".join(lines) + "\n"


def follow_up_id(task_id: str, issues: Sequence[Issue]) -> str:
    """The id of the next task that follows a review of this one."""
    number = len({issue["follow_up"] for issue in issues if issue.get("follow_up")}) + 1
    suffix = f"-follow-up-{number}"
    return task_id[: LONGEST_TASK_ID - len(suffix)].rstrip("-") + suffix


def _same(issue: Issue) -> tuple[str, tuple[str, ...]]:
    return str(issue.get("issue", "")), tuple(sorted(map(str, issue.get("files") or ())))

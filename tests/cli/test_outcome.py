"""What is said at the end: the words, the figures, the commands that can be copied, the exit code."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from baton.ledger import ItemCounts
from baton.pricing import Usage
from baton.rows import plan_rows
from baton.states import TaskState
from baton.status import TaskResult, TaskStatus
from cli.exits import ExitCode
from cli.look import Look
from cli.outcome import ending_json, ending_lines, exit_code, plan_lines
from cli.tasks import Ending
from cli.terminal import plain

STATUS = TaskStatus(task_id="t-1", task="Do it", repository="/home/me/my project", base_commit="a" * 40)
RESULT = TaskResult(
    task_id="t-1",
    state=TaskState.PARTIAL,
    summary="9 of 12 items done",
    ref="baton/t-1",
    artifacts="/home/me/my project/.claude/orchestration/t-1",
    items=ItemCounts(total=12, changed=8, unchanged=1, skipped=1, open=2),
    agents=4,
    handoffs=1,
    usage=Usage(
        input_tokens=1_000,
        cache_read_tokens=9_000,
        output_tokens=12_345,
        model_calls=30,
        cost_usd=Decimal("1.5"),
        unpriced_calls=1,
    ),
    gates={"tests": "passed", "lint": "new failure"},
)


def test_the_end_of_a_task(tmp_path: Path) -> None:
    (tmp_path / "report.md").write_text("# Partly done", encoding="utf-8")
    result = RESULT.model_copy(update={"artifacts": str(tmp_path)})
    lines = ending_lines(Look(STATUS), Ending(TaskState.PARTIAL, result), "http://ui/t-1")
    assert [plain(line) for line in lines] == [
        "Partly done: 9 of 12 items done",
        "  items       9 of 12 done (8 changed, 1 right as they were, 1 skipped, 2 open)",
        "  agents      4 agents, 1 handoff, 30 model calls",
        "  tokens      12 345 output, 10 000 input (90 % from cache)",
        "  cost        1.50 USD (1 call without a known price)",
        "  gates       tests: passed, lint: new failure",
        "  branch      baton/t-1, made from aaaaaaaaaaaa",
        "  look at it  git -C '/home/me/my project' diff aaaaaaaaaaaa...baton/t-1",
        "  take it     orchestrate apply t-1 --repo '/home/me/my project'",
        f"  report      {tmp_path}/report.md",
        "  details     http://ui/t-1",
    ]


def test_a_result_that_no_gate_looked_at_says_so() -> None:
    lines = ending_lines(Look(STATUS), Ending(TaskState.PARTIAL, RESULT.model_copy(update={"gates": {}})), None)
    assert "  gates       none was run" in [plain(line) for line in lines]


def test_a_report_that_was_never_written_is_not_named() -> None:
    lines = ending_lines(Look(STATUS), Ending(TaskState.PARTIAL, RESULT), None)
    assert not any("report.md" in plain(line) for line in lines)


def test_a_task_that_failed_says_why() -> None:
    lines = ending_lines(Look(STATUS), Ending(TaskState.FAILED, fault="the disk is full"), None)
    assert [plain(line) for line in lines] == ["Failed: the disk is full"]
    shown = ending_json(Look(STATUS), Ending(TaskState.FAILED, fault="the disk is full"), None)
    assert shown == {"task_id": "t-1", "state": "failed", "fault": "the disk is full", "ui_url": None}


def test_a_task_that_was_terminated_says_so() -> None:
    ending = Ending(TaskState.CANCELLED, fault="it was terminated: enough", terminated="enough")
    assert [plain(line) for line in ending_lines(Look(STATUS), ending, None)] == ["Terminated: enough"]
    assert ending_json(Look(STATUS), ending, None)["fault"] == "it was terminated: enough"


def test_the_result_as_json_is_that_of_the_workflow() -> None:
    shown = ending_json(Look(STATUS), Ending(TaskState.PARTIAL, RESULT), "http://ui/t-1")
    assert TaskResult.model_validate(shown) == RESULT
    assert shown["ui_url"] == "http://ui/t-1"


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        (Ending(TaskState.DONE), ExitCode.DONE),
        (Ending(TaskState.PARTIAL), ExitCode.PARTIAL),
        (Ending(TaskState.FAILED), ExitCode.FAILED),
        (Ending(TaskState.CANCELLED), ExitCode.FAILED),
        (Ending(TaskState.FAILED, fault="no such base", bad_input=True), ExitCode.BAD_INPUT),
    ],
)
def test_exit_codes(ending: Ending, code: ExitCode) -> None:
    assert exit_code(ending) is code


def test_a_plan_is_shown_with_its_estimate() -> None:
    plan = {
        "mode": "orchestrated",
        "estimate": {
            "low": {"agents": 2, "output_tokens": 3_500, "cost_usd": "0.05"},
            "likely": {"agents": 2, "output_tokens": 5_000, "cost_usd": "0.11"},
            "high": {"agents": 4, "output_tokens": 12_000, "cost_usd": "0.4"},
        },
        "notes": ["step 3 waits for step 2: both own a.py"],
        "plan": [
            {"step": 1, "agent_type": "analyzer", "description": "Look", "items": 0, "estimated_output_tokens": 5_000},
            {"step": 2, "agent_type": "converter", "description": "Convert", "items": 30, "depends_on": [1]},
        ],
    }
    assert [plain(line) for line in plan_lines(plan)] == [
        "Plan: 2 steps, mode orchestrated",
        "  1. analyzer: Look",
        "      about 5 000 output tokens",
        "  2. converter: Convert",
        "      30 items, after 1",
        "Expected: 2 agents (2 to 4), 5 000 output tokens (3 500 to 12 000), 0.11 USD (0.05 to 0.40).",
        "note: step 3 waits for step 2: both own a.py",
    ]


@pytest.mark.parametrize("answer", [{}, plan_rows(None, {})])
def test_of_a_plan_that_was_never_made_nothing_is_shown(answer: dict[str, Any]) -> None:
    assert plan_lines(answer) == []


def test_a_task_whose_calls_all_failed_has_figures_too() -> None:
    result = RESULT.model_copy(update={"usage": Usage()})
    lines = ending_lines(Look(STATUS), Ending(TaskState.CANCELLED, result), None)
    assert any("0 output, 0 input" in plain(line) for line in lines)

"""The progress of a task in lines: what a person reads, at any width and in any state."""

import io
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from rich.console import Console, Group
from temporalio.api.enums.v1 import WorkflowExecutionStatus
from temporalio.api.workflow.v1 import WorkflowExecutionInfo

from baton.ledger import ItemCounts
from baton.pricing import Usage
from baton.roles import Role
from baton.states import StepStatusWord, TaskState
from baton.status import AgentStatus, AttentionItem, Happening, StepStatus, TaskStatus, details_markdown
from cli.look import Look, Pulse
from cli.progress import STEPS_SHOWN, answers, counted, news, news_line, progress, progress_within, waiting
from cli.tasks import closed_look
from cli.terminal import Line, Tone, plain, styled

START = datetime(2026, 11, 30, 8, 0, 0, tzinfo=UTC)
NOW = START + timedelta(seconds=75)


def step(number: int, state: str = "pending", *, done: int = 0, total: int = 10, agents: int = 0) -> StepStatus:
    return StepStatus(
        step=number,
        agent_type="converter",
        description="Convert",
        state=state,
        items=ItemCounts(total=total, changed=done, open=total - done),
        agents=agents,
    )


def working() -> Look:
    agent = AgentStatus(
        agent_id="executor-2-converter~3",
        role=Role.EXECUTOR,
        workflow_id="t/step-2",
        step=2,
        turn=6,
        used_tokens=3_000,
        budget_tokens=6_000,
        items=ItemCounts(total=44, changed=12, unchanged=1, open=31),
        usage=Usage(output_tokens=9_000, model_calls=20, cost_usd=Decimal("0.40")),
    )
    status = TaskStatus(
        task_id="modernise-2026-11-30",
        task="Modernise the string formatting",
        phase="executing",
        started_at=START,
        steps=(step(1, StepStatusWord.OK, done=10, agents=1), step(2, "running", total=44, agents=3), step(3)),
        agents_at_work=(agent,),
        agents=2,
        handoffs=2,
        usage=Usage(output_tokens=1_500, model_calls=5, cost_usd=Decimal("0.10")),
        happenings=(Happening(at=START + timedelta(seconds=20), text="step 1 ok: 10/10 items done"),),
    )
    return Look(status, {"t/step-2": Pulse("edit src/a.py", 250)})


def text(lines: list[Line]) -> str:
    return "\n".join(plain(line) for line in lines)


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clock times are shown in the local zone; the tests' one is UTC whatever the host's."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def test_the_tree_of_a_working_task() -> None:
    assert text(progress(working(), NOW)) == "\n".join(
        [
            "Modernise the string formatting",
            "modernise-2026-11-30 · running · executing · 1 min 15 s",
            "✓ planning: 3 steps, 64 items",
            "▶ execution: 23 of 64 items done",
            "  ✓ 1 converter  10/10  1 agent",
            "  ▶ 2 converter  13/44  3 agents",
            "    executor-2-converter~3 · turn 7 · edit src/a.py",
            "      3 250 of 6 000 tokens, 0.40 USD",
            "  · 3 converter  0/10",
            "· integration",
            "  08:00:20  step 1 ok: 10/10 items done",
            "5 agents, 2 handoffs, 25 model calls, 10 500 output tokens, 0.50 USD",
        ]
    )


def shards(count: int, items: int = 5) -> Look:
    """A step of `count` shards of `items` items, each with an agent that has done two."""
    agents = tuple(
        AgentStatus(
            agent_id=f"executor-2.{number}-converter",
            role=Role.EXECUTOR,
            workflow_id=f"t/step-2.{number}",
            step=2,
            budget_tokens=6_000,
            items=ItemCounts(total=items, changed=2, open=items - 2),
        )
        for number in range(count, 0, -1)
    )
    running = step(2, "running", done=1, total=count * items, agents=count)
    status = TaskStatus(
        task_id="t",
        task="Convert",
        phase="executing",
        started_at=START,
        steps=(step(1, StepStatusWord.OK, done=10, agents=1), running),
        agents_at_work=agents,
        happenings=(Happening(at=START, text="step 1 ok"),),
    )
    return Look(status)


def test_every_shard_of_a_step_is_shown_and_counted() -> None:
    lines = text(progress(shards(3), NOW)).splitlines()
    assert "▶ execution: 16 of 25 items done" in lines
    assert "  ▶ 2 converter  6/15  3 agents" in lines
    names = [line.split()[0] for line in lines if "executor-2." in line]
    assert names == [f"executor-2.{number}-converter" for number in (1, 2, 3)]


def test_many_agents_take_a_line_each_in_the_order_of_their_numbers() -> None:
    lines = text(progress(shards(12), NOW)).splitlines()
    names = [line.split()[0] for line in lines if "executor-2." in line]
    assert names == [f"executor-2.{number}-converter" for number in range(1, 13)]
    assert not any("of 6 000 tokens" in line for line in lines)


QUESTION = (
    "Approve planning? Expected: 3 agents (3 to 3), 5 880 output tokens (4 680 to 9 240), 0.13 USD (0.08 to 0.31)."
)


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("height", [24, 40])
def test_the_view_fits_and_what_a_person_must_read_is_whole(width: int, height: int) -> None:
    look = shards(40)
    item = AttentionItem(
        id="approval-1", kind="approval", question=QUESTION, phase="integration", choices=(), since=START
    )
    busy = look.status.model_copy(update={"attention": (item,), "warnings": ("a note " * 60,)})
    lines = progress_within(Look(busy), NOW, width, height)
    assert len(lines) == height
    shown = " ".join(" ".join(plain(line) for line in lines).split())
    assert QUESTION in shown
    assert "further lines: orchestrate status t" in shown


def test_a_small_picture_is_the_same_within_a_large_terminal() -> None:
    assert progress_within(working(), NOW, 120, 50) == progress(working(), NOW)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_terminal_of_any_width_shows_one_row_per_line(width: int) -> None:
    look = working()
    look = Look(look.status.model_copy(update={"task": "Ein sehr langer Auftrag " * 20}), look.pulses)
    lines = progress(look, NOW)
    out = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None, highlight=False)
    out.print(Group(*(styled(line) for line in lines)))
    assert isinstance(out.file, io.StringIO)
    rows = out.file.getvalue().splitlines()
    assert len(rows) == len(lines)
    assert max(len(row.rstrip()) for row in rows) <= width


def test_a_bar_shows_the_share_on_a_terminal_only() -> None:
    line = Line("items", share=0.5)
    assert plain(line) == "items"
    assert styled(line).plain == "items  " + "━" * 6 + "╌" * 6
    assert [span.style for span in styled(line).spans] == ["green", "dim"]


def test_control_characters_never_reach_the_terminal() -> None:
    assert plain(Line("a\x1b[31mred\nb\tc")) == "a [31mred b c"


def test_many_steps_are_counted_and_those_that_need_eyes_are_shown() -> None:
    steps = [step(n, StepStatusWord.OK, done=10) for n in range(1, 31)]
    steps += [step(31, StepStatusWord.FAILED), step(32, "running")]
    steps += [step(n) for n in range(33, 61)]
    status = TaskStatus(phase="executing", steps=tuple(steps))
    shown = text(progress(Look(status), NOW))
    assert "✗ 31 converter  0/10  failed" in shown
    assert "▶ 32 converter" in shown
    assert "✓ 30 further steps ok" in shown
    assert "· 28 further steps pending" in shown
    assert len(shown.splitlines()) < STEPS_SHOWN


def test_what_is_waited_for_is_named_with_the_commands_that_answer_it() -> None:
    items = (
        AttentionItem(
            id="approval-1", kind="approval", question="Approve planning?", choices=("approve", "reject"), since=START
        ),
        AttentionItem(
            id="credentials-2", kind="credentials", question="No key", choices=("retry", "stop"), since=START
        ),
    )
    status = TaskStatus(task_id="t-1", state=TaskState.WAITING, phase="planning", attention=items)
    assert text(waiting(status)) == "\n".join(
        [
            "waiting for a person (approval-1): Approve planning?",
            "  orchestrate approve t-1",
            '  orchestrate reject t-1 --comment "…"',
            "waiting for a person (credentials-2): No key",
            "  orchestrate answer t-1 credentials-2 retry",
            "  orchestrate answer t-1 credentials-2 stop",
        ]
    )
    assert answers("t-1", items[1])[0] == "orchestrate answer t-1 credentials-2 retry"


def test_a_task_that_ended_shows_no_phase_as_running() -> None:
    status = TaskStatus(
        task_id="t-1",
        task="Do it",
        state=TaskState.PARTIAL,
        phase="partial",
        started_at=START,
        closed_at=START + timedelta(hours=2),
        steps=(step(1, StepStatusWord.OK, done=10), step(2, StepStatusWord.NOT_ATTEMPTED)),
    )
    lines = progress(Look(status, closed=True), NOW)
    assert plain(lines[1]) == "t-1 · partial · 2 h"
    assert lines[1].tone is Tone.WAITS
    assert "▶" not in text(lines)
    assert "✗ 2 converter  0/10  not attempted" in text(lines)


def test_a_cancelled_task_shows_what_was_stopped_and_what_was_never_begun() -> None:
    stopped = (step(1, StepStatusWord.OK, done=10), step(2, "cancelled", agents=1), step(3, "running"), step(4))
    status = TaskStatus(task_id="t-1", state=TaskState.CANCELLED, phase="cancelled", steps=stopped)
    lines = text(progress(Look(status, closed=True), NOW)).splitlines()
    assert lines[3:9] == [
        "◐ execution: 10 of 40 items done",
        "  ✓ 1 converter  10/10",
        "  ✗ 2 converter  0/10  1 agent  cancelled",
        "  ✗ 3 converter  0/10  stopped",
        "  · 4 converter  0/10",
        "· integration",
    ]
    assert "failed" not in "".join(lines)


def test_a_terminated_task_says_so_and_shows_nothing_as_running() -> None:
    worked = working()
    info = WorkflowExecutionInfo(status=WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_TERMINATED)
    info.close_time.FromDatetime(NOW)
    look = closed_look(worked.status, info)
    lines = text(progress(look, NOW + timedelta(days=1))).splitlines()
    assert lines[1] == "modernise-2026-11-30 · terminated · 1 min 15 s"
    assert lines[3:8] == [
        "✗ execution: 10 of 64 items done",
        "  ✓ 1 converter  10/10  1 agent",
        "  ✗ 2 converter  0/44  3 agents  stopped",
        "  · 3 converter  0/10",
        "· integration",
    ]
    assert lines[-1].startswith("5 agents, 2 handoffs, 25 model calls")
    assert look.status.state is TaskState.CANCELLED


def test_news_are_told_once_and_in_the_order_of_time() -> None:
    before, after = working(), working()
    assert [told for _, told in news(None, before, NOW)] == [
        "step 1 ok: 10/10 items done",
        "executor-2-converter~3 is at work",
        "executing",
    ]
    assert list(news(before, after, NOW)) == []
    later = Happening(at=NOW, text="gate tests: passed")
    earlier = Happening(at=NOW - timedelta(seconds=1), text="executor-2 handed off")
    changed = after.status.model_copy(
        update={"phase": "integrating", "agents_at_work": (), "happenings": (*after.status.happenings, later, earlier)}
    )
    told = [text for _, text in news(before, Look(changed, hint="the worker is away"), NOW)]
    assert told == ["executor-2 handed off", "gate tests: passed", "integrating", "the worker is away"]


def test_notes_stand_in_the_order_of_time_and_what_also_happened_is_no_note() -> None:
    happened = Happening(at=NOW - timedelta(seconds=1), text="80% of the limit of 10 agents is used")
    later = Happening(at=NOW + timedelta(seconds=1), text="gate tests: passed")
    status = TaskStatus(happenings=(later, happened), warnings=(happened.text, "no gate was found"))
    told = list(news(Look(TaskStatus()), Look(status), NOW))
    assert [text for _, text in told] == [happened.text, "note: no gate was found", later.text]


def test_a_question_is_news_until_it_is_answered() -> None:
    item = AttentionItem(id="plan-1", kind="plan", question="No plan?", choices=("retry", "stop"), since=START)
    asked = Look(TaskStatus(phase="planning", attention=(item,), state=TaskState.WAITING))
    assert (NOW, "waiting for a person (plan-1): No plan?") in list(news(None, asked, NOW))
    assert list(news(asked, asked, NOW)) == []


def test_a_handoff_names_the_successor_shortly() -> None:
    name = "executor-2-formatting-modernizer"
    told = plain(news_line(NOW, f"{name}~9 handed off to {name}~10 (output_limit)"))
    assert told == f"08:01:15  {name}~9 handed off to ~10 (output_limit)"
    told = plain(news_line(NOW, f"{name} handed off to {name}~2 (output_limit)"))
    assert told == f"08:01:15  {name} handed off to ~2 (output_limit)"


@pytest.mark.parametrize(("value", "told"), [(0, "0 agents"), (1, "1 agent"), (12_345, "12 345 agents")])
def test_numbers_are_written_for_people(value: int, told: str) -> None:
    assert counted(value, "agent") == told


def test_the_provider_s_pause_is_shown_and_told_once() -> None:
    look = working()
    (agent,) = look.status.agents_at_work
    until = datetime(2026, 11, 30, 14, 0, tzinfo=UTC)
    held = agent.model_copy(update={"paused_until": until})
    status = look.status.model_copy(update={"agents_at_work": (held, agent)})
    line = "paused by the provider until 2026-11-30 14:00 UTC; it goes on by itself then"
    assert line in [shown.text for shown in progress(Look(status), NOW)]
    assert [text for _, text in news(look, Look(status), NOW)] == [line]
    assert list(news(Look(status), Look(status), NOW)) == []
    assert line in details_markdown(status, NOW)

"""What is told of a task whose agents nobody closed, and what content looks like where somebody wants it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from activities.call_telemetry import model_called, tool_called
from activities.task_folder import TaskFolder, TaskRecord
from activities.task_telemetry import AgentBeginning, AgentEnding, agent_began, agent_ended, line_written, task_ended
from activities.telemetry import here, place_of, switch_on, working
from activities.telemetry_export import Telemetry
from baton.conversation import Response, ToolCall
from baton.knowledge import Entry
from baton.manifest import HandoffReason
from baton.messages import OpenedTask, TaskInput
from baton.pricing import Usage
from baton.settings import Settings
from tests.otlp import Collected, attributes, receiver

SECRET = "hunter2-hunter2"
NOW = datetime(2026, 11, 30, 18, tzinfo=UTC)
REQUEST = {"model": "a-model", "max_tokens": 100, "messages": [{"role": "user", "content": f"say {SECRET}"}]}
ANSWER = Response(id="m1", model="a-model", stop_reason="end_turn", content=({"type": "text", "text": f"no {SECRET}"},))


def opened_task(path: Path, traceparent: str = "") -> TaskFolder:
    folder = TaskFolder(path)
    settings = Settings.model_validate({"sandbox": "off"})
    opened = OpenedTask(
        host_queue="q", source=str(path), base_commit="c", base_name="main", settings=settings, artifacts=str(path)
    )
    given = TaskInput(task="t", repository=str(path), traceparent=traceparent)
    folder.write_record(TaskRecord(task_id="t", run_id=path.name, input=given, opened=opened, environment={}))
    return folder


@contextmanager
def exporting(*, metrics: bool = False) -> Iterator[Collected]:
    """A collector, and telemetry with content that sends to it. The SDK takes one provider for a process."""
    signals = ("TRACES", "METRICS") if metrics else ("TRACES",)
    with receiver() as collected, pytest.MonkeyPatch.context() as environment:
        variables = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}
        for signal in signals:
            variables[f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"] = f"{collected.url}/v1/{signal.lower()}"
        for name, value in variables.items():
            environment.setenv(name, value)
        headers = {"OTEL_EXPORTER_OTLP_HEADERS": "x-key=k"}
        telemetry = Telemetry(variables, headers, lambda: [SECRET])
        try:
            yield collected
        finally:
            telemetry.flush()
            switch_on(None)


def beginning(agent: str) -> AgentBeginning:
    return AgentBeginning(agent=agent, role="executor", step=1, model="a-model", began=NOW)


def ending(agent: str) -> AgentEnding:
    decided = Entry(kind="decision", text=f"keep {SECRET}", agent_id=agent, at=NOW)
    reason = HandoffReason.OUTPUT_LIMIT
    return AgentEnding(agent, "executor", 1, "a-model", reason, f"{agent}~2", 3, Usage(), knowledge=(decided,))


def work(folder: TaskFolder, agent: str) -> None:
    """An agent begins, calls its model and a tool, and meets a file of somebody else."""
    agent_began(folder, beginning(agent))
    with working(folder, agent, 1):
        model_called(REQUEST, ANSWER, NOW)
        model_called(REQUEST, "overloaded_error", NOW)
        call, result = (
            ToolCall(id="c1", name="edit", input={"file_path": SECRET}),
            {"content": SECRET, "is_error": True},
        )
        tool_called(call, result, NOW, refused=True, number=1, attempt=1)
    line = {"at": NOW.isoformat(), "seconds": 0.5, "kind": "foreign", "agent": agent, "paths": ["a.py"]}
    line_written(place_of(folder), line)


def test_a_terminated_agent_leaves_no_orphan_and_content_is_masked(tmp_path: Path) -> None:
    folder = opened_task(tmp_path)
    with exporting() as collected:
        work(folder, "executor-1")
        agent_ended(folder, ending("executor-1"))
        work(folder, "executor-2")
        line_written(
            place_of(folder), {"at": NOW.isoformat(), "seconds": 1, "kind": "gate", "name": "g", "outcome": "failed"}
        )
        task_ended(folder, None, lost={"executor-2": NOW + timedelta(seconds=9)})
    assert here() is None
    ids = {span.span_id: span for span in collected.spans}
    (root,) = [span for span in ids.values() if not span.parent_span_id]
    assert all(span.parent_span_id in ids for span in ids.values() if span is not root)
    agents = {
        attributes(span.attributes)["gen_ai.agent.name"]: span for span in ids.values() if "invoke_agent" in span.name
    }
    assert attributes(agents["executor-2"].attributes)["error.type"] == "lost"
    assert agents["executor-2"].end_time_unix_nano - agents["executor-2"].start_time_unix_nano == 9_000_000_000
    assert {event.name for event in agents["executor-1"].events} == {"baton.decision", "baton.handoff"}
    tools = [attributes(span.attributes) for span in ids.values() if span.name == "execute_tool edit"]
    assert {told["error.type"] for told in tools} == {"ownership_refused"}
    chats = [attributes(span.attributes) for span in ids.values() if span.name == "chat a-model"]
    assert {told.get("error.type") for told in chats} == {None, "overloaded_error"}
    assert not any(SECRET.encode() in body for body in collected.raw)
    assert b"no [secret]" in b"".join(collected.raw)
    assert {headers["x-key"] for headers in collected.headers} == {"k"}
    assert list((tmp_path / "telemetry").glob("*.json")) == []


TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
JOINING = """
import sys
from pathlib import Path
from tests.activities.test_telemetry_told import exporting, opened_task, work
from activities.task_telemetry import task_ended
with exporting() as collected:
    for name in ("one", "two"):
        folder = opened_task(Path(sys.argv[1]) / name, sys.argv[2])
        work(folder, "executor-1")
        task_ended(folder, None)
for span in collected.spans:
    print(span.name.replace(" ", "_"), span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex() or "-")
"""


MEASURING = """
import json, sys
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from tests.activities.test_telemetry_told import (
    ANSWER, NOW, REQUEST, agent_began, agent_ended, beginning, ending, exporting, line_written, model_called,
    opened_task, place_of, task_ended, working,
)
from baton.ledger import ItemRecord, ItemStatus
from baton.pricing import Usage
from baton.progress import Progress
from activities.task_telemetry import items_finished
from activities.trace import TaskTrace
from baton.messages import Waited
from baton.status import TaskStatus, Wait

usage = Usage(input_tokens=10_000, cache_read_tokens=30_000, output_tokens=100, model_calls=1, cost_usd=Decimal("0.25"))
with exporting(metrics=True) as collected:
    folder = opened_task(Path(sys.argv[1]))
    agent_began(folder, beginning("executor-1"))
    with working(folder, "executor-1", 1):
        model_called(REQUEST, ANSWER.model_copy(update={"usage": usage}), NOW)
        model_called(REQUEST, "overloaded_error", NOW)
    for seconds, reason in enumerate(("slot", "merge_queue", "quota"), 1):
        for _ in range(2):
            waited = Waited(reason=reason, since=NOW, until=NOW + timedelta(seconds=seconds))
            TaskTrace(folder).waited([waited])
    done = ItemRecord(item="a.py", status=ItemStatus.CHANGED)
    for run in ("one", "one", "after-a-reset"):
        agent_ended(folder, replace(ending("executor-1"), records=(done,), run=run))
    for _ in range(2):
        items_finished(folder, (done, ItemRecord(item="b.py")), "commands")
    wait = Wait(kind="approval", phase="planning", since=NOW, until=NOW + timedelta(seconds=4))
    for _ in range(2):
        TaskTrace(folder).attended([wait])
        task_ended(folder, Progress(status=TaskStatus(waits=(wait,)), settings=None))
print(json.dumps([
    (name, told.unit, told.kind, sorted({key for point in told.points for key, _ in point}), list(told.points.values()))
    for name, told in collected.metrics.items()
]))
"""


@pytest.mark.parametrize(
    ("header", "sampled"), [(f"00-{TRACE}-{SPAN}-01", True), (f"00-{TRACE}-{SPAN}-00", False), ("nonsense", True)]
)
def test_a_task_is_told_in_the_trace_of_its_caller(tmp_path: Path, header: str, sampled: bool) -> None:
    """The SDK takes one provider for a process, so this one has its own."""
    command = [sys.executable, "-c", JOINING, str(tmp_path), header]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    rows = [row.split() for row in done.stdout.splitlines()]
    assert bool(rows) is sampled
    roots = [row for row in rows if row[0] == "invoke_workflow_baton"]
    joined = header.startswith("00")
    assert {row[3] for row in roots} == ({SPAN if joined else "-"} if sampled else set())
    assert {row[1] for row in rows} <= {TRACE} if joined else len({row[1] for row in rows}) == 2
    ids = {row[2] for row in rows}
    assert len(ids) == len(rows)
    assert all(row[3] in ids for row in rows if row not in roots)


def test_every_metric_has_its_unit_and_its_attributes(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MEASURING, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found = {name: (unit, kind, set(keys), values) for name, unit, kind, keys, values in json.loads(done.stdout)}
    assert {name: (unit, kind) for name, (unit, kind, _, _) in found.items()} == {
        "gen_ai.client.token.usage": ("{token}", "histogram"),
        "gen_ai.client.operation.duration": ("s", "histogram"),
        "baton.items.finished": ("{item}", "sum"),
        "baton.handoffs.count": ("{handoff}", "sum"),
        "baton.cost.spent": ("USD", "sum"),
        "baton.cache.ratio": ("1", "histogram"),
        "baton.wait.duration": ("s", "histogram"),
    }
    called = {"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model"}
    assert found["gen_ai.client.token.usage"][2] == called | {"gen_ai.token.type"}
    timed = found["gen_ai.client.operation.duration"][2]
    assert {"gen_ai.operation.name", "gen_ai.provider.name", "error.type"} <= timed
    assert found["baton.cost.spent"][2] == found["baton.cache.ratio"][2] == called
    assert found["baton.cost.spent"][3] == [0.25]
    assert found["baton.cache.ratio"][3] == [0.75]
    assert sorted(found["gen_ai.client.token.usage"][3]) == [100, 40_000]
    assert found["baton.items.finished"][2] == {"baton.item.status"}
    assert (found["baton.items.finished"][3], found["baton.handoffs.count"][3]) == ([3], [2])
    assert found["baton.handoffs.count"][2] == {"baton.reason"}
    assert found["baton.wait.duration"][2] == {"baton.wait.reason", "baton.waited_for", "baton.phase"}
    assert sorted(found["baton.wait.duration"][3]) == [1, 2, 3, 4]


AGAIN = """
import sys
from datetime import timedelta
from pathlib import Path
from tests.activities.test_telemetry_told import (
    NOW, ToolCall, agent_began, agent_ended, beginning, ending, exporting, opened_task, task_ended, tool_called, working
)
with exporting() as collected:
    folder = opened_task(Path(sys.argv[1]))
    agent_began(folder, beginning("executor-1"))
    call = ToolCall(id="c1", name="edit", input={})
    for work, attempt in (("run-1/5", 1), ("run-1/5", 1), ("run-1/5", 2), ("run-1/7", 1), ("run-2/5", 1)):
        with working(folder, "executor-1", 1, work):
            tool_called(call, {"content": ""}, NOW, refused=False, number=1, attempt=attempt)
    for _ in range(2):
        agent_ended(folder, ending("executor-1"))
    for _ in range(2):
        task_ended(folder, None, lost={"executor-1": NOW + timedelta(seconds=9)})
for span in collected.spans:
    print(span.name.replace(" ", "_"), span.span_id.hex(), span.start_time_unix_nano, span.end_time_unix_nano)
"""


def test_what_is_done_again_is_another_span_and_what_is_told_again_is_the_same(tmp_path: Path) -> None:
    command = [sys.executable, "-c", AGAIN, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    rows = [row.split() for row in done.stdout.splitlines()]
    assert len({row[1] for row in rows if row[0] == "execute_tool_edit"}) == 4
    agents = [row for row in rows if row[0] == "invoke_agent_executor"]
    began = round(NOW.timestamp()) * 1_000_000_000
    # Ended twice, and lost twice after a reset had it go on: one span, which began when the agent did.
    assert len(agents) == 4
    assert {(row[1], row[2]) for row in agents} == {(agents[0][1], str(began))}
    assert agents[-1][3] == str(began + 9_000_000_000)


LIMITS = """
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tests.activities.test_telemetry_told import (
    NOW, agent_began, agent_ended, beginning, ending, exporting, opened_task, task_ended
)
from baton.progress import Progress
from baton.status import TaskStatus, Wait
with exporting() as collected:
    folder = opened_task(Path(sys.argv[1]))
    agent_began(folder, beginning("executor-1"))
    agent_ended(folder, replace(ending("executor-1"), successor=""))
    waits = [Wait(kind=kind, since=NOW, until=NOW + timedelta(seconds=4)) for kind in ("limit", "conflict", "pause")]
    task_ended(folder, Progress(status=TaskStatus(waits=tuple(waits)), settings=None))
for span in collected.spans:
    for event in span.events:
        print(span.name.partition(" ")[0], event.name)
"""


def test_limits_and_questions_are_events(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LIMITS, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert sorted(done.stdout.splitlines()) == [
        "invoke_agent baton.decision",
        "invoke_agent baton.limit",
        "invoke_workflow baton.attention",
        "invoke_workflow baton.limit",
    ]


def test_nothing_is_told_or_kept_while_it_is_off(tmp_path: Path) -> None:
    folder = opened_task(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    work(folder, "executor-1")
    agent_ended(folder, ending("executor-1"))
    task_ended(folder, None)
    assert sorted(tmp_path.rglob("*")) == before

"""A run with handoffs, conflicts, a wait for a person and a killed worker, as an OTLP collector sees it: one tree."""

import asyncio
import signal
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from temporalio.common import WorkflowIDReusePolicy

from baton import trace
from baton.messages import TaskInput
from baton.names import ORCHESTRATION_WORKFLOW, TASK_QUEUE
from baton.plan import DraftStep, PlanDraft
from baton.states import TaskState
from baton.status import TaskResult
from baton.telemetry_names import METRICS
from cli import processes
from cli.service import inspect, save_credentials
from emulator.dialogue import read_dialogue
from emulator.reply import Block, HttpError, Reply, Text, ToolUse
from emulator.request import Request
from emulator.server import EmulatorServer
from emulator.standin import StandIn
from tests.end_to_end.bench import Bench, generation, own_home, repository, start, task
from tests.end_to_end.test_conflicting_run import asked
from tests.end_to_end.test_kills import READY_SECONDS, Host, ended, own_namespace
from tests.otlp import Collected, attributes, receiver
from tests.workflows.test_reset import before_child, temporal
from workflows.orchestration import OrchestrationWorkflow

pytestmark = pytest.mark.end_to_end

MANY = tuple(f"m{number}.py" for number in range(8))
OTHERS = {
    "other.py": ("create `CREDITS.txt` with `second\\n`", "create `PLAN.txt` with `undecidable: the first way\\n`"),
    "third.py": ("create `PLAN.txt` with `the second way\\n`",),
}
HEADER = "x-key=the%20collectors%20key"
SAID = "Words that nobody exports. "


class Wordy:
    """The stand-in, but for the first step: there every item costs many words, so that one budget is too small. The
    first call of its second agent is refused once."""

    def __init__(self) -> None:
        self._refusals = [Reply(fault=HttpError(429, "rate_limit_error", "Slower", {"retry-after": "1"}))]

    def respond(self, request: Request) -> Reply:
        """The next message."""
        dialogue = read_dialogue(request)
        if (dialogue.assignment.get("step") or {}).get("step") != 1 or dialogue.assignment["role"] != "executor":
            return StandIn().respond(request)
        if self._refusals and generation(dialogue) == 2:
            return self._refusals.pop()
        if dialogue.told("budget_95") or dialogue.told("budget_80"):
            return Reply([ToolUse("hand_off", {})])
        done = {call.path for call in dialogue.done("complete_item")}
        left = [item for item in dialogue.assignment["items"] if item not in done]
        if not left:
            return Reply([ToolUse("finish_step", {"status": "ok", "summary": "all longer"})])
        blocks = [Text(SAID * 150), *_longer(left[0]), ToolUse("complete_item", {"item": left[0]})]
        if generation(dialogue) == 1 and dialogue.turn == 0:
            decided = {"decisions": [{"decision": SAID, "rationale": "none"}]}
            blocks += [ToolUse("write", {"file_path": "CREDITS.txt", "content": "first\n"}), ToolUse("record", decided)]
            # This file is another step's.
            blocks += [ToolUse("edit", {"file_path": "other.py", "old_string": "1", "new_string": "2"})]
        return Reply(blocks)


def _longer(item: str) -> list[Block]:
    return [ToolUse("append", {"file_path": item, "content": "more = 1\n", "at_line": 1})]


def _errands(item: str) -> str:
    return ", ".join((f"append `# seen\\n` to `{item}`", *OTHERS[item]))


def given(folder: Path) -> TaskInput:
    """Three steps side by side that make the same files."""
    source = repository(folder / "project", dict.fromkeys((*MANY, *OTHERS), "value = 1\n"))
    wanted = [("make each item longer", MANY), *((_errands(item), (item,)) for item in OTHERS)]
    steps = tuple(
        DraftStep(step=n, agent_type="editor", description=text, items=items)
        for n, (text, items) in enumerate(wanted, 1)
    )
    asked_for = task(source, *MANY, maxParallelAgents=3, maxAgents=40, outputBudget=4_000)
    return asked_for.model_copy(update={"plan": PlanDraft(execution_strategy="parallel", plan=steps)})


def assert_one_tree(collected: Collected) -> None:
    """Every span hangs on the one root, however often it was told."""
    assert len({span.trace_id for span in collected.spans}) == 1
    ids = {span.span_id: span for span in collected.spans}
    roots = {span.name for span in collected.spans if not span.parent_span_id}
    orphans = [span.name for span in collected.spans if span.parent_span_id and span.parent_span_id not in ids]
    assert (roots, orphans) == ({"invoke_workflow baton"}, [])
    for span in collected.spans:
        assert span.name == ids[span.span_id].name
        assert span.start_time_unix_nano <= span.end_time_unix_nano


FILES = {f"{name}.py": "def hello(name):\n    return 'hello %s' % (name,)\n" for name in "abcd"}
COMMAND = "test {item} != b.py && sed -i 's/%s/-/;s/ % (name,)//' {item}"


async def test_commands_reviews_router_and_summary_are_told_also_after_a_reset(bench: Bench, tmp_path: Path) -> None:
    task_id = "told"
    host = Host(tmp_path / "host", bench.service.address, task_id)
    host.folder.mkdir()
    source = repository(tmp_path / "project", FILES)
    text = f"Run `{COMMAND}` on every module that needs it"
    asked_for = task(source, review="always").model_copy(update={"plan": None, "task": text, "integration": True})
    with own_home(tmp_path / "home"), EmulatorServer(StandIn()) as api, receiver() as collected:
        save_credentials(host.folder, {"ANTHROPIC_API_KEY": "key-of-the-test", "ANTHROPIC_BASE_URL": api.url})
        client = await own_namespace(await bench.client(), task_id, host.address)
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collected.url)
            worker = host.start_worker(None)
        try:
            handle = await start(client, asked_for, task_id)
            first = await handle.result()
            of_first = len(collected.spans)
            event = await before_child(handle, f"{task_id}/step-2")
            where = ("--namespace", task_id, "--workflow-id", task_id, "--event-id", str(event), "--reason", "again")
            await temporal(host.address, "workflow", "reset", *where)
            second = await client.get_workflow_handle(task_id, result_type=type(first)).result()
        finally:
            worker.terminate()
            await ended(worker)
    assert (first.state, second.state) == (TaskState.DONE, TaskState.DONE), (first.summary, second.summary)
    assert_one_tree(collected)
    assert len(collected.spans) > of_first
    told = [attributes(span.attributes) for span in collected.spans]
    roles = {str(one.get("baton.agent.role")) for one in told if one.get("gen_ai.operation.name") == "invoke_agent"}
    assert {"planner", "executor", "reviewer", "integrator"} <= roles
    beside = {
        str(one["baton.name"]) for one in told if one.get("gen_ai.operation.name") == "chat" and "baton.name" in one
    }
    assert {"router", "summarizer"} <= beside
    assert any(span.name == "baton.commands" for span in collected.spans)


CALLER_TRACE, CALLER_SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


async def test_a_terminated_task_is_one_tree_below_its_caller(bench: Bench, tmp_path: Path) -> None:
    """The worker dies in a turn, the task is terminated, and the next worker tells what is missing; resumed, the task
    goes on in the same trace."""
    task_id = "terminated"
    host = Host(tmp_path / "host", bench.service.address, task_id)
    host.folder.mkdir()
    source = repository(tmp_path / "project", dict.fromkeys(MANY, "value = 1\n"))
    asked_for = task(source, *MANY).model_copy(update={"traceparent": f"00-{CALLER_TRACE}-{CALLER_SPAN}-01"})
    with own_home(tmp_path / "home"), EmulatorServer(Wordy()) as api, receiver() as collected:
        save_credentials(host.folder, {"ANTHROPIC_API_KEY": "key-of-the-test", "ANTHROPIC_BASE_URL": api.url})
        client = await own_namespace(await bench.client(), task_id, host.address)
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collected.url)
            worker = host.start_worker("after-journal")
            handle = await start(client, asked_for, task_id)
            async with asyncio.timeout(READY_SECONDS):
                assert await ended(worker) == -signal.SIGKILL, (host.folder / "worker.log").read_text()
            await handle.terminate("no more")
            worker = host.start_worker(None)
        try:
            async with asyncio.timeout(READY_SECONDS):
                while not any(span.name == "invoke_workflow baton" for span in collected.spans):
                    await asyncio.sleep(0.1)
            before = {span.span_id.hex(): span for span in collected.spans}
            handle = await client.start_workflow(
                ORCHESTRATION_WORKFLOW,
                asked_for.model_copy(update={"resume": True, "traceparent": ""}),
                id=task_id,
                task_queue=TASK_QUEUE,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                result_type=TaskResult,
            )
            result = await handle.result()
        finally:
            worker.terminate()
            await ended(worker)
    assert_below_the_caller(before, "terminated", "terminated")
    (agent,) = [span for span in before.values() if span.name == "invoke_agent executor"]
    assert attributes(agent.attributes)["baton.reason"] == "lost"
    assert result.state is TaskState.DONE, result.summary
    assert_below_the_caller({span.span_id.hex(): span for span in collected.spans}, "done", None)


def assert_below_the_caller(ids: Mapping[str, Any], state: str, error: str | None) -> None:
    """The spans by id are one tree, whose root hangs on the caller's span; the root says how the task stands."""
    assert {span.trace_id.hex() for span in ids.values()} == {CALLER_TRACE}
    (root,) = [span for span in ids.values() if span.parent_span_id.hex() == CALLER_SPAN]
    assert {span.parent_span_id.hex() for span in ids.values()} - {CALLER_SPAN} <= ids.keys()
    told = attributes(root.attributes)
    assert (root.name, told["baton.task.state"], told.get("error.type")) == ("invoke_workflow baton", state, error)


async def test_a_run_with_everything_is_one_tree(bench: Bench, tmp_path: Path) -> None:
    task_id = "telemetry"
    host = Host(tmp_path / "host", bench.service.address, task_id)
    host.folder.mkdir()
    with own_home(tmp_path / "home"), EmulatorServer(Wordy()) as api, receiver() as collected:
        save_credentials(
            host.folder,
            {
                "ANTHROPIC_API_KEY": "key-of-the-test",
                "ANTHROPIC_BASE_URL": api.url,
                "OTEL_EXPORTER_OTLP_HEADERS": HEADER,
            },
        )
        client = await own_namespace(await bench.client(), task_id, host.address)
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collected.url)
            # What was told in the moment of the kill is in no batch yet.
            environment.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
            worker = host.start_worker("after-journal")
            handle = await start(client, given(tmp_path), task_id)
            async with asyncio.timeout(READY_SECONDS):
                assert await ended(worker) == -signal.SIGKILL, (host.folder / "worker.log").read_text()
            worker = host.start_worker(None)
        try:
            item = (await asked(handle)).attention[0]
            await handle.signal(OrchestrationWorkflow.answer, {"attention_id": item.id, "choice": "theirs"})
            # The server dies as well, in the middle of what is left.
            before = inspect(bench.state)
            assert before is not None
            processes.kill(before.server)
            result = await handle.result()
        finally:
            worker.terminate()
            await ended(worker)
    assert (result.state, result.handoffs > 0) == (TaskState.DONE, True), result.summary
    assert_one_tree(collected)
    spans = {span.span_id: span for span in collected.spans}.values()
    names = Counter(span.name.split()[0] for span in spans)
    assert names["invoke_agent"] == result.agents
    refused = [span for span in spans if attributes(span.attributes).get("error.type") == "rate_limit_error"]
    told = trace.parse((Path(result.artifacts) / trace.NAME).read_text(encoding="utf-8"))
    # Of a call that was in flight when the worker died only the cost is known.
    killed = sum(line.outcome == trace.KILLED for line in told.of("model"))
    assert (names["chat"], len(refused)) == (result.usage.model_calls - killed + 1, 1)
    assert {"execute_tool", "baton.merge", "baton.wait"} <= names.keys()
    wanted = {"handoff", "decision", "ownership_refused", "conflict", "merged", "attention"}
    assert {f"baton.{name}" for name in wanted} <= collected.events()
    root = next(attributes(span.attributes) for span in spans if not span.parent_span_id)
    assert root["baton.task.id"] == task_id
    assert root["gen_ai.usage.output_tokens"] == result.usage.output_tokens
    assert collected.metrics.keys() == METRICS.keys()
    assert all(told.unit == METRICS[name].unit for name, told in collected.metrics.items())
    assert {"person", "quota"} <= collected.metrics["baton.wait.duration"].of("baton.wait.reason")
    operations = collected.metrics["gen_ai.client.operation.duration"].of("gen_ai.operation.name")
    assert operations == {"chat", "execute_tool", "invoke_agent", "invoke_workflow"}
    assert {headers.get("x-key") for headers in collected.headers} == {"the collectors key"}
    assert not any(SAID.encode() in body for body in collected.raw)

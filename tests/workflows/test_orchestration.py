"""OrchestrationWorkflow: its order, its waiting, and what it says of a task, with fakes for agents and files.

The fakes are registered under the real names of the child workflow and the activities; the workflow is the real one.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError
from temporalio.worker import Replayer, Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from baton.facts import Submission
from baton.findings import GateKind, GateOutcome, GateResult, GateSpec
from baton.ledger import ItemRecord, ItemStatus
from baton.messages import (
    AgentResult,
    Assignment,
    ChainTotals,
    GateResults,
    MergedStep,
    MergeStep,
    MergeSteps,
    OpenedTask,
    OpenTask,
    Publish,
    Published,
    RunGates,
    SettlePlan,
    TaskInput,
    TaskRef,
)
from baton.plan import DraftStep, HandoffStrategy, Plan, PlanDraft, PlanStep
from baton.pricing import Usage
from baton.progress import Progress, SaveProgress, after
from baton.report import progress_artifacts
from baton.roles import Role
from baton.routing import Routed
from baton.settings import Layer, resolve
from baton.states import AgentEnd, TaskState
from baton.status import TaskResult, TaskStatus
from baton.synthesis import Synthesis, SynthesisFacts
from workflows.orchestration import OrchestrationWorkflow

GATE = GateSpec(name="tests", command="pytest", kind=GateKind.TEST)
Script = Callable[[Assignment], AgentResult]


def plan_of(*steps: PlanStep) -> Plan:
    return Plan(task_id="t", plan=steps)


def step(number: int, *, items: tuple[str, ...] = ("a.py",), depends_on: tuple[int, ...] = ()) -> PlanStep:
    return PlanStep(step=number, agent_type="x", description=f"Do {number}.", items=items, depends_on=depends_on)


def finished(assignment: Assignment, **changes: Any) -> AgentResult:
    """The result of a chain of agents that did everything."""
    planner, integrator = assignment.role is Role.PLANNER, assignment.role is Role.INTEGRATOR
    submission = Submission(tool="submit_integration", input={"summary": "all fine", "consistency": ["one style"]})
    if not integrator:
        submission = Submission(tool="finish_step", input={"status": "ok", "summary": "did it"})
    return AgentResult(
        **{
            "agent_id": assignment.name,
            "end": AgentEnd.FINISHED,
            "submission": None if planner else submission,
            "items": tuple(
                ItemRecord(item=i, status=ItemStatus.CHANGED, agent_id=assignment.name) for i in assignment.items
            ),
            "totals": ChainTotals(agents=1, usage=Usage(output_tokens=100, model_calls=2)),
            "commit": "c",
            **changes,
        }
    )


@workflow.defn(name="AgentWorkflow")
class ScriptedAgent:
    """Gives the result that the test's script says; waits when the script is told to."""

    def __init__(self) -> None:
        self._answer: str | None = None

    @workflow.run
    async def run(self, assignment: Assignment) -> AgentResult:
        try:
            return await workflow.execute_activity(
                "script", assignment, result_type=AgentResult, start_to_close_timeout=timedelta(minutes=1)
            )
        except asyncio.CancelledError:
            return finished(assignment, end=AgentEnd.CANCELLED, submission=None, items=())


class Files:
    """Stands for everything a task does outside its agents, and remembers it. While `block` is clear, agents wait; only
    those of the steps `held`, where it names some."""

    def __init__(self, script: Script, settings: dict[str, Any], gates: dict[str, GateOutcome]) -> None:
        self.script = script
        self.settings = settings
        self.gates = gates
        self.assignments: list[Assignment] = []
        self.written: dict[str, Any] = {}
        self.progress: Progress | None = None
        self.merged: list[int | None] = []
        self.block = asyncio.Event()
        self.block.set()
        self.held: set[int] | None = None
        self.saves: list[list[str]] = []
        self.saving = asyncio.Event()
        self.saving.set()
        self.refused_saves = 0
        self.conflicts: dict[int, tuple[str, ...]] = {}
        self.branches: list[tuple[str, ...]] = []
        self.together: list[tuple[int | None, ...]] = []
        self.broken: set[str] = set()
        self.at_work = self.most_at_work = 0

    @activity.defn(name="open_task")
    async def open_task(self, request: OpenTask) -> OpenedTask:
        if request.input.repository == "/missing":
            raise ApplicationError("no such repository: /missing", type="BadInput", non_retryable=True)
        layers = [Layer(source="test", orchestration=self.settings)]
        return OpenedTask(
            host_queue=activity.info().task_queue,
            source="/repo",
            base_commit="base",
            base_name="main",
            settings=resolve(layers),
            gates=(GATE,) if self.gates else (),
        )

    @activity.defn(name="route")
    async def route(self, request: TaskRef) -> Routed:
        return Routed()

    @activity.defn(name="expand_plan")
    async def expand_plan(self, request: OpenTask) -> Plan:
        draft = request.input.plan
        assert draft is not None
        if any(not one.items and one.description == "of nothing" for one in draft.plan):
            raise ApplicationError("the plan has faults:\n- step 1: no items", type="BadInput", non_retryable=True)
        return plan_of(*(step(one.step, items=one.items or ("a.py",)) for one in draft.plan))

    @activity.defn(name="settle_plan")
    async def settle_plan(self, request: SettlePlan) -> None:
        self.written["plan.json"] = request.plan

    @activity.defn(name="script")
    async def agent(self, assignment: Assignment) -> AgentResult:
        self.assignments.append(assignment)
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        await asyncio.sleep(0.05)
        if self.held is None or (assignment.step is not None and assignment.step.step in self.held):
            await self.block.wait()
        self.at_work -= 1
        return self.script(assignment)

    @activity.defn(name="merge_step")
    async def merge_step(self, request: MergeStep) -> MergedStep:
        self.break_when_told("merge_step")
        self.branches.append(request.branches)
        if request.step in self.conflicts:
            return MergedStep(commit="base", merged=False, conflicts=self.conflicts[request.step])
        self.merged.append(request.step)
        files = ("a.py",) if request.step else ()
        return MergedStep(commit=f"result-{len(self.merged)}", merged=bool(files), files_changed=files)

    @activity.defn(name="merge_steps")
    async def merge_steps(self, request: MergeSteps) -> tuple[MergedStep, ...]:
        self.together.append(tuple(one.step for one in request.merges))
        return tuple([await self.merge_step(one) for one in request.merges])

    @activity.defn(name="run_gates")
    async def run_gates(self, request: RunGates) -> GateResults:
        self.break_when_told("run_gates")
        outcome = self.gates["base" if request.commit == "base" else "result"]
        code = 0 if outcome is GateOutcome.PASSED else 1
        return GateResults(
            results=(GateResult(name="tests", kind=GateKind.TEST, command="pytest", outcome=outcome, exit_code=code),)
        )

    def break_when_told(self, name: str) -> None:
        if name in self.broken:
            raise ApplicationError(f"{name} is broken", non_retryable=True)

    @activity.defn(name="discard_task")
    async def discard_task(self, request: TaskRef) -> None:
        self.written["discarded"] = request.task_id

    @activity.defn(name="publish")
    async def publish(self, request: Publish) -> Published:
        self.break_when_told("publish")
        return Published(ref=f"baton/{request.task_id}", repository="/private")

    @activity.defn(name="summarize")
    async def summarize(self, facts: SynthesisFacts) -> Synthesis:
        self.break_when_told("summarize")
        return Synthesis(
            text=f"{len(facts.results)} results, {facts.state}", usage=Usage(output_tokens=7, model_calls=1)
        )

    @activity.defn(name="write_artifacts")
    async def write_artifacts(self, request: SaveProgress) -> None:
        artifacts = request.artifacts
        self.saves.append([artifact.name for artifact in artifacts])
        if any(name.startswith("results/") for name in self.saves[-1]):
            await self.saving.wait()
            if self.refused_saves:
                self.refused_saves -= 1
                raise ApplicationError("the disk is full", non_retryable=True)
        if request.progress is not None:
            self.progress = after(self.progress, request.progress)
            artifacts += progress_artifacts(self.progress)
        self.written |= {artifact.name: artifact.value for artifact in artifacts}

    @activity.defn(name="put_away")
    async def put_away(self, request: TaskRef) -> None:
        self.written["put away"] = request.task_id
        self.break_when_told("put_away")

    @activity.defn(name="close_task")
    async def close_task(self, request: TaskRef) -> None:
        self.written["closed"] = request.task_id


class Bench:
    """One task on a worker with fakes."""

    def __init__(self, client: Client, queue: str, files: Files) -> None:
        self.client, self.queue, self.files = client, queue, files

    async def start(self, **fields: Any) -> WorkflowHandle[Any, TaskResult]:
        task = TaskInput(**{"task": "modernise", "repository": "/repo", **fields})
        return await self.client.start_workflow(
            "OrchestrationWorkflow", task, id=f"t-{uuid.uuid4().hex[:8]}", task_queue=self.queue, result_type=TaskResult
        )

    async def status(self, handle: WorkflowHandle[Any, Any], wanted: Callable[[TaskStatus], bool]) -> TaskStatus:
        """The status as soon as it is as wanted."""
        for _ in range(200):
            found = await handle.query("status", result_type=TaskStatus)
            if wanted(found):
                return found
            await asyncio.sleep(0.02)
        raise AssertionError(f"never: {found}")


Start = Callable[..., Any]


@pytest.fixture
async def bench(temporal: Client) -> AsyncIterator[Start]:
    """Makes benches."""

    @asynccontextmanager
    async def make(
        script: Script,
        settings: dict[str, Any] | None = None,
        gates: dict[str, GateOutcome] | None = None,
    ) -> AsyncIterator[Bench]:
        files = Files(script, settings or {}, gates or {})
        queue = f"q-{uuid.uuid4().hex[:8]}"
        activities = [
            files.open_task,
            files.expand_plan,
            files.route,
            files.settle_plan,
            files.agent,
            files.merge_step,
            files.merge_steps,
            files.run_gates,
            files.publish,
            files.write_artifacts,
            files.summarize,
            files.put_away,
            files.close_task,
            files.discard_task,
        ]
        async with Worker(
            temporal,
            task_queue=queue,
            workflows=[OrchestrationWorkflow, ScriptedAgent],
            activities=activities,
            # The fakes of this file need no sandbox; importing this file anew for every run would cost a second each.
            workflow_runner=SandboxedWorkflowRunner(
                restrictions=SandboxRestrictions.default.with_passthrough_modules(__name__, "baton", "activities")
            ),
        ):
            yield Bench(temporal, queue, files)

    return make


def scripted(plan: Plan, **by_step: Any) -> Script:
    """Everybody finishes, but for the steps whose result is changed here (`step_2={...}`)."""

    def script(assignment: Assignment) -> AgentResult:
        if assignment.role is Role.PLANNER:
            return finished(assignment, plan=plan)
        changes = by_step.get(f"step_{assignment.step.step}", {}) if assignment.step else {}
        return finished(assignment, **changes)

    return script


PASSING = {"base": GateOutcome.PASSED, "result": GateOutcome.PASSED}


async def test_the_whole_flow(bench: Start) -> None:
    plan = plan_of(step(2, depends_on=(1,)), step(1, items=("b.py", "c.py")))
    async with bench(scripted(plan), gates=PASSING) as one:
        handle = await one.start()
        result = await handle.result()
        assert (result.state, result.ref, result.ready) == (TaskState.DONE, f"baton/{handle.id}", True)
        assert (result.items.done, result.items.total, result.agents) == (3, 3, 4)
        names = [a.name for a in one.files.assignments]
        assert names == ["planner", "executor-1-x", "executor-2-x", "general-integrator"]
        assert one.files.assignments[2].start_commit == "result-1"
        assert one.files.merged == [1, 2, None]
        assert {"plan.json", "results/2.yaml", "ledger.json", "report.md", "state.json"} <= set(one.files.written)
        assert "# Done: modernise" in one.files.written["report.md"]
        rows = await handle.query("ledger", {"step": 1, "limit": 1})
        assert (rows["total"], len(rows["items"])) == (2, 1)
        assert (await handle.query("plan"))["plan"][0]["items"] == 1
        assert (await handle.query("manifests"))["total"] == 0


async def test_nothing_to_do_is_done(bench: Start) -> None:
    async with bench(scripted(plan_of())) as one:
        result = await (await one.start()).result()
        assert (result.state, result.summary, result.ref) == (TaskState.DONE, "the planner found nothing to do", None)


async def test_a_failed_step_takes_only_its_dependants_down(bench: Start) -> None:
    plan = plan_of(step(1), step(2, depends_on=(1,)), step(3))
    failed = {"end": AgentEnd.FAILED, "detail": "no luck", "submission": None, "items": (ItemRecord(item="a.py"),)}
    script = scripted(plan, step_1=failed)

    async with bench(script) as one:
        result = await (await one.start()).result()
        statuses = {r["step"]: r["status"] for n, r in one.files.written.items() if n.startswith("results/")}
        assert statuses[3] == "ok"
        assert statuses[1] == "partial"
        assert result.state is TaskState.DONE  # what was left was planned anew


async def test_an_open_item_makes_the_task_partial_whatever_the_agent_says(bench: Start) -> None:
    lie = {"items": (ItemRecord(item="a.py"),)}
    async with bench(scripted(plan_of(step(1)), step_1=lie, step_2=lie, step_3=lie), {"onLimit": "integrate"}) as one:
        result = await (await one.start()).result()
        assert result.state is TaskState.PARTIAL
        assert "0 of 1 items done" in result.summary


async def test_a_gate_that_newly_fails_keeps_the_result_not_ready(bench: Start) -> None:
    gates = {"base": GateOutcome.PASSED, "result": GateOutcome.FAILED}
    async with bench(scripted(plan_of(step(1))), gates=gates) as one:
        result = await (await one.start()).result()
        assert (result.state, result.ready) == (TaskState.PARTIAL, False)
        assert one.files.written["issues.json"][0]["issue"] == "gate tests: new_failure"


async def test_a_gate_that_failed_before_does_not(bench: Start) -> None:
    gates = {"base": GateOutcome.FAILED, "result": GateOutcome.FAILED}
    async with bench(scripted(plan_of(step(1))), gates=gates) as one:
        assert (await (await one.start()).result()).state is TaskState.DONE


@pytest.mark.parametrize(("most", "started"), [(0, 0), (1, 0), (2, 1), (3, 2)])
async def test_agents_are_limited_and_one_is_kept_for_the_integrator(bench: Start, most: int, started: int) -> None:
    async with bench(scripted(plan_of(step(1), step(2))), {"maxAgents": most, "onLimit": "integrate"}) as one:
        result = await (await one.start()).result()
        executors = [a for a in one.files.assignments if a.role is Role.EXECUTOR]
        assert len(executors) == started
        assert result.state is (TaskState.DONE if started == 2 else TaskState.PARTIAL if started else TaskState.FAILED)


async def test_zero_cost_allows_nothing(bench: Start) -> None:
    async with bench(scripted(plan_of(step(1))), {"limits": {"costUsd": "0"}, "onLimit": "stop"}) as one:
        result = await (await one.start()).result()
        assert one.files.assignments == []
        assert result.state is TaskState.FAILED
        assert "cost limit" in result.summary


async def test_approval_waits_visibly_and_a_rejection_plans_again(bench: Start) -> None:
    async with bench(scripted(plan_of(step(1))), {"requireApproval": True}) as one:
        handle = await one.start()
        waiting = await one.status(handle, lambda s: bool(s.attention))
        assert (waiting.state, waiting.attention[0].kind) == (TaskState.WAITING, "approval")
        await handle.signal("approve", {"phase": "integration"})
        await handle.signal("reject", {"phase": "planning", "comment": "smaller steps"})
        await one.status(handle, lambda s: len(one.files.assignments) == 2 and bool(s.attention))
        assert one.files.assignments[1].guidance == ("smaller steps",)
        await handle.signal("approve", {"phase": "planning"})
        final = await one.status(handle, lambda s: bool(s.attention) and s.phase == "integrating")
        assert final.rejected_signals[0].startswith("approve of phase 'integration'")
        await handle.signal("approve", {"phase": "integration"})
        assert (await handle.result()).state is TaskState.DONE


async def test_a_planner_that_fails_is_a_question(bench: Start) -> None:
    async with bench(lambda a: finished(a, end=AgentEnd.BLOCKED, detail="sent back 3 times")) as one:
        handle = await one.start()
        waiting = await one.status(handle, lambda s: bool(s.attention))
        item = waiting.attention[0]
        assert "sent back 3 times" in item.question
        await handle.signal("answer", {"attention_id": "nonsense", "choice": "stop"})
        await handle.signal("answer", {"attention_id": item.id, "choice": "perhaps"})
        refused = await one.status(handle, lambda s: len(s.rejected_signals) == 2)
        assert "the choices are retry, stop" in refused.rejected_signals[1]
        await handle.signal("answer", {"attention_id": item.id, "choice": "stop"})
        assert (await handle.result()).state is TaskState.FAILED


async def test_signals_that_make_no_sense_change_nothing(bench: Start) -> None:
    async with bench(scripted(plan_of(step(1))), {"requireApproval": True}) as one:
        handle = await one.start()
        await one.status(handle, lambda s: bool(s.attention))
        for name in ("approve", "reject", "answer", "guide", "unpause"):
            await handle.signal(name, {"phase": "nowhere", "unknown": 1})
        status = await one.status(handle, lambda s: len(s.rejected_signals) == 5)
        assert status.attention
        await handle.cancel()


async def test_cancel_reports_what_was_done(bench: Start) -> None:
    plan = plan_of(step(1), step(2))
    async with bench(scripted(plan)) as one:
        one.files.held = {2}
        one.files.block.clear()
        handle = await one.start()
        await one.status(handle, lambda s: bool(s.steps) and s.steps[0].state == "ok")
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
        ended = await one.status(handle, lambda s: s.state is TaskState.CANCELLED)
        assert [step.state for step in ended.steps] == ["ok", "cancelled"]
        assert not any("failed" in happening.text for happening in ended.happenings)
        assert "# Cancelled: modernise" in one.files.written["report.md"]
        assert one.files.written["state.json"]["status"]["state"] == "cancelled"
        assert "closed" in one.files.written


async def test_agents_are_cancelled_in_the_order_of_their_steps(bench: Start) -> None:
    """So the history replays in whatever process: an order that the interpreter chose would be another one there."""
    numbers = range(1, 9)
    plan = parallel(*(step(number, items=(f"{number}.py",)) for number in numbers))
    async with bench(scripted(plan), {"maxParallelAgents": 8, "maxAgents": 20}) as one:
        one.files.held = set(numbers)
        one.files.block.clear()
        handle = await one.start()
        await one.status(handle, lambda s: one.files.at_work == 8)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
        history = await handle.fetch_history()
        told = [event.request_cancel_external_workflow_execution_initiated_event_attributes for event in history.events]
        names = [one_told.workflow_execution.workflow_id for one_told in told if one_told.namespace]
        assert names[:8] == [f"{handle.id}/step-{number}" for number in numbers]
        await Replayer(workflows=[OrchestrationWorkflow], data_converter=pydantic_data_converter).replay_workflow(
            history
        )


async def test_a_step_starts_while_what_it_depends_on_is_written(bench: Start) -> None:
    plan = plan_of(step(1), step(2, items=("b.py",), depends_on=(1,)))
    async with bench(scripted(plan)) as one:
        one.files.saving.clear()
        handle = await one.start()
        await one.status(handle, lambda s: [step.state for step in s.steps] == ["ok", "ok"])
        assert "results/1.yaml" not in one.files.written
        one.files.saving.set()
        assert (await handle.result()).state is TaskState.DONE
        assert {"results/1.yaml", "results/2.yaml", "report.md"} <= set(one.files.written)


async def test_what_could_not_be_written_is_written_with_the_next_save(bench: Start) -> None:
    async with bench(scripted(plan_of(step(1)))) as one:
        one.files.refused_saves = 1
        assert (await (await one.start()).result()).state is TaskState.DONE
        assert {"results/1.yaml", "report.md"} <= set(one.files.written)
        assert set(one.files.written["state.json"]["results"]) == {"1"}


async def test_a_task_whose_files_cannot_be_written_says_why_it_failed(bench: Start) -> None:
    async with bench(scripted(plan_of(step(1)))) as one:
        one.files.refused_saves = 99
        with pytest.raises(WorkflowFailureError) as caught:
            await (await one.start()).result()
        assert "the disk is full" in str(caught.value.cause.cause)


async def test_what_waits_for_a_save_is_written_with_the_next_one(bench: Start) -> None:
    numbers = range(1, 6)
    plan = parallel(*(step(number, items=(f"{number}.py",)) for number in numbers))
    async with bench(scripted(plan), {"maxParallelAgents": 5, "maxAgents": 20}) as one:
        one.files.saving.clear()
        handle = await one.start()
        await one.status(handle, lambda s: all(step.state == "ok" for step in s.steps) and len(s.steps) == 5)
        one.files.saving.set()
        await handle.result()
        saves = [save for save in one.files.saves if any(name.startswith("results/") for name in save)]
        assert [len(save) for save in saves] == [1, 4]
        assert sorted(name for save in saves for name in save) == [f"results/{number}.yaml" for number in numbers]
        assert set(one.files.written["state.json"]["results"]) == {str(number) for number in numbers}
        history = await handle.fetch_history()
        await Replayer(workflows=[OrchestrationWorkflow], data_converter=pydantic_data_converter).replay_workflow(
            history
        )


async def test_plan_only_runs_nothing(bench: Start) -> None:
    async with bench(scripted(plan_of(step(1)))) as one:
        result = await (await one.start(plan_only=True)).result()
        assert result.summary == "planned 1 step, nothing was run"
        assert result.state is TaskState.DONE
        assert [a.role for a in one.files.assignments] == [Role.PLANNER]


async def test_the_users_own_plan_needs_no_planner(bench: Start) -> None:
    async with bench(scripted(plan_of())) as one:
        await (await one.start(plan={"plan": [{"step": 1, "agent_type": "x", "description": "d"}]})).result()
        assert [a.role for a in one.files.assignments] == [Role.EXECUTOR, Role.INTEGRATOR]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"task": " "}, "the task is empty"),
        ({"repository": ""}, "no repository is given"),
        ({"repository": "/missing"}, "no such repository"),
    ],
)
async def test_bad_input_fails_at_once(bench: Start, fields: dict[str, str], message: str) -> None:
    async with bench(scripted(plan_of())) as one:
        handle = await one.start(**fields)
        with pytest.raises(WorkflowFailureError) as raised:
            await handle.result()
        assert message in str(raised.value.cause) + str(raised.value.cause.__cause__)


async def test_a_malformed_task_id_or_input_fails_from_any_client(bench: Start) -> None:
    async with bench(scripted(plan_of())) as one:
        for name, task in (
            (f"Bad_Id {uuid.uuid4()}", {"task": "x", "repository": "/r"}),
            (f"t-{uuid.uuid4().hex}", {"task": []}),
        ):
            handle = await one.client.start_workflow("OrchestrationWorkflow", task, id=name, task_queue=one.queue)
            with pytest.raises(WorkflowFailureError):
                await handle.result()


async def test_pause_holds_the_next_step(bench: Start) -> None:
    async with bench(scripted(plan_of(step(1))), {"requireApproval": True}) as one:
        handle = await one.start()
        await one.status(handle, lambda s: bool(s.attention))
        await handle.signal("pause", {})
        await handle.signal("approve", {"phase": "planning"})
        paused = await one.status(handle, lambda s: s.phase == "executing")
        assert paused.paused
        assert len(one.files.assignments) == 1
        await handle.signal("unpause", {})
        await one.status(handle, lambda s: s.phase == "integrating" and bool(s.attention))
        await handle.signal("approve", {"phase": "integration"})
        assert (await handle.result()).state is TaskState.DONE


async def test_a_stuck_chain_leads_to_a_new_plan_for_what_is_left(bench: Start) -> None:
    plans = [plan_of(step(1, items=("a.py", "b.py")), step(2, items=("c.py",), depends_on=(1,)))]
    plans.append(plan_of(step(1, items=("b.py",)), step(2, items=("c.py",))))
    stuck = (ItemRecord(item="a.py", status=ItemStatus.CHANGED, agent_id="x"), ItemRecord(item="b.py"))

    def script(assignment: Assignment) -> AgentResult:
        if assignment.role is Role.PLANNER:
            return finished(assignment, plan=plans.pop(0))
        if assignment.step and assignment.step.step == 1:
            return finished(assignment, end=AgentEnd.REPLAN, submission=None, items=stuck)
        return finished(assignment)

    async with bench(script) as one:
        handle = await one.start()
        result = await handle.result()
        asked = [a for a in one.files.assignments if a.role is Role.PLANNER]
        assert "still open: b.py" in asked[1].guidance[0]
        names = [a.name for a in one.files.assignments if a.role is Role.EXECUTOR]
        assert names == ["executor-1-x", "executor-3-x", "executor-4-x"]
        assert (result.state, result.items.done, result.items.total) == (TaskState.DONE, 3, 3)


def failing(plans: list[Plan], works_from: int) -> Script:
    """Executors of steps before a number fail; the planner gives one plan after the other, then the last again."""

    def script(assignment: Assignment) -> AgentResult:
        if assignment.role is Role.PLANNER:
            return finished(assignment, plan=plans.pop(0) if len(plans) > 1 else plans[0])
        if assignment.step and assignment.step.step < works_from:
            items = (ItemRecord(item="a.py", status=ItemStatus.CHANGED, agent_id="x"), ItemRecord(item="b.py"))
            left = tuple(record for record in items if record.item in assignment.items)
            return finished(assignment, end=AgentEnd.FAILED, detail="no luck", submission=None, items=left)
        return finished(assignment)

    return script


TWO_ITEMS = [plan_of(step(1, items=("a.py", "b.py"))), plan_of(step(1, items=("b.py",)))]


async def test_what_failed_is_planned_anew_and_what_it_left_is_kept(bench: Start) -> None:
    async with bench(failing(list(TWO_ITEMS), works_from=2)) as one:
        result = await (await one.start()).result()
        remarks = [a.guidance for a in one.files.assignments if a.role is Role.PLANNER]
        assert "in the way: no luck" in remarks[1][0]
        assert (result.state, result.items.done, result.items.total) == (TaskState.DONE, 2, 2)


async def test_two_new_plans_that_do_not_help_are_a_persons_question(bench: Start) -> None:
    async with bench(failing(list(TWO_ITEMS), works_from=99)) as one:
        handle = await one.start()
        now = await one.status(handle, lambda now: bool(now.attention))
        item = now.attention[0]
        assert (item.kind, item.choices) == ("failure", ("replan", "integrate"))
        assert "no luck" in item.question
        assert sum(a.role is Role.PLANNER for a in one.files.assignments) == 3
        await handle.signal(OrchestrationWorkflow.answer, {"attention_id": item.id, "choice": "integrate"})
        assert (await handle.result()).state is TaskState.PARTIAL


async def test_a_plan_of_the_users_own_is_not_replaced_unasked(bench: Start) -> None:
    async with bench(failing(list(TWO_ITEMS), works_from=99)) as one:
        own = PlanDraft(plan=(DraftStep(step=1, agent_type="x", description="Do it.", items=("a.py",)),))
        handle = await one.start(plan=own)
        assert (await handle.result()).state is not TaskState.DONE
        assert not any(a.role is Role.PLANNER for a in one.files.assignments)


def parallel(*steps: PlanStep) -> Plan:
    return plan_of(*steps).model_copy(update={"execution_strategy": "parallel"})


def sharded(number: int, count: int) -> PlanStep:
    items = tuple(f"{number}-{n}.py" for n in range(count))
    return step(number, items=items).model_copy(
        update={"handoff_strategy": HandoffStrategy.PARALLEL, "estimated_output_tokens": 24_000 * count}
    )


async def test_parallel_chains_share_the_slots_and_each_shard_is_merged(bench: Start) -> None:
    async with bench(scripted(parallel(sharded(1, 5), step(2))), {"maxAgents": 20, "maxParallelAgents": 3}) as one:
        one.files.held = {1, 2}
        one.files.block.clear()
        handle = await one.start()
        await one.status(handle, lambda s: one.files.at_work == 3)
        one.files.block.set()
        result = await handle.result()
        assert (result.state, result.items.done) == (TaskState.DONE, 6)
        assert one.files.most_at_work == 3
        assert tuple(f"step-1.{n}" for n in range(1, 6)) in one.files.branches


async def test_agents_are_never_more_than_allowed_and_what_was_done_is_merged(bench: Start) -> None:
    settings = {"maxAgents": 4, "maxParallelAgents": 6, "onLimit": "integrate"}
    async with bench(scripted(parallel(sharded(1, 6))), settings) as one:
        result = await (await one.start()).result()
        executors = [a.workspace for a in one.files.assignments if a.role is Role.EXECUTOR]
        assert len(executors) == 3
        assert set(one.files.branches[0]) == set(executors)
        assert (result.state, result.items.done, result.items.total) == (TaskState.PARTIAL, 3, 6)


async def test_parallel_chains_never_hold_more_than_the_limit(bench: Start) -> None:
    limits = {"outputTokens": 30_000, "costUsd": 5}
    settings = {"limits": limits, "outputBudget": 4_000, "maxParallelAgents": 3, "maxAgents": 20}
    async with bench(scripted(parallel(step(1), step(2, items=("b.py",)), step(3, items=("c.py",)))), settings) as one:
        await (await one.start()).result()
        held = [a.allowance.output_tokens for a in one.files.assignments if a.role is Role.EXECUTOR]
        assert all(held)
        assert sum(amount or 0 for amount in held) <= 29_900


async def test_a_conflict_leaves_nothing_reported_as_done(bench: Start) -> None:
    async with bench(scripted(plan_of(step(1), step(2, items=("b.py",))))) as one:
        one.files.conflicts[1] = ("a.py",)
        result = await (await one.start()).result()
        assert (result.state, result.items.done, result.items.failed) == (TaskState.PARTIAL, 1, 1)
        assert "merging conflicts in a.py" in one.files.written["ledger.json"][0]["note"]


async def test_gates_that_cannot_run_never_cost_the_result(bench: Start) -> None:
    async with bench(scripted(plan_of(step(1))), gates=PASSING) as one:
        one.files.broken.add("run_gates")
        result = await (await one.start()).result()
        assert (result.state, result.ref is not None) == (TaskState.DONE, True)
        assert "run_gates is broken" in one.files.written["report.md"]


async def test_a_summary_by_a_model_costs_a_call_and_never_the_report(bench: Start) -> None:
    script = scripted(plan_of(step(1), step(2, items=("b.py",))))
    async with bench(script) as one:
        result = await (await one.start()).result()
        calls = sum(2 for assignment in one.files.assignments)
        assert (result.usage.model_calls, result.usage.output_tokens % 100) == (calls + 1, 7)
        assert "2 results, done" in one.files.written["report.md"]
    async with bench(script) as one:
        one.files.broken.add("summarize")
        result = await (await one.start()).result()
        assert (result.state, result.usage.output_tokens % 100) == (TaskState.DONE, 0)
        assert "summarize is broken" in one.files.written["report.md"]


async def test_a_task_at_its_limit_pays_for_no_summary(bench: Start) -> None:
    settings = {"limits": {"modelCalls": 6}, "onLimit": "stop"}
    async with bench(scripted(plan_of(step(1), step(2, items=("b.py",)))), settings) as one:
        result = await (await one.start()).result()
        assert result.usage.model_calls == 6
        assert (
            "There is no summary by a model: the limit of 6 model calls is reached." in one.files.written["report.md"]
        )


async def test_a_result_that_cannot_be_published_is_still_reported(bench: Start) -> None:
    async with bench(scripted(plan_of(step(1)))) as one:
        one.files.broken.add("publish")
        result = await (await one.start()).result()
        assert (result.state, result.items.done, result.ref) == (TaskState.PARTIAL, 1, None)
        assert "private repository" in one.files.written["report.md"]


@pytest.mark.parametrize("broken", [(), ("publish",), ("put_away",), ("publish", "put_away")])
async def test_workspaces_are_put_away_whatever_becomes_of_the_result(bench: Start, broken: tuple[str, ...]) -> None:
    """Where that fails, the end of the task does it again, and nothing is lost by it."""
    async with bench(scripted(plan_of(step(1)))) as one:
        one.files.broken.update(broken)
        handle = await one.start()
        result = await handle.result()
        assert result.state is (TaskState.PARTIAL if "publish" in broken else TaskState.DONE)
        assert one.files.written["put away"] == one.files.written["closed"] == handle.id
        assert "report.md" in one.files.written


async def test_a_merge_that_breaks_fails_its_step_and_nothing_else(bench: Start) -> None:
    async with bench(scripted(plan_of(step(1)))) as one:
        one.files.broken.add("merge_step")
        result = await (await one.start()).result()
        assert (result.state, result.items.done, result.ref) == (TaskState.FAILED, 0, None)
        assert "merge_step is broken" in one.files.written["report.md"]


async def test_a_cancellation_in_the_moment_of_a_completion_is_not_lost(bench: Start) -> None:
    plan = plan_of(*(step(n, items=(f"{n}.py",)) for n in range(1, 6)))
    async with bench(scripted(plan)) as one:
        one.files.block.clear()
        handle = await one.start()
        await one.status(handle, lambda s: len(one.files.assignments) == 1)
        await handle.cancel()
        one.files.block.set()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
        assert len(one.files.assignments) == 1


async def test_the_time_limit_ends_the_task_with_what_was_done(bench: Start) -> None:
    plan = plan_of(*(step(n, items=(f"{n}.py",)) for n in range(1, 60)))
    async with bench(scripted(plan), {"limits": {"duration": "2s"}, "maxAgents": 100, "onLimit": "integrate"}) as one:
        result = await (await one.start()).result()
        assert result.state is TaskState.PARTIAL
        assert 0 < result.items.done < 59
        assert "time limit" in one.files.written["report.md"]


async def test_a_rejected_new_plan_takes_nothing_with_it(bench: Start) -> None:
    plans = [plan_of(step(1, items=("a.py", "b.py"))), plan_of(step(1, items=("b.py",))), plan_of(step(1, items=()))]
    stuck = (ItemRecord(item="a.py", status=ItemStatus.CHANGED, agent_id="x"), ItemRecord(item="b.py"))

    def script(assignment: Assignment) -> AgentResult:
        if assignment.role is Role.PLANNER:
            return finished(assignment, plan=plans.pop(0))
        if assignment.step and assignment.step.step == 1:
            return finished(assignment, end=AgentEnd.REPLAN, submission=None, items=stuck)
        return finished(assignment)

    async with bench(script, {"requireApproval": True, "approvePhases": ["planning"]}) as one:
        handle = await one.start()
        for wanted, choice in ((1, "approve"), (2, "reject"), (3, "approve")):
            await one.status(handle, lambda s, n=wanted: len(plans) == 3 - n and bool(s.attention))
            await handle.signal(choice, {"phase": "planning"})
            await one.status(handle, lambda s: not s.attention)
        result = await handle.result()
        assert (result.state, result.items.done, result.items.open) == (TaskState.PARTIAL, 1, 1)

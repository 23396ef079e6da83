"""Waits of a task stand in its trace, by what was waited for: a slot, the merge queue, the provider."""

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
from temporalio.worker import ExecuteActivityInput

from activities.quota import Pauses
from activities.state_file import StateFile
from baton import trace
from baton.names import QUOTA_ID
from baton.plan import DraftStep, PlanDraft
from baton.progress import Progress
from baton.quota import Pause
from baton.run_facts import run_facts
from baton.states import TaskState
from baton.status import TaskResult
from baton.timeline_rows import sections
from emulator.dialogue import Dialogue
from emulator.judges import integrate
from emulator.reply import Block, HttpError, Reply
from tests.end_to_end.bench import Rules, task
from tests.workflows.rig import Attempt, Rig, answer, attention, status, until
from tests.workflows.test_agent_workflow import editing
from tests.workflows.test_provider_limits import account, is_paused, side_by_side
from workflows.orchestration import OrchestrationWorkflow

pytestmark = pytest.mark.asyncio(loop_scope="module")


def lines(result: TaskResult, *kinds: str) -> tuple[trace.TraceLine, ...]:
    return trace.parse((Path(result.artifacts) / trace.NAME).read_text()).of(*kinds)


async def test_a_step_that_waits_for_a_slot_and_one_that_waits_to_be_merged(rig: Rig) -> None:
    """The first merge takes its time; meanwhile the second step comes to its end, and the third got the free slot."""
    merging, second_waits = threading.Event(), threading.Event()

    def model(dialogue: Dialogue) -> Sequence[Block]:
        step = (dialogue.assignment.get("step") or {}).get("step")
        if step == 2 and dialogue.turn == 1:
            merging.wait(30)
            second_waits.set()
        return editing(dialogue)

    async def slow_first_merge(attempt: Attempt, given: ExecuteActivityInput) -> Any:
        if given.fn.__name__ == "merge_step" and not merging.is_set():
            merging.set()
            await asyncio.to_thread(second_waits.wait, 30)
            await asyncio.sleep(3)  # for the end of the second agent, also where others use this machine
        return await attempt()

    with rig.api(Rules(model)), rig.around(slow_first_merge):
        result = await rig.run(side_by_side(rig, 3).model_copy(update={"settings": settings(2)}))
    assert result.state is TaskState.DONE
    waits = lines(result, "wait")
    assert {(wait.name, wait.agent) for wait in waits if wait.name == "slot"} == {("slot", "executor-3-editor")}
    assert 2 in {wait.step for wait in waits if wait.name == "merge_queue"}
    assert all(wait.seconds > 0 for wait in waits)


def settings(slots: int) -> dict[str, Any]:
    return {"maxParallelAgents": slots, "maxAgents": 30, "review": "never", "sandbox": "off"}


async def test_a_refused_call_waits_for_the_provider_and_is_measured_once(rig: Rig) -> None:
    refused = iter([Reply(fault=HttpError(429, "rate_limit_error", "Slower", {"retry-after": "1"}))])

    def model(dialogue: Dialogue) -> Reply | Sequence[Block]:
        return next(refused, None) or editing(dialogue)

    with rig.api(Rules(model)):
        result = await rig.run(side_by_side(rig, 1))
    (wait,) = lines(result, "wait")
    assert (wait.name, wait.agent, wait.turn) == ("quota", "executor-1-editor", 1)
    assert wait.seconds >= 0.9
    failed, answered, *_ = lines(result, "model")
    assert (failed.outcome, failed.status) == ("rate_limit_error", 429)
    assert failed.at <= wait.began + timedelta(seconds=0.2)
    assert answered.began >= wait.at - timedelta(seconds=0.2)


async def test_a_pause_of_the_provider_is_a_wait_and_no_call_of_a_model(rig: Rig) -> None:
    with rig.api(Rules(editing)) as api:
        now = datetime.now(UTC)
        pause = Pause(kind="usage", reason="used up", since=now, until=now + timedelta(hours=1))
        held = await Pauses(rig.client).begin(account(api), pause)
        handle = await rig.start(side_by_side(rig, 1))
        await until(handle, is_paused)
        await asyncio.sleep(1.1)
        await rig.client.get_workflow_handle(QUOTA_ID.format(account=account(api))).signal("release", held)
        result = await handle.result()
    waits = lines(result, "wait")
    assert {wait.name for wait in waits} == {"quota"}
    assert sum(wait.seconds for wait in waits) > 1
    assert all(line.response for line in lines(result, "model"))


async def test_commands_of_a_step_are_told_without_an_agent(rig: Rig) -> None:
    source = rig.repository(a="x\n", b="y\n")
    steps = (DraftStep(step=1, agent_type="editor", description="run", items=("a.py", "b.py"), run="grep -q x {item}"),)
    given = task(source, sandbox="off").model_copy(update={"plan": PlanDraft(plan=steps)})
    with rig.api(Rules(editing)):
        result = await rig.run(given)
    (line,) = lines(result, "command")
    assert (line.agent, line.step, line.calls, line.outcome) == ("run-1", 1, 2, "failed")


async def test_time_that_a_killed_gate_merge_or_command_took_is_a_gap_in_its_row(rig: Rig) -> None:
    """Each dies once in the middle of its work; and a second time, which makes no second gap."""
    tries: Counter[str] = Counter()

    async def die_twice(attempt: Attempt, given: ExecuteActivityInput) -> Any:
        name = given.fn.__name__
        if name not in {"run_gates", "merge_step", "run_commands"} or (tries.update([name]) or tries[name]) > 2:
            return await attempt()
        await attempt()
        await asyncio.sleep(0.3)
        raise OSError("the worker dies")

    source = rig.repository(a="x\n")
    steps = (DraftStep(step=1, agent_type="editor", description="run", items=("a.py",), run="sed -i s/x/y/ {item}"),)
    gates = [{"name": "there", "kind": "build", "command": "test -f a.py"}]
    given = task(source, sandbox="off", gates=gates).model_copy(update={"plan": PlanDraft(plan=steps)})
    with rig.api(Rules(editing)), rig.around(die_twice):
        result = await rig.run(given)
    assert result.state is TaskState.DONE, result.summary
    gaps = lines(result, "gap")
    assert sorted((line.name, line.attempt) for line in gaps) == [("command", 3), ("gate", 3), ("merge", 3)]
    assert all(line.seconds > 0.6 for line in gaps)
    text = {trace.NAME: (Path(result.artifacts) / trace.NAME).read_text()}
    drawn = {row.label: row for section in sections(run_facts("a", text)) for row in section.rows}
    for name, label in (("command", "run-1"), ("gate", "gates"), ("merge", "merges")):
        (gap,) = [block for block in drawn[label].blocks if block.kind == "gap"]
        work = [block for block in drawn[label].blocks if block.kind != "gap"]
        (line,) = [line for line in gaps if line.name == name]
        assert (gap.begin, gap.end) == (line.began, line.at)
        assert any(block.begin >= gap.end for block in work), label
        assert "attempt 3 went on" in gap.hint


class DyingStateFile(StateFile):
    """The process ends once for each state: in turn before and after it is kept."""

    died: ClassVar[list[str]] = []

    def take(self, new: Progress, **options: Any) -> Progress:
        if new.revision in self.died:
            return super().take(new, **options)
        self.died.append(new.revision)
        if len(self.died) % 2:
            raise OSError("the worker dies before it is kept")
        super().take(new, **options)
        raise OSError("the worker dies after it was kept")


async def test_what_waited_for_a_person_is_in_the_trace_once_and_while_the_task_runs(rig: Rig) -> None:
    def model(dialogue: Dialogue) -> Sequence[Block]:
        return editing(dialogue) if dialogue.assignment.get("items") else integrate(dialogue)

    given = side_by_side(rig, 2)
    asking = settings(2) | {"requireApproval": True, "approvePhases": ["planning", "integration"]}
    with rig.api(Rules(model)):
        handle = await rig.start(given.model_copy(update={"settings": asking, "integration": True}))
        first = await attention(handle)
        folder = rig.folder_of(handle.id)
        folder.state = DyingStateFile(folder.path, folder.store)
        await handle.signal(OrchestrationWorkflow.pause)
        await handle.signal(OrchestrationWorkflow.unpause)
        await answer(handle, first, "approve")
        second = (await until(handle, lambda now: any(one.id != first.id for one in now.attention))).attention[0]
        told = trace.parse((folder.artifacts / trace.NAME).read_text()).of("attention")
        assert [(line.name, line.phase, line.asked) for line in told][1:] == [("approval", first.phase, first.since)]
        assert told[0].name == "pause"
        await answer(handle, second, "approve")
        result = await handle.result()
    waits = (await status(handle)).waits
    known: dict[tuple[object, ...], datetime] = {(wait.kind, wait.phase, wait.since): wait.until for wait in waits}
    told = lines(result, "attention")
    assert {(line.name, line.phase or None, line.asked) for line in told} == known.keys()
    assert len(told) == len(known) == 3
    assert all(
        abs(known[line.name, line.phase or None, line.asked] - line.at) < timedelta(seconds=0.1) for line in told
    )

"""Random scripts of responses, faults and dying attempts through the real workflows: whatever happens, an item is done
exactly once or reported as not done, nothing done is lost, every token is counted, and no conversation breaks the
API's rules. And a long life: what an agent leaves per turn does not grow."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from temporalio.worker import ExecuteActivityInput

from baton.budget import Budget
from baton.messages import AgentResult, Assignment
from baton.names import AGENT_WORKFLOW, TASK_QUEUE
from baton.plan import PlanStep
from baton.roles import Role
from baton.states import AgentEnd, TaskState
from baton.status import TaskResult
from emulator.dialogue import Dialogue, read_dialogue
from emulator.reply import (
    BadData,
    Block,
    Cut,
    ErrorEvent,
    Fault,
    HttpError,
    NoMessageStop,
    Reply,
    Text,
    Thinking,
    ToolUse,
)
from emulator.request import Request
from emulator.server import EmulatorServer
from tests.end_to_end.bench import Handle, Rules, generation, git, statuses, task, tree
from tests.workflows.rig import Attempt, Rig, answer, manifests, status

pytestmark = pytest.mark.asyncio(loop_scope="module")

ITEMS = ("a.py", "b.py", "c.py")
MOST_AGENTS = 6
FINISH = ToolUse("finish_step", {"status": "ok", "summary": "all items are done"})
LONG = "I think about this at length. " * 400

RESPONSES = (
    "work",
    "read",
    "claim",
    "again",
    "chat",
    "unsigned",
    "long text",
    "long write",
    "two calls, one cut",
    "unknown tool",
    "broken input",
    "record",
    "hand off",
    "lie",
    "finish early",
    "window full",
    "calls, but ended",
    "refusal",
)
FAULTS: Mapping[str, Fault] = {
    "overloaded": HttpError(529, "overloaded_error"),
    "too many": HttpError(429, "rate_limit_error", headers={"retry-after": "0.1"}),
    "no answer": Cut(),
    "cut": Cut(4),
    "bad data": BadData(3),
    "error event": ErrorEvent(after_events=3),
    "no end": NoMessageStop(),
}
DEATHS = ("before", "after", "meanwhile")


def work(item: str) -> Sequence[Block]:
    """Not safe to do twice, on purpose."""
    return [ToolUse("bash", {"command": f"echo done >> {item}"}), ToolUse("complete_item", {"item": item})]


def play(response: str, dialogue: Dialogue) -> Reply:
    """One response of the script, fitted to where the conversation stands."""
    done = [call.input["item"] for call in dialogue.done("complete_item")]
    left = [item for item in dialogue.assignment["items"] if item not in done]
    item = left[0] if left else ITEMS[0]
    blocks: dict[str, Sequence[Block]] = {
        "work": work(item) if left else [FINISH],
        "read": [Thinking("What is in it?"), ToolUse("read", {"file_path": item})],
        "claim": [ToolUse("complete_item", {"item": item})],
        "again": [ToolUse("complete_item", {"item": name}) for name in (*done, "unknown.py")],
        "chat": [Text("I will do that now.")],
        "unsigned": [Thinking("Nobody vouches for this.", signed=False)],
        "long text": [Text(LONG)],
        "long write": [ToolUse("write", {"file_path": item, "content": LONG})],
        "two calls, one cut": [ToolUse("read", {"file_path": item}), ToolUse("edit", {"file_path": item, "x": LONG})],
        "unknown tool": [ToolUse("teleport", {"to": item})],
        "broken input": [ToolUse("read", '{"file_path": "a.'), ToolUse("read", {"file_path": item})],
        "record": [ToolUse("record", {"issues": [{"issue": f"turn {dialogue.turn}", "file": item}]})],
        "hand off": [ToolUse("hand_off", {"in_progress_item": {"file": item, "progress": 50}})],
        "lie": [ToolUse("hand_off", {"in_progress_item": {"file": "elsewhere.py"}, "completed": list(ITEMS)})],
        "finish early": [FINISH],
        "window full": [Text("It is f")],
        "calls, but ended": [ToolUse("bash", {"command": f"echo never >> {item}"})],
        "refusal": [],
    }
    reasons = {"window full": "model_context_window_exceeded", "calls, but ended": "end_turn", "refusal": "refusal"}
    return Reply(blocks[response], stop_reason=reasons.get(response))


class Script:
    """Each agent plays its own list of responses, then works steadily. Faults come by the number of the request."""

    def __init__(self, responses: Sequence[Sequence[str]], faults: Mapping[int, str]) -> None:
        self._responses = responses
        self._faults = faults
        self._asked = 0

    def respond(self, request: Request) -> Reply:
        """The answer; what a fault swallows is answered when it is asked again."""
        self._asked += 1
        dialogue = read_dialogue(request)
        agent = generation(dialogue) - 1
        own = self._responses[agent] if agent < len(self._responses) else ()
        reply = play(own[dialogue.turn] if dialogue.turn < len(own) else "work", dialogue)
        fault = self._faults.get(self._asked)
        return Reply(reply.blocks, reply.stop_reason, FAULTS[fault]) if fault else reply


class Deaths:
    """Attempts of activities that die, by their number: before they begin, meanwhile, or before they are reported."""

    def __init__(self, deaths: Mapping[int, str]) -> None:
        self._deaths = deaths
        self._begun = 0

    async def __call__(self, attempt: Attempt, _: ExecuteActivityInput) -> Any:
        self._begun += 1
        death = self._deaths.get(self._begun)
        if death == "before":
            raise ConnectionError("this attempt died before it began")
        if death == "meanwhile":
            async with asyncio.timeout(0.01 * self._begun):
                return await attempt()
        result = await attempt()
        if death == "after":
            raise ConnectionError("this attempt died before its result was reported")
        return result


async def ended(handle: Handle, choice: str) -> TaskResult:
    """The result; whatever a person is asked meanwhile gets the same answer."""
    result = asyncio.ensure_future(handle.result())
    answered: set[str] = set()
    while not (await asyncio.wait({result}, timeout=0.3))[0]:
        for item in (await status(handle)).attention:
            if item.id not in answered:
                answered.add(item.id)
                await answer(handle, item, choice)
    return await result


def assert_all_is_accounted_for(source: Path, result: TaskResult, api: EmulatorServer) -> None:
    """The ledger, the branch and the provider's journal tell the same."""
    counts = result.items
    assert counts.total == len(ITEMS) == counts.done + counts.skipped + counts.failed + counts.open
    texts = [git(source, "show", f"{result.ref or 'main'}:{item}") for item in ITEMS]
    assert all(text in {"start\n", "start\ndone\n"} for text in texts)
    assert texts.count("start\ndone\n") == counts.changed
    assert tree(source, "main").keys() == tree(source, result.ref or "main").keys()
    assert (result.state is TaskState.DONE) <= (counts.done == len(ITEMS))
    assert 400 not in statuses(api)
    paid = {(e.user_id, e.body_sha256): e.usage for e in api.requests if e.complete and e.usage}.values()
    output = sum(usage["output_tokens"] for usage in paid)
    kinds = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    sent = sum(usage[kind] for usage in paid for kind in kinds)
    lost = result.usage.model_calls - len(paid)
    # Whole responses count exactly and once; those that broke on their way are counted by estimate on top.
    assert 0 <= lost <= statuses(api)[200] - len(paid)
    assert (result.usage.output_tokens == output) if not lost else (result.usage.output_tokens >= output)
    assert (result.usage.total_input_tokens == sent) if not lost else (result.usage.total_input_tokens > sent)
    by_status = Counter(manifest["status"] for manifest in manifests(result))
    assert by_status["handoff_required"] == result.handoffs < MOST_AGENTS
    assert by_status["stopped"] == by_status.total() - result.handoffs <= (result.state is not TaskState.DONE)


@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(
    responses=st.lists(st.lists(st.sampled_from(RESPONSES), min_size=2, max_size=5), min_size=2, max_size=4),
    faults=st.dictionaries(st.integers(1, 10), st.sampled_from(sorted(FAULTS)), min_size=1, max_size=2),
    deaths=st.dictionaries(st.integers(3, 14), st.sampled_from(DEATHS), min_size=1, max_size=2),
    choice=st.sampled_from(["more_budget", "skip_item", "stop"]),
)
async def test_whatever_happens_everything_is_accounted_for(
    rig: Rig, responses: list[list[str]], faults: dict[int, str], deaths: dict[int, str], choice: str
) -> None:
    source = rig.repository(a="start\n", b="start\n", c="start\n")
    with rig.api(Script(responses, faults)) as api, rig.around(Deaths(deaths)):
        handle = await rig.start(task(source, *ITEMS, outputBudget=4_000, maxAgents=MOST_AGENTS))
        result = await ended(handle, choice)
        assert_all_is_accounted_for(source, result, api)


TURNS = 300
STEADY = 0.1
"""How much the bytes of a turn may differ between the beginning and the end of a life."""


def steady(dialogue: Dialogue) -> Sequence[Block]:
    """One small edit per turn, for ever the same size."""
    if dialogue.turn == TURNS - 1:
        return [FINISH]
    before, after = f"{dialogue.turn:05d}", f"{dialogue.turn + 1:05d}"
    return [ToolUse("edit", {"file_path": "a.py", "old_string": before, "new_string": after})]


@pytest.mark.end_to_end
async def test_a_long_life_leaves_the_same_with_every_turn(rig: Rig) -> None:
    source = rig.repository(a="00000\n")
    with rig.api(Rules(steady)) as api:
        opened = await rig.run(task(source, owns=["a.py"]).model_copy(update={"plan_only": True}))
        assignment = Assignment(
            task_id=opened.task_id,
            task="Count",
            role=Role.EXECUTOR,
            name="executor-1-counter",
            model="claude-sonnet-5-5",
            budget=Budget(tokens=100_000),
            max_turns=TURNS + 1,
            workspace="step-1",
            start_commit=opened.base_commit,
            step=PlanStep(step=1, agent_type="counter", description="Count", owns=("a.py",)),
        )
        handle = await rig.client.start_workflow(
            AGENT_WORKFLOW, assignment, id=f"{opened.task_id}/step-1", task_queue=TASK_QUEUE, result_type=AgentResult
        )
        result = await handle.result()
        assert statuses(api) == {200: TURNS}
    assert (result.end, result.totals.turns, result.changed) == (AgentEnd.FINISHED, TURNS, ("a.py",))
    assert_even(await history_bytes_by_turn(rig, handle.id), "history")
    assert_even(blob_bytes_by_turn(rig, opened.task_id), "blobs")


def assert_even(sizes: Sequence[int], what: str) -> None:
    """Turns of the last third are as big as those of the first, the very first ones left out."""
    first, last = sizes[5 : TURNS // 3], sizes[-TURNS // 3 : -1]
    ratio = (sum(last) / len(last)) / (sum(first) / len(first))
    assert 1 - STEADY < ratio < 1 + STEADY, f"{what}: {ratio:.3f} of the bytes per turn at the beginning"


async def history_bytes_by_turn(rig: Rig, workflow_id: str) -> list[int]:
    """Bytes of history from one turn's activity to the next one's."""
    sizes: list[int] = []
    async for event in rig.client.get_workflow_handle(workflow_id).fetch_history_events():
        attributes = event.activity_task_scheduled_event_attributes
        if attributes.activity_type.name == "execute_step":
            sizes.append(0)
        if sizes:
            sizes[-1] += event.ByteSize()
    return sizes


def blob_bytes_by_turn(rig: Rig, task_id: str) -> list[int]:
    """Bytes of the blobs in the order in which they were made; each turn makes one."""
    blobs = [path.stat() for path in (rig.folder_of(task_id).path / "store" / "blobs").glob("*/*")]
    return [facts.st_size for facts in sorted(blobs, key=lambda facts: facts.st_mtime_ns)][1:]

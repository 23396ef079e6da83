"""Every way a response can fail or end, one after the other, in one run over real processes: nothing is lost, nothing
is done twice, and every item is changed exactly once."""

from collections.abc import Sequence
from pathlib import Path
from threading import Lock

import pytest
from temporalio.client import WorkflowFailureError

from baton.states import TaskState
from emulator.dialogue import read_dialogue
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
from tests.end_to_end.bench import Bench, Rules, git, repository, run, start, statuses, task
from tests.workflows.rig import until
from tests.workflows.test_siblings import NAMES, finished, side_by_side, troubled

pytestmark = pytest.mark.end_to_end

FAULTS: tuple[Fault, ...] = (
    HttpError(529, "overloaded_error"),
    HttpError(500, "api_error"),
    HttpError(429, "rate_limit_error", headers={"retry-after": "1"}),
    HttpError(408, "timeout_error"),
    Cut(),
    Cut(after_events=3),
    Cut(after_events=10_000),
    BadData(after_events=2),
    ErrorEvent("overloaded_error"),
    ErrorEvent("api_error"),
    NoMessageStop(1),
    NoMessageStop(2),
)
LONG = "x\n" * 9_000
ENDINGS: tuple[Reply, ...] = (
    Reply([Text("I will look at it now.")]),
    Reply([Text("Shall I go on?")]),
    Reply([]),
    Reply([Thinking("Hm.")]),
    Reply([Text('{"tool": "edit", "file_path": "a.py"}')]),
    Reply([ToolUse("edit", '{"file_path": "m0.py", "old_str')], stop_reason="end_turn"),
    Reply([ToolUse("no_such_tool", {})]),
    Reply([ToolUse("edit", {"file_path": None})]),
    Reply([ToolUse("read", {"file_path": "../outside"})]),
    Reply([Text("A thought too long. " * 4_000)]),
    Reply(
        [ToolUse("read", {"file_path": "m0.py"}), ToolUse("write", {"file_path": "m0.py", "content": "x\n" * 9_000})]
    ),
    Reply([], stop_reason="model_context_window_exceeded"),
)


class Unlucky:
    """Edits one item after the other; before each good turn comes one bad answer of the list."""

    def __init__(self) -> None:
        self._bad: list[Reply] = [*ENDINGS, *(Reply([Text("lost")], fault=fault) for fault in FAULTS)]
        self._lock = Lock()
        self._good = False

    def respond(self, request: Request) -> Reply:
        """A bad answer, then a good one, in turn."""
        dialogue = read_dialogue(request)
        if dialogue.told("budget_95"):
            return Reply([ToolUse("hand_off", {"notes": "go on"})])
        with self._lock:
            self._good = not self._good
            if not self._good and self._bad:
                return self._bad.pop(0)
        done = {call.input["item"] for call in dialogue.done("complete_item")}
        left = [item for item in dialogue.assignment["items"] if item not in done]
        return Reply(_next(left))


def _next(left: Sequence[str]) -> Sequence[Block]:
    if not left:
        return [ToolUse("finish_step", {"status": "ok", "summary": "all edited"})]
    edit = {"file_path": left[0], "old_string": "old", "new_string": "new"}
    return [ToolUse("edit", edit), ToolUse("complete_item", {"item": left[0]})]


async def test_every_fault_and_every_ending_in_one_run(bench: Bench, tmp_path: Path) -> None:
    names = [f"m{number}.py" for number in range(30)]
    source = repository(tmp_path / "project", dict.fromkeys(names, "old = 1\n"))
    model = Unlucky()
    with bench.api(model) as api:
        result = await run(await bench.client(), task(source, *names, maxAgents=20, outputBudget=8_000), "unlucky")
        seen = statuses(api)
    assert model._bad == []
    assert (result.state, result.items.changed) == (TaskState.DONE, len(names))
    assert [git(source, "show", f"{result.ref}:{name}") for name in names] == ["new = 1\n"] * len(names)
    assert 400 not in seen
    assert result.handoffs >= 3


async def test_agents_in_trouble_take_no_sibling_down(bench: Bench, tmp_path: Path) -> None:
    """One hangs, one is refused each time, one is cut off each time: the rest is done, and stays when the task ends."""
    source = repository(tmp_path / "siblings", {f"{name}.py": "old = 1\n" for name in NAMES})
    with bench.api(Rules(troubled)):
        handle = await start(await bench.client(), side_by_side(source, outputBudget=4_000), "siblings")
        now = await until(handle, lambda now: len(now.attention) == 2 and finished(now) >= {1, 5, 6})
        assert {item.step for item in now.attention} == {3, 4}
        assert next(step.state for step in now.steps if step.step == 2) == "running"
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
    branch = "baton/siblings"
    assert [git(source, "show", f"{branch}:{name}.py") for name in ("well", "fine", "after")] == ["new = 1\n"] * 3
    assert git(source, "show", f"{branch}:hangs.py") == "old = 1\n"

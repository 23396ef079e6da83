"""The model of the measurements: it edits its items, so many per turn, each answer takes the same time, and every
call is remembered. What lies between an answer and the next call of its agent is the orchestrator's own."""

import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from baton.messages import TaskInput
from baton.plan import DraftStep, HandoffStrategy, PlanDraft
from emulator.dialogue import Dialogue, read_dialogue
from emulator.reply import Block, Reply, Text, ToolUse
from emulator.request import Request
from tests.end_to_end.bench import git, task

MARKER = "old"


@dataclass(frozen=True)
class Call:
    """One call: whose, when it came, and when its answer is over (seconds of the monotonic clock)."""

    agent: str
    begun: float
    ended: float


class Paced:
    """Answers take `seconds`, over which their tokens come, and finish `items_per_turn` items of the assignment."""

    def __init__(self, seconds: float = 0, items_per_turn: int = 1) -> None:
        self._seconds = seconds
        self._items_per_turn = items_per_turn
        self._lock = threading.Lock()
        self.calls: list[Call] = []

    def respond(self, request: Request) -> Reply:
        """The next turn of the agent."""
        begun = time.monotonic()
        blocks = editing(read_dialogue(request), self._items_per_turn)
        with self._lock:
            self.calls.append(Call(request.user_id or "", begun, max(time.monotonic(), begun + self._seconds)))
        return Reply(blocks, seconds=self._seconds)

    @property
    def seconds(self) -> float:
        """From the first call to the end of the last answer."""
        return max(call.ended for call in self.calls) - min(call.begun for call in self.calls)

    @property
    def longest_life(self) -> float:
        """The model time of the agent that asked most often: no schedule can be faster where agents do not wait for
        each other."""
        lives = self.by_agent().values()
        return max(sum(call.ended - call.begun for call in life) for life in lives)

    def by_agent(self) -> dict[str, list[Call]]:
        """The calls of each agent, in order of time."""
        found: dict[str, list[Call]] = defaultdict(list)
        for call in sorted(self.calls, key=lambda call: call.begun):
            found[call.agent].append(call)
        return found

    def gaps(self) -> list[float]:
        """Seconds from each answer to the next call of the same agent."""
        return [after.begun - before.ended for life in self.by_agent().values() for before, after in pairwise(life)]


def editing(dialogue: Dialogue, number: int) -> Sequence[Block]:
    """Edit and complete the next items; the last turn also finishes the step."""
    done = {call.input["item"] for call in dialogue.done("complete_item")}
    left = [item for item in dialogue.assignment["items"] if item not in done]
    blocks: list[Block] = [Text(f"{len(left)} items are left; I go on with the next.")]
    for item in left[:number]:
        blocks.append(ToolUse("edit", {"file_path": item, "old_string": MARKER, "new_string": "new"}))
        blocks.append(ToolUse("complete_item", {"item": item}))
    if len(left) <= number:
        blocks.append(ToolUse("finish_step", {"status": "ok", "summary": "all items are edited"}))
    return blocks


def project(folder: Path, names: Sequence[str]) -> Path:
    """A repository whose only commit holds these files, each with the text that is edited."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{MARKER} = {name!r}\n" + "# one of many lines\n" * 20, encoding="utf-8")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "as it was")
    return folder


def side_by_side(folder: Path, agents: int, turns: int) -> TaskInput:
    """A task of so many independent steps, one agent each, an item for each turn."""
    items = [[f"step{n}/item{k}.py" for k in range(turns)] for n in range(agents)]
    project(folder, [item for step in items for item in step])
    steps = [_step(n, step) for n, step in enumerate(items, 1)]
    return _task(folder, steps, agents)


def one_after_another(folder: Path, steps: int, turns: int) -> TaskInput:
    """A task whose steps each wait for the one before."""
    items = [[f"step{n}/item{k}.py" for k in range(turns)] for n in range(steps)]
    project(folder, [item for step in items for item in step])
    return _task(folder, [_step(n, step, (n - 1,) * (n > 1)) for n, step in enumerate(items, 1)], 1)


def in_shards(folder: Path, items: int, tokens_per_item: int, agents: int) -> TaskInput:
    """A task of one step whose items are cut into shards."""
    names = [f"part{n // 100}/item{n}.py" for n in range(items)]
    project(folder, names)
    step = DraftStep(
        step=1,
        agent_type="editor",
        description="Edit the files",
        items=tuple(names),
        handoff_strategy=HandoffStrategy.PARALLEL,
        estimated_output_tokens=tokens_per_item * items,
    )
    return _task(folder, [step], agents)


def _step(number: int, items: Sequence[str], depends_on: tuple[int, ...] = ()) -> DraftStep:
    return DraftStep(
        step=number, agent_type="editor", description="Edit the files", items=tuple(items), depends_on=depends_on
    )


def _task(folder: Path, steps: Sequence[DraftStep], agents: int) -> TaskInput:
    plan = PlanDraft(plan=tuple(steps), execution_strategy="parallel")
    given = task(folder, maxAgents=1000, maxParallelAgents=agents, review="never")
    return given.model_copy(update={"plan": plan})

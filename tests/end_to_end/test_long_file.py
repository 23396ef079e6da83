"""Outputs longer than a whole budget, through real processes: a long new file gets written by many agents as one would
write it, and an oversized rewrite leaves its file as it was and is not tried a third time."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from baton.states import TaskState
from baton.status import TaskResult, TaskStatus
from cli.exits import ExitCode
from cli.outcome import exit_code
from cli.tasks import Ending
from emulator.dialogue import Dialogue
from emulator.reply import Block, ToolUse
from emulator.server import EmulatorServer
from tests.end_to_end.bench import Bench, Rules, git, repository, run, start, statuses, task

pytestmark = pytest.mark.end_to_end

LONG_BYTES = 400_000
MOST_AGENTS = 80
FINISH = ToolUse("finish_step", {"status": "ok", "summary": "written"})


def long_text(least_bytes: int) -> str:
    """Lines of different lengths, with quotes, tabs and letters beyond ASCII, so that cuts fall everywhere."""
    lines: list[str] = []
    size = 0
    while size < least_bytes:
        number = len(lines)
        lines.append(f'{number:05d}\t"entry": [{number * 7919 % 10_007}, "é\\n{"·" * (number % 23)}"],\n')
        size += len(lines[-1].encode())
    return "".join(lines)


LONG = long_text(LONG_BYTES)
LINES = LONG.splitlines(keepends=True)


def writing(dialogue: Dialogue) -> Sequence[Block]:
    """Writes all that is left at once, as a model does that does not count: only its budget ends it."""
    if dialogue.told("budget_95"):
        return [ToolUse("hand_off", {})]
    if dialogue.done("append"):
        return [FINISH]
    begun = (dialogue.assignment["manifest"] or {}).get("in_progress_item") or {}
    at_line = begun.get("line_number") or 0
    if at_line == 0:
        return [ToolUse("write", {"file_path": "long.txt", "content": LONG})]
    return [ToolUse("append", {"file_path": "long.txt", "at_line": at_line, "content": "".join(LINES[at_line:])})]


async def test_a_file_longer_than_many_budgets(bench: Bench, tmp_path: Path) -> None:
    source = repository(tmp_path / "project", {"README": "A long file is to be written.\n"})
    given = task(source, owns=["long.txt"], outputBudget=4_000, maxAgents=MOST_AGENTS)
    with bench.api(Rules(writing)) as api:
        result = await run(await bench.client(), given, "long-file")
        assert statuses(api).keys() == {200}
    assert result.state is TaskState.DONE
    assert git(source, "show", f"{result.ref}:long.txt") == LONG
    assert LONG_BYTES / 8_000 < result.agents == result.handoffs + 1 <= MOST_AGENTS
    assert result.usage.output_tokens == sum(e.usage["output_tokens"] for e in api.requests if e.usage)


BIG = long_text(30_000)


def rewriting(dialogue: Dialogue) -> Sequence[Block]:
    """Edits small.txt, and writes big.txt as a whole whatever it is told."""
    if dialogue.told("budget_95"):
        return [ToolUse("hand_off", {"notes": "big.txt has to be written as a whole"})]
    done = {call.input["item"] for call in dialogue.done("complete_item")}
    left = [item for item in dialogue.assignment["items"] if item not in done]
    if left[:1] == ["big.txt"]:
        return [ToolUse("write", {"file_path": "big.txt", "content": BIG.upper()})]
    if left:
        return [ToolUse("edit", {"file_path": left[0], "old_string": "old", "new_string": "new"}), *completed(left[0])]
    return [FINISH]


def completed(item: str) -> Sequence[Block]:
    return [ToolUse("complete_item", {"item": item})]


def oversized_calls(api: EmulatorServer) -> int:
    """How many responses were cut at their limit."""
    return sum(exchange.stop_reason == "max_tokens" for exchange in api.requests)


async def answered(bench: Bench, folder: Path, items: Sequence[str], task_id: str, choice: str) -> TaskResult:
    """A run whose agents make no progress with big.txt, after a person's answer."""
    source = repository(folder / "project", {"big.txt": BIG, "small.txt": "old\n"})
    with bench.api(Rules(rewriting)) as api:
        handle = await start(await bench.client(), task(source, *items, outputBudget=4_000), task_id)
        async with asyncio.timeout(60):
            while not (now := await handle.query("status", result_type=TaskStatus)).attention:
                await asyncio.sleep(0.1)
        (asked,) = now.attention
        assert asked.kind == "no_progress"
        assert "big.txt" in asked.question
        assert oversized_calls(api) == 2
        await handle.signal("answer", {"attention_id": asked.id, "choice": choice})
        result = await handle.result()
        assert oversized_calls(api) == 2
        assert statuses(api).keys() == {200}
    assert git(source, "show", f"{result.ref or 'main'}:big.txt") == BIG
    assert (source / "big.txt").read_text(encoding="utf-8") == BIG
    return result


async def test_an_oversized_rewrite_that_a_person_stops(bench: Bench, tmp_path: Path) -> None:
    result = await answered(bench, tmp_path, ["big.txt"], "rewrite-stop", "stop")
    assert result.state in {TaskState.FAILED, TaskState.PARTIAL}
    assert exit_code(Ending(result.state, result)) in {ExitCode.FAILED, ExitCode.PARTIAL}
    assert result.ref is None
    assert result.items.open == 1


async def test_an_oversized_rewrite_after_something_was_done(bench: Bench, tmp_path: Path) -> None:
    result = await answered(bench, tmp_path, ["small.txt", "big.txt"], "rewrite-partial", "stop")
    assert result.state is TaskState.PARTIAL
    assert exit_code(Ending(result.state, result)) is ExitCode.PARTIAL
    assert (result.items.changed, result.items.open) == (1, 1)


async def test_an_oversized_rewrite_that_a_person_skips(bench: Bench, tmp_path: Path) -> None:
    result = await answered(bench, tmp_path, ["big.txt", "small.txt"], "rewrite-skip", "skip_item")
    assert result.state is TaskState.PARTIAL
    assert exit_code(Ending(result.state, result)) is ExitCode.PARTIAL
    assert (result.items.changed, result.items.skipped, result.items.open) == (1, 1, 0)

"""Tasks that are terminated, and tasks that the server has forgotten: their end is told, once, by the worker."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from activities.closed_tasks import ClosedTasks
from baton import trace
from baton.states import TaskState
from emulator.dialogue import Dialogue
from emulator.reply import Block, ToolUse
from tests.end_to_end.bench import Handle, Rules, task
from tests.end_to_end.test_kills import own_namespace
from tests.workflows.rig import Rig, answer, attention
from workflows.orchestration import OrchestrationWorkflow

pytestmark = pytest.mark.asyncio(loop_scope="module")


def finishes(dialogue: Dialogue) -> Sequence[Block]:
    """One step, done at once."""
    if dialogue.turn:
        return [ToolUse("finish_step", {"status": "ok", "summary": "done"})]
    item = dialogue.assignment["items"][0]
    return [
        ToolUse("append", {"file_path": item, "content": "b\n", "at_line": 1}),
        ToolUse("complete_item", {"item": item}),
    ]


def asks(dialogue: Dialogue) -> Sequence[Block]:
    """A planner that waits for an answer."""
    return [ToolUse("ask_user", {"question": "Which one?", "options": ["this", "that"]})]


def closed(folder: Path) -> list[str]:
    """How the trace says that the task ended; each line as it was written."""
    rows = [json.loads(row) for row in (folder / trace.NAME).read_text().splitlines()]
    return [row["outcome"] for row in rows if row["kind"] == "closed"]


async def waiting(rig: Rig) -> Handle:
    """A task that waits for an approval."""
    handle = await rig.start(task(rig.repository(a="a\n"), "a.py", requireApproval=True, approvePhases=["planning"]))
    await attention(handle)
    return handle


async def test_a_terminated_task_gets_its_last_line_and_its_timeline_once(rig: Rig) -> None:
    with rig.api(Rules(finishes)):
        handle = await waiting(rig)
        look = ClosedTasks(rig.tasks, rig.client).look
        artifacts = rig.folder_of(handle.id).artifacts
        (artifacts / trace.NAME).touch()
        await look()
        assert closed(artifacts) == []
        await handle.terminate("no more")
        await look()
        await look()
        assert closed(artifacts) == ["terminated"]
        (line,) = trace.parse((artifacts / trace.NAME).read_text()).of("closed")
        assert line.at == (await handle.describe()).close_time.replace(microsecond=line.at.microsecond)
        assert "terminated" in (artifacts / "timeline.html").read_text()


async def test_an_agent_at_work_when_its_task_is_terminated_is_told_ended_once(rig: Rig) -> None:
    with rig.api(Rules(asks)):
        handle = await rig.start(task(rig.repository(a="a\n"), "a.py").model_copy(update={"plan": None}))
        await attention(handle)
        artifacts = rig.folder_of(handle.id).artifacts
        agent = next(line.agent for line in trace.parse((artifacts / trace.NAME).read_text()).of("started"))
        await handle.terminate("no more")
        for _ in range(2):
            await ClosedTasks(rig.tasks, rig.client).look()
        at = (await handle.describe()).close_time
    told = trace.parse((artifacts / trace.NAME).read_text())
    (ended,) = told.of("ended")
    assert (ended.agent, ended.role, ended.step, ended.outcome) == (agent, "planner", None, "lost")
    assert abs((ended.at - at).total_seconds()) < 1
    assert (artifacts / trace.NAME).read_text().count('"ended"') == 1
    page = (artifacts / "timeline.html").read_text()
    assert '<span class="ending' in page
    assert "lost" in page


async def test_what_waited_for_a_person_is_told_of_a_terminated_task_too(rig: Rig) -> None:
    """Nothing was kept since: it is asked of the workflow as it stood."""
    with rig.api(Rules(asks)):
        handle = await rig.start(task(rig.repository(a="a\n"), "a.py").model_copy(update={"plan": None}))
        asked = await attention(handle)
        for signal in (OrchestrationWorkflow.pause, OrchestrationWorkflow.unpause):
            await handle.signal(signal)
        await handle.terminate("no more")
        for _ in range(2):
            await ClosedTasks(rig.tasks, rig.client).look()
    artifacts = rig.folder_of(handle.id).artifacts
    told = trace.parse((artifacts / trace.NAME).read_text())
    assert sorted((line.name, line.outcome) for line in told.of("attention")) == [("pause", ""), ("question", "open")]
    (question,) = [line for line in told.of("attention") if line.name == "question"]
    (end,) = told.of("closed")
    assert (question.asked, question.at) == (asked.since, end.at)
    assert (artifacts / trace.NAME).read_text().count('"attention"') == 2
    assert told.lines[-1].kind == "closed"
    page = (artifacts / "timeline.html").read_text()
    assert page.count("waited for a person: question") + page.count("waits for a person: question") == 1


async def test_a_task_that_ends_by_itself_says_so_itself(rig: Rig) -> None:
    with rig.api(Rules(finishes)):
        handle = await waiting(rig)
        await answer(handle, await attention(handle), "approve")
        result = await handle.result()
    assert result.state is TaskState.DONE
    await ClosedTasks(rig.tasks, rig.client).look()
    assert closed(Path(result.artifacts)) == ["done"]
    # An earlier version settled nothing: the end is not told once more, and not asked for again.
    folder = rig.folder_of(handle.id)
    key = f"over/{folder.record.run_id}"
    folder.store._entry_path(key).unlink()
    await ClosedTasks(rig.tasks, rig.client).look()
    assert closed(Path(result.artifacts)) == ["done"]
    assert folder.store.entry(key) is not None


async def test_what_the_server_has_forgotten_is_over_and_no_deleted_repository_comes_back(
    rig: Rig, temporal_address: str
) -> None:
    with rig.api(Rules(finishes)):
        kept, gone = await waiting(rig), await waiting(rig)
        places = {handle.id: rig.folder_of(handle.id).artifacts for handle in (kept, gone)}
        for handle in (kept, gone):
            await handle.terminate("no more")
        (places[gone.id]).rename(rig.folder / "moved")
        # Another namespace knows nothing of them, as a server would that lost its database.
        await ClosedTasks(rig.tasks, await own_namespace(rig.client, "emptied", temporal_address)).look()
        assert closed(places[kept.id]) == ["forgotten"]
        # The server that knows it is still believed.
        await ClosedTasks(rig.tasks, rig.client).look()
        await ClosedTasks(rig.tasks, rig.client).look()
        assert closed(places[kept.id]) == ["forgotten", "terminated"]
        assert not places[gone.id].exists()


async def test_a_task_whose_end_cannot_be_told_holds_no_other_up(rig: Rig) -> None:
    with rig.api(Rules(finishes)):
        handles = sorted([await waiting(rig), await waiting(rig)], key=lambda handle: handle.id)
        damaged, whole = (rig.folder_of(handle.id).artifacts for handle in handles)
        for handle in handles:
            await handle.terminate("no more")
        (damaged / trace.NAME).unlink(missing_ok=True)
        (damaged / trace.NAME).mkdir()
        await ClosedTasks(rig.tasks, rig.client).look()
        assert closed(whole) == ["terminated"]
        (damaged / trace.NAME).rmdir()
        await ClosedTasks(rig.tasks, rig.client).look()
        assert closed(damaged) == ["terminated"]

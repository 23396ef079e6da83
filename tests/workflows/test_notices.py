"""A person is told when a task begins to wait and when it has ended; nothing depends on whether that works."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from baton.states import TaskState
from tests.end_to_end.bench import Rules, task
from tests.workflows.rig import Rig, answer, attention
from tests.workflows.test_agent_workflow import ITEMS, assert_all_edited, editing, three_files

pytestmark = pytest.mark.asyncio(loop_scope="module")


def told(folder: Path, number: int) -> tuple[list[str], dict[str, Any]]:
    """What a notice had: its variables, and the JSON on its input."""
    variables, _, given = (folder / f"{number}").read_text().partition("--\n")
    return variables.splitlines(), json.loads(given)


def keeping(folder: Path) -> str:
    """A command that keeps everything it is told, a file for each time."""
    folder.mkdir()
    place = shlex.quote(str(folder))
    write = 'printf "%s\\n" "$BATON_EVENT" "$BATON_TASK_ID" "$BATON_TEXT" "${ANTHROPIC_API_KEY-none}" --; cat'
    return f"n=$(ls {place} | wc -l); {{ {write}; }} > {place}/$n"


async def test_a_command_is_told_what_is_asked_and_how_it_ended(rig: Rig, tmp_path: Path) -> None:
    source, folder = three_files(rig), tmp_path / "it's told"
    with rig.api(Rules(editing)):
        handle = await rig.start(task(source, *ITEMS, notify=keeping(folder), limits={"modelCalls": 1}))
        await answer(handle, await attention(handle), "integrate")
        result = await handle.result()
    variables, given = told(folder, 0)
    assert variables[:2] == ["waiting", handle.id]
    assert variables[2].startswith("The limit of 1 model call is reached")
    assert variables[3] == "none"
    assert (given["kind"], given["attention_id"], given["choices"]) == (
        "limit",
        "limit-1",
        ["raise", "integrate", "stop"],
    )
    variables, given = told(folder, 1)
    assert variables[0] == "ended"
    assert (given["state"], given["text"]) == (str(result.state), f"partial: {result.summary}")
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("command", ["echo no such bell; exit 3", "/no/such/program"])
async def test_a_notice_that_fails_is_a_warning_only(rig: Rig, command: str) -> None:
    source = three_files(rig)
    with rig.api(Rules(editing)):
        handle = await rig.start(task(source, *ITEMS, notify=command))
        result = await handle.result()
    assert_all_edited(source, result)
    found = await handle.query("status")
    (warning,) = [text for text in found["warnings"] if "notify" in text]
    assert "it ended with 3: no such bell" in warning or "127" in warning


async def test_what_a_failed_notice_printed_is_told_without_secrets(rig: Rig) -> None:
    source = three_files(rig)
    (Path(source) / ".env").write_text("HOOK_TOKEN=quite-a-long-value-of-9471\n")
    with rig.api(Rules(editing)):
        handle = await rig.start(task(source, *ITEMS, notify="cat .env; exit 3"))
        await handle.result()
    found = await handle.query("status")
    (warning,) = [text for text in found["warnings"] if "notify" in text]
    assert "HOOK_TOKEN" in warning
    assert "9471" not in warning


async def test_without_the_setting_nobody_is_told(rig: Rig) -> None:
    source = three_files(rig)
    with rig.api(Rules(editing)):
        handle = await rig.start(task(source, *ITEMS))
        assert (await handle.result()).state is TaskState.DONE
    history = await handle.fetch_history()
    assert "notify" not in history.to_json()

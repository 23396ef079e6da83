"""Submodules through a whole task: agents see them, a missing one is a warning."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from baton.states import TaskState
from emulator.dialogue import Dialogue
from emulator.reply import Block, ToolUse
from tests.end_to_end.bench import Rules, git, repository, task, tree
from tests.workflows.rig import Rig, status

pytestmark = pytest.mark.asyncio(loop_scope="module")

FINISH = ToolUse("finish_step", {"status": "ok", "summary": "done"})


def copying(dialogue: Dialogue) -> Sequence[Block]:
    """Puts into its item what the submodule says."""
    if not dialogue.calls:
        return [ToolUse("read", {"file_path": "vendor/words.txt"})]
    if len(dialogue.calls) > 1:
        return [FINISH]
    words = dialogue.calls[0].result.rstrip("\n")
    change = ToolUse("append", {"file_path": "a.py", "at_line": 1, "content": f"# {words}\n"})
    return [change, ToolUse("complete_item", {"item": "a.py"})]


def with_submodules(rig: Rig) -> Path:
    folder = rig.folder / f"with-submodules-{next(rig.numbers)}"
    library = repository(folder / "library", {"words.txt": "from the library\n"})
    source = repository(folder / "source", {"a.py": "# a\n"})
    for place in ("vendor", "gone"):
        git(source, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), place)
    git(source, "commit", "-qm", "submodules")
    git(source, "submodule", "deinit", "-q", "-f", "gone")
    return source


async def test_agents_see_submodules(rig: Rig) -> None:
    source = with_submodules(rig)
    with rig.api(Rules(copying)):
        handle = await rig.start(task(source, "a.py"))
        result = await handle.result()
    assert result.state is TaskState.DONE
    assert git(source, "show", f"{result.ref}:a.py") == "# a\n# from the library\n"
    links = {path for path, facts in tree(source, str(result.ref)).items() if facts.startswith("160000")}
    assert links == {"vendor", "gone"}
    assert any("not on this host: gone." in warning for warning in (await status(handle)).warnings)
    done = subprocess.run(["git", "status", "--porcelain"], cwd=source, capture_output=True, text=True, check=True)
    assert done.stdout == ""

"""Submodules and Git LFS through a whole task: agents see them, what is missing is a warning."""

import hashlib
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


def pointer(content: str) -> str:
    digest = hashlib.sha256(content.encode()).hexdigest()
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {len(content)}\n"


def stored(source: Path, content: str) -> Path:
    oid = hashlib.sha256(content.encode()).hexdigest()
    return source / ".git/lfs/objects" / oid[:2] / oid[2:4] / oid


def extending(dialogue: Dialogue) -> Sequence[Block]:
    """Adds to its item what another file, which is in Git LFS, says."""
    if not dialogue.calls:
        return [ToolUse("read", {"file_path": "words.txt"}), ToolUse("read", {"file_path": "gone.txt"})]
    if len(dialogue.calls) > 2:
        return [FINISH]
    words = dialogue.calls[0].result.rstrip("\n")
    change = ToolUse("append", {"file_path": "a.txt", "at_line": 1, "content": f"{words}\n"})
    return [change, ToolUse("complete_item", {"item": "a.txt"})]


async def test_agents_see_and_change_files_in_lfs(rig: Rig) -> None:
    files = {"a.txt": "a\n", "words.txt": "from the store\n", "gone.txt": "gone\n"}
    pointers = {name: pointer(content) for name, content in files.items()}
    attributes = "*.txt filter=lfs diff=lfs merge=lfs -text\n"
    source = repository(rig.folder / f"lfs-{next(rig.numbers)}", {".gitattributes": attributes, **pointers})
    for name in ("a.txt", "words.txt"):
        stored(source, files[name]).parent.mkdir(parents=True)
        stored(source, files[name]).write_text(files[name])
    with rig.api(Rules(extending)):
        handle = await rig.start(task(source, "a.txt"))
        result = await handle.result()
    assert result.state is TaskState.DONE
    changed = "a\nfrom the store\n"
    assert git(source, "show", f"{result.ref}:a.txt") == pointer(changed)
    assert git(source, "diff", "--name-only", "main", str(result.ref)) == "a.txt\n"
    assert stored(source, changed).read_text() == changed
    warnings = (await status(handle)).warnings
    assert any("not whole: gone.txt." in warning for warning in warnings)
    assert any("1 new object in " in warning for warning in warnings)

"""Submodules and Git LFS through a whole task: agents see them, what is missing is a warning."""

import hashlib
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from baton.plan import DraftStep, PlanDraft
from baton.states import TaskState
from baton.status import TaskResult
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


def writing_inside(dialogue: Dialogue) -> Sequence[Block]:
    """Writes into submodules, filled and empty, by every means."""
    if not dialogue.calls:
        refused = [
            ToolUse("write", {"file_path": "gone/new.txt", "content": "lost\n"}),
            ToolUse("append", {"file_path": "vendor/words.txt", "content": "lost\n", "at_line": 1}),
            ToolUse("edit", {"file_path": "vendor/words.txt", "old_string": "from", "new_string": "to"}),
        ]
        commands = [
            "mkdir -p vendor/__pycache__; touch vendor/__pycache__/x",
            "echo lost > gone/z.txt; rm vendor/words.txt",
        ]
        change = ToolUse("append", {"file_path": "a.py", "at_line": 1, "content": "# b\n"})
        ran = [ToolUse("bash", {"command": command}) for command in commands]
        return [*refused, *ran, change, ToolUse("complete_item", {"item": "a.py"})]
    return [FINISH]


def issues_of(result: TaskResult) -> list[str]:
    return [issue["issue"] for issue in json.loads((Path(result.artifacts) / "issues.json").read_text())]


async def test_nothing_is_written_into_submodules_without_a_word(rig: Rig) -> None:
    source = with_submodules(rig)
    with rig.api(Rules(writing_inside)) as api:
        result = await rig.run(task(source, "a.py"))
        said = str(api.bodies)
    assert result.state is TaskState.DONE
    assert git(source, "diff", "--name-only", "main", str(result.ref)) == "a.py\n"
    for path, submodule in (("gone/new.txt", "gone"), ("vendor/words.txt", "vendor")):
        assert f"{path} is in the submodule {submodule} and was not changed" in said
    assert "A command changed gone/z.txt and 1 other file in a submodule" in said
    assert issues_of(result) == [
        "step 1: left out of the result, because it is in a submodule: gone/z.txt, vendor/",
    ]


async def test_what_a_command_step_writes_into_submodules_is_told(rig: Rig) -> None:
    source = with_submodules(rig)
    command = "echo '# b' >> {item}; echo lost > vendor/words.txt"
    step = DraftStep(step=1, agent_type="x", description="Run it", items=("a.py",), run=command)
    with rig.api(Rules(writing_inside)):
        result = await rig.run(task(source).model_copy(update={"plan": PlanDraft(plan=(step,))}))
    assert git(source, "diff", "--name-only", "main", str(result.ref)) == "a.py\n"
    assert issues_of(result) == ["left out of the result, because it is in a submodule: vendor/words.txt"]


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

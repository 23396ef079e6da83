"""`@outputs/…` through the file tools: written whole, kept apart from the workspace, no way out, no secret in."""

import os
from pathlib import Path

import pytest

from activities.outputs import MOST_BYTES, Outputs
from activities.secret_guard import SecretGuard
from activities.tool_result import ToolResult
from activities.tools import Tools
from baton.ownership import Ownership
from baton.permissions import Permissions

SECRET = "sk-ant-0123456789abcdef"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "workspace").mkdir()
    return tmp_path


def tools(folder: Path, step: int | None = 2) -> Tools:
    environment = {"PATH": os.environ["PATH"]}
    return Tools(
        folder / "workspace",
        ownership=Ownership(),
        permissions=Permissions(),
        environment=environment,
        guard=SecretGuard(folder / "workspace", environment=environment, credentials=[SECRET]),
        outputs=Outputs(folder / "outputs", step, folder / "artifacts" / "outputs"),
    )


async def write(folder: Path, path: str, content: str = "text\n", step: int | None = 2) -> ToolResult:
    return await tools(folder, step).call("write", {"file_path": path, "content": content})


async def test_a_later_step_reads_what_an_earlier_one_wrote(folder: Path) -> None:
    done = await write(folder, "@outputs/2/plans/order.json", f'{{"a": "{SECRET}"}}\n')
    assert (done.is_error, done.changed_paths) == (False, ())
    copy = folder / "artifacts" / "outputs" / "2" / "plans" / "order.json"
    assert copy.read_text() == '{"a": "[secret]"}\n'
    read = await tools(folder, 3).call("read", {"file_path": "@outputs/2/plans/order.json"})
    assert (read.content, read.read_paths) == ('{"a": "[secret]"}\n', ())
    assert not list((folder / "workspace").iterdir())


async def test_a_name_alone_is_the_own_step(folder: Path) -> None:
    await write(folder, "@outputs/notes.md")
    assert (await tools(folder).call("read", {"file_path": "@outputs/2/notes.md"})).content == "text\n"


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("@outputs/1/x", "write outputs of this step as @outputs/2/<name>"),
        ("@outputs/2/../1/x", "write outputs of this step"),
        ("@outputs/2/../../escape", "outside"),
        ("@outputs/2/../../../escape", "outside"),
        ("@outputs", "write outputs of this step"),
        ("@outputs/2/.git/config", "git's own files"),
    ],
)
async def test_writes_stay_with_the_step(folder: Path, path: str, named: str) -> None:
    done = await write(folder, path)
    assert done.is_error
    assert named in done.content
    assert not list(folder.glob("**/escape"))


async def test_who_may_not_and_what_is_too_much(folder: Path) -> None:
    assert "leaves no outputs" in (await write(folder, "@outputs/2/x", step=None)).content
    assert "at most" in (await write(folder, "@outputs/2/x", "x" * (MOST_BYTES + 1))).content
    await write(folder, "@outputs/2/x")
    edit = {"file_path": "@outputs/2/x", "old_string": "t", "new_string": "u"}
    assert "written whole" in (await tools(folder).call("edit", edit)).content
    missing = await tools(folder).call("read", {"file_path": "@outputs/1/y"})
    assert "There are: @outputs/2/x." in missing.content

"""The tool calls of one turn on real files, real git and real processes."""

import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from activities import commands
from activities.confinement import is_git_name
from activities.secret_guard import SecretGuard
from activities.text_files import RESULT_LIMIT_BYTES, cut_middle, replace
from activities.tools import ToolResult, Tools
from baton.ownership import Ownership
from baton.permissions import Permissions

ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": os.devnull}
MakeTools = Callable[..., Tools]


def git(root: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=T", "-c", "user.email=t@example.invalid", *arguments]
    done = subprocess.run(command, cwd=root, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work space"
    folder.mkdir()
    git(folder, "init", "-q")
    return folder


@pytest.fixture
def tools(root: Path) -> Tools:
    return make(root)


def make(root: Path, **changes: Any) -> Tools:
    chosen: dict[str, Any] = {
        "ownership": Ownership(),
        "permissions": Permissions(),
        "environment": ENVIRONMENT,
        "sandbox_mode": "off",
    }
    return Tools(root, **{**chosen, **changes})


def put(root: Path, path: str, data: bytes | str) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data if isinstance(data, bytes) else data.encode())
    return file


def refused(result: ToolResult, *parts: str) -> None:
    assert result.is_error
    assert result.changed_paths == ()
    assert all(part in result.content for part in parts), result.content


# read


async def test_read_gives_the_text_exactly(root: Path, tools: Tools) -> None:
    text = "a\r\nb\n\tü\n\n"
    put(root, "src/a b.py", text)
    result = await tools.call("read", {"file_path": "src/a b.py"})
    assert result == ToolResult(content=text, read_paths=("src/a b.py",))
    absolute = await tools.call("read", {"file_path": str(root / "src/a b.py")})
    assert absolute == result


@pytest.mark.parametrize(
    ("view_range", "expected"),
    [([1, 1], "1"), ([2, 3], "2\n3"), ([3, -1], "3\n4\n"), ([0, 1], "1"), ([5, 9], ""), ([1, 400], "1\n2\n3\n4\n")],
)
async def test_read_a_range(root: Path, tools: Tools, view_range: list[int], expected: str) -> None:
    put(root, "a", "1\n2\n3\n4\n")
    result = await tools.call("read", {"file_path": "a", "view_range": view_range})
    assert not result.is_error
    assert result.content == expected


@pytest.mark.parametrize(("view_range", "says"), [([9, 12], "4 lines"), ([3, 2], "ends before it begins")])
async def test_read_a_range_that_is_not_there(root: Path, tools: Tools, view_range: list[int], says: str) -> None:
    put(root, "a", "1\n2\n3\n4\n")
    refused(await tools.call("read", {"file_path": "a", "view_range": view_range}), says)


async def test_read_cuts_a_long_file_and_says_how_to_see_the_rest(root: Path, tools: Tools) -> None:
    text = "".join(f"line {number} {'x' * 60}\n" for number in range(1, 6_001))
    put(root, "long", text)
    result = await tools.call("read", {"file_path": "long"})
    assert len(result.content.encode()) < RESULT_LIMIT_BYTES + 200
    assert result.whole == text
    head, _, rest = result.content.partition("[… ")
    marker, _, tail = rest.partition("]\n")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + len(tail) + result.left_out_bytes == len(text)
    first, last = head.count("\n") + 1, 6_000 - tail.count("\n")
    assert f"{result.left_out_bytes} bytes left out here; lines {first} to {last}: use view_range" in marker
    page = await tools.call("read", {"file_path": "long", "view_range": [first, first + 99]})
    assert page.content == "\n".join(text.split("\n")[first - 1 : first + 99])


async def test_read_cuts_one_endless_line(root: Path, tools: Tools) -> None:
    put(root, "min.js", "ü" * 1_500_000)
    result = await tools.call("read", {"file_path": "min.js"})
    assert len(result.content.encode()) < RESULT_LIMIT_BYTES + 200
    assert "bytes left out here" in result.content


async def test_read_says_why_not(root: Path, tools: Tools) -> None:
    put(root, "data.bin", b"\0\1\2")
    put(root, "logo.png", b"\x89PNG")
    put(root, "src/config.py", "")
    os.mkfifo(root / "pipe")
    refused(await tools.call("read", {"file_path": "data.bin"}), "binary file of 3 bytes")
    refused(await tools.call("read", {"file_path": "logo.png"}), "cannot be shown")
    refused(await tools.call("read", {"file_path": "pipe"}), "regular file")
    refused(await tools.call("read", {"file_path": "src"}), "folder")
    refused(await tools.call("read", {"file_path": "src/confg.py"}), "Did you mean src/config.py?")
    refused(await tools.call("read", {"file_path": "nowhere/x"}), "no such file", "glob")
    refused(await tools.call("read", {"file_path": "x" * 300}), "too long")
    refused(await tools.call("read", {"file_path": "src/config.py/x"}), "not a folder")
    refused(await tools.call("read", {"file_path": "a\0b"}), "path")
    refused(await tools.call("read", {"file": "x"}), "`file_path` is missing")
    refused(await tools.call("complete_item", {"item": "x"}), "no tool")


# write and append


async def test_write_creates_folders_and_keeps_the_mode(root: Path, tools: Tools) -> None:
    created = await tools.call("write", {"file_path": "deep/er/run.sh", "content": "echo\n"})
    assert created.changed_paths == ("deep/er/run.sh",)
    assert "created deep/er/run.sh: 5 bytes, 1 lines" in created.content
    file = root / "deep/er/run.sh"
    file.chmod(0o751)
    await tools.call("write", {"file_path": "deep/er/run.sh", "content": "echo 2\n"})
    assert file.read_text() == "echo 2\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o751
    assert [entry.name for entry in file.parent.iterdir()] == ["run.sh"]


async def test_write_keeps_crlf_and_byte_order_mark(root: Path, tools: Tools) -> None:
    file = put(root, "a.cs", "\ufeffa\r\nb\r\n")
    result = await tools.call("write", {"file_path": "a.cs", "content": "c\nd\n"})
    assert "CRLF" in result.content
    assert file.read_bytes() == "\ufeffc\r\nd\r\n".encode()
    mixed = put(root, "b", "a\r\nb\n")
    await tools.call("write", {"file_path": "b", "content": "c\nd\n"})
    assert mixed.read_bytes() == b"c\nd\n"


async def test_write_of_the_same_content_is_no_change(root: Path, tools: Tools) -> None:
    put(root, "a", "x\r\n")
    result = await tools.call("write", {"file_path": "a", "content": "x\n"})
    assert not result.is_error
    assert result.changed_paths == ()


async def test_append_continues_at_the_line_it_names(root: Path, tools: Tools) -> None:
    await tools.call("append", {"file_path": "a", "content": "1\n2\n", "at_line": 0})
    result = await tools.call("append", {"file_path": "a", "content": "3\n", "at_line": 2})
    assert result.changed_paths == ("a",)
    assert (root / "a").read_text() == "1\n2\n3\n"
    refused(await tools.call("append", {"file_path": "a", "content": "3\n", "at_line": 2}), "it has 3 lines")
    refused(await tools.call("append", {"file_path": "b", "content": "3\n", "at_line": 7}), "no such file")
    assert (root / "a").read_text() == "1\n2\n3\n"


async def test_append_begins_on_a_new_line_in_the_file_s_style(root: Path, tools: Tools) -> None:
    file = put(root, "a", "1\r\n2")
    await tools.call("append", {"file_path": "a", "content": "3\n4\n", "at_line": 2})
    assert file.read_bytes() == b"1\r\n2\r\n3\r\n4\r\n"


# edit


async def test_edit_matches_lf_against_crlf_and_keeps_the_rest(root: Path, tools: Tools) -> None:
    file = put(root, "a.py", b"one\r\ntwo\r\nthree\r\nfour\n\xc3\xbc five\r\n")
    call = {"file_path": "a.py", "old_string": "two\nthree\nfour\n", "new_string": "TWO\nthree\nmore\nfour\n"}
    result = await tools.call("edit", call)
    assert not result.is_error, result.content
    assert file.read_bytes() == b"one\r\nTWO\r\nthree\r\nmore\r\nfour\n\xc3\xbc five\r\n"
    assert result.changed_paths == result.read_paths == ("a.py",)
    assert "1 replacement, at line 2" in result.content


async def test_edit_inside_one_line_takes_the_usual_line_end(root: Path, tools: Tools) -> None:
    file = put(root, "a", "a b\r\nc\r\n")
    await tools.call("edit", {"file_path": "a", "old_string": "b", "new_string": "x\ny"})
    assert file.read_bytes() == b"a x\r\ny\r\nc\r\n"


async def test_edit_keeps_other_bytes_of_a_file_that_is_not_utf8(root: Path, tools: Tools) -> None:
    file = put(root, "a.c", b"/* caf\xe9 */\nint a;\xff\n")
    shown = await tools.call("read", {"file_path": "a.c"})
    assert "café" in shown.content
    assert "Latin-1" in shown.content
    await tools.call("edit", {"file_path": "a.c", "old_string": "café */\nint a", "new_string": "thé */\nint b"})
    assert file.read_bytes() == b"/* th\xe9 */\nint b;\xff\n"
    refused(await tools.call("edit", {"file_path": "a.c", "old_string": "int b", "new_string": "→"}), "ASCII")


async def test_edit_works_on_files_over_256_kilobytes(root: Path, tools: Tools) -> None:
    file = put(root, "big", "filler\n" * 60_000 + "needle\n")
    await tools.call("edit", {"file_path": "big", "old_string": "needle", "new_string": "found"})
    assert file.read_text().endswith("filler\nfound\n")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("return 1", "return 2", ["2 times", "lines 2, 5", "replace_all"]),
        ("def firts():", "x", ["nearest lines", "1: def first():"]),
        ("def first():\n  return 1", "x", ["only white space", "2:     return 1"]),
        ("def third():", "def second():", ["already there at line 4"]),
        ("def first():", "def first():", ["the same"]),
        ("def first():\r\n", "def first():\n", ["the same"]),
        ("zzzzzzzzzzzzzzzzzzzzzzzz", "y", ["nor anything like it"]),
        ("", "y", ["`old_string`"]),
    ],
)
async def test_edit_says_why_not(root: Path, tools: Tools, old: str, new: str, says: list[str]) -> None:
    text = "def first():\n    return 1\n\ndef second():\n    return 1\n"
    file = put(root, "a.py", text)
    refused(await tools.call("edit", {"file_path": "a.py", "old_string": old, "new_string": new}), *says)
    assert file.read_text() == text


async def test_edit_replaces_all_where_asked(root: Path, tools: Tools) -> None:
    file = put(root, "a", "x\r\nx\nx")
    result = await tools.call("edit", {"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": True})
    assert file.read_bytes() == b"y\r\ny\ny"
    assert "3 replacements" in result.content


LINES = st.lists(
    st.tuples(st.sampled_from(["a", "b", "ü", ""]), st.sampled_from(["\n", "\r\n"])), min_size=1, max_size=8
)


@given(LINES, st.data())
def test_an_edit_of_one_line_leaves_every_other_byte(lines: list[tuple[str, str]], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(lines) - 1))
    marked = [(f"line{index}{text}", end) for index, (text, end) in enumerate(lines)]
    text = "".join(line + end for line, end in marked)
    context = slice(max(0, at - 1), at + 2)
    old = "".join(line + "\n" for line, _ in marked[context])
    changed = [("changed" if index == at else line, end) for index, (line, end) in enumerate(marked)]
    new = "".join(line + "\n" for line, _ in changed[context])
    assert replace(text, old, new, replace_all=False).text == "".join(line + end for line, end in changed)


@given(st.text("aü\n😀", max_size=300), st.integers(20, 200))
def test_a_cut_keeps_head_and_tail_and_counts_the_rest(text: str, limit: int) -> None:
    cut = cut_middle(text, limit)
    if len(text.encode()) <= limit:
        assert cut == (text, 0)
        return
    head, _, tail = cut.text.partition("[… ")
    tail = tail.partition("]\n")[2]
    assert text.startswith((head, head.removesuffix("\n")))
    assert text.endswith(tail)
    assert 0 < cut.left_out_bytes < len(text.encode())


# nothing leaves the workspace


@pytest.mark.parametrize(
    "path", ["../out", "/etc/passwd", "a/../../out", "link/secret", "chain", "dangling", "~/../../out"]
)
@pytest.mark.parametrize("tool", ["read", "write", "append", "edit"])
async def test_no_path_leads_outside(root: Path, tools: Tools, tool: str, path: str) -> None:
    outside = root.parent / "outside"
    put(outside, "secret", "secret\n")
    (root / "link").symlink_to(outside)
    (root / "chain").symlink_to("link/secret")
    (root / "dangling").symlink_to(outside / "new")
    if path.startswith("~"):
        (root / "~").symlink_to(outside)
    inputs: dict[str, dict[str, object]] = {
        "read": {},
        "write": {"content": "x\n"},
        "append": {"content": "x\n", "at_line": 1},
        "edit": {"old_string": "secret", "new_string": "x"},
    }
    result = await tools.call(tool, {"file_path": path, **inputs[tool]})
    refused(result, "outside the workspace", "relative to the workspace root")
    assert str(root) not in result.content
    assert [entry.name for entry in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_text() == "secret\n"


async def test_a_link_that_appears_after_the_check_is_not_followed(root: Path, tools: Tools) -> None:
    outside = root.parent / "outside"
    put(outside, "file", "secret\n")
    put(root, "folder/file", "mine\n")
    files = tools._files
    located = files.locate("folder/file")
    (root / "folder/file").unlink()
    (root / "folder").rmdir()
    (root / "folder").symlink_to(outside)
    with pytest.raises(Exception, match="folder"):
        files.read(located)
    with pytest.raises(Exception, match="folder"):
        files.write(located, b"x")
    (root / "plain").symlink_to(outside / "file")
    with pytest.raises(Exception, match="symbolic link"):
        files.read("plain")
    with pytest.raises(Exception, match="symbolic link"):
        files.write("plain", b"x")
    assert (outside / "file").read_text() == "secret\n"


async def test_links_inside_the_workspace_are_followed_to_the_file(root: Path, tools: Tools) -> None:
    file = put(root, "real/a", "x\n")
    (root / "alias").symlink_to("real")
    result = await tools.call("write", {"file_path": "alias/a", "content": "y\n"})
    assert result.changed_paths == ("real/a",)
    assert file.read_text() == "y\n"
    assert (root / "alias").is_symlink()
    (root / "loop").symlink_to("loop")
    refused(await tools.call("read", {"file_path": "loop"}), "symbolic link")


@pytest.mark.parametrize(
    "name", [".git", ".GIT", ".Git", ".git.", ".git ", ".g\u200cit", "GIT~1", ".git::$DATA", "\uff0egit"]
)
async def test_git_s_own_files_are_refused_in_every_spelling(root: Path, tools: Tools, name: str) -> None:
    assert is_git_name(name)
    result = await tools.call("write", {"file_path": f"sub/{name}/config", "content": "x"})
    refused(result, "git's own files")
    refused(await tools.call("read", {"file_path": f"{name}/HEAD"}), "git's own files")


async def test_git_is_refused_behind_a_link_too(root: Path, tools: Tools) -> None:
    (root / "innocent").symlink_to(".git")
    refused(await tools.call("read", {"file_path": "innocent/HEAD"}), "git's own files")
    refused(await tools.call("write", {"file_path": "innocent/config", "content": "x"}), "git's own files")
    assert not is_git_name(".gitignore")
    assert (await tools.call("write", {"file_path": ".github/x.yml", "content": "x"})).changed_paths


ODD = [
    "with space",
    "-rf",
    "--help",
    'quo"te',
    "apo'strophe",
    "new\nline",
    "\u00fcml",
    "tab\t",
    "semi;colon",
    "[x]*?",
    ":top",
]


@pytest.mark.parametrize("name", ODD)
async def test_odd_names_work_everywhere(root: Path, tools: Tools, name: str) -> None:
    written = await tools.call("write", {"file_path": f"dir/{name}", "content": "needle\n"})
    assert written.changed_paths == (f"dir/{name}",)
    assert (root / "dir" / name).read_text() == "needle\n"
    top = await tools.call("write", {"file_path": name, "content": "needle\n"})
    assert top.changed_paths == (name,)
    assert (await tools.call("read", {"file_path": name})).content == "needle\n"
    edited = await tools.call("edit", {"file_path": name, "old_string": "needle", "new_string": "pin"})
    assert not edited.is_error, edited.content
    listed = await tools.call("glob", {"pattern": "**"})
    assert len(listed.content.split("\n")) == 2, listed.content
    found = await tools.call("grep", {"pattern": "^pin$", "path": name})
    assert found.content.endswith(":1:pin")


async def test_another_unicode_form_of_a_name_finds_the_file(root: Path, tools: Tools) -> None:
    put(root, "e\u0301t\u0065\u0301/a", "x\n")
    assert (await tools.call("read", {"file_path": "\u00e9t\u00e9/a"})).content == "x\n"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(path=st.lists(st.sampled_from(["..", ".", "a", "up", "in", "~", "", ".git", "/"]), max_size=6).map("/".join))
async def test_whatever_the_path_only_the_workspace_changes(tmp_path: Path, path: str) -> None:
    root = tmp_path / "outer/workspace"
    root.mkdir(parents=True, exist_ok=True)
    for name, target in (("up", ".."), ("in", "a")):
        if not (root / name).is_symlink():
            (root / name).symlink_to(target)
    before = {entry for entry in tmp_path.rglob("*") if root not in entry.parents}
    await make(root).call("write", {"file_path": path, "content": "x"})
    assert {entry for entry in tmp_path.rglob("*") if root not in entry.parents} == before
    assert not (root / ".git").exists()


# ownership and permissions


async def test_files_of_others_are_refused_and_a_step_s_own_new_files_stay_its_own(root: Path) -> None:
    put(root, "mine.js", "x\n")
    put(root, "theirs.js", "x\n")
    put(root, "nobody.js", "x\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "base")
    tools = make(
        root,
        ownership=Ownership(items=("mine.js",), others={"theirs.js": "step 3"}),
        base_commit=git(root, "rev-parse", "HEAD"),
    )
    assert (await tools.call("write", {"file_path": "mine.js", "content": "y\n"})).changed_paths
    refused(await tools.call("write", {"file_path": "theirs.js", "content": "y\n"}), "step 3", "record with needs")
    refused(await tools.call("write", {"file_path": "nobody.js", "content": "y\n"}), "mine.js")
    (root / "alias.js").symlink_to("theirs.js")
    refused(await tools.call("write", {"file_path": "alias.js", "content": "y\n"}), "step 3")
    assert (await tools.call("write", {"file_path": "new.js", "content": "1\n"})).changed_paths
    git(root, "add", ".")
    git(root, "commit", "-qm", "checkpoint")
    assert (await tools.call("write", {"file_path": "new.js", "content": "2\n"})).changed_paths
    assert (root / "theirs.js").read_text() == (root / "nobody.js").read_text() == "x\n"


async def test_ownership_holds_where_the_base_is_unknown(root: Path) -> None:
    put(root, "nobody.js", "x\n")
    tools = make(root, ownership=Ownership(items=("mine.js",)), base_commit="0" * 40)
    refused(await tools.call("write", {"file_path": "nobody.js", "content": "y\n"}), "mine.js")


async def test_permission_rules_bind_every_way_to_a_file(root: Path) -> None:
    put(root, "secrets/key", "needle\n")
    put(root, "src/a", "needle\n")
    (root / "alias").symlink_to("secrets")
    tools = make(root, permissions=Permissions(deny=("Read(./secrets/**)", "Edit(src/**)", "Bash(rm *)")))
    refused(await tools.call("read", {"file_path": "secrets/key"}), "Read(./secrets/**) (deny)")
    refused(await tools.call("read", {"file_path": "alias/key"}), "Read(./secrets/**) (deny)")
    refused(await tools.call("append", {"file_path": "src/a", "content": "x", "at_line": 1}), "Edit(src/**)")
    assert (await tools.call("grep", {"pattern": "needle"})).content == "src/a:1:needle"
    assert "secrets" not in (await tools.call("glob", {"pattern": "**"})).content
    refused(await tools.call("bash", {"command": f"cat '{root}/secrets/key'"}), "Read(./secrets/**)")
    refused(await tools.call("bash", {"command": "true && rm src/a"}), "Bash(rm *)")
    assert (root / "src/a").exists()


# glob and grep


async def test_glob_lists_what_git_takes_for_the_project(root: Path, tools: Tools) -> None:
    for path in ("b.py", "a.py", "src/c.py", "src/d.js", "build/e.py"):
        put(root, path, "")
    put(root, ".gitignore", "build/\n")
    git(root, "add", "b.py", "src")
    (root / "src/c.py").unlink()
    (root / "link.py").symlink_to("/etc/passwd")
    os.mkfifo(root / "fifo.py")
    assert (await tools.call("glob", {"pattern": "**/*.py"})).content == "a.py\nb.py"
    assert (await tools.call("glob", {"pattern": "*.js", "path": "src"})).content == "src/d.js"
    assert (await tools.call("glob", {"pattern": "*.{js,py}"})).content == "a.py\nb.py"
    assert (await tools.call("glob", {"pattern": "*.nope"})).content == "no matches"
    refused(await tools.call("glob", {"pattern": "../*"}), "relative")
    refused(await tools.call("glob", {"pattern": "*", "path": "../"}), "outside")
    refused(await tools.call("glob", {"pattern": "*", "path": "nowhere"}), "no such")


async def test_a_huge_listing_stays_small(root: Path, tools: Tools) -> None:
    (root / "many").mkdir()
    for number in range(1_500):
        (root / f"many/{number:05}.txt").touch()
    result = await tools.call("glob", {"pattern": "**"})
    lines = result.content.split("\n")
    assert len(lines) == 201
    assert lines[-1] == "… and 1300 more; narrow the pattern"
    assert result.whole is not None
    assert result.whole.count("\n") == 1_499


async def test_grep_shows_lines_and_nothing_hidden(root: Path, tools: Tools) -> None:
    put(root, "src/a.py", "x = 1\r\nprint('%s' % x)\n# café\n")
    put(root, "latin.txt", b"caf\xe9\n")
    put(root, "data.bin", b"\0print\n")
    put(root, "ignored/log", "print\n")
    put(root, ".gitignore", "ignored\n")
    outside = put(root.parent, "outside/print", "print\n")
    (root / "link").symlink_to(outside)
    git(root, "add", ".")
    found = await tools.call("grep", {"pattern": r"print\(.*%"})
    assert found.content == "src/a.py:2:print('%s' % x)"
    assert (await tools.call("grep", {"pattern": "x = 1$", "path": "src"})).content == "no matches"
    assert (await tools.call("grep", {"pattern": r"x = \d"})).content == "src/a.py:1:x = 1"
    assert (await tools.call("grep", {"pattern": "(?i)CAFÉ"})).content == "src/a.py:3:# café"
    assert (await tools.call("grep", {"pattern": "print", "path": "ignored/log"})).content == "ignored/log:1:print"
    assert (await tools.call("grep", {"pattern": "no such thing"})).content == "no matches"
    assert (await tools.call("grep", {"pattern": "--help"})).content == "no matches"
    broken = await tools.call("grep", {"pattern": "(open"})
    refused(broken, "Correct the pattern")
    assert str(root) not in broken.content


async def test_grep_does_not_follow_a_folder_that_became_a_link(root: Path, tools: Tools) -> None:
    put(root, "folder/a", "needle\n")
    git(root, "add", ".")
    outside = put(root.parent, "outside/a", "needle and secret\n").parent
    (root / "folder/a").unlink()
    (root / "folder").rmdir()
    (root / "folder").symlink_to(outside)
    assert (await tools.call("grep", {"pattern": "needle"})).content == "no matches"
    assert (await tools.call("glob", {"pattern": "**/a"})).content == "no matches"
    refused(await tools.call("grep", {"pattern": "needle", "path": "folder"}), "outside")


async def test_grep_results_stay_small(root: Path, tools: Tools) -> None:
    put(root, "many", "needle in a line of some length\n" * 5_000)
    put(root, "wide", "needle" + "x" * 3_000_000)
    result = await tools.call("grep", {"pattern": "needle"})
    assert len(result.content.encode()) < RESULT_LIMIT_BYTES + 200
    assert "of 5001 matching lines; narrow the pattern" in result.content
    assert result.left_out_bytes > 0
    wide = await tools.call("grep", {"pattern": "needle", "path": "wide"})
    assert "more characters" in wide.content
    assert len(wide.content) < 2_200


async def test_a_pathological_pattern_ends(root: Path, tools: Tools) -> None:
    put(root, "a", "a" * 5_000 + "!\n")
    result = await tools.call("grep", {"pattern": "^(a+)+$"})
    assert result.is_error or result.content == "no matches"


async def test_a_rewritten_git_file_gives_no_power_where_the_repository_is_explicit(root: Path) -> None:
    put(root, "a.py", "x\n")
    hook = put(root, "hook.sh", f"#!/bin/sh\ntouch '{root.parent}/ran'\n")
    hook.chmod(0o755)
    real = root.parent / "real.git"
    (root / ".git").rename(real)
    evil = root / "evil"
    git(root, "init", "-q", "--bare", str(evil))
    git(root, f"--git-dir={evil}", "config", "core.fsmonitor", str(hook))
    put(root, ".git", "gitdir: evil\n")
    tools = make(root, git=("git", f"--git-dir={real}", "--work-tree=."))
    assert (await tools.call("glob", {"pattern": "*.py"})).content == "a.py"
    assert (await tools.call("grep", {"pattern": "^x"})).content == "a.py:1:x"
    assert not (root.parent / "ran").exists()


# bash


async def test_bash_tells_output_and_exit_code(root: Path, tools: Tools) -> None:
    result = await tools.call("bash", {"command": "printf 'a\\033[31mb\\n'; echo c >&2; pwd"})
    assert result.content.split("\n") == ["ab", "c", str(root), "[exit code 0]"]
    failed = await tools.call("bash", {"command": "echo x; exit 3"})
    assert failed.is_error
    assert failed.content == "x\n[exit code 3]"
    silent = await tools.call("bash", {"command": "true"})
    assert silent.content == "(no output)\n[exit code 0]"


async def test_bash_starts_afresh_each_time(root: Path, tools: Tools) -> None:
    await tools.call("bash", {"command": "cd /; export X=1; shopt -s extglob"})
    result = await tools.call("bash", {"command": 'echo "[$X]"; pwd'})
    assert result.content.split("\n")[:2] == ["[]", str(root)]


async def test_bash_cuts_long_output_and_keeps_the_whole(root: Path, tools: Tools) -> None:
    result = await tools.call("bash", {"command": "seq 1 40000"})
    assert len(result.content.encode()) < RESULT_LIMIT_BYTES + 200
    assert result.content.startswith("1\n2\n")
    assert result.content.endswith("40000\n[exit code 0]")
    assert result.whole is not None
    assert result.whole.count("\n") == 39_999
    assert 0 < result.left_out_bytes < len(result.whole)


async def test_bash_ends_at_its_time_limit_with_what_it_started(root: Path, tools: Tools) -> None:
    command = "sleep 60 & echo $! > pid; trap '' TERM; cat; sleep 60"
    result = await tools.call("bash", {"command": command, "timeout_ms": 300})
    refused(result, "time limit of 0.3 s", "timeout_ms")
    pid = int((root / "pid").read_text())
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


async def test_bash_refuses_what_no_shell_can_take(root: Path, tools: Tools) -> None:
    refused(await tools.call("bash", {"command": "echo a\0b"}), "NUL")
    refused(await tools.call("grep", {"pattern": "a\0b"}), "NUL")
    assert not (await tools.call("bash", {"command": ": " + "ü" * 29_998})).is_error


async def test_a_workspace_that_is_gone_is_no_answer_to_the_model(root: Path, tools: Tools) -> None:
    root.rename(root.with_name("moved"))
    with pytest.raises(FileNotFoundError):
        await tools.call("read", {"file_path": "a"})


async def test_bash_records_its_process_group(root: Path) -> None:
    started: list[commands.ProcessGroup] = []
    await make(root, on_start=started.append).call("bash", {"command": "true"})
    # Once before the fork, when only its tag is known, and once after it.
    assert [group.group_id > 0 for group in started] == [False, True]


async def test_without_a_sandbox_only_allowed_commands_run(root: Path) -> None:
    tools = make(
        root, sandbox_mode="auto", permissions=Permissions(allow=("Bash(echo *)",)), gate_commands=("true && true",)
    )
    assert "hi" in (await tools.call("bash", {"command": "echo hi"})).content
    assert not (await tools.call("bash", {"command": "true && true"})).is_error
    for command in (
        "touch x",
        "echo hi; touch x",
        "echo hi > x",
        "echo $(touch x)",
        "echo `touch x`",
        "echo a\ntouch x",
    ):
        result = await tools.call("bash", {"command": command})
        refused(result, "permissions.allow", "--sandbox off", "Bash(echo *)", "true && true")
    assert not (root / "x").exists()


# secrets


async def test_values_of_environment_files_are_never_shown(root: Path) -> None:
    put(root, ".env", "# database\nDB_PASSWORD='hunter2hunter2'\nPORT=8080\nexport API_TOKEN=tok_1234567890\n")
    put(root, "src/config.py", 'PORT = 8080\nTOKEN = "tok_1234567890"\n')
    tools = make(root, guard=SecretGuard(root, environment=ENVIRONMENT, credentials=["sk-ant-credential"]))
    shown = await tools.call("read", {"file_path": ".env"})
    assert "DB_PASSWORD=[secret]" in shown.content
    assert "PORT=[secret]" in shown.content
    assert "# database" in shown.content
    results = [
        shown,
        await tools.call("read", {"file_path": "src/config.py"}),
        await tools.call("grep", {"pattern": "="}),
        await tools.call("bash", {"command": "cat .env; echo sk-ant-credential; seq 1 20000"}),
        await tools.call("edit", {"file_path": ".env", "old_string": "DB_PASWORD", "new_string": "x"}),
    ]
    for result in results:
        text = result.content + (result.whole or "")
        assert not any(secret in text for secret in ("hunter2hunter2", "tok_1234567890", "sk-ant-credential")), text[
            :500
        ]
    assert "PORT = 8080" in results[1].content
    template = put(root, ".env.example", "PORT=8080\n")
    assert (await tools.call("read", {"file_path": template.name})).content == "PORT=8080\n"

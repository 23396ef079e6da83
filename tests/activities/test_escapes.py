"""Ways out of a workspace, each tried through the real tools: by command in the sandbox, by file tool, and by command
line where there is no sandbox. Nothing outside may change, nothing hidden may be seen, nothing may stay alive."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from activities.allowed_commands import AllowedCommands
from activities.commands import find_sandbox, run
from activities.repository import PrivateRepository
from activities.sandbox import Sandbox
from activities.tool_result import CallRefused, ToolResult
from activities.tools import Tools
from baton.environment import allowed_environment
from baton.ownership import Ownership
from baton.permissions import Permissions
from tests.end_to_end.bench import commands_below

CANARY = "canary-4711-of-the-user"


@dataclass
class Place:
    """A workspace as Baton makes it (a worktree of a bare repository), and a user's home beside it."""

    folder: Path
    program: Path

    @property
    def root(self) -> Path:
        return self.folder / "state/workspaces/step-1"

    @property
    def bare(self) -> Path:
        return self.folder / "state/repo.git"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.home)}

    def tools(self, **changes: Any) -> Tools:
        sandbox = Sandbox(self.program, readable=(self.bare,), hidden=(self.folder / "state",))
        chosen: dict[str, Any] = {"sandbox": sandbox, "sandbox_mode": "auto", "git": self.git_command, **changes}
        return Tools(
            self.root,
            ownership=Ownership(),
            permissions=Permissions(),
            environment=self.environment,
            **chosen,
        )

    @property
    def git_command(self) -> tuple[str, ...]:
        return ("git", f"--git-dir={self.bare}/worktrees/step-1", f"--work-tree={self.root}")

    def outside(self) -> dict[str, bytes]:
        """Every file that is not the workspace's."""
        own = self.root.resolve()
        files = [path for path in self.folder.rglob("*") if own not in path.parents and path != own]
        return {str(path): path.read_bytes() for path in files if path.is_file() and not path.is_symlink()}


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=T", "-c", "user.email=t@example.invalid")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def committed(folder: Path) -> Path:
    """A repository with one commit of one file."""
    folder.mkdir()
    (folder / "a.txt").write_text("a\n", encoding="utf-8")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "base")
    return folder


@pytest.fixture(scope="module")
def victim() -> Iterator[int]:
    """A process of the user whose environment holds a key, as the worker's does."""
    waiting = [sys.executable, "-c", "import time; time.sleep(600)"]
    process = subprocess.Popen(waiting, env={"ANTHROPIC_API_KEY": CANARY, "PATH": os.environ["PATH"]})
    yield process.pid
    process.kill()
    process.wait()


@pytest.fixture
async def place(tmp_path: Path) -> Place:
    program = await find_sandbox()
    if program is None:
        pytest.skip("no sandbox here")
    made = Place(tmp_path, program)
    source = committed(tmp_path / "source")
    made.bare.parent.mkdir()
    git(tmp_path, "clone", "-q", "--bare", str(source), str(made.bare))
    git(made.bare, "worktree", "add", "-q", "-b", "step-1", str(made.root))
    for name in ("home/.ssh/id_ed25519", "home/.claude/settings.json", "other/file", "state/service/credentials.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(CANARY, encoding="utf-8")
    return made


def assert_contained(place: Place, before: dict[str, bytes], result: ToolResult) -> None:
    assert CANARY not in result.content
    assert CANARY not in (result.whole or "")
    assert place.outside() == before
    assert commands_below(place.root) == []


COMMANDS = {
    "absolute path": """
        echo x > {other}/file; echo x > {other}/new; mkdir -p /opt/baton-escape""",
    "dots": """
        echo x > ../../../other/file; echo x > ../../repo.git/description""",
    "link": """
        ln -s {other} out && echo x > out/file; cat out/file""",
    "link to home": """
        ln -s {home} h; cat h/.ssh/id_ed25519 h/.claude/settings.json""",
    "hard link": """
        ln {other}/file hard; cat hard; echo x >> hard""",
    "hard link from proc": """
        ln /proc/self/root{other}/file hard; cat /proc/1/root{other}/file""",
    "ssh keys": """
        cat ~/.ssh/id_ed25519 {home}/.ssh/*; ls -la ~; tar cf - {home}""",
    "credentials of the service": """
        cat {state}/service/credentials.json; find {state} -name '*.json' -exec cat {{}} +""",
    "environment of processes": """
        cat /proc/*/environ | tr '\\0' '\\n'; cat /proc/{victim}/environ; ps eww""",
    "signals": """
        kill -9 {victim}; kill -0 {victim} && echo alive""",
    "hooks": """
        git config core.hooksPath ./hooks; mkdir -p hooks
        printf '#!/bin/sh\\ntouch {other}/h' > hooks/pre-commit; chmod +x hooks/*; git commit --allow-empty -m x""",
    "hooks in the repository": """
        printf 'touch {other}/h' > {bare}/hooks/pre-commit; git -C {bare} config core.bare false""",
    "another repository": """
        git -C {other} init; git --git-dir={bare} update-ref refs/heads/main HEAD~0
        git --git-dir={bare} branch -f evil""",
    "GIT_DIR": """
        GIT_DIR={bare} git config user.name evil; GIT_DIR={bare} GIT_WORK_TREE={other} git checkout -f""",
    "a repository of its own": """
        rm .git; git init -q .; git config core.fsmonitor 'touch {other}/f'
        git config filter.x.clean 'touch {other}/c'; echo '* filter=x' > .gitattributes""",
    "submodule": """
        git -c protocol.ext.allow=always submodule add 'ext::sh -c touch% {other}/sub' sub
        printf '[submodule "s"]\\n path=s\\n url=ext::sh -c touch% {other}/sub\\n' > .gitmodules
        git submodule update --init""",
    "preload": """
        LD_PRELOAD=/tmp/x.so LD_LIBRARY_PATH=. sh -c 'cat {other}/file > /dev/null; echo x > {other}/file'""",
    "editor": """
        git commit --allow-empty; GIT_EDITOR= EDITOR= crontab -e; git rebase -i HEAD""",
    "pager": """
        git --paginate log; PAGER='touch {other}/p' git log; man git; git -c core.pager='touch {other}/p' log""",
    "daemons": """
        setsid sleep 997 & nohup sleep 998 > /dev/null 2>&1 & (setsid sh -c 'sleep 999 & exec sleep 996' &)
        env -i setsid sleep 995 & sleep 0.1; echo started""",
    "mount": """
        mount -t tmpfs none {other}; umount -l /; unshare -Ur true; mount --bind {other} .""",
    "devices": """
        dd if=/dev/sda count=1; mknod d b 8 0; echo x > /dev/kmsg""",
    "the private repository": """
        printf '[filter "x"]\nclean = touch {other}/f\n' >> {bare}/config; echo x > {bare}/objects/info/alternates
        echo '* filter=x' > {bare}/info/attributes; echo '*' >> {bare}/info/exclude; rm -f {bare}/HEAD
        cp a.txt {bare}/objects/x; rm -rf {bare}/worktrees/step-1; git update-ref -d refs/heads/main; git gc -q
        git config include.path {other}/file; git config --worktree diff.external 'touch {other}/d'
        git config merge.x.driver 'touch {other}/m'; git config core.attributesFile {other}/file""",
    "file names like options": """
        touch -- '--upload-pack=touch {other}/o' '-c core.pager=x' '--help'; git log -- --help; ls -la -- *""",
    "proc": """
        echo x > /proc/self/cwd/../../../other/file; echo x > /proc/self/root{other}/new
        ls -l /proc/self/fd /proc/self/exe; echo 1 > /proc/self/oom_score_adj; echo x > /proc/{victim}/comm
        cat /proc/{victim}/cmdline /proc/{victim}/root{other}/file; echo c > /proc/sysrq-trigger""",
    "fifos and devices": """
        mkfifo pipe; (timeout 1 cat pipe &) ; mknod null c 1 3; cat /dev/mem | head -c 1""",
    "chroot and ptrace": """
        chroot / true; python3 -c "import ctypes; print(ctypes.CDLL(None).ptrace(16, {victim}, 0, 0))\"""",
}


@pytest.mark.parametrize("name", COMMANDS)
async def test_a_command_in_the_sandbox_stays_inside(place: Place, victim: int, name: str) -> None:
    places = {"other": place.folder / "other", "home": place.home, "state": place.folder / "state", "bare": place.bare}
    before = place.outside()
    command = COMMANDS[name].format(victim=victim, **places)
    result = await place.tools().call("bash", {"command": command, "timeout_ms": 20_000})
    assert "ended after the time limit" not in result.content, "nothing waits for keys, nothing holds the pipe"
    assert_contained(place, before, result)
    assert Path(f"/proc/{victim}").exists()
    assert not Path("/opt/baton-escape").exists()
    again = await place.tools().call("write", {"file_path": "a.txt", "content": "still usable\n"})
    assert not again.is_error or "link" in again.content


PATHS = (
    "/etc/hostname",
    "{other}/file",
    "../../../other/file",
    "sub/../../../../other/file",
    "out/file",
    "made/file",
    "{home}/.ssh/id_ed25519",
    "/proc/self/environ",
    "/proc/self/root{other}/file",
    "/proc/self/cwd/../../../other/file",
    ".git",
    "./.git",
    ".git/",
    ".GIT/config",
    "sub/../.git",
    "git~1/config",
    "GIT~1",
    ".git ",
    ".git.",
    ".g\u200bit/config",
    ".g\u00adit/config",
    "\uff0egit/config",
    ".git::$INDEX_ALLOCATION/config",
    "sub/.git/hooks/post-checkout",
    ".git/../a/../.git/config",
    "../../repo.git/config",
    "repo/config",
)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("tool", ["read", "write", "append", "edit"])
async def test_a_file_tool_stays_inside(place: Place, tool: str, path: str) -> None:
    inputs: dict[str, dict[str, object]] = {
        "read": {},
        "write": {"content": CANARY},
        "append": {"content": "x\n", "at_line": 1},
        "edit": {"old_string": CANARY, "new_string": "x"},
    }
    tools = place.tools(sandbox=None, sandbox_mode="off")
    (place.root / "sub").mkdir()
    (place.root / "out").symlink_to(place.folder / "other")
    made = await tools.call("bash", {"command": f"ln -s ../../../other made; ln -s {place.bare} repo"})
    assert not made.is_error
    before = place.outside()
    given = path.format(other=place.folder / "other", home=place.home)
    result = await tools.call(tool, {"file_path": given, **inputs[tool]})
    assert result.is_error
    assert result.changed_paths == ()
    assert_contained(place, before, result)


@pytest.mark.parametrize("tool", ["glob", "grep"])
@pytest.mark.parametrize("path", ["out", "made", "..", "/", "{home}", ".git", "sub/../.git", "repo"])
async def test_a_search_stays_inside(place: Place, tool: str, path: str) -> None:
    (place.root / "sub").mkdir()
    for name, target in (("out", place.folder / "other"), ("made", Path("../../../other")), ("repo", place.bare)):
        (place.root / name).symlink_to(target)
    tools = place.tools(sandbox=None, sandbox_mode="off")
    pattern = {"glob": "**", "grep": "canary|core"}[tool]
    result = await tools.call(tool, {"pattern": pattern, "path": path.format(home=place.home)})
    assert result.is_error
    everywhere = await tools.call(tool, {"pattern": pattern})
    assert "canary" not in everywhere.content
    assert "hooks" not in everywhere.content


async def test_a_folder_that_becomes_a_link_while_files_are_written_leads_nowhere(place: Place) -> None:
    """The race between the look at a path and its use, thousands of times."""
    tools = place.tools(sandbox=None, sandbox_mode="off")
    before = place.outside()
    stop = threading.Event()

    def flip() -> None:
        while not stop.is_set():
            for name in ("a/b", "a"):
                folder = place.root / name
                with suppress(OSError):
                    folder.rename(place.root / "aside")
                    folder.symlink_to(place.folder / "other")
                with suppress(OSError):
                    folder.unlink()
                    (place.root / "aside").rename(folder)

    (place.root / "a/b").mkdir(parents=True)
    flipping = threading.Thread(target=flip)
    flipping.start()
    try:
        answers = []
        for number in range(400):
            path = ("a/b/file", "a/file")[number % 2]
            answers.append(await tools.call("write", {"file_path": path, "content": f"{number}\n"}))
            shown = await tools.call("read", {"file_path": path})
            assert CANARY not in shown.content
    finally:
        stop.set()
        flipping.join()
    assert any(not answer.is_error for answer in answers)
    assert place.outside() == before


async def test_a_link_that_goes_while_the_path_is_looked_at_is_told(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`os.path.realpath` raises when a link is gone between its look at it and reading it."""
    tools = place.tools(sandbox=None, sandbox_mode="off")
    (place.root / "link").symlink_to("a.txt")

    def gone(path: str, *_: object, **__: object) -> str:
        raise FileNotFoundError(2, "No such file or directory", path)

    monkeypatch.setattr(os, "readlink", gone)
    answer = await tools.call("read", {"file_path": "link"})
    assert answer.is_error
    assert answer.content == "link: the path changed while it was looked at. Try again."
    assert not (await tools.call("read", {"file_path": "a.txt"})).is_error


HOSTILE = {
    "filters and drivers in the configuration": """
        printf '* filter=x diff=x merge=x\n' > .gitattributes; git config filter.x.clean 'touch {other}/f'
        git config filter.x.smudge 'touch {other}/s'; git config diff.x.textconv 'touch {other}/t'
        git config diff.external 'touch {other}/e'; git config core.hooksPath {root}; git config include.path {root}/i
        git config extensions.worktreeConfig true; git config --worktree filter.x.process 'touch {other}/p'""",
    "a sparse checkout and ignored files": """
        git config core.sparseCheckout true; mkdir -p {bare}/worktrees/step-1/info {bare}/info
        echo /none/ > {bare}/worktrees/step-1/info/sparse-checkout; echo '*.txt' >> {bare}/info/exclude
        echo '*.txt -text filter=x' > {bare}/info/attributes""",
    "a FIFO in place of a file": "rm a.txt; mkfifo a.txt; mkdir -p d; mkfifo d/p .env",
    "a huge file": "truncate -s 300G huge; truncate -s 100G a.txt",
    "no way to name a file": "for i in $(seq 1200); do mkdir dddddddddddddddd; cd dddddddddddddddd; done; touch x",
    "moved refs": "git update-ref refs/heads/step-1 $(git commit-tree HEAD^{{tree}} -m evil); git gc -q",
    "another HEAD": "git checkout -q --orphan other; git rm -rfq --cached .; rm -f .git; mkdir .git",
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_what_a_command_leaves_without_a_sandbox_does_not_take_part_in_our_git(tmp_path: Path, name: str) -> None:
    """Its next checkpoint is made, holds what it should, runs nothing, and the workspace can be brought back."""
    source = committed(tmp_path / "source")
    other = tmp_path / "other"
    other.mkdir()
    repository = PrivateRepository(tmp_path / "task")
    facts = await repository.inspect(str(source))
    await repository.create(facts)
    root = await repository.open_workspace("step-1", facts.base_commit, "step-1")
    places = {"other": other, "root": root, "bare": repository.path}
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    limit = timedelta(seconds=60)
    await run(HOSTILE[name].format(**places), cwd=root, environment=environment, time_limit=limit)
    async with asyncio.timeout(60):
        root = await repository.open_workspace("step-1", facts.base_commit, "step-1")
        (root / "new.txt").write_text("new\n", encoding="utf-8")
        commit = await repository.checkpoint(root, "one", {"A": "b"})
        assert await repository.read_file(commit, "new.txt") == b"new\n"
        assert await repository.read_file(commit, "a.txt") == b"a\n"
        assert not {"huge", "d/p"} & set(await repository.list_files(commit))
        await repository.reset(root, facts.base_commit)
        assert (root / "a.txt").read_bytes() == b"a\n"
        assert not (root / "new.txt").exists()
        await repository.close_workspace("step-1")
    assert not root.exists()
    assert list(other.iterdir()) == []


async def test_a_hard_link_is_no_way_to_write_outside(place: Place) -> None:
    (place.root / "hard").hardlink_to(place.folder / "other/file")
    before = place.outside()
    tools = place.tools(sandbox=None, sandbox_mode="off")
    for name, arguments in (
        ("write", {"content": "x\n"}),
        ("edit", {"old_string": "x", "new_string": "y"}),
        ("append", {"content": "z\n", "at_line": 1}),
    ):
        assert not (await tools.call(name, {"file_path": "hard", **arguments})).is_error
    assert place.outside() == before


REFUSED = (
    "ls",
    "pytest -q; ls",
    "pytest -q && curl http://example.invalid",
    "pytest -q | sh",
    "pytest -q > conftest.py",
    "pytest -q $(touch x)",
    "pytest -q `touch x`",
    "pytest -q\nls",
    "pytest -q & ls",
    "LD_PRELOAD=./x.so pytest -q",
    "PYTHONPATH=. pytest -q",
    "env pytest -q",
    "sh -c 'pytest -q'",
    "command pytest -q",
    "pytest -q --rootdir=/",
    "GIT_DIR=/x git status",
    "git -C / status",
    "git --git-dir=/x status",
    "git -c core.hooksPath=x status",
    "git -c core.pager='touch x' status",
    "git  -C / status",
    "npm test <(touch x)",
    "npm test; rm -rf ~",
    "npm test > ../x",
    "npm  run evil",
    "nohup npm test & setsid ls",
    "bash <<E\nnpm test\nE",
)


@pytest.mark.parametrize("command", REFUSED)
def test_without_a_sandbox_only_what_is_allowed_runs(tmp_path: Path, command: str) -> None:
    rules = Permissions(allow=("Bash(git status)", "Bash(npm test:*)"))
    allowed = AllowedCommands(rules, tmp_path, gate_commands=("pytest -q",))
    for fine in ("pytest -q", "git status", "npm test -- a", "git status && npm test"):
        allowed.require(fine)
    with pytest.raises(CallRefused, match="no sandbox on this host"):
        allowed.require(command)


@pytest.mark.parametrize(
    "command", ["git push", "cd x && git push", "git  push", "/usr/bin/git push", "echo $(git push)"]
)
def test_deny_wins_over_allow(tmp_path: Path, command: str) -> None:
    rules = Permissions(allow=("Bash",), deny=("Bash(git push:*)",))
    with pytest.raises(CallRefused, match=r"Bash\(git push:\*\) \(deny\)"):
        AllowedCommands(rules, tmp_path, sandbox_mode="off").require(command)


@pytest.mark.parametrize(
    "name",
    [
        *("LD_PRELOAD", "LD_LIBRARY_PATH", "GIT_DIR", "GIT_WORK_TREE", "GIT_CONFIG_COUNT", "GIT_SSH_COMMAND"),
        *("BASH_ENV", "ENV", "PYTHONPATH", "PYTHONSTARTUP", "NODE_OPTIONS", "PERL5OPT", "RUBYOPT", "JAVA_TOOL_OPTIONS"),
        *("ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "SSH_AUTH_SOCK", "NPM_TOKEN", "PIP_INDEX_URL"),
    ],
)
def test_what_changes_programs_or_holds_credentials_is_not_passed_on(name: str) -> None:
    assert allowed_environment({name: "x", "PATH": "/bin", "LANG": "C"}) == {"PATH": "/bin", "LANG": "C"}


async def test_a_tilde_is_a_name_like_any_other(place: Place) -> None:
    before = place.outside()
    result = await place.tools().call("write", {"file_path": "~/.ssh/id_ed25519", "content": "x"})
    assert result.changed_paths == ("~/.ssh/id_ed25519",)
    assert_contained(place, before, result)


def test_the_state_of_other_tasks_is_hidden_wherever_it_lies() -> None:
    """Of Baton's own folder only what the task needs is there: the rest is mounted over first."""
    state, workspace = Path("/srv/baton"), Path("/srv/baton/tasks/t/workspaces/step-1")
    sandbox = Sandbox(Path("/usr/bin/bwrap"), readable=(state / "tasks/t/repo.git",), hidden=(state,))
    argv = sandbox.argv(["true"], workspace, {"HOME": "/nonexistent"})
    hiding = argv.index(str(state))
    assert argv[hiding - 1] == "--tmpfs"
    assert hiding < argv.index(str(state / "tasks/t/repo.git")) < argv.index(str(workspace))

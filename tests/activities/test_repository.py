"""The private repository with real git: bad sources, odd names, races, kills, merges, and the user's bytes."""

import asyncio
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from activities.known_tree import ChangeKind
from activities.repository import BadRepository, GitError, Identity, MergeKind, PrivateRepository, remove_left
from activities.survey import survey

ODD_NAMES = (
    "with space.txt",
    'quote".txt',
    "single'.txt",
    "new\nline.txt",
    "tab\t.txt",
    "ünïcode-日本.txt",
    "-leading-dash.txt",
    ":(top)magic.txt",
    "back\\slash.txt",
    "Case.txt",
    "case.txt",
    "star*.txt",
    "folder with space/-x",
)
TRAILERS = {"Baton-Task": "task", "Baton-Step": "1"}


class User:
    """The user's repository, driven by plain git with the user's configuration."""

    def __init__(self, path: Path, home: Path) -> None:
        self.path = path
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}
        path.mkdir(parents=True)
        home.mkdir(exist_ok=True)
        (home / ".gitconfig").write_text(
            "[user]\nname = Ada Lovelace\nemail = ada@example.org\n[init]\ndefaultBranch = main\n"
        )

    def git(self, *arguments: str, cwd: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=cwd or self.path, env=self.environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def write(self, files: dict[str, str]) -> None:
        for name, content in files.items():
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_bytes(content.encode())

    def commit(self, files: dict[str, str] | None = None, text: str = "work") -> str:
        self.write(files or {})
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", text)
        return self.git("rev-parse", "HEAD")

    def snapshot(self) -> dict[str, tuple[str, int]]:
        """Every file, link and empty folder: content, and the time of change where git would notice one."""
        found = {}
        for path in sorted(self.path.rglob("*")):
            if path.is_symlink():
                found[str(path)] = (str(path.readlink()), 0)
            elif path.is_file():
                found[str(path)] = (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
            else:
                found[str(path)] = ("folder", 0)
        return found


@pytest.fixture
def user(tmp_path: Path) -> User:
    user = User(tmp_path / "user", tmp_path / "home")
    user.git("init", "-q")
    return user


@pytest.fixture
def private(tmp_path: Path, user: User) -> PrivateRepository:
    return PrivateRepository(tmp_path / "state" / "task", user.environment)


@pytest.fixture
async def opened(user: User, private: PrivateRepository) -> tuple[PrivateRepository, Path, str]:
    """A private repository of three files with one workspace."""
    base = user.commit({"a.txt": "one\ntwo\nthree\n", "b.txt": "b\n", "src/c.py": "c\n", ".gitignore": "ignored/\n"})
    await private.create(await private.inspect(str(user.path)))
    return private, await private.open_workspace("step-1", base, "step-1"), base


def kinds(changes) -> dict[str, str]:
    return {change.path: change.kind.value for change in changes}


# What the user gives: B1, B2, B5


@pytest.mark.parametrize(
    ("prepare", "source", "base", "said"),
    [
        ("true", "nowhere", None, "no such folder"),
        ("mkdir plain", "plain", None, "not in a git repository"),
        ("git init -q empty", "empty", None, "no commits"),
        ("git init -q --bare bare.git", "bare.git", None, "bare repository"),
        ("git init -q r && git -C r commit -q --allow-empty -m x", "r/.git", None, "inside a .git folder"),
        ("git init -q r && git -C r commit -q --allow-empty -m x", "r", "v9", "base 'v9' names no commit"),
        ("git init -q r && git -C r commit -q --allow-empty -m x && git -C r branch baton", "r", None, "named 'baton'"),
        ("true", "file:///nowhere/at/all", None, "cannot be read"),
    ],
)
async def test_unusable_sources_are_refused_with_a_message(private, user, tmp_path, prepare, source, base, said):
    subprocess.run(["bash", "-c", prepare], cwd=tmp_path, env=user.environment, check=True)
    place = source if "://" in source else str(tmp_path / source)
    with pytest.raises(BadRepository, match=said):
        await private.inspect(place, base)
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(("kept", "missing"), [("blob:none", "3 objects"), ("tree:0", "1 object")])
async def test_a_partial_clone_is_refused_until_the_commit_is_there(private, user, tmp_path, kept, missing):
    first = user.commit({"a.txt": "a\n", "b.txt": "b\n", "deep/c.txt": "c\n"})
    user.commit({"a.txt": "new\n"})
    for name in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
        user.git("config", name, "true")
    partial = User(tmp_path / "partial", user.path.parent / "home")
    user.git("clone", "-q", "--no-checkout", f"--filter={kept}", f"file://{user.path}", str(tmp_path / "partial"))
    before = partial.snapshot()
    with pytest.raises(BadRepository, match=f"partial clone: {missing} .*{first[:12]}.*without --filter"):
        await private.inspect(str(partial.path), "HEAD~1")
    assert partial.snapshot() == before
    assert not (tmp_path / "state").exists()
    partial.git("checkout", "-q", first)
    await private.create(await private.inspect(str(partial.path)))
    workspace = await private.open_workspace("step-1", first, "step-1")
    assert (workspace / "deep/c.txt").read_text() == "c\n"
    assert "3 files" in await survey(private, first)


async def test_git_that_is_missing_or_too_old_is_named(tmp_path, user):
    user.commit()
    tools = tmp_path / "tools"
    tools.mkdir()
    repository = PrivateRepository(tmp_path / "task", user.environment | {"PATH": str(tools)})
    with pytest.raises(BadRepository, match="not installed"):
        await repository.inspect(str(user.path))
    (tools / "git").write_text("#!/bin/sh\necho git version 2.30.1\n")
    (tools / "git").chmod(0o755)
    with pytest.raises(BadRepository, match=r"2\.38 or newer"):
        await repository.inspect(str(user.path))


async def test_facts_of_a_dirty_checkout_seen_from_a_subfolder(user, private):
    base = user.commit({"a.txt": "a\n", "deep/b.txt": "b\n"})
    user.write({"a.txt": "changed\n", "new.txt": "n\n", "other new.txt": "n\n"})
    user.git("add", "new.txt")
    before = user.snapshot()
    facts = await private.inspect(str(user.path / "deep"))
    assert user.snapshot() == before
    assert (facts.top_level, facts.base_commit, facts.branch) == (user.path, base, "main")
    assert (facts.modified, facts.untracked, facts.conflicted, facts.operation) == (2, 1, 0, None)
    assert facts.identity == Identity(name="Ada Lovelace", email="ada@example.org")
    assert "2 modified, 1 untracked" in facts.describe()
    assert facts == type(facts).model_validate_json(facts.model_dump_json())


async def test_a_rebase_in_progress_with_conflicts_is_seen_and_left_alone(user, private):
    first = user.commit({"a.txt": "a\n"})
    user.commit({"a.txt": "ours\n"})
    user.git("checkout", "-q", "-b", "side", first)
    user.commit({"a.txt": "theirs\n"})
    with pytest.raises(subprocess.CalledProcessError):
        user.git("rebase", "main")
    before = user.snapshot()
    facts = await private.inspect(str(user.path))
    await private.create(facts)
    assert user.snapshot() == before
    assert (facts.operation, facts.conflicted, facts.branch) == ("rebase", 1, None)
    assert await private.result() == facts.base_commit


async def test_detached_heads_and_commits_that_no_branch_reaches(user, private, tmp_path):
    user.commit({"a.txt": "a\n"})
    user.git("checkout", "-q", "--detach")
    alone = user.commit({"a.txt": "alone\n"})
    lost = user.commit({"a.txt": "lost\n"})
    user.git("reset", "-q", "--hard", alone)
    facts = await private.inspect(str(user.path))
    assert facts.branch is None
    await private.create(facts)
    assert await private.read_file(facts.base_commit, "a.txt") == b"alone\n"
    named = PrivateRepository(tmp_path / "named", user.environment)
    await named.create(await named.inspect(str(user.path), base=lost))
    assert await named.read_file(lost, "a.txt") == b"lost\n"


async def test_a_shallow_clone_and_a_linked_worktree_and_an_empty_tree(user, private, tmp_path):
    for number in range(3):
        user.commit({"a.txt": f"{number}\n"})
    user.git("clone", "-q", "--depth=1", f"file://{user.path}", str(tmp_path / "shallow"))
    facts = await private.inspect(str(tmp_path / "shallow"))
    assert facts.shallow
    await private.create(facts)
    workspace = await private.open_workspace("step-1", facts.base_commit, "step-1")
    (workspace / "a.txt").write_text("new\n")
    commit = await private.checkpoint(workspace, "x", TRAILERS)
    assert await private.publish(facts.top_level, "task", commit) == "baton/task"

    user.git("worktree", "add", "-q", "-b", "linked", str(tmp_path / "linked"))
    second = PrivateRepository(tmp_path / "second", user.environment)
    facts = await second.inspect(str(tmp_path / "linked"))
    assert (facts.branch, facts.top_level) == ("linked", tmp_path / "linked")
    await second.create(facts)

    subprocess.run(["git", "init", "-q", str(tmp_path / "bare-tree")], env=user.environment, check=True)
    user.git("commit", "-q", "--allow-empty", "-m", "nothing", cwd=tmp_path / "bare-tree")
    third = PrivateRepository(tmp_path / "third", user.environment)
    await third.create(await third.inspect(str(tmp_path / "bare-tree")))
    assert await third.list_files(await third.result()) == []


async def test_a_url_is_cloned_and_nothing_is_published(user, private):
    first = user.commit({"a.txt": "a\n"})
    user.git("tag", "-a", "v1", "-m", "first")
    user.commit({"a.txt": "b\n"})
    url = f"file://{user.path}"
    assert (await private.inspect(url, "v1")).base_commit == first
    assert (await private.inspect(url, first)).base_commit == first
    facts = await private.inspect(url, "main")
    assert facts.top_level is None
    await private.create(facts)
    assert await private.read_file(await private.result(), "a.txt") == b"b\n"
    assert await private.publish(facts.top_level, "task", await private.result()) is None
    with pytest.raises(BadRepository, match="names no branch"):
        await private.inspect(url, "nope")


async def test_no_identity_failing_signing_and_hooks_that_fail(user, private, tmp_path):
    base = user.commit({"a.txt": "a\n"})
    config = tmp_path / "home" / ".gitconfig"
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("pre-commit", "post-checkout", "commit-msg", "reference-transaction", "post-merge", "fsmonitor"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/hook-ran\nexit 1\n")
        (hooks / name).chmod(0o755)
    config.write_text(
        f"[commit]\ngpgsign = true\n[gpg]\nprogram = false\n[core]\nhooksPath = {hooks}\n"
        f"fsmonitor = {hooks}/fsmonitor\nautocrlf = true\n"
        "[merge]\nconflictStyle = zdiff3\n[fetch]\nprune = true\nwriteCommitGraph = true\n"
    )
    shutil.copytree(hooks, user.path / ".git/hooks", dirs_exist_ok=True)
    before = config.read_bytes()
    facts = await private.inspect(str(user.path))
    assert facts.identity == Identity()
    await private.create(facts)
    workspace = await private.open_workspace("step-1", base, "step-1")
    (workspace / "crlf.txt").write_bytes(b"a\r\nb\n")
    commit = await private.checkpoint(workspace, "subject", TRAILERS)
    assert await private.read_file(commit, "crlf.txt") == b"a\r\nb\n"
    merged = await private.merge_step(["step-1"], "step", TRAILERS)
    assert await private.publish(user.path, "task", merged.commit) == "baton/task"
    assert config.read_bytes() == before
    assert not (tmp_path / "hook-ran").exists()
    assert user.git("log", "-1", "--format=%an <%ae> %cn", "baton/task") == "Baton <baton@localhost> Baton"


# Invariant 5


async def test_the_user_s_repository_is_byte_identical_but_for_one_ref(user, private):
    base = user.commit({name: f"{number}\n" for number, name in enumerate(ODD_NAMES)} | {"dir/kept.txt": "k\n"})
    user.commit({"later.txt": "l\n"})
    user.write({"Case.txt": "stashed\n"})
    user.git("stash")
    user.git("tag", "v1")
    user.write({"case.txt": "modified\n", "staged.txt": "s\n", "untracked.txt": "u\n"})
    user.git("add", "staged.txt")
    user.git("config", "alias.x", "status")
    os.utime(user.path / "Case.txt", (1, 1))  # a file a plain `git status` would refresh in the index
    before = user.snapshot()

    facts = await private.inspect(str(user.path), base="HEAD~1")
    assert facts.base_commit == base
    await private.create(facts)
    first = await private.open_workspace("step-1", base, "step-1")
    second = await private.open_workspace("review", base)
    (first / "dir/kept.txt").write_text("changed\n")
    await private.checkpoint(first, "turn", {"Baton-Turn": "1"})
    await private.reset(first)
    await private.changed_paths(second)
    merged = await private.merge_step(["step-1"], "Step one", TRAILERS)
    await private.close_workspace("review")
    assert user.snapshot() == before

    assert await private.publish(user.path, "task", merged.commit) == "baton/task"
    after = user.snapshot()
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    git = user.path / ".git"
    allowed = {str(git / path) for path in ("refs/heads/baton", "refs/heads/baton/task", "logs/refs/heads/baton")}
    allowed.add(str(git / "logs/refs/heads/baton/task"))
    rest = changed - allowed
    assert all(path.startswith(str(git / "objects")) and path not in before for path in rest), rest
    assert user.git("log", "-1", "--format=%an %ae|%cn|%s|%P", "baton/task") == (
        f"Ada Lovelace ada@example.org|Ada Lovelace|Step one|{base}"
    )
    again = user.snapshot()
    assert await private.publish(user.path, "task", merged.commit) == "baton/task"
    assert user.snapshot() == again


async def test_a_result_branch_that_is_checked_out_or_holds_other_work_is_left_alone(user, opened, tmp_path):
    private, workspace, _ = opened
    (workspace / "a.txt").write_text("x\n")
    await private.checkpoint(workspace, "turn", {})
    first = (await private.merge_step(["step-1"], "one", TRAILERS)).commit
    await private.publish(user.path, "task", first)
    (workspace / "b.txt").write_text("y\n")
    await private.checkpoint(workspace, "turn", {})
    second = (await private.merge_step(["step-1"], "two", TRAILERS | {"Baton-Step": "2"})).commit
    user.git("worktree", "add", "-q", str(tmp_path / "elsewhere"), "baton/task")
    assert await private.publish(user.path, "task", second) == "baton/task-2"
    assert await private.publish(user.path, "task", second) == "baton/task-2"
    assert user.git("rev-parse", "baton/task") == first
    user.git("worktree", "remove", str(tmp_path / "elsewhere"))
    user.git("branch", "-D", "baton/task-2")
    user.git("branch", "-f", "baton/task", user.commit({"own.txt": "the user's own work\n"}))
    assert await private.publish(user.path, "task", second) == "baton/task-2"


# Workspaces: B3, B4, E4


async def test_32_workspaces_open_at_once_without_stray_branches(user, private):
    base = user.commit({"a.txt": "a\n"})
    await private.create(await private.inspect(str(user.path)))
    names = [f"step-{number}" for number in range(32)]
    paths = await asyncio.gather(*(private.open_workspace(name, base, name) for name in names))
    assert all((path / "a.txt").read_text() == "a\n" for path in paths)
    branches = await private.git().text("for-each-ref", "--format=%(refname:short)", "refs/heads")
    assert sorted(branches.splitlines()) == sorted([*names, "result"])


async def test_two_repositories_objects_open_the_same_workspace_at_once(user, private, tmp_path):
    base = user.commit({"a.txt": "a\n"})
    facts = await private.inspect(str(user.path))
    others = [PrivateRepository(tmp_path / "state/task", user.environment) for _ in range(4)]
    await asyncio.gather(*(other.create(facts) for other in others))
    assert len(set(await asyncio.gather(*(other.open_workspace("s", base, "s") for other in others)))) == 1


async def test_a_healthy_workspace_is_kept_as_it_is(opened):
    private, workspace, base = opened
    (workspace / "a.txt").write_text("in work\n")
    (workspace / "ignored").mkdir()
    (workspace / "ignored/x").write_text("x")
    assert await private.open_workspace("step-1", base, "step-1") == workspace
    assert (workspace / "a.txt").read_text() == "in work\n"
    assert (workspace / "ignored/x").exists()


@pytest.mark.parametrize(
    "damage",
    [
        "rm -rf workspaces/step-1",
        "rm -rf workspaces/step-1 && touch workspaces/step-1",
        "rm -rf repository.git/worktrees/step-1",
        "git --git-dir=repository.git worktree lock step-1 && rm -rf workspaces/step-1",
        "rm repository.git/worktrees/step-1/index",
        "rm repository.git/worktrees/step-1/baton-ready",
        "mkdir -p workspaces/step-1/ro/x && chmod 500 workspaces/step-1/ro && rm repository.git/worktrees/step-1/[Hb]*",
    ],
)
async def test_a_broken_workspace_is_made_again_from_its_last_checkpoint(opened, tmp_path, damage):
    private, workspace, base = opened
    (workspace / "a.txt").write_text("checkpointed\n")
    commit = await private.checkpoint(workspace, "turn", {"Baton-Turn": "7"})
    subprocess.run(["bash", "-c", damage], cwd=tmp_path / "state/task", check=True)
    assert await private.open_workspace("step-1", base, "step-1") == workspace
    assert (workspace / "a.txt").read_text() == "checkpointed\n"
    assert await private.head(workspace) == (commit, {"Baton-Turn": "7"})
    assert await private.changed_paths(workspace) == []


async def test_reset_makes_a_deleted_workspace_again(opened):
    private, workspace, base = opened
    shutil.rmtree(workspace)
    await private.reset(workspace)
    assert (workspace / "src/c.py").read_text() == "c\n"
    assert await private.changed_paths(workspace, base) == []


@pytest.mark.parametrize(
    "damage",
    [
        "echo junk > $INDEX",
        ": > $INDEX",
        "git update-index --assume-unchanged a.txt",
        "git update-index --split-index; rm ${INDEX%/*}/sharedindex.*",
    ],
)
async def test_a_kill_while_the_index_is_made_anew_costs_no_workspace(opened, user, tmp_path, damage):
    private, workspace, base = opened
    (workspace / "ignored").mkdir()
    (workspace / "ignored" / "environment").write_text("of set-up\n")
    (workspace / "a.txt").write_text("in work\n")
    environment = user.environment | {"INDEX": str(private.path / "worktrees/step-1/index")}
    subprocess.run(["bash", "-c", damage], cwd=workspace, env=environment, check=True)
    program = tmp_path / "programs" / "git"
    program.parent.mkdir()
    # Whatever would bring files or index to a commit is never reached.
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *"read-tree --reset"*) exit 1;; esac\nexec {shutil.which("git")} "$@"\n'
    )
    program.chmod(0o755)
    killed = PrivateRepository(
        tmp_path / "state" / "task", user.environment | {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    )
    with pytest.raises(GitError):
        await killed.reset(workspace)
    with pytest.raises(GitError):
        await killed.untracked(workspace)
    await private.open_workspace("step-1", base, "step-1")
    await private.reset(workspace)
    assert (workspace / "ignored" / "environment").read_text() == "of set-up\n"
    assert (workspace / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert await private.changed_paths(workspace) == []


@pytest.mark.parametrize("index", ["junk", "of another"])
async def test_an_index_that_became_a_link_is_not_written_through(opened, user, index):
    private, workspace, base = opened
    elsewhere = user.path / ".git" / "index"
    if index == "junk":
        elsewhere.write_text("junk\n")
    before = elsewhere.read_bytes()
    place = private.path / "worktrees/step-1/index"
    place.unlink()
    place.symlink_to(elsewhere)
    (workspace / "a.txt").write_text("work\n")
    (workspace / "new.txt").write_text("new\n")
    commit = await private.checkpoint(workspace, "turn", {})
    assert kinds(await private.changed_between(base, commit)) == {"a.txt": "modified", "new.txt": "added"}
    assert elsewhere.read_bytes() == before
    place.unlink()
    place.symlink_to(elsewhere)
    await private.reset(workspace, base)
    assert await private.changed_paths(workspace) == []
    assert elsewhere.read_bytes() == before


async def test_changes_that_are_taken_back_are_so_when_the_call_is_over_also_cancelled(opened):
    private, workspace, _ = opened
    folder = workspace / "b.txt"
    folder.unlink()
    folder.mkdir()
    for number in range(3000):
        (folder / str(number)).touch()
    gone = [change for change in await private.changed_paths(workspace) if change.path == "b.txt"]
    taking_back = asyncio.create_task(private.restore(workspace, gone))
    while folder.is_dir() and sum(1 for _ in folder.iterdir()) == 3000:
        await asyncio.sleep(0)
    taking_back.cancel()
    await asyncio.wait({taking_back})
    assert not folder.is_dir()


async def test_a_git_file_that_a_command_replaced_is_put_back_and_work_stays(opened):
    private, workspace, base = opened
    (workspace / ".git").unlink()
    subprocess.run(["git", "init", "-q"], cwd=workspace, check=True)
    (workspace / "a.txt").write_text("in work\n")
    await private.open_workspace("step-1", base, "step-1")
    assert (workspace / ".git").is_file()
    assert kinds(await private.changed_paths(workspace)) == {"a.txt": "modified"}


async def test_the_files_of_closed_workspaces_are_gone_with_the_spares_also_after_a_kill(opened):
    private, workspace, base = opened
    (workspace / "link").symlink_to("/")
    await private.close_workspace("step-1")
    assert not workspace.exists()
    again = await private.open_workspace("step-1", base, "step-1")
    assert (again / "a.txt").is_file()
    await private.remove_spares()
    left = workspace.parents[1] / "gone" / "of-a-killed-process"
    (left / "deep").mkdir(parents=True)
    remove_left(left.parents[2])
    assert not left.parent.exists()
    assert (again / "a.txt").is_file()


async def test_close_removes_the_folder_and_keeps_the_branch_unless_it_is_a_throwaway(opened):
    private, workspace, base = opened
    throwaway = await private.open_workspace("review-1", base)
    (throwaway / "a.txt").write_text("x")
    await private.checkpoint(throwaway, "x", {})
    await private.close_workspace("review-1")
    await private.close_workspace("review-1")
    await private.close_workspace("step-1")
    refs = await private.git().text("for-each-ref", "--format=%(refname)")
    assert "refs/heads/step-1" in refs
    assert "review-1" not in refs
    assert not workspace.exists()
    assert not throwaway.exists()


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".git", "-x", "a..b", "x.lock"])
async def test_names_that_lead_elsewhere_are_refused(opened, name):
    private, _, base = opened
    with pytest.raises(ValueError, match="no name of a workspace"):
        await private.open_workspace(name, base, "b")


@pytest.mark.parametrize("milliseconds", [5, 20, 60])
async def test_a_kill_at_any_point_of_create_and_open_is_made_good_by_the_next_attempt(
    user, private, tmp_path, milliseconds
):
    base = user.commit({f"{number}.txt": "x" * 100 for number in range(200)})
    facts = await private.inspect(str(user.path))
    (tmp_path / "facts.json").write_text(facts.model_dump_json())
    script = (
        "import asyncio, os, sys\nfrom pathlib import Path\n"
        "from activities.repository import PrivateRepository, remove_left, SourceFacts\n"
        f"facts = SourceFacts.model_validate_json(Path({str(tmp_path / 'facts.json')!r}).read_text())\n"
        f"private = PrivateRepository(Path({str(tmp_path / 'state/task')!r}), os.environ)\n"
        "async def main():\n    print('go', flush=True)\n    await private.create(facts)\n"
        "    await private.open_workspace('step-1', facts.base_commit, 'step-1')\nasyncio.run(main())\n"
    )
    environment = user.environment | {"PYTHONPATH": str(Path(__file__).parents[2])}
    first = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, env=environment, stdout=asyncio.subprocess.PIPE
    )
    assert first.stdout is not None
    await first.stdout.readline()
    await asyncio.sleep(milliseconds / 1000)
    if first.returncode is None:
        first.kill()
    await first.communicate()
    await private.create(facts)
    workspace = await private.open_workspace("step-1", base, "step-1")
    assert len(list(workspace.glob("*.txt"))) == 200
    assert await private.changed_paths(workspace) == []
    assert not (tmp_path / "state/task/repository.partial").exists()


# Checkpoints: B3, D6


async def test_checkpoint_head_and_reset(opened):
    private, workspace, base = opened
    (workspace / "a.txt").write_text("changed\n")
    (workspace / "b.txt").unlink()
    (workspace / "new.txt").write_text("new\n")
    (workspace / "run.sh").write_text("#!/bin/sh\n")
    (workspace / "run.sh").chmod(0o755)
    expected = {"a.txt": "modified", "b.txt": "deleted", "new.txt": "added", "run.sh": "added"}
    assert kinds(await private.changed_paths(workspace)) == expected
    first = await private.checkpoint(
        workspace, "executor-2 · turn 1", {"Baton-Agent": "executor-2", "Baton-Result": "ab"}
    )
    assert await private.head(workspace) == (first, {"Baton-Agent": "executor-2", "Baton-Result": "ab"})
    assert kinds(await private.changed_between(base, first)) == expected
    assert kinds(await private.changed_paths(workspace, base)) == expected
    empty = await private.checkpoint(workspace, "nothing", {"Baton-Turn": "2"})
    assert empty != first
    assert await private.changed_between(first, empty) == []

    (workspace / "a.txt").write_text("half-applied\n")
    (workspace / "stray").mkdir()
    (workspace / "stray/x").write_text("x")
    (workspace / "ignored").mkdir()
    (workspace / "ignored/cache").write_text("x")
    (workspace / "src/c.py").unlink()
    await private.reset(workspace)
    assert (workspace / "a.txt").read_text() == "changed\n"
    assert (workspace / "src/c.py").exists()
    assert not (workspace / "stray").exists()
    assert (workspace / "ignored/cache").exists()
    await private.reset(workspace, base)
    assert (await private.head(workspace))[0] == base
    assert (workspace / "b.txt").exists()
    assert not (workspace / "new.txt").exists()


async def test_a_change_that_was_taken_back_is_no_change(opened):
    private, workspace, base = opened
    (workspace / "a.txt").write_text("changed\n")
    (workspace / "b.txt").unlink()
    await private.checkpoint(workspace, "turn 1", {})
    (workspace / "a.txt").write_text("one\ntwo\nthree\n")
    (workspace / "b.txt").write_text("b\n")
    assert "a.txt" not in kinds(await private.changed_paths(workspace, base))
    await private.checkpoint(workspace, "turn 2", {})
    assert await private.changed_paths(workspace, base) == []


async def test_odd_names_go_through_changes_checkpoint_merge_and_reading(opened):
    private, workspace, base = opened
    for name in ODD_NAMES:
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).write_text(name)
    (workspace / os.fsdecode(b"not-utf8-\xff")).write_text("x")
    expected = {*ODD_NAMES, "not-utf8-\\xff"}
    assert set(kinds(await private.changed_paths(workspace))) == expected
    commit = await private.checkpoint(workspace, "odd", {})
    assert set(kinds(await private.changed_between(base, commit))) == expected
    assert set(await private.list_files(commit)) >= expected
    assert await private.read_file(commit, "new\nline.txt") == b"new\nline.txt"
    merged = await private.merge_step(["step-1"], "odd", TRAILERS)
    assert {change.path for change in merged.changes} == expected
    for name in ODD_NAMES:
        (workspace / name).unlink()
    await private.reset(workspace)
    assert all((workspace / name).read_text() == name for name in ODD_NAMES)


async def test_caches_nested_repositories_and_links_outside_are_not_committed(opened, tmp_path):
    private, workspace, base = opened
    (tmp_path / "secret").write_text("secret")
    for name in (
        "__pycache__/a.pyc",
        "src/__pycache__/c.pyc",
        ".pytest_cache/v",
        "node_modules/m/index.js",
        "ignored/x",
    ):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text("x")
    for name in ("nested", "src/empty-nested"):
        subprocess.run(["git", "init", "-q", str(workspace / name)], check=True)
    (workspace / "nested/file").write_text("x")
    (workspace / "outside").symlink_to(tmp_path / "secret")
    (workspace / "relative-outside").symlink_to("../../../../secret")
    (workspace / "absolute-inside").symlink_to(workspace / "a.txt")
    (workspace / "dangling-outside").symlink_to("../../nothing")
    (workspace / "inside").symlink_to("src/c.py")
    os.mkfifo(workspace / "pipe")
    commit = await private.checkpoint(workspace, "turn", {})
    assert kinds(await private.changed_between(base, commit)) == {"inside": "added"}
    reasons = {entry.path: entry.reason for entry in await private.left_out(workspace)}
    assert set(reasons) == {
        "outside",
        "relative-outside",
        "absolute-inside",
        "dangling-outside",
        "nested/",
        "src/empty-nested/",
    }


async def test_what_was_copied_in_is_never_committed(opened):
    private, workspace, base = opened
    names = [".env.test", "data [1]*.txt", "folder with space"]
    await asyncio.gather(private.exclude(names), private.exclude([".env.test"]))
    for name in (".env.test", "data [1]*.txt", "folder with space/x", "data 1.txt"):
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).write_text("secret")
    commit = await private.checkpoint(workspace, "turn", {})
    assert kinds(await private.changed_between(base, commit)) == {"data 1.txt": "added"}


async def test_files_folders_and_links_that_change_places(opened):
    private, workspace, base = opened
    (workspace / "a.txt").unlink()
    (workspace / "a.txt").mkdir()
    (workspace / "a.txt/inner").write_text("x")
    shutil.rmtree(workspace / "src")
    (workspace / "src").write_text("now a file")
    (workspace / "b.txt").unlink()
    (workspace / "b.txt").symlink_to("src")
    commit = await private.checkpoint(workspace, "turn", {})
    found = kinds(await private.changed_between(base, commit))
    assert found == {"a.txt": "deleted", "a.txt/inner": "added", "src": "added", "src/c.py": "deleted", "b.txt": "type"}
    await private.reset(workspace, base)
    assert (workspace / "src/c.py").read_text() == "c\n"
    assert (workspace / "a.txt").is_file()


async def test_a_folder_that_became_a_link_is_committed(opened):
    private, workspace, base = opened
    (workspace / "src").rename(workspace / "moved")
    (workspace / "src").symlink_to("moved")
    commit = await private.checkpoint(workspace, "turn", {})
    found = kinds(await private.changed_between(base, commit))
    assert found == {"moved/c.py": "added", "src": "added", "src/c.py": "deleted"}
    assert await private.changed_paths(workspace) == []


async def test_a_folder_that_became_a_link_outside_is_put_back_without_touching_the_outside(opened, tmp_path):
    private, workspace, _ = opened
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "c.py").write_text("theirs\n")
    shutil.rmtree(workspace / "src")
    (workspace / "src").symlink_to(outside)
    assert kinds(await private.changed_paths(workspace)) == {"src/c.py": "deleted"}
    await private.reset(workspace)
    assert (workspace / "src/c.py").read_text() == "c\n"
    assert not (workspace / "src").is_symlink()
    assert (outside / "c.py").read_text() == "theirs\n"
    (workspace / "linked").symlink_to(outside)
    await private.close_workspace("step-1")
    assert [path.name for path in outside.iterdir()] == ["c.py"]


async def test_what_commands_do_with_git_does_not_count(opened):
    private, workspace, base = opened
    (workspace / "a.txt").write_text("work\n")
    subprocess.run(
        ["bash", "-c", "git add -A && git commit -q -m mine && git checkout -q -b mine && git rm -q --cached b.txt"],
        cwd=workspace,
        check=True,
    )
    administration = Path(
        subprocess.run(
            ["git", "rev-parse", "--absolute-git-dir"], cwd=workspace, check=True, capture_output=True, text=True
        ).stdout.strip()
    )
    (administration / "index.lock").touch()
    (administration.parents[1] / "refs/heads/step-1.lock").touch()
    assert await private.head(workspace) == (base, {})
    commit = await private.checkpoint(workspace, "turn", {})
    assert kinds(await private.changed_between(base, commit)) == {"a.txt": "modified"}
    assert await private.git().text("rev-parse", f"{commit}^") == base
    await private.reset(workspace)
    status = subprocess.run(
        ["git", "status", "--porcelain", "-b"], cwd=workspace, check=True, capture_output=True, text=True
    )
    assert status.stdout == "## HEAD (no branch)\n"


async def test_a_model_s_git_cannot_reach_the_user_s_repository(opened):
    _, workspace, _ = opened
    remotes = subprocess.run(["git", "remote", "-v"], cwd=workspace, check=True, capture_output=True, text=True)
    assert remotes.stdout == ""


async def test_trailers_that_could_not_be_read_back_are_refused(opened):
    private, workspace, _ = opened
    with pytest.raises(ValueError, match="must be one line"):
        await private.checkpoint(workspace, "x", {"Baton-Turn": "1\nBaton-Agent: other"})
    await private.checkpoint(workspace, "a subject: with\n\nBaton-Turn: 9", {})
    assert (await private.head(workspace))[1] == {}


# Merges


async def test_steps_become_one_commit_each_and_merging_twice_changes_nothing(opened):
    private, workspace, base = opened
    for number in range(3):
        (workspace / f"{number}.txt").write_text("x")
        await private.checkpoint(workspace, f"turn {number}", {})
    first = await private.merge_step(["step-1"], "Step 1", TRAILERS)
    assert (first.kind, len(first.changes)) == (MergeKind.MERGED, 3)
    again = await private.merge_step(["step-1"], "Step 1", TRAILERS)
    assert (again.kind, again.commit, again.changes) == (MergeKind.ALREADY, first.commit, first.changes)
    second = await private.open_workspace("step-2", await private.result(), "step-2")
    (second / "a.txt").write_text("one\ntwo\nTHREE\n")
    await private.checkpoint(second, "turn", {})
    merged = await private.merge_step(
        ["step-2"], "Step 2", TRAILERS | {"Baton-Step": "2"}, Identity(name="B", email="b@c")
    )
    assert await private.result() == merged.commit
    log = await private.git().text("log", "--format=%an|%s", f"{base}..{merged.commit}")
    assert log.splitlines() == ["B|Step 2", "Ada Lovelace|Step 1"]
    patch = await private.diff(first.commit, merged.commit)
    assert "-three" in patch
    assert "+THREE" in patch
    assert "bytes left out" in await private.diff(base, merged.commit, limit_bytes=50)
    third = await private.open_workspace("step-3", merged.commit, "step-3")
    (third / "a.txt").write_text("one\ntwo\nthree\n")
    (third / "0.txt").unlink()
    await private.checkpoint(third, "turn", {})
    for _ in range(2):
        back = await private.merge_step(["step-3"], "Step 3", TRAILERS | {"Baton-Step": "3"})
        assert kinds(back.changes) == {"0.txt": "deleted", "a.txt": "modified"}
        assert back.undoes == {2: ("a.txt",)}


async def test_parallel_steps_merge_cleanly_or_name_the_conflicts(opened):
    private, one, base = opened
    two = await private.open_workspace("step-2", base, "step-2")
    nothing = await private.open_workspace("step-3", base, "step-3")
    (one / "a.txt").write_text("ONE\ntwo\nthree\n")
    (two / "a.txt").write_text("other\ntwo\nthree\n")
    (one / "b.txt").unlink()
    (two / "b.txt").write_text("changed\n")
    (one / "sp ace\n.txt").write_text("1")
    (two / "sp ace\n.txt").write_text("2")
    for workspace in (one, two, nothing):
        await private.checkpoint(workspace, "turn", {})
    first = await private.merge_step(["step-1"], "one", TRAILERS)
    conflict = await private.merge_step(["step-2"], "two", TRAILERS | {"Baton-Step": "2"})
    assert (conflict.kind, conflict.commit) == (MergeKind.CONFLICT, first.commit)
    assert set(conflict.conflicts) == {"a.txt", "b.txt", "sp ace\n.txt"}
    assert await private.result() == first.commit
    unchanged = await private.merge_step(["step-3"], "three", TRAILERS | {"Baton-Step": "3"})
    assert (unchanged.kind, unchanged.commit) == (MergeKind.NOTHING, first.commit)
    with pytest.raises(GitError):
        await private.merge_step("no-such-branch", "x", TRAILERS | {"Baton-Step": "4"})


async def test_a_stale_lock_of_a_killed_merge_is_removed(opened):
    private, workspace, _ = opened
    (workspace / "a.txt").write_text("x\n")
    await private.checkpoint(workspace, "turn", {})
    (private.path / "refs/heads/result.lock").touch()
    assert (await private.merge_step(["step-1"], "one", TRAILERS)).kind is MergeKind.MERGED


async def test_reading_a_commit(opened):
    private, _, base = opened
    assert await private.list_files(base) == [".gitignore", "a.txt", "b.txt", "src/c.py"]
    assert await private.read_file(base, "a.txt", limit_bytes=3) == b"one"
    with pytest.raises(FileNotFoundError, match=r"nope\.txt"):
        await private.read_file(base, "nope.txt")
    assert ChangeKind("added") is ChangeKind.ADDED

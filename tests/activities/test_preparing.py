"""Set-up and copied files in a workspace."""

from pathlib import Path

import pytest

from activities.commands import Sandbox, find_sandbox
from activities.preparing import faults, prepare
from activities.source_repository import Identity
from tests.activities.test_gates import environment, put, workspace

__all__ = ["environment", "workspace"]


async def test_prepare_copies_and_sets_up(tmp_path, workspace, environment):
    user = tmp_path / "user"
    put(
        user, {".env.test": "A=1", "data/a/b.txt": "b", "data/.git/config": "x", "tracked.txt": "user's", "deep/x": "x"}
    )
    put(tmp_path, {"outside/secret": "secret"})
    (user / "link-out").symlink_to(tmp_path / "outside/secret")
    (user / "data/link-out").symlink_to(tmp_path / "outside")
    (user / "folder-out").symlink_to(tmp_path / "outside")
    put(workspace, {"tracked.txt": "workspace's"})
    (workspace / "deep").symlink_to(tmp_path / "outside")
    names = [
        ".env.test",
        "data",
        "tracked.txt",
        "link-out",
        "folder-out/secret",
        "../outside/secret",
        "/etc/hosts",
        "nope",
    ]
    names += [".git/config", "deep/x"]
    commands = ["echo made > made", "test -e .env.test && echo second >> made"]
    done = await prepare(workspace, commands, names, user, environment)
    assert done.copied == (".env.test", "data/a/b.txt")
    assert done.failure is None
    assert {line.split(":")[0] for line in done.refused} == {
        "link-out",
        "folder-out/secret",
        "../outside/secret",
        "/etc/hosts",
        "nope",
        ".git/config",
        "deep/x",
    }
    assert (workspace / "made").read_text() == "made\nsecond\n"
    assert (workspace / "tracked.txt").read_text() == "workspace's"
    assert list((tmp_path / "outside").iterdir()) == [tmp_path / "outside/secret"]
    assert (await prepare(workspace, [], names, user, environment)).copied == ()


async def test_a_failing_set_up_stops_and_says_which_command(workspace, environment):
    done = await prepare(workspace, ["true", "echo why >&2; exit 4", "touch never"], [".env"], None, environment)
    assert done.failure == "the set-up command `echo why >&2; exit 4` ended with exit code 4"
    assert done.output == "why\n"
    assert not (workspace / "never").exists()


async def test_what_a_package_manager_installed_is_copied_with_its_links(tmp_path, workspace, environment):
    user = tmp_path / "user"
    put(user, {"node_modules/tool/bin.sh": "#!/bin/sh\necho works\n", "packages/own/index.js": ""})
    (user / "node_modules/tool/bin.sh").chmod(0o755)
    (user / "node_modules/.bin").mkdir()
    (user / "node_modules/.bin/tool").symlink_to("../tool/bin.sh")
    (user / "node_modules/own").symlink_to("../packages/own")
    (user / "node_modules/absolute").symlink_to(user / "packages")
    (user / "node_modules/out").symlink_to("../../elsewhere")
    put(tmp_path, {"elsewhere/secret": "secret"})
    put(workspace, {"packages/own/index.js": "the workspace's"})
    done = await prepare(workspace, ["node_modules/.bin/tool > said"], ["node_modules"], user, environment)
    assert (done.failure, (workspace / "said").read_text()) == (None, "works\n")
    assert (workspace / "node_modules/own/index.js").read_text() == "the workspace's"
    assert sorted(done.copied) == ["node_modules/.bin/tool", "node_modules/own", "node_modules/tool/bin.sh"]


async def test_set_up_in_the_sandbox_shares_what_it_fetched(tmp_path, workspace, environment):
    if (program := await find_sandbox()) is None:
        pytest.skip("bubblewrap does not work here")
    sandbox = Sandbox(program, hidden=(tmp_path / "state",))
    downloads = tmp_path / "state" / "downloads"
    downloads.parent.mkdir()
    fetch = 'mkdir -p "$PIP_CACHE_DIR" && echo fetched >> "$PIP_CACHE_DIR/wheel" && cp "$PIP_CACHE_DIR/wheel" seen'
    for _ in range(2):
        done = await prepare(workspace, [fetch], [], None, environment, sandbox=sandbox, downloads=downloads)
        assert done.failure is None, done.output
    assert (workspace / "seen").read_text() == "fetched\nfetched\n"
    assert (downloads / "pip" / "wheel").exists()


async def test_git_in_the_sandbox_knows_the_user_and_tests_may_say_otherwise(tmp_path, workspace, environment):
    if (program := await find_sandbox()) is None:
        pytest.skip("bubblewrap does not work here")
    configuration = tmp_path / "state" / "gitconfig"
    configuration.parent.mkdir()
    configuration.write_text(Identity(name='Ada "the\\first" Lovelace', email="ada@example.org").as_configuration())
    sandbox = Sandbox(program, hidden=(tmp_path / "state",), git_configuration=configuration)
    commit = "git -C x commit -q --allow-empty -m y && git -C x log -1 --format=%an >> said"
    commands = ["git init -q x", f"{commit} && git config --global user.name Grace && {commit}"]
    done = await prepare(workspace, commands, [], None, {**environment, "HOME": str(tmp_path)}, sandbox=sandbox)
    assert done.failure is None, done.output
    assert (workspace / "said").read_text() == 'Ada "the\\first" Lovelace\nGrace\n'


def test_what_cannot_be_copied_is_a_warning(tmp_path: Path) -> None:
    put(tmp_path, {"there": ""})
    told = list(faults(["there", "not-there", "../out"], tmp_path))
    assert [line.partition(": ")[2] for line in told] == [
        "not there in the checkout",
        "not a path inside the repository",
    ]
    assert list(faults(["a"], None)) == [
        "`copy` in the settings names a, which no workspace gets: there is no checkout"
    ]

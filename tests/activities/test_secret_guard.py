"""Secrets do not get into files that are committed: not by a file tool, not by a command."""

import base64
import subprocess
from pathlib import Path

import pytest

from activities.repository import PrivateRepository
from activities.secret_guard import SecretGuard
from activities.tools import Tools
from baton.ownership import Ownership
from baton.permissions import Permissions
from tests.activities.test_tools import ENVIRONMENT, git

PASSWORD, TRACKED, EXAMPLE, CREDENTIAL = (
    "hunter2-is-a-pass",
    "tracked4-is-a-pass",
    "example5-is-a-pass",
    "key-of-the-user-1",
)
KEY_LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
PEM = f"-----BEGIN PRIVATE KEY-----\n{KEY_LINE}\n-----END PRIVATE KEY-----\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The user's: with a `.env` of its own that git ignores, and one in the repository."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for path, text in (
        (".gitignore", ".env\n"),
        (".env.test", f"DB_PASSWORD={TRACKED}\nAPI_KEY={EXAMPLE}\nLOG=debug\nSECRET_KEY=development\n"),
        (".env.example", f"API_KEY={EXAMPLE}\n"),
        ("a.py", "x = 1\n"),
        ("certs/test.pem", PEM),
    ):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "base")
    (folder / ".env").write_text(f"DB_PASSWORD={PASSWORD}\nPORT=3000\nAUTH_USER=postgres\n", encoding="utf-8")
    return folder


@pytest.fixture
async def place(checkout: Path, tmp_path: Path) -> tuple[PrivateRepository, Path]:
    repository = PrivateRepository(tmp_path / "task", ENVIRONMENT)
    facts = await repository.inspect(str(checkout))
    await repository.create(facts)
    return repository, await repository.open_workspace("step-1", facts.base_commit, "step-1")


async def tools_of(place: tuple[PrivateRepository, Path], checkout: Path | None) -> Tools:
    repository, workspace = place
    commit = await repository.last_checkpoint(workspace)
    command = repository.git_command(workspace)
    guard = SecretGuard(
        workspace,
        git=command,
        environment=ENVIRONMENT,
        base_commit=commit,
        commit=commit,
        credentials=[CREDENTIAL],
        readable=[checkout] if checkout else [],
    )
    return Tools(
        workspace,
        ownership=Ownership(),
        permissions=Permissions(),
        environment=ENVIRONMENT,
        sandbox_mode="off",
        base_commit=commit,
        git=command,
        guard=guard,
    )


REFUSED = {
    "a value of the user's file": PASSWORD,
    "a value of a tracked file of secrets": TRACKED,
    "a credential of the worker": CREDENTIAL,
    "in base64": base64.b64encode(f"x{PASSWORD}".encode()).decode(),
    "in a URL": f"postgres://u:{PASSWORD}@h/d",
    "broken over lines": f"{PASSWORD[:8]}\n{PASSWORD[8:]}",
    "a line of a key": KEY_LINE,
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_file_tool_refuses_to_write_a_secret(
    place: tuple[PrivateRepository, Path], checkout: Path, name: str
) -> None:
    tools, text = await tools_of(place, checkout), f'secret = "{REFUSED[name]}"\n'
    for tool, arguments in (
        ("write", {"content": text}),
        ("append", {"content": text, "at_line": 1}),
        ("edit", {"old_string": "x = 1\n", "new_string": text}),
    ):
        result = await tools.call(tool, {"file_path": "a.py", **arguments})
        assert result.is_error, tool
        assert "would hold a secret" in result.content
        assert REFUSED[name] not in result.content
        assert result.changed_paths == ()
    assert (place[1] / "a.py").read_text("utf-8") == "x = 1\n"


async def test_a_secret_in_two_halves_is_refused_when_it_is_whole(
    place: tuple[PrivateRepository, Path], checkout: Path
) -> None:
    tools = await tools_of(place, checkout)
    assert not (await tools.call("write", {"file_path": "b.py", "content": f"{PASSWORD[:9]}@\n"})).is_error
    second = {"file_path": "b.py", "old_string": "@", "new_string": PASSWORD[9:]}
    assert (await tools.call("edit", second)).is_error


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("b.py", "PORT = 3000; USER = 'postgres'; MODE = 'development'; HOST = 'localhost'\n"),
        ("b.py", f"DEFAULT_KEY = '{EXAMPLE}'\n"),
        (".env.test", f"DB_PASSWORD={TRACKED}\nLOG=info\n"),
        ("deploy/.env.test", f"DB_PASSWORD={TRACKED}\n"),
        ("tests/certs/test.pem", PEM),
        (".env.ci", "DB_PASSWORD=made-up-by-the-agent-1\n"),
    ],
)
async def test_what_is_no_secret_of_the_user_or_is_published_already_may_be_written(
    place: tuple[PrivateRepository, Path], checkout: Path, path: str, text: str
) -> None:
    tools = await tools_of(place, checkout)
    result = await tools.call("write", {"file_path": path, "content": text})
    assert not result.is_error, result.content
    assert await tools.guard.barred_paths([path]) == []


async def test_values_that_a_step_made_up_are_its_own(place: tuple[PrivateRepository, Path], checkout: Path) -> None:
    repository, workspace = place
    tools = await tools_of(place, checkout)
    made_up = "made-up-by-the-agent-1"
    assert not (await tools.call("bash", {"command": f"echo DB_PASSWORD={made_up} > .env.ci"})).is_error
    assert not (await tools.call("write", {"file_path": "ci.yml", "content": made_up})).is_error
    await repository.checkpoint(workspace, "one", {"A": "b"}, tools.guard.barred_paths)
    later = await tools_of(place, checkout)
    assert not (await later.call("write", {"file_path": "other.yml", "content": made_up})).is_error


async def test_what_set_up_left_in_an_ignored_file_is_a_secret(place: tuple[PrivateRepository, Path]) -> None:
    """Also where there is no checkout, and once the file is not ignored any more."""
    repository, workspace = place
    (workspace / ".env").write_text(f"DB_PASSWORD={PASSWORD}\n", encoding="utf-8")
    tools = await tools_of(place, None)
    assert (await tools.call("write", {"file_path": "b.py", "content": PASSWORD})).is_error
    assert not (await tools.call("write", {"file_path": ".gitignore", "content": "\n"})).is_error
    commit = await repository.checkpoint(workspace, "one", {"A": "b"}, tools.guard.barred_paths)
    assert ".env" not in await repository.list_files(commit)
    assert (workspace / ".env").is_file()


async def test_a_checkpoint_holds_no_secret_whatever_a_command_did(
    place: tuple[PrivateRepository, Path], checkout: Path
) -> None:
    repository, workspace = place
    tools = await tools_of(place, checkout)
    command = (
        f"cp {checkout}/.env copy.txt; base64 {checkout}/.env > coded.txt; gzip -c a.py > fine.gz; "
        f"cat {checkout}/.env >> a.py; touch {PASSWORD}.txt; head -c 3999990 /dev/zero | tr '\\0' x > long.txt; "
        f"cat {checkout}/.env >> long.txt; printf '\\0' > data.bin; "
        f"cat {checkout}/.env >> data.bin; echo fine > fine.txt; "
        f"cp {checkout}/.env \"$(printf 'n\\377.txt')\""
    )
    assert not (await tools.call("bash", {"command": command})).is_error
    commit = await repository.checkpoint(workspace, "one", {"A": "b"}, tools.guard.barred_paths)
    files = await repository.list_files(commit)
    assert {"fine.txt", "fine.gz"} <= set(files)
    assert not {"copy.txt", "coded.txt", "long.txt", "data.bin", f"{PASSWORD}.txt"} & set(files)
    assert not any(name.startswith("n") for name in files)
    assert await repository.read_file(commit, "a.py") == b"x = 1\n"
    objects = ["git", "-C", str(repository.path), "cat-file", "--batch", "--batch-all-objects"]
    everything = subprocess.run(objects, check=True, capture_output=True).stdout
    assert PASSWORD.encode() not in everything

"""Secrets do not get into files that are committed: not by a file tool, not by a command."""

import base64
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from activities import disk_secrets
from activities.disk_secrets import SecretFiles
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


async def tools_of(
    place: tuple[PrivateRepository, Path], checkout: Path | None, files: SecretFiles | None = None
) -> Tools:
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
        files=files,
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


@pytest.mark.parametrize("where", ["checkout", "workspace"])
async def test_a_secret_that_appears_between_two_turns_is_known_in_the_next(
    place: tuple[PrivateRepository, Path], checkout: Path, where: str
) -> None:
    """A person may put it there; turns share what was seen of the disk, as those of a task do."""
    files, value = SecretFiles(), "put-there-in-between-9b"
    first = await tools_of(place, checkout, files)
    written = await first.call("write", {"file_path": "n0.py", "content": "n = 1\n"})
    assert not written.is_error
    (place[1] / "app.log").write_text(f"with {value}\n", encoding="utf-8")
    (place[1] if where == "workspace" else checkout).joinpath(".env.local").write_text(f"NEW_PASSWORD={value}\n")
    second = await tools_of(place, checkout, files)
    shown = await second.call("read", {"file_path": "app.log"})
    assert "[secret]" in shown.content
    refused = await second.call("write", {"file_path": "n0.py", "content": f"p = '{value}'\n"})
    assert refused.is_error
    assert await second.guard.barred_paths(["app.log"]) == ["app.log"]


async def test_a_secret_in_a_file_that_is_there_already_is_known_when_it_changes(
    place: tuple[PrivateRepository, Path], checkout: Path
) -> None:
    files = SecretFiles()
    await (await tools_of(place, checkout, files)).call("read", {"file_path": "a.py"})
    (checkout / ".env").write_text("DB_PASSWORD=another-one-of-today-4c\n", encoding="utf-8")
    tools = await tools_of(place, checkout, files)
    refused = await tools.call("write", {"file_path": "n0.py", "content": "p = 'another-one-of-today-4c'\n"})
    assert refused.is_error


def test_folders_and_files_that_are_as_they_were_are_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking through all of a large repository takes long, and is done in every turn."""
    for name in ("a", "a/b", "c"):
        (tmp_path / name).mkdir()
    (tmp_path / "a/b/.env").write_text("TOKEN=one-of-yesterday-77\n", encoding="utf-8")
    monkeypatch.setattr(disk_secrets, "CLOCK_TICK_NS", 0)
    listed: list[str] = []

    def scandir(path: str) -> Any:
        listed.append(os.path.relpath(path, tmp_path))
        return original(path)

    original = os.scandir
    monkeypatch.setattr(disk_secrets.os, "scandir", scandir)
    files = SecretFiles()
    expected = {f"{tmp_path}/a/b/.env": frozenset(["one-of-yesterday-77"])}
    assert files.below(tmp_path) == expected
    assert listed == [".", "a", "c", "a/b"]
    assert files.below(tmp_path) == expected
    assert len(listed) == 4
    (tmp_path / "c/prod.env").write_text("TOKEN=one-of-today-88\n", encoding="utf-8")
    assert files.below(tmp_path).keys() == {*expected, f"{tmp_path}/c/prod.env"}
    assert listed[4:] == ["c"]


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


OTHER_KEY = KEY_LINE[::-1]
TOKENS = {
    "of a code host": "ghp_" + "k3Rw9ZbQ7mLx" * 3,
    "of a code host, fine-grained": "github_pat_" + "k3Rw9ZbQ7mLx" * 3,
    "of a chat": "xoxb-" + "48213057711-" * 2 + "kRwZbQmLxPtV",
    "of a cloud": "AKIA" + "QW7ERT2YUI9OPAS4",
    "of a model's API": "sk-ant-api03-" + "k3Rw9ZbQ7mLx" * 3,
    "a private key": f"-----BEGIN RSA PRIVATE KEY-----\n{OTHER_KEY}\n{OTHER_KEY[5:]}\n-----END RSA PRIVATE KEY-----",
    "a private key on one line": f"-----BEGIN EC PRIVATE KEY-----\\n{OTHER_KEY}\\n-----END EC PRIVATE KEY-----\\n",
}


@pytest.mark.parametrize("name", TOKENS)
async def test_what_surely_is_a_secret_by_its_form_gets_into_no_file(
    place: tuple[PrivateRepository, Path], name: str
) -> None:
    """Though nobody knows it: neither by a file tool nor by a command, in a new file or in an old one."""
    repository, workspace = place
    tools, text = await tools_of(place, None), f"# for the tests\nx = '{TOKENS[name]}'\n"
    for path in ("a.py", "tests/new.py"):
        result = await tools.call("write", {"file_path": path, "content": text})
        assert result.is_error
        assert f"{path} was not written: it would hold a secret" in result.content
    (workspace / "r.txt").write_text(text, encoding="utf-8")
    (workspace / "fine.txt").write_text("fine\n", encoding="utf-8")
    assert await tools.guard.barred_paths(["fine.txt", "r.txt"]) == ["r.txt"]
    files = await repository.list_files(
        await repository.checkpoint(workspace, "one", {"A": "b"}, tools.guard.barred_paths)
    )
    assert "fine.txt" in files
    assert "r.txt" not in files


@pytest.mark.parametrize(
    "text",
    [
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_" + "x" * 36,
        "ghp_" + "your-token-here",
        "sk-ant-api03-" + "your-key-goes-here-1234",
        "xoxb-" + "example-0-token",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhk...\n-----END PRIVATE KEY-----",
        "PEM = re.compile('-----BEGIN [A-Z ]*PRIVATE KEY-----')",
        "sk-proj-components-button-primary-large",
    ],
)
async def test_examples_and_placeholders_of_tokens_may_be_written(
    place: tuple[PrivateRepository, Path], text: str
) -> None:
    tools = await tools_of(place, None)
    result = await tools.call("write", {"file_path": "b.md", "content": f"{text}\n"})
    assert not result.is_error, result.content
    assert await tools.guard.barred_paths(["b.md"]) == []


async def test_a_token_that_the_base_publishes_already_may_be_moved(checkout: Path, tmp_path: Path) -> None:
    token = TOKENS["of a code host"]
    (checkout / "test_tokens.py").write_text(f"TOKEN = '{token}'\n", encoding="utf-8")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-qm", "a fixture")
    repository = PrivateRepository(tmp_path / "task", ENVIRONMENT)
    facts = await repository.inspect(str(checkout))
    await repository.create(facts)
    workspace = await repository.open_workspace("step-1", facts.base_commit, "step-1")
    tools = await tools_of((repository, workspace), None)
    assert not (await tools.call("write", {"file_path": "tests/tokens.py", "content": f"T = '{token}'\n"})).is_error
    other = TOKENS["of a chat"]
    assert (await tools.call("write", {"file_path": "test_tokens.py", "content": f"T = '{token} {other}'\n"})).is_error


async def test_the_mask_of_a_secret_is_never_written_in_its_place(
    place: tuple[PrivateRepository, Path], checkout: Path
) -> None:
    _, workspace = place
    (workspace / "a.py").write_text(f"x = 1\npassword = '{PASSWORD}'\n", encoding="utf-8")
    tools = await tools_of(place, checkout)
    shown = (await tools.call("read", {"file_path": "a.py"})).content
    assert "password = '[secret]'" in shown
    whole = {"file_path": "a.py", "content": "x = 2\npassword = '[secret]'\n"}
    result = await tools.call("write", whole)
    assert result.is_error
    assert "a.py was not written: [secret] stands for a secret in what you are shown" in result.content
    around = {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2"}
    assert not (await tools.call("edit", around)).is_error
    assert (workspace / "a.py").read_text("utf-8") == f"x = 2\npassword = '{PASSWORD}'\n"
    (workspace / "tok.txt").write_text("[secret]\n", encoding="utf-8")
    assert await tools.guard.barred_paths(["tok.txt"]) == ["tok.txt"]
    (workspace / "[secret].tsx").write_text("fine\n", encoding="utf-8")
    assert await tools.guard.barred_paths(["[secret].tsx"]) == []


async def test_a_password_that_a_command_prints_is_masked_and_that_of_a_file_is_content(
    place: tuple[PrivateRepository, Path],
) -> None:
    repository, workspace = place
    (workspace / "test_login.py").write_text('login(password="Tr0ub4dor-and-three")\n', encoding="utf-8")
    await repository.checkpoint(workspace, "one", {"A": "b"})
    tools = await tools_of(place, None)
    shown = await tools.call("bash", {"command": "cat test_login.py; printf 'password=Xk29fLq'; echo Pz81mNv"})
    assert 'login(password="Tr0ub4dor-and-three")\npassword=[secret]' in shown.content
    assert 'password="Tr0ub4dor-and-three"' in (await tools.call("read", {"file_path": "test_login.py"})).content
    edit = {"file_path": "test_login.py", "old_string": "Tr0ub4dor-and-three", "new_string": "Tr0ub4dor-and-four"}
    assert not (await tools.call("edit", edit)).is_error

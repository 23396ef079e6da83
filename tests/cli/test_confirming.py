"""The question about a project's commands: asked once, remembered outside the repository, refused without a person."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from baton.layout import confirmations_file
from baton.settings import Layer, parse_layer
from cli.confirming import confirmed_commands
from cli.exits import Refused


def layers(*commands: str, allow: tuple[str, ...] = ()) -> list[Layer]:
    gates = [{"name": command, "command": command} for command in commands]
    text = json.dumps({"orchestration": {"gates": gates}, "permissions": {"allow": allow}})
    return [parse_layer("settings.json", text, project=True)]


class Person:
    """Answers, and remembers what was asked."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, question: str) -> str:
        self.asked.append(question)
        return self.answers.pop(0)


def test_yes_holds_once_and_always_for_these_very_commands(tmp_path: Path) -> None:
    person = Person("y\n", "always", "a")
    top, state = tmp_path / "repo", tmp_path / "state"
    once = confirmed_commands(layers("make test"), top, state, person)
    assert len(once) == 1
    assert "make test  (settings.json)" in person.asked[0]
    assert not confirmations_file(state, top).exists()
    assert confirmed_commands(layers("make test"), top, state, person) == once
    assert confirmed_commands(layers("make test"), top, state, person) == once
    assert len(person.asked) == 2, "it is remembered"
    assert len(confirmed_commands(layers("make test", "curl x"), top, state, person)) == 2
    assert "make test  (" not in person.asked[2], "only what is new is shown"
    assert len(confirmed_commands(layers("make test", "curl x"), top, state, person)) == 2
    record = confirmations_file(state, top)
    assert record.stat().st_mode & 0o777 == 0o600
    with pytest.raises(Refused):
        confirmed_commands(layers("make test"), tmp_path / "another repo", state, Person(""))


@pytest.mark.parametrize("answer", ["", "n", "no\n", "yess", "alway"])
def test_anything_else_means_no(tmp_path: Path, answer: str) -> None:
    with pytest.raises(Refused, match="nothing was started"):
        confirmed_commands(layers("make test"), tmp_path, tmp_path / "state", Person(answer))
    assert not (tmp_path / "state").exists()


def test_nobody_is_asked_about_rules_alone_and_they_do_not_count(tmp_path: Path) -> None:
    assert confirmed_commands(layers(allow=("Bash(ls)",)), tmp_path, tmp_path / "state", Person()) == ()
    both = confirmed_commands(layers("make", allow=("Bash(ls)",)), tmp_path, tmp_path / "state", Person("y"))
    assert len(both) == 2


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    (folder / ".claude").mkdir(parents=True)
    gates = [{"name": "tests", "command": "make evil"}]
    (folder / ".claude/settings.json").write_text(json.dumps({"orchestration": {"gates": gates}}), encoding="utf-8")
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@b.c", *arguments], cwd=folder, check=True)
    return folder


def environment(tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "home"
    home.mkdir()
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "BATON_STATE_DIR": str(tmp_path / "state"),
        "ANTHROPIC_API_KEY": "key-of-the-test",
    }


COMMAND = [sys.executable, "-c", "import sys; from starter import main; sys.exit(main())", "run", "Do it"]


def test_the_command_refuses_without_a_terminal(repository: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        COMMAND,
        cwd=repository,
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "gate    make evil" in done.stderr
    assert "--trust-project-commands" in done.stderr
    assert not (tmp_path / "state").exists()


def test_the_command_asks_on_a_terminal_and_takes_no_for_an_answer(repository: Path, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        COMMAND, cwd=repository, env=environment(tmp_path), stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    said = b""
    while b"[N]o: " not in said:
        said += os.read(ours, 4_096)
    os.write(ours, b"n\n")
    assert process.wait(timeout=60) == 2
    os.close(ours)
    assert b"make evil" in said
    assert not (tmp_path / "state").exists()

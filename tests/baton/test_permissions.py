"""Rules of Claude Code settings, applied to our tools."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.command_lines import TooComplex, simple_commands
from baton.permissions import Denied, Permissions, command_matches


def denied(permissions: Permissions, tool: str, argument: str) -> bool:
    return isinstance(permissions.decide(tool, argument), Denied)


@pytest.mark.parametrize(
    ("scope", "command", "expected"),
    [
        ("npm run test", "npm run test", True),
        ("npm run test", "npm run test -- x", False),
        ("npm run *", "npm run build", True),
        ("npm run *", "npm run", True),
        ("npm run *", "npm runner", False),
        ("npm run:*", "npm run build --prod", True),
        ("npm run:*", "npm runner", False),
        ("ls*", "lsof", True),
        ("git * main", "git push origin main", True),
        ("git * main", "git push origin dev", False),
        ("* --version", "node --version", True),
        ("a*a", "a", False),
        ("*", "anything", True),
    ],
)
def test_scope_of_a_bash_rule(scope: str, command: str, expected: bool) -> None:
    assert command_matches(scope, command) is expected


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("a && b; c | d || e & f", ["a", "b", "c", "d", "e", "f"]),
        ("a\nb", ["a", "b"]),
        ("echo 'a && b' \"c; d\"", ["echo 'a && b' \"c; d\""]),
        ("echo $(rm x)", ["rm x", "echo $(rm x)"]),
        ("echo `rm x`", ["rm x", "echo `rm x`"]),
        ('echo "see $(rm x)"', ["rm x", 'echo "see $(rm x)"']),
        ("(cd a; b)", ["cd a", "b"]),
        ("a 2>&1", ["a 2>&1"]),
        (r"echo a\;b", [r"echo a\;b"]),
    ],
)
def test_a_line_is_taken_apart(line: str, parts: list[str]) -> None:
    assert simple_commands(line) == parts


@pytest.mark.parametrize("line", ["cat <<E\nx\nE", "diff <(a) b", "echo 'open", "a # b", "echo $(echo 'x')", "echo `a"])
def test_what_is_not_understood_is_said(line: str) -> None:
    with pytest.raises(TooComplex):
        simple_commands(line)


QUOTED_TRICK = r"npm run $'\'' ; curl x ; npm run \'"
"""Bash sees three commands here; a reader that does not know $'…' sees one."""


PERMISSIONS = Permissions(
    allow=("Bash(npm run *)", "Bash(git status)", "Read"),
    deny=("Bash(rm *)", "Bash(git push:*)", "Read(./secrets/**)", "Read(.env)", "Edit(src/vendor/**)", "Write(*.lock)"),
    ask=("Bash(docker *)", "Edit(migrations/**)"),
)


@pytest.mark.parametrize(
    "command",
    [
        "npm run build",
        "npm run build && npm run test",
        "git status | npm run x",
        "npm run x 2>&1",
        "npm run x > /dev/null",
        "pytest -q",
        "git status && pytest -q",
    ],
)
def test_allowed_commands(command: str) -> None:
    assert PERMISSIONS.allows_command(command, exact={"pytest -q"})


@pytest.mark.parametrize(
    "command",
    [
        "",
        "git status -s",
        "npm run build && curl x",
        "npm run $(curl x)",
        "npm run `curl x`",
        "npm run x\ncurl y",
        "npm run x & curl y",
        "npm run x > ../outside",
        "npm run x >> ~/.bashrc",
        "npm run <(curl x)",
        "npm run x <<E\nE",
        "PATH=. npm run x",
        QUOTED_TRICK,
        "npm run x >&2file",
        "npm run x>&2}",
        "npm run x >&1\r",
        "npm run x >&1\u00a0y",
        "npm run x &> file",
        "npm run x >| file",
        "npm run x <> file",
        "npm run ${x:-$(curl x)}",
        'npm run "${x:-`curl x`}"',
        "f() { curl x; }; npm run x",
        "pytest -q; curl x",
    ],
)
def test_commands_that_are_not_allowed(command: str) -> None:
    assert not PERMISSIONS.allows_command(command, exact={"pytest -q"})


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf x",
        "true && rm x",
        "true; /bin/rm x",
        "FOO=1 rm x",
        "sudo rm x",
        "timeout 5 rm x",
        "r'm' x",
        "find . | xargs rm x",
        "if true; then rm x; fi",
        'bash -c "cd y && rm x"',
        "echo $(rm x)",
        "cat <<E\nE\nrm x",
        "git push origin main",
        "cat secrets/key",
        "grep -r x secrets",
        "cat ./app/.env",
        "docker run x",
    ],
)
def test_denied_commands(command: str) -> None:
    assert denied(PERMISSIONS, "bash", command)


@pytest.mark.parametrize("command", ["npm run rm", "echo 'rm x'", "git pushy", "cat src/vendor/a.js", "ls", "farm x"])
def test_innocent_commands(command: str) -> None:
    assert not denied(PERMISSIONS, "bash", command)


@pytest.mark.parametrize(
    ("tool", "path", "expected"),
    [
        ("read", "secrets/a", True),
        ("read", "Secrets/A", True),
        ("read", "x/../secrets/a", True),
        ("grep", "secrets/a", True),
        ("glob", "secrets/a", True),
        ("edit", "secrets/a", True),
        ("read", "deep/.env", True),
        ("read", "src/a.py", False),
        ("write", "src/vendor/a.js", True),
        ("append", "src/vendor/a.js", True),
        ("edit", "src/vendor/a.js", True),
        ("read", "src/vendor/a.js", False),
        ("write", "yarn.lock", True),
        ("append", "yarn.lock", True),
        ("edit", "yarn.lock", False),
        ("edit", "migrations/1.sql", True),
    ],
)
def test_rules_for_files(tool: str, path: str, expected: bool) -> None:
    assert denied(PERMISSIONS, tool, path) is expected


def test_deny_wins_over_allow_and_the_message_names_the_rule() -> None:
    decision = Permissions(allow=("Bash",), deny=("Bash(rm *)",)).decide("bash", "rm x")
    assert isinstance(decision, Denied)
    assert decision.rule == "Bash(rm *)"
    assert "Bash(rm *) (deny)" in decision.message


def test_ask_is_a_refusal_that_says_why() -> None:
    decision = PERMISSIONS.decide("bash", "docker ps")
    assert isinstance(decision, Denied)
    assert "consent" in decision.message


def test_a_bare_rule_holds_for_every_call() -> None:
    assert denied(Permissions(deny=("Bash",)), "bash", "ls")
    assert denied(Permissions(deny=("Edit(*)",)), "append", "any/file")
    assert Permissions(allow=("Bash",)).allows_command("anything <<E\nE")


def test_rules_with_absolute_paths_hold_for_the_same_files_of_the_workspace() -> None:
    permissions = Permissions(deny=("Read(//home/me/repo/secrets/**)", "Read(~/x/**)"), project_root="/home/me/repo")
    assert denied(permissions, "read", "secrets/a")
    assert not denied(permissions, "read", "x/a")


def test_unknown_tools_are_warned_about() -> None:
    (warning,) = Permissions(allow=("Bash(ls)", "WebFetch(domain:x)")).warnings()
    assert "WebFetch(domain:x)" in warning


@given(st.text("ab;&|\n\"'`$()<>\\ {}#", max_size=30))
def test_any_line_is_taken_apart_or_refused(line: str) -> None:
    try:
        parts = simple_commands(line)
    except TooComplex:
        parts = []
    assert all(part.strip() for part in parts)
    denied(PERMISSIONS, "bash", line)
    if "a" in line.replace("ab", ""):
        assert not Permissions(allow=("Bash(never)",)).allows_command(line)

"""Every command that the README and the pages of `docs/` show is run: one shell per page, one service, exit codes.

`TASK_ID` in a page stands for the task that was started last. A comment such as `# exit 4` announces a code other than
0; a block right behind `<!-- not run: REASON -->` is left out.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.desk import LEGACY, Desk, running_desk
from tests.pages import CONSOLE, PAGES, blocks, expected_exit

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(900)]  # a person's whole session

LIMIT_SECONDS = 600
MARK = "\x01"
SHOWN = {
    page: [
        command
        for block in blocks(page)
        if block.language == CONSOLE and block.reason is None
        for command in block.commands
    ]
    for page in PAGES
}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with running_desk(tmp_path_factory.mktemp("desk")) as desk:
        desk.git("config", "user.name", "Ada")
        desk.git("config", "user.email", "ada@example.org")
        path = f"{Path(sys.executable).parent}{os.pathsep}{desk.environment['PATH']}"
        desk.environment.update({"PATH": path, "EDITOR": "true", "BROWSER": "true"})
        yield desk


def script(desk: Desk, commands: list[str]) -> str:
    """The commands in one shell; after each, a marked line with its number and exit code."""
    state = desk.repository / ".claude/orchestration"
    newest = f'TASK_ID="$(ls -t {state} 2>/dev/null | head -n 1)"'
    # Where its usual port is taken the embedded server has another one, which the page tells people to give.
    address = """orchestrate up --json | grep -o '"address": *"[^"]*"' | cut -d'"' -f4"""
    temporal = f'temporal() {{ command temporal "$@" --address "$({address})"; }}'
    lines = ["exec </dev/null 2>&1", newest, temporal]
    for number, command in enumerate(commands):
        lines += [command.replace("TASK_ID", '"$TASK_ID"'), f"printf '\\n{MARK}%s %s\\n' {number} $?", newest]
    return "\n".join(lines)


@pytest.mark.parametrize("page", [page for page, commands in SHOWN.items() if commands], ids=lambda page: page.name)
def test_shown_commands_end_as_announced(desk: Desk, page: Path) -> None:
    for path in desk.repository.glob("*.py"):
        path.write_text(LEGACY.replace("SUBJECT", f"{path.stem} of {page.stem}"))
    desk.git("commit", "-q", "--allow-empty", "-a", "-m", f"before {page.name}")
    commands = SHOWN[page]
    done = subprocess.run(
        ["bash", "-c", script(desk, commands)],
        cwd=desk.repository,
        env=desk.environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
    )
    ends = [line[1:].split() for line in done.stdout.splitlines() if line.startswith(MARK)]
    found = {commands[int(number)]: int(code) for number, code in ends}
    wrong = {command: found.get(command) for command in commands if found.get(command) != expected_exit(command)}
    assert not wrong, done.stdout[-6000:] + done.stderr

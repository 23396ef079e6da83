"""A person's whole session at terminals, on a published package with its own tests: start, approval with edit, guide,
pause, detach, a conflict answered, everything killed, resume, report, apply, cleanup. The stand-in model takes time."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli import processes
from cli.service import inspect
from tests.end_to_end.desk import LIMIT_SECONDS, Desk, running_desk
from tests.end_to_end.published import all_but_the_result, unpacked
from tests.end_to_end.terminal import Terminal

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(600)]

TASK_ID = "look-through"
TOKENS_PER_SECOND = 60
GATE = f"tests={sys.executable} -m pytest -q -p no:cacheprovider tests/test_mathutils.py tests/test_setutils.py"
ERRANDS = {
    "boltons/mathutils.py": "create `CREDITS.txt` with `mathutils by one\\n`",
    "boltons/strutils.py": "create `CREDITS.txt` with `strutils by two\\n`",
    "boltons/listutils.py": "create `PLAN.txt` with `undecidable: the first way\\n`",
    "boltons/setutils.py": "create `PLAN.txt` with `the second way\\n`",
}
EDITOR = """import pathlib, sys
seen, plan = map(pathlib.Path, sys.argv[1:])
text = plan.read_text()
if not seen.exists():
    seen.write_text("")
    plan.write_text(text.replace("step: 4", "step: 4\\n  depends_on: [9]"))
else:
    seen.write_text(text)
    plan.write_text(text.replace("depends_on: [9]", "depends_on: []").replace("# looked through", "# seen by me"))
"""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """The package as a repository; an editor that makes a mistake first."""
    with running_desk(tmp_path, TOKENS_PER_SECOND) as first:
        desk = replace(first, repository=unpacked("boltons", tmp_path))
        (tmp_path / "editor.py").write_text(EDITOR)
        desk.environment["EDITOR"] = f"{sys.executable} {tmp_path / 'editor.py'} {tmp_path / 'seen'}"
        steps = [
            {"step": n, "agent_type": "editor", "description": f"append `# looked through\\n` to `{item}`, {text}",
             "items": [item]}
            for n, (item, text) in enumerate(ERRANDS.items(), 1)
        ]  # fmt: skip
        (tmp_path / "plan.yaml").write_text(yaml.safe_dump({"execution_strategy": "parallel", "plan": steps}))
        yield desk


def status(desk: Desk) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(desk.run("status", TASK_ID, "--json").stdout)
    return told


def until(desk: Desk, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first status of which this is true."""
    end = time.monotonic() + LIMIT_SECONDS
    while not holds(now := status(desk)):
        assert time.monotonic() < end, now
    return now


def asked(now: dict[str, Any]) -> list[str]:
    return [item["kind"] for item in now["attention"] or ()]


def done(desk: Desk, *arguments: str) -> str:
    ran = desk.run(*arguments)
    assert ran.returncode == 0, (arguments, ran.stdout + ran.stderr)
    return ran.stdout


def kill_everything(desk: Desk) -> None:
    """kill -9 to supervisor, server and worker."""
    service = inspect(Path(desk.environment["BATON_STATE_DIR"]))
    assert service is not None
    marks = [service.supervisor, service.server, service.worker]
    for mark in marks:
        assert mark is not None
        os.kill(mark.pid, signal.SIGKILL)
    while any(map(processes.is_alive, marks)):
        time.sleep(0.1)


def approved_with_an_edit(desk: Desk, tmp_path: Path) -> None:
    """The editor gives a plan with a fault, is shown it, and gives one without."""
    done(desk, "approve", TASK_ID, "--edit")
    shown = (tmp_path / "seen").read_text()
    assert shown.startswith("#! This plan was not taken")
    assert "9" in shown.partition("\n#\n")[0]


def steered(desk: Desk) -> None:
    """A remark to agents at work; a pause in which all of them have handed off."""
    until(desk, lambda now: bool(now["agents_at_work"]))
    assert "at work will see it" in done(desk, "guide", TASK_ID, "Keep the public names as they are")
    done(desk, "pause", TASK_ID)
    paused = until(desk, lambda now: now["paused"] and not any(agent["turn"] for agent in now["agents_at_work"] or ()))
    assert paused["state"] in {"running", "waiting"}
    done(desk, "unpause", TASK_ID)


def test_a_whole_session(desk: Desk, tmp_path: Path) -> None:
    before = all_but_the_result(desk.repository, TASK_ID)
    plan = str(tmp_path / "plan.yaml")
    options = ("--plan", plan, "--parallel", "--max-parallel", "4", "--approve-phases", "--gate", GATE)
    terminal = Terminal(desk, "Look through four modules", "--task-id", TASK_ID, *options)
    terminal.until("keys: a approve")
    approved_with_an_edit(desk, tmp_path)
    terminal.until("execution")
    steered(desk)

    conflict = until(desk, lambda now: asked(now) == ["conflict"])["attention"][0]
    terminal.until(f"({conflict['id']})")
    terminal.press("\x03")
    assert terminal.ended() == 130
    assert f"watch {TASK_ID}" in terminal.out

    # Whichever of the two steps was merged first, theirs is what the later one wrote.
    chosen = "the second way\n" if conflict["step"] == 4 else "undecidable: the first way\n"
    done(desk, "answer", TASK_ID, conflict["id"], "theirs", "--comment", "the later one was thought through")
    kill_everything(desk)
    done(desk, "up")
    until(desk, lambda now: asked(now) == ["approval"])

    desk.run("cancel", TASK_ID)
    assert status(desk)["state"] == "cancelled"
    terminal = Terminal(desk, "resume", TASK_ID)
    terminal.until("keys: a approve")
    terminal.press("a")
    terminal.until("approve?")
    terminal.press("y")
    assert terminal.ended() == 0
    assert "Done" in terminal.out

    assert all_but_the_result(desk.repository, TASK_ID) == before
    report = done(desk, "report", TASK_ID)
    assert "theirs was chosen (the later one was thought through)" in report
    assert "a merge conflict was resolved by resolver-" in report
    done(desk, "apply", TASK_ID)
    assert (desk.repository / "PLAN.txt").read_text() == chosen
    assert sorted((desk.repository / "CREDITS.txt").read_text().splitlines()) == ["mathutils by one", "strutils by two"]
    assert "# seen by me" in (desk.repository / "boltons/setutils.py").read_text()
    assert f"removed  {TASK_ID}" in done(desk, "cleanup", "--task-id", TASK_ID)
    assert desk.git("branch", "--list", "baton/*") == ""
    assert desk.git("status", "--porcelain") == ""

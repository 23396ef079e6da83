"""The stand-in in real conversations: it plans, converts, relays and reports, from the requests alone."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import pytest
from tool_loop import Run, Workspace, drive

from emulator.catalogue import STAND_IN
from emulator.server import EmulatorServer
from emulator.standin import StandIn

Connect = Callable[[EmulatorServer], anthropic.AsyncAnthropic]
Serve = Callable[..., EmulatorServer]

OLD = 'def {name}(who):\n    """{name}."""\n    return "%s: {{}} of %s".format("{name}") % (who, who.upper())\n'
SHORT = 'def greet(who):\n    return "Hello %s, %r" % (who, 3)\n'
MODERN = 'def greet(who):\n    return f"Hello {who}, {3!r}"\n'


@pytest.fixture
def server(serve: Serve) -> EmulatorServer:
    return serve(StandIn())


@pytest.fixture
def client(server: EmulatorServer, connect: Connect) -> anthropic.AsyncAnthropic:
    return connect(server)


def executor(items: list[str], manifest: dict[str, Any] | None = None, **step: Any) -> dict[str, Any]:
    return {
        "role": "executor",
        "task": "Modernise the string formatting",
        "task_id": "t",
        "agent_id": "executor-2-x",
        "step": {"step": 2, "agent_type": "x", "description": "Convert", "success_criteria": ["converted"], **step},
        "items": items,
        "manifest": manifest,
        "knowledge": [],
        "guidance": None,
        "output_budget": 100_000,
    }


def write(root: Path, **files: str) -> None:
    for name, content in files.items():
        (root / f"{name}.py").write_bytes(content.encode())


async def test_an_executor_converts_every_item_and_reports(
    client: anthropic.AsyncAnthropic, server: EmulatorServer, tmp_path: Path
) -> None:
    odd = "odd 'name' ü.py"
    files = {
        "a.py": SHORT,
        "crlf.py": SHORT.replace("\n", "\r\n") + "# mixed\n",
        odd: SHORT,
        "modern.py": MODERN,
        "python2.py": 'print "x %s" % 1\n',
        "latin.py": "# -*- coding: latin-1 -*-\nx = '%s' % 1\n",
        "notes.txt": "%s",
        "empty.py": "",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content.encode())
    workspace = Workspace(tmp_path)
    run = await drive(client, workspace, executor(list(files)))
    assert run.ended_by == "finish_step"
    assert workspace.outcomes == {
        "a.py": "changed",
        "crlf.py": "changed",
        odd: "changed",
        "modern.py": "unchanged",
        "python2.py": "skipped",
        "latin.py": "skipped",
        "notes.txt": "skipped",
        "empty.py": "unchanged",
    }
    converted = 'def greet(who):\n    return f"Hello {who}, {3!r}"\n'
    assert (tmp_path / "a.py").read_text() == (tmp_path / odd).read_text() == converted
    assert (tmp_path / "modern.py").read_text() == MODERN
    (result,) = run.inputs("finish_step")
    assert result["status"] == "partial"
    assert {criterion["met"] for criterion in result["criteria"]} == {False}
    assert STAND_IN in result["summary"]
    assert STAND_IN in run.texts[0]
    (record,) = run.inputs("record")
    assert [issue["file"] for issue in record["issues"]] == ["python2.py", "latin.py", "notes.txt"]
    assert not run.inputs("write")
    assert {exchange.status for exchange in server.requests} == {200}


async def test_line_ends_stay_as_they_were(client: anthropic.AsyncAnthropic, tmp_path: Path) -> None:
    write(tmp_path, windows=(SHORT + "# end\n").replace("\n", "\r\n"))
    run = await drive(client, Workspace(tmp_path), executor(["windows.py"]))
    assert run.ended_by == "finish_step"
    assert (tmp_path / "windows.py").read_bytes() == b'def greet(who):\r\n    return f"Hello {who}, {3!r}"\r\n# end\r\n'


async def test_a_long_file_is_read_in_pages_and_edited_line_by_line(
    client: anthropic.AsyncAnthropic, tmp_path: Path
) -> None:
    functions = [
        f'def f{n}(a):\n    x = "{n} %s" % (a,)\n    y = "same %s" % (a,)\n    return x + y\n' for n in range(120)
    ]
    wide = f"WIDE = '{'w' * 120}'\n" * 700  # these pages are over the limit of one result
    write(tmp_path, long="\n".join(functions) + wide + 'LAST = "%s" % (1,)\n')
    workspace = Workspace(tmp_path)
    run = await drive(client, workspace, executor(["long.py"]), budget=200_000)
    assert workspace.outcomes == {"long.py": "changed"}
    text = (tmp_path / "long.py").read_text()
    assert " % " not in text
    assert text.count("WIDE") == 700
    assert 'x = f"119 {a}"' in text
    assert text.endswith('LAST = f"{1}"\n')
    assert len(run.inputs("read")) > 4
    assert all(len(given["new_string"]) < 600 for given in run.inputs("edit"))


async def test_agents_relay_under_a_small_budget(
    client: anthropic.AsyncAnthropic, server: EmulatorServer, tmp_path: Path
) -> None:
    names = [f"m{number:02d}" for number in range(24)]
    write(tmp_path, **{name: SHORT * 4 + OLD.format(name=name) for name in names})
    items = [f"{name}.py" for name in names]
    workspace = Workspace(tmp_path)
    runs: list[Run] = []
    manifest: dict[str, Any] | None = None
    while True:
        done = list(workspace.outcomes)
        pending = [item for item in items if item not in done]
        runs.append(await drive(client, workspace, executor(pending, manifest), budget=3000))
        if runs[-1].ended_by != "hand_off":
            break
        (handoff,) = runs[-1].inputs("hand_off")
        manifest = {"completed_items": list(workspace.outcomes), **handoff}
        assert len(runs) < 12
    assert len(runs) >= 4
    assert runs[-1].ended_by == "finish_step"
    assert workspace.outcomes == dict.fromkeys(items, "changed")
    reported = [given["item"] for run in runs for given in run.inputs("complete_item")]
    assert sorted(reported) == items  # each by exactly one agent
    assert all(run.used <= 3000 for run in runs)
    assert {exchange.status for exchange in server.requests} == {200}


async def test_a_successor_begins_with_the_item_in_progress(client: anthropic.AsyncAnthropic, tmp_path: Path) -> None:
    half = SHORT + 'def other(x):\n    return f"done {x}"\n'
    write(tmp_path, a=SHORT, b=half, c=SHORT, done=SHORT, ready=MODERN)
    manifest = {
        "completed_items": ["done.py"],
        "in_progress_item": {"file": "b.py", "line_number": 2, "progress": 50},
    }
    workspace = Workspace(tmp_path)
    run = await drive(client, workspace, executor(["a.py", "b.py", "c.py", "done.py"], manifest))
    assert list(workspace.outcomes) == ["b.py", "a.py", "c.py"]
    assert (tmp_path / "done.py").read_text() == SHORT
    assert run.inputs("finish_step")[0]["status"] == "ok"
    # Nothing is left to edit in what the predecessor finished but did not report: it is reported as changed.
    workspace = Workspace(tmp_path)
    await drive(client, workspace, executor(["ready.py"], {"in_progress_item": {"file": "ready.py"}}))
    assert workspace.outcomes == {"ready.py": "changed"}


async def test_hand_off_names_the_item_in_progress_and_what_is_left(
    client: anthropic.AsyncAnthropic, tmp_path: Path
) -> None:
    body = "".join(f'def f{n}(a):\n    return "{n} %s and {{}}".format(a) % (a, {n})\n\n\n' for n in range(120))
    write(tmp_path, big=body.replace(".format(a)", ""))
    workspace = Workspace(tmp_path)
    run = await drive(client, workspace, executor(["big.py"]), budget=5200)
    assert run.ended_by == "hand_off"
    (handoff,) = run.inputs("hand_off")
    progress = handoff["in_progress_item"]
    assert progress["file"] == "big.py"
    text = (tmp_path / "big.py").read_text()
    left = [number for number, line in enumerate(text.split("\n"), 1) if '" % (' in line]
    assert left
    assert abs(progress["line_number"] - left[0]) <= 2
    assert 0 < progress["progress"] < 100
    assert progress["remaining_work"]


async def test_failed_edits_are_tried_again_once(client: anthropic.AsyncAnthropic, tmp_path: Path) -> None:
    write(tmp_path, a=SHORT, b=SHORT)
    workspace = Workspace(tmp_path, refuse={"edit": 1})
    run = await drive(client, workspace, executor(["a.py"]))
    assert (run.ended_by, workspace.outcomes) == ("finish_step", {"a.py": "changed"})
    assert " % " not in (tmp_path / "a.py").read_text()
    stubborn = Workspace(tmp_path, refuse={"edit": 99})
    run = await drive(client, stubborn, executor(["b.py"]))
    assert (run.ended_by, stubborn.outcomes) == ("finish_step", {"b.py": "skipped"})
    assert len(run.inputs("edit")) == 2


@pytest.mark.parametrize("tool", ["complete_item", "finish_step", "hand_off", "read"])
async def test_no_refusal_leads_to_an_endless_loop(client: anthropic.AsyncAnthropic, tmp_path: Path, tool: str) -> None:
    write(tmp_path, a=SHORT)
    run = await drive(client, Workspace(tmp_path, refuse={tool: 99}), executor(["a.py"]), most_turns=40)
    assert run.turns < 15


async def test_a_shortened_list_of_items_ends_in_a_hand_off(client: anthropic.AsyncAnthropic, tmp_path: Path) -> None:
    write(tmp_path, a=SHORT)
    run = await drive(client, Workspace(tmp_path), executor(["a.py", "… and 7 more"]))
    assert run.ended_by == "hand_off"


async def test_a_step_without_items_is_an_analysis(client: anthropic.AsyncAnthropic, tmp_path: Path) -> None:
    write(tmp_path, a=SHORT, b=SHORT)
    run = await drive(client, Workspace(tmp_path), executor([]))
    assert run.ended_by == "finish_step"
    (record,) = run.inputs("record")
    assert record["decisions"]
    assert record["patterns"]
    assert run.inputs("read")
    assert not run.inputs("edit")


def planner(task: str = "Modernise the string formatting") -> dict[str, Any]:
    return {"role": "planner", "task": task, "task_id": "t", "agent_id": "p", "survey": "", "settings": {}}


async def test_the_planner_takes_the_files_that_match_and_leaves_tests_alone(
    client: anthropic.AsyncAnthropic, tmp_path: Path
) -> None:
    (tmp_path / "tests").mkdir()
    names = ["a", "b b", "c", "d", "tests/test_a", "conftest"]
    write(tmp_path, modern=MODERN, **dict.fromkeys(names, SHORT))
    run = await drive(client, Workspace(tmp_path), planner())
    (plan,) = run.inputs("submit_plan")
    assert [step["step"] for step in plan["plan"]] == [1, 2]
    assert plan["plan"][1]["items"] == ["a.py", "b b.py", "c.py", "d.py"]
    assert plan["plan"][1]["depends_on"] == [1]
    assert plan["mode"] == "orchestrated"
    everything = await drive(client, Workspace(tmp_path), planner("Modernise everything, including the tests"))
    assert "tests/test_a.py" in everything.inputs("submit_plan")[0]["plan"][1]["items"]


async def test_the_planner_says_when_there_is_nothing_to_do_and_mends_a_refused_plan(
    client: anthropic.AsyncAnthropic, tmp_path: Path
) -> None:
    write(tmp_path, modern=MODERN)
    nothing = await drive(client, Workspace(tmp_path), planner())
    assert nothing.inputs("submit_plan")[0]["plan"] == []
    (tmp_path / "gone").mkdir()
    write(tmp_path, a=SHORT, **{"gone/away": SHORT})
    run = await drive(client, Workspace(tmp_path, refuse={"submit_plan": 1}), planner())
    first, second = run.inputs("submit_plan")
    assert first["plan"][0]["items"] == ["a.py", "gone/away.py"]
    assert second["plan"][0]["items"] == ["a.py"]


async def test_the_planner_looks_closer_where_results_are_cut(client: anthropic.AsyncAnthropic, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        for number in range(9):
            (tmp_path / folder / f"m{number}.py").write_text(SHORT * 60)
    run = await drive(client, Workspace(tmp_path), planner())
    assert len(run.inputs("grep")) == 3
    assert len(run.inputs("submit_plan")[0]["plan"][1]["items"]) == 18
    for number in range(160):
        (tmp_path / "two" / f"n{number}.py").write_text(SHORT)
    many = await drive(client, Workspace(tmp_path), planner())
    assert many.inputs("submit_plan")[0]["plan"][1]["select"]["include"] == ["**/*.py"]


async def test_the_short_roles_submit_and_name_themselves(client: anthropic.AsyncAnthropic, tmp_path: Path) -> None:
    conflict = "a = 1\n<<<<<<< ours\nx = 1\n||||||| base\nx = 1\n=======\nx = 2\n>>>>>>> theirs\nb = 2\n"
    write(tmp_path, a=conflict)
    expected: dict[str, tuple[str, str, dict[str, Any]]] = {
        "integrator": ("submit_integration", "summary", {"results": [{"step": 1}], "gates": []}),
        "reviewer": ("submit_review", "feedback", {"step": {}, "result": {}, "diff": ""}),
        "resolver": ("submit_resolution", "rationale", {"conflict": {"files": ["a.py"]}}),
        "summarizer": ("submit_summary", "summary", {"text": "What was done."}),
    }
    for role, (tool, key, fields) in expected.items():
        run = await drive(client, Workspace(tmp_path), {"role": role, "agent_id": role, **fields})
        assert run.ended_by == tool
        assert STAND_IN in run.inputs(tool)[0][key]
    assert (tmp_path / "a.py").read_text() == "a = 1\nx = 2\nb = 2\n"


async def test_a_request_without_an_assignment_gets_an_honest_answer(client: anthropic.AsyncAnthropic) -> None:
    question: Any = [{"role": "user", "content": "Who are you?"}]
    answer = await client.messages.create(model="claude-opus-5-5", max_tokens=99, messages=question)
    assert STAND_IN in answer.content[0].text  # type: ignore[union-attr]


async def test_the_process_says_when_it_is_ready_and_shares_its_journal(tmp_path: Path, connect: Connect) -> None:
    journal, ready = tmp_path / "journal.jsonl", tmp_path / "ready"
    command = [sys.executable, "-m", "emulator", "--journal", str(journal), "--ready-file", str(ready)]
    root = Path(__file__).parents[2]
    for _ in range(2):
        process = subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert ready.read_text() == line
            url = line.removeprefix("ready ").strip()
            assert url.startswith("http://127.0.0.1:")
            async with anthropic.AsyncAnthropic(api_key="k", base_url=url, max_retries=0) as opened:
                question: Any = [{"role": "user", "content": "Hi"}]
                await opened.messages.create(model="claude-opus-5-5", max_tokens=9, messages=question)
        finally:
            process.terminate()
            process.communicate(timeout=10)
    assert len(journal.read_text().splitlines()) == 2

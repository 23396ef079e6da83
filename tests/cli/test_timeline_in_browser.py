"""The timeline in a real browser, where there is one: its script runs, and nothing of a task does."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from baton.run_facts import run_facts
from baton.timeline import render
from cli.run_folder import page_frame
from tests.baton.test_timeline import EVIL, line, model

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
HOSTILE = f"{EVIL}<img src=x onerror=document.title='hit'><script>document.title='hit'</script>"


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_the_script_of_the_page_runs_and_nothing_else(tmp_path: Path) -> None:
    assert CHROMIUM is not None
    text = model(1, HOSTILE, name=HOSTILE) + line(
        "tool", 300, agent=HOSTILE, tool=HOSTILE, path=HOSTILE, call=1, turn=2
    )
    text += line("merge", 301, outcome=HOSTILE, paths=[HOSTILE]) + line("closed", 302, name="r", outcome=HOSTILE)
    state = json.dumps({"status": {"task": HOSTILE, "state": "partial"}})
    page = tmp_path / "timeline.html"
    page.write_text(render(run_facts("a-task", {"trace.jsonl": text, "state.json": state}), page_frame()))
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    done = subprocess.run([*command, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    seen = done.stdout
    assert "<title>hit" not in seen
    assert "<img" not in seen
    assert seen.count("<script") == 1
    ticks = re.search(r'id="ticks">(.*?)</div>', seen, re.DOTALL)
    assert ticks is not None
    assert re.findall(r">([^<>]+)</span>", ticks[1])[:3] == ["0 s", "1 min", "2 min"]
    assert "data-hint=" in seen

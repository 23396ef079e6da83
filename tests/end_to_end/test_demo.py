"""The demo as a newcomer runs it, the worker killed in the middle: the same result, no finished turn paid twice."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from emulator.journal import duplicate_turns, read_journal

pytestmark = pytest.mark.end_to_end

ROOT = Path(__file__).parent.parent.parent
START_LIMIT_SECONDS = 60


def test_the_demo_survives_a_killed_worker(tmp_path: Path) -> None:
    state = tmp_path / "state"
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "BATON_STATE_DIR": str(state)}
    orchestrate = [sys.executable, str(ROOT / "starter.py")]
    demo_state = tmp_path / "state-demo"
    with (tmp_path / "screen.txt").open("w+", encoding="utf-8") as screen:
        demo = subprocess.Popen([*orchestrate, "demo", "--fast"], env=environment, stdout=screen, stderr=screen)
        try:
            _until(screen.name, "handed off")
            killed = json.loads((demo_state / "service" / "service.json").read_text())["worker"]["pid"]
            os.kill(killed, signal.SIGKILL)
            assert demo.wait(timeout=200) == 0
        finally:
            demo.kill()
            subprocess.run([*orchestrate, "down", "--demo"], env=environment, check=True, capture_output=True)
        told = Path(screen.name).read_text(encoding="utf-8")
    assert "Done: 44 of 44 items done" in told
    assert "no AI was used" in told
    assert "gate tests: passed" in told
    exchanges = read_journal(demo_state / "stand-in.jsonl")
    assert {exchange.status for exchange in exchanges if exchange.path == "/v1/messages"} == {200}
    # Only a response that was on its way when the worker died may be asked for again; never one that had arrived.
    assert len(duplicate_turns(exchanges)) <= 1
    agents = {exchange.user_id for exchange in exchanges if "modernizer" in (exchange.user_id or "")}
    assert len(agents) >= 4


def _until(path: str, text: str) -> None:
    for _ in range(START_LIMIT_SECONDS * 5):
        if text in Path(path).read_text(encoding="utf-8"):
            return
        time.sleep(0.2)
    raise AssertionError(Path(path).read_text(encoding="utf-8"))

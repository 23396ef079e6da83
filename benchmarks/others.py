"""The same loop (same model, latency, turns and tools) in LangGraph with its SQLite checkpointer and in DBOS with
SQLite, as ratios of Baton's figures of the same run.

They do less: no git checkpoint of the files after each turn, no merge, no other host that could go on, no server
process. A killed LangGraph node or DBOS step runs its tools again; Baton's does not.
"""

import statistics
import subprocess
from pathlib import Path

from benchmarks.pacing import Paced
from benchmarks.table import Row
from benchmarks.turns import ALONE_TURNS, CROWD_TURNS, Pace
from emulator.server import EmulatorServer

LOOPS = {"LangGraph": "langgraph_loop.py", "DBOS": "dbos_loop.py"}
LONG_TURNS = 200
LIMIT_SECONDS = 300


def measure(interpreter: Path, folder: Path, ours: dict[int, Pace]) -> list[Row]:
    """Their paces beside ours; one row that says so where the interpreter has them not."""
    if not _has_them(interpreter):
        return [Row("LangGraph, DBOS", "not installed; `make bench` installs them beside")]
    rows = []
    for name, script in LOOPS.items():
        command = [str(interpreter), str(Path(__file__).parent / "compared" / script)]
        alone = _pace(command, folder / f"{name}-alone", 1, ALONE_TURNS)
        crowd = _pace(command, folder / f"{name}-crowd", 8, CROWD_TURNS)
        long = _pace(command, folder / f"{name}-long", 1, LONG_TURNS)
        gap, rate = ours[1].gap / alone.gap, ours[8].rate / crowd.rate
        stored, grown = alone.stored, long.stored
        rows += [
            Row(
                f"{name}: from an answer to the next call",
                f"{alone.gap * 1000:.0f} ms; Baton needs {gap:.1f} times as long",
            ),
            Row(f"{name}: turns a second, 8 agents", f"{crowd.rate:.0f}; Baton makes {rate:.2f} times as many"),
            Row(
                f"{name}: bytes on disk per turn",
                f"{stored / 1000:.1f} kB of {ALONE_TURNS} turns, {grown / 1000:.1f} kB of {LONG_TURNS}"
                f" (ratio {grown / stored:.1f})",
            ),
        ]
    return rows


def _has_them(interpreter: Path) -> bool:
    if not interpreter.exists():
        return False
    check = [str(interpreter), "-c", "import anthropic, dbos, langgraph.checkpoint.sqlite.aio"]
    return subprocess.run(check, check=False, capture_output=True, timeout=LIMIT_SECONDS).returncode == 0


def _pace(command: list[str], folder: Path, agents: int, turns: int) -> Pace:
    model = Paced()
    with EmulatorServer(model, keep=False) as api:
        given = ["--url", api.url, "--agents", str(agents), "--turns", str(turns), "--folder", str(folder)]
        done = subprocess.run([*command, *given], check=False, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    assert done.returncode == 0, done.stderr
    assert len(model.calls) == agents * turns, len(model.calls)
    gaps = model.gaps()
    stored = sum(path.stat().st_size for path in folder.glob("state.sqlite*"))
    return Pace(statistics.median(gaps), min(gaps), len(model.calls) / model.seconds, stored / (agents * turns))

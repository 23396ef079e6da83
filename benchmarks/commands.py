"""How long the commands take that people wait for, as whole processes."""

import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.table import Row

ROOT = Path(__file__).parent.parent
RUNS = 7
GOAL_SECONDS = 0.5


def measure(state: Path) -> list[Row]:
    """`--help`, `list` and `status` against a running service, beside the bare interpreter."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(state), "BATON_STATE_DIR": str(state)}
    starter = [sys.executable, str(ROOT / "starter.py")]
    bare = _median([sys.executable, "-c", "pass"], environment)
    rows = [Row("bare interpreter", f"{bare:.2f} s")]
    for arguments in (["--help"], ["list"], ["status"]):
        seconds = _median([*starter, *arguments], environment)
        value = f"{seconds:.2f} s ({seconds / bare:.0f} times the bare interpreter)"
        rows.append(Row(f"orchestrate {' '.join(arguments)}", value, f"under {GOAL_SECONDS} s", seconds < GOAL_SECONDS))
    return rows


def _median(command: list[str], environment: dict[str, str]) -> float:
    times = []
    for _ in range(RUNS + 1):
        started = time.monotonic()
        subprocess.run(command, env=environment, capture_output=True, check=True)
        times.append(time.monotonic() - started)
    return statistics.median(times[1:])

"""`python -m benchmarks`: every measurement, one table each, and all figures in one JSON file."""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from temporalio.testing import WorkflowEnvironment

from benchmarks import commands, growth, handoffs, overload, repositories
from benchmarks.table import Row, show
from cli.dev_server import server_binary
from cli.service import ensure, stop
from tests.workflows.conftest import TUNING
from tests.workflows.rig import running_rig


async def _in_process(folder: Path) -> dict[str, list[Row]]:
    """What is measured with the workflows in this process, against a server of its own."""
    server = await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(server_binary()),
        dev_server_extra_args=[argument for value in TUNING for argument in ("--dynamic-config-value", value)],
    )
    address = server.client.service_client.config.target_host
    async with server, running_rig(address, folder) as rig:
        return {
            "Handing off at a budget of 32 000 output tokens": await handoffs.measure(rig, 32_000),
            "Handing off at a budget of 6 000 output tokens": await handoffs.measure(rig, 6_000),
            "Growth of an agent's history and store": await growth.measure(rig, 50, 500),
        }


def main() -> None:
    """Measure, print, and write the figures where `--json` says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    options = parser.parse_args()
    console = Console(width=130)
    with tempfile.TemporaryDirectory(prefix="baton-bench-") as scratch:
        folder = Path(scratch)
        (folder / "rig").mkdir()
        tables = asyncio.run(_in_process(folder / "rig"))
        tables["Fifteen minutes of overload"] = overload.measure()
        state = folder / "state"
        ensure(state, embedded_only=True)
        try:
            tables["Git work in a large repository"] = asyncio.run(repositories.measure(folder / "repositories"))
            tables["Commands, as whole processes"] = commands.measure(state)
        finally:
            stop(state)
    for title, rows in tables.items():
        show(title, rows, console)
    if options.json:
        figures = {title: [asdict(row) for row in rows] for title, rows in tables.items()}
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)  # temporalio on CPython 3.11 may abort in the interpreter's own shutdown


if __name__ == "__main__":
    main()

"""`python -m benchmarks`: every measurement, one table each, all figures in one JSON file, and the page about them."""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from temporalio.testing import WorkflowEnvironment

from benchmarks import commands, growth, handoffs, others, overload, parallel, recovery, repositories, scale, turns
from benchmarks.markdown import machine, write
from benchmarks.table import Row, show
from cli.dev_server import DYNAMIC_CONFIG, server_binary
from tests.end_to_end.bench import Bench, running_bench
from tests.workflows.rig import running_rig

Tables = dict[str, list[Row]]


async def _in_process(folder: Path) -> Tables:
    """What is measured with the workflows in this process, against a server of its own."""
    server = await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(server_binary()),
        dev_server_extra_args=[argument for value in DYNAMIC_CONFIG for argument in ("--dynamic-config-value", value)],
    )
    address = server.client.service_client.config.target_host
    async with server, running_rig(address, folder) as rig:
        return {
            "Handing off at a budget of 32 000 output tokens": await handoffs.measure(rig, 32_000),
            "Handing off at a budget of 6 000 output tokens": await handoffs.measure(rig, 6_000),
            "Growth of an agent's history and store": await growth.measure(rig, 50, 500),
        }


class Measurements:
    """The groups by name. Those with whole processes each have a service of their own, in a folder of their own."""

    def __init__(self, folder: Path, others: Path) -> None:
        self._folder = folder
        self._others = others

    def groups(self) -> dict[str, Callable[[], Tables]]:
        """What can be measured, in the order of the page."""
        return {
            "parallel": self._parallel,
            "recovery": self._recovery,
            "turns": self._turns,
            "repositories": self._repositories,
            "growth": self._growth,
            "commands": self._commands,
            "overload": lambda: {"Fifteen minutes of overload": overload.measure()},
            "scale": self._scale,
        }

    def _parallel(self) -> Tables:
        with running_bench(self._folder / "parallel") as bench:
            return {"Wall time against model time": asyncio.run(parallel.measure(bench, self._folder / "projects"))}

    def _recovery(self) -> Tables:
        with running_bench(self._folder / "recovery") as bench:
            return {"Recovery": asyncio.run(recovery.measure(bench, self._folder / "killed"))}

    def _turns(self) -> Tables:
        with running_bench(self._folder / "turns") as bench:
            rows, paces = asyncio.run(turns.measure(bench, self._folder / "turned"))
        compared = others.measure(self._others, self._folder / "others", paces)
        return {"Cost of a turn": rows, "The same loop elsewhere": compared}

    def _scale(self) -> Tables:
        with running_bench(self._folder / "scale") as bench:
            return {"Cost of an item": asyncio.run(scale.measure(bench, self._folder / "items"))}

    def _repositories(self) -> Tables:
        return {"Git work in a large repository": asyncio.run(repositories.measure(self._folder / "repositories"))}

    def _growth(self) -> Tables:
        (self._folder / "rig").mkdir()
        return asyncio.run(_in_process(self._folder / "rig"))

    def _commands(self) -> Tables:
        def measure(bench: Bench) -> list[Row]:
            return commands.measure(bench.state)

        with running_bench(self._folder / "commands") as bench:
            return {"Commands, as whole processes": measure(bench)}


def _keep(options: argparse.Namespace, tables: Tables, newest: Tables, at_start: str) -> None:
    """Write after each group: what is measured stays, whatever becomes of the next."""
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        figures = {title: [asdict(row) for row in rows] for title, rows in tables.items()}
        options.json.write_text(json.dumps({"machine": at_start, "tables": figures}, indent=2) + "\n", encoding="utf-8")
    if options.markdown:
        write(options.markdown, newest, at_start)


def main() -> None:
    """Measure, print, and write the figures where `--json` and `--markdown` say."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    parser.add_argument("--markdown", type=Path, metavar="PAGE", help="replace the figures in PAGE, between its marks")
    parser.add_argument(
        "--others",
        type=Path,
        default=Path(".venv/compared/bin/python"),
        metavar="PYTHON",
        help="interpreter that has the extra `bench`, for the comparison",
    )
    parser.add_argument("--only", nargs="+", metavar="GROUP", help="parallel, recovery, turns, …")
    options = parser.parse_args()
    console = Console(width=150)
    at_start = machine()
    tables: Tables = {}
    with tempfile.TemporaryDirectory(prefix="baton-bench-", ignore_cleanup_errors=True) as scratch:
        groups = Measurements(Path(scratch), options.others).groups()
        if unknown := set(options.only or ()) - groups.keys():
            parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(groups)}")
        for name in options.only or groups:
            started = time.monotonic()
            measured = groups[name]()
            for title, rows in measured.items():
                show(title, rows, console)
            console.print(f"{name}: {time.monotonic() - started:.0f} s\n")
            tables |= measured
            _keep(options, tables, measured, at_start)
    sys.stdout.flush()
    os._exit(0)  # temporalio on CPython 3.11 may abort in the interpreter's own shutdown


if __name__ == "__main__":
    main()

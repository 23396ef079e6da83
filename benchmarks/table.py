"""How a measurement is shown, and kept as JSON beside the others."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

MARKS = {True: "met", False: "NOT met", None: ""}


@dataclass(frozen=True)
class Row:
    """One figure. `goal` is what it should be, in words; `met` is None where there is no goal."""

    what: str
    value: str
    goal: str = ""
    met: bool | None = None


def show(title: str, rows: Sequence[Row], console: Console) -> None:
    """Print the figures of one measurement."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in ("figure", "value", "goal", ""):
        table.add_column(name)
    for row in rows:
        table.add_row(row.what, row.value, row.goal, MARKS[row.met])
    console.print(table)
    console.print()

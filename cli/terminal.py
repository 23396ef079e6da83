"""Output: styled on a terminal, plain lines when piped, JSON on request. Everything shown is made of `Line`s."""

import json
import os
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

BAR_WIDTH = 12
_said: ContextVar[set[str] | None] = ContextVar("baton_said", default=None)


class Tone(StrEnum):
    """What a line means; the value is its style on a terminal."""

    PLAIN = ""
    STRONG = "bold"
    GOOD = "green"
    BAD = "red"
    WAITS = "bold yellow"
    ACTIVE = "cyan"
    FAINT = "dim"


@dataclass(frozen=True)
class Line:
    """One line. `share` (0 to 1) is drawn as a bar at the end of it, on a terminal only. `whole`: it goes on in further
    rows where a view would cut it, for a person must read all of it."""

    text: str
    tone: Tone = Tone.PLAIN
    indent: int = 0
    share: float | None = None
    whole: bool = False


def is_terminal() -> bool:
    """Whether a person looks at standard output, on a terminal that can move its cursor."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def plain(line: Line) -> str:
    """The line as text; control characters of a task or a path never reach the terminal."""
    return "  " * line.indent + printable(line.text)


def printable(text: str) -> str:
    """`text` on one line, control characters replaced."""
    return "".join(character if character.isprintable() else " " for character in text).rstrip()


def styled(line: Line) -> "Text":
    """The line for rich: cut at the width of the terminal, never wrapped."""
    from rich.text import Text

    text = Text(plain(line), style=line.tone.value, no_wrap=True, overflow="ellipsis")
    if line.share is not None:
        filled = round(max(0.0, min(1.0, line.share)) * BAR_WIDTH)
        text.append("  ")
        text.append("━" * filled, style="green")
        text.append("╌" * (BAR_WIDTH - filled), style="dim")
    return text


def rows(line: Line, width: int) -> list[Line]:
    """The line as a view of this width shows it: one row, or more where it must be read whole."""
    if not line.whole:
        return [line]
    from textwrap import wrap

    room = max(20, width - 2 * line.indent)
    parts = wrap(printable(line.text), room, subsequent_indent="  ", break_on_hyphens=False) or [""]
    return [replace(line, text=part, whole=False) for part in parts]


def console() -> "Console":
    """A console on standard output; it follows NO_COLOR by itself."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def show(lines: Sequence[Line]) -> None:
    """Print lines for a person, whole: nothing is cut that somebody may want to copy."""
    if not is_terminal():
        for line in lines:
            typer.echo(plain(line))
        return
    out = console()
    for line in lines:
        text = styled(line)
        text.no_wrap = False
        out.print(text, soft_wrap=True)


def show_json(value: Any) -> None:
    """Print one JSON document."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=1, default=str))


def begin_command() -> None:
    """A command begins: nothing was remarked yet."""
    _said.set(set())


def remark(text: str, *, once: bool = False) -> None:
    """A line on standard error: not part of the result. `once`: however often the command comes to it."""
    if once and (said := _said.get()) is not None:
        if text in said:
            return
        said.add(text)
    typer.echo(text, err=True)

"""The README and the pages of `docs/` as tests read them: fenced blocks, and the commands that they show."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
CONSOLE = "console"

_BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>.*?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_EXIT = re.compile(r"#.*\bexit (\d+)\b")
_INLINE = re.compile(r"`(orchestrate [^`]+)`")


@dataclass(frozen=True)
class Block:
    """A fenced block. `reason`: why its commands are not run, from the comment right before it; else None."""

    language: str
    text: str
    reason: str | None
    line: int

    @property
    def commands(self) -> tuple[str, ...]:
        """What stands behind `$ `, continuation lines (`\\` at the end, `> ` at the beginning) included."""
        found: list[str] = []
        goes_on = False
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append(line[2:])
            elif found and (line.startswith("> ") or goes_on):
                found[-1] += "\n" + line.removeprefix("> ")
            goes_on = line.endswith("\\") and (goes_on or line.startswith(("$ ", "> ")))
        return tuple(found)


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("language")) + 1
        yield Block(found["language"], found["text"], found["reason"], line)


def expected_exit(command: str) -> int:
    """The exit code that a command's comment announces (`# exit 4: it waits`), else 0."""
    announced = _EXIT.search(command)
    return int(announced[1]) if announced else 0


def mentioned(page: Path) -> list[str]:
    """Every `orchestrate …` of a page: in console blocks, run or not, and in the text."""
    shown = [command for block in blocks(page) for command in block.commands if command.startswith("orchestrate")]
    return shown + _INLINE.findall(page.read_text(encoding="utf-8"))

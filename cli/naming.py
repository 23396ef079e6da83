"""Words of the command line: task ids made from a task's words, and whether a word was meant as a command."""

import difflib
import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from datetime import date

LONGEST_SLUG = 44
"""Leaves room for the date and a number behind it."""

_FILLERS = frozenset(
    (
        "a",
        "an",
        "the",
        "of",
        "to",
        "in",
        "on",
        "for",
        "from",
        "with",
        "and",
        "or",
        "by",
        "at",
        "as",
        "all",
        "this",
        "that",
    )
)
_NEAR = 0.8


def task_ids(task: str, day: date) -> Iterator[str]:
    """Ids for a task, in the order to try: its words and the date, then `-2`, `-3` … (up to 99)."""
    base = f"{_slug(task)}-{day.isoformat()}"
    yield base
    for number in range(2, 100):
        yield f"{base}-{number}"


def _slug(task: str) -> str:
    text = unicodedata.normalize("NFKD", task.strip().partition("\n")[0]).encode("ascii", "ignore").decode().lower()
    words = re.findall(r"[a-z0-9]+", text.replace("'", ""))
    kept = [word for word in words if word not in _FILLERS] or words
    slug = ""
    for word in kept:
        longer = f"{slug}-{word}" if slug else word[:LONGEST_SLUG]
        if len(longer) > LONGEST_SLUG:
            break
        slug = longer
    return slug or "task"


def mistaken_command(words: Sequence[str], commands: Collection[str]) -> str | None:
    """Why these words, given without a command, are no task; None when they are one.

    A task is `@file`, `-`, a text with a space, or several words. Two words of which the first is nearly a command
    are taken for a slip of the finger too: a task started by mistake costs money.
    """
    if not words or len(words) > 2 or _is_text(words[0]):
        return None
    near = difflib.get_close_matches(words[0], commands, n=1, cutoff=0.6 if len(words) == 1 else _NEAR)
    if len(words) == 2 and not near:
        return None
    meant = f" Did you mean `orchestrate {near[0]}`?" if near else f" Commands are: {', '.join(sorted(commands))}."
    task = " ".join(words)
    return f"{words[0]!r} is no command.{meant} To start a task of that name: orchestrate run {task!r}"


def _is_text(word: str) -> bool:
    return word in {"", "-"} or word.startswith("@") or any(character.isspace() for character in word)

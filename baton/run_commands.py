"""Commands of `run` steps: what is wrong with one, and the command line for one item.

`{item}` becomes one quoted argument, whatever the name holds. That holds outside quotes only, so a command that has
it anywhere else is a fault of the plan, named before anything runs.
"""

import re
import shlex
from collections.abc import Iterator, Sequence

from baton.ledger import ItemRecord, ItemStatus

ITEM = "{item}"
MOST_CHARACTERS = 4_000
"""Of a command; what needs more belongs into a script of the repository."""
NOTE_CHARACTERS = 600
"""Of what a failed command printed last; the note of a failed item."""

_COMMENT = re.compile(r"(?:^|(?<=[\s;&|()]))#")
_HIDES = (
    ("`", "backticks (use $(…))"),
    ("$((", "arithmetic"),
    ("((", "arithmetic"),
    ("$'", "$'…'"),
    ('$"', '$"…"'),
)
_ADVICE = f"give {ITEM} as an argument of its own, as in: codemod --write {ITEM}"


class BadCommand(ValueError):  # noqa: N818 - says what the command is
    """The command cannot take an item safely; the message says why and what to write instead."""


def per_item(command: str) -> bool:
    """Whether the command runs once for each item, and not once for all."""
    return ITEM in command


def faults_of_run(command: str, *, has_items: bool) -> list[str]:
    """What is wrong with the `run` of a step, one sentence each."""
    if not command.strip():
        return ["run is empty; leave it out, or give a command"]
    if "\0" in command or len(command) > MOST_CHARACTERS:
        return [
            f"run holds a NUL character or more than {MOST_CHARACTERS} characters; put a script into the repository"
        ]
    if not per_item(command):
        return []
    faults = [] if has_items else [f"run names {ITEM}, but the step has no items; name some, or select them"]
    try:
        list(_pieces(command))
    except BadCommand as bad:
        faults.append(str(bad))
    return faults


def command_for(command: str, item: str) -> str:
    """The command line for one item. Raises `BadCommand`."""
    return "".join(_argument(item) if piece == ITEM else piece for piece in _pieces(command))


def failed(records: Sequence[ItemRecord]) -> tuple[str, ...]:
    """Items whose command failed, in order."""
    return tuple(record.item for record in records if record.status is ItemStatus.FAILED)


def last_lines(output: str) -> str:
    """The end of what a command printed, short enough for a note."""
    text = "\n".join(line.rstrip() for line in output.strip().splitlines() if line.strip())
    return text if len(text) <= NOTE_CHARACTERS else f"…{text[-NOTE_CHARACTERS:]}"


def _argument(item: str) -> str:
    # A name with a leading dash would be taken for an option, one with `=` or of digits for a part of the syntax.
    name = f"./{item}" if item.startswith("-") else item
    return f"'{name}'" if shlex.quote(name) == name and ("=" in name or name.isdigit()) else shlex.quote(name)


def _pieces(command: str) -> Iterator[str]:
    """The command cut at every `{item}`, which comes as a piece of its own, without quotes right around it."""
    position = start = 0
    while position < len(command):
        if (length := _placeholder(command, position)) is not None:
            if position and command[position - 1] == "$":
                raise BadCommand(f"run: ${ITEM} is no variable; {_ADVICE}")
            yield command[start:position]
            yield ITEM
            position = start = position + length
        else:
            position = _next(command, position)
    yield command[start:]


def _placeholder(command: str, position: int) -> int | None:
    """The length of a placeholder that starts here, its own quotes included."""
    for spelling in (ITEM, f'"{ITEM}"', f"'{ITEM}'"):
        if command.startswith(spelling, position):
            return len(spelling)
    return None


def _next(command: str, position: int) -> int:
    """Where the next part of the command begins. Raises `BadCommand` for what might hide an item."""
    for mark, what in _HIDES:
        if command.startswith(mark, position):
            raise BadCommand(f"run: {what} and {ITEM} do not go together; {_ADVICE}")
    if command.startswith("<<<", position):
        return position + 3
    if command.startswith("<<", position) or _COMMENT.match(command, position):
        raise BadCommand(f"run: here-documents and comments do not go together with {ITEM}; {_ADVICE}")
    character = command[position]
    if character == "\\":
        return _past(command, position + 1, command[position + 1 : position + 2])
    if character == "'":
        return _closed(command, position, "'")
    if character == '"':
        return _closed(command, position, '"')
    if command.startswith("${", position) and not command.startswith(f"${ITEM}", position):
        return _closed(command, position, "}")
    return position + 1


def _past(command: str, position: int, character: str) -> int:
    if command.startswith(ITEM, position):
        raise BadCommand(f"run: a backslash before {ITEM} takes its quotes away; {_ADVICE}")
    return position + len(character)


def _closed(command: str, position: int, mark: str) -> int:
    end = position + 1
    while end < len(command) and command[end] != mark:
        end += 2 if mark == '"' and command[end] == "\\" else 1
    if end >= len(command):
        raise BadCommand(f"run: a closing {mark} is missing")
    inside = command[position + 1 : end]
    if ITEM[:-1] in inside:
        raise BadCommand(f"run: {ITEM} stands inside quotes, where no name is safe; {_ADVICE}")
    if mark != "'" and re.search(r"\$\(|`", inside):
        raise BadCommand(f"run: a substitution inside quotes does not go together with {ITEM}; {_ADVICE}")
    return end + 1

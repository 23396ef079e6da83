"""The resolver's rules: both lines, the larger number, the name that the result gave; what they cannot decide is left
to a person, and said so."""

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from emulator.catalogue import STAND_IN
from emulator.dialogue import Dialogue
from emulator.reply import Block, Text, ToolUse

MAX_REFUSED = 3
UNDECIDABLE = "undecidable"
"""A side that holds this word asks for what the rules have no answer to."""

_CONFLICT = re.compile(
    r"^<{7}[^\n]*\n(?P<ours>.*?)(?:^\|{7}[^\n]*\n(?P<base>.*?))?^={7}\n(?P<theirs>.*?)^>{7}[^\n]*(?:\n|\Z)",
    re.MULTILINE | re.DOTALL,
)
_NUMBER = re.compile(r"\d+")
_TOLD = re.compile(r"\bkeep (ours|theirs)\b")


def resolve(dialogue: Dialogue) -> list[Block]:
    """Read the files in conflict, resolve place by place, submit; what is left is told in the rationale."""
    paths = sorted(set(_paths(dialogue.assignment.get("conflict"))))
    reads = {call.path: call for call in dialogue.calls if call.name == "read"}
    if paths and not reads:
        return [Text("I look at the conflict."), *(ToolUse("read", {"file_path": path}) for path in paths)]
    side = next(
        (match[1] for text in dialogue.assignment.get("guidance") or [] for match in _TOLD.finditer(text)), None
    )
    places = [(path, *place) for path in paths if path in reads for place in _places(reads[path].result, side)]
    edits: list[Block] = [
        ToolUse("edit", {"file_path": path, "old_string": old, "new_string": new})
        for path, old, new in places
        if new is not None
    ]
    edits += _removals(dialogue.assignment.get("conflict"))
    if edits and not any(call.name in ("edit", "bash") for call in dialogue.calls):
        return [Text("I resolve by rule: both lines, the larger number, the name of the result."), *edits]
    left = sum(new is None for _, _, new in places)
    return _submission(dialogue, len(places) - left, left, len(paths))


def _submission(dialogue: Dialogue, resolved: int, left: int, files: int) -> list[Block]:
    if dialogue.done("submit_resolution"):
        return [Text("It is submitted.")]
    if "submit_resolution" not in dialogue.tools or dialogue.failures("submit_resolution") > MAX_REFUSED:
        return [Text("There is nothing more that a stand-in can submit.")]
    rule = "both lines are kept, of two numbers the larger one, of two names that of the result"
    rationale = f"A {STAND_IN}: {rule}." + (f" {left} places contradict each other; a person must decide." * bool(left))
    answer = {"resolution": f"{resolved} places resolved by rule in {files} files.", "rationale": rationale}
    return [Text("I submit what the rules give."), ToolUse("submit_resolution", answer)]


def _places(text: str, side: str | None) -> Iterator[tuple[str, str | None]]:
    """Each place in conflict with what it becomes; None where no rule decides."""
    for match in _CONFLICT.finditer(text.replace("\r\n", "\n")):
        yield match[0], match[side] if side else _decided(match["base"], match["ours"], match["theirs"])


def _decided(base: str | None, ours: str, theirs: str) -> str | None:
    if UNDECIDABLE in ours + theirs:
        return None
    if base is not None and base in (ours, theirs):
        return theirs if ours == base else ours
    if _NUMBER.sub("#", ours) == _NUMBER.sub("#", theirs):
        numbers = [tuple(map(int, _NUMBER.findall(side))) for side in (ours, theirs)]
        higher = ours if numbers[0] >= numbers[1] else theirs
        # Two who raised the same number both need room.
        return _NUMBER.sub(lambda match: str(int(match[0]) + 1), ours) if numbers[0] == numbers[1] else higher
    return ours + theirs


def _removals(conflict: Any) -> Iterator[ToolUse]:
    """Of two new names for one file that of the result stays."""
    for path in (conflict or {}).get("paths") or () if isinstance(conflict, Mapping) else ():
        if isinstance(path, Mapping) and path.get("kind") == "rename_rename" and path.get("stages") == ["theirs"]:
            yield ToolUse("bash", {"command": f"rm {shlex.quote(str(path['path']))}"})


def _paths(value: Any) -> Iterator[str]:
    """Every string under a key that names files, whatever the shape of the conflict."""
    if isinstance(value, Mapping):
        for key, entry in value.items():
            if key in ("file", "path") and isinstance(entry, str):
                yield entry
            elif key in ("files", "paths") and isinstance(entry, list):
                yield from (name for name in entry if isinstance(name, str))
                yield from _paths(entry)
            else:
                yield from _paths(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from _paths(entry)

"""Whether a question to the predecessor was answered before it was asked: a sign that a manifest was not read."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from baton.conversation import Block

_ASSIGNMENT = re.compile(r"<assignment>\n(.*)\n</assignment>", re.DOTALL)
_WORD = re.compile(r"[\w./-]{4,}")
_ASKING = frozenset(
    ("what", "which", "where", "when", "does", "should", "would", "could", "have", "been", "were", "with", "from")
)
_SHARE = 0.6
_WORDS_AT_LEAST = 2


def answered_before(question: str, opening: Sequence[Block]) -> bool:
    """Whether one entry of the manifest or the knowledge in the agent's first message holds most of the question's
    words, which is how people look for an answer too."""
    wanted = _words(question)
    if len(wanted) < _WORDS_AT_LEAST:
        return False
    return any(len(wanted & _words(entry)) >= _SHARE * len(wanted) for entry in _entries(opening))


def _words(text: str) -> set[str]:
    found = {word.strip("./-").lower() for word in _WORD.findall(text)}
    # Without its ending a word is found in its other forms too.
    return {word.removesuffix("s") for word in found if word not in _ASKING}


def _entries(opening: Sequence[Block]) -> Iterator[str]:
    for block in opening:
        found = _ASSIGNMENT.search(str(block.get("text", "")))
        if found is None:
            continue
        try:
            assignment = json.loads(found[1])
        except ValueError:
            continue
        manifest = assignment.get("manifest") or {}
        for key in ("decisions_made", "issues_encountered", "patterns_established", "in_progress_item", "notes"):
            yield from _texts(manifest.get(key))
        yield from _texts(assignment.get("knowledge"))


def _texts(value: Any) -> Iterator[str]:
    """Each entry of a list as one text, whatever its fields are."""
    if isinstance(value, list):
        for entry in value:
            yield from _texts(entry)
    elif isinstance(value, dict):
        yield " ".join(text for part in value.values() for text in _texts(part))
    elif value is not None:
        yield str(value)

"""Guidance files: what they import, and the one bounded text that an agent sees of all of them.

An import is `@path` as a word of its own, outside code. It names a file relative to the one that holds it; what is
outside the repository is never read for a project's file.
"""

import posixpath
import re
from collections.abc import Sequence

from baton.models import Stored

IMPORT_HOPS = 5
LIMIT_CHARACTERS = 40_000
NESTED_SHOWN = 40
"""Guidance of folders that is named, so that whoever works there reads it."""

_FENCE = re.compile(r"^(?P<fence>`{3,}|~{3,})[^\n]*\n.*?(?:^(?P=fence)[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`)", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_IMPORT = re.compile(r"(?:^|(?<=\s))@(?P<path>(?:\\ |[^\s`@])+)")


class Section(Stored):
    """One guidance file: whose it is, its name as people say it, its text."""

    whose: str
    file: str
    text: str


def imports(text: str) -> list[str]:
    """The paths that a guidance file imports, as written, each once."""
    prose = _SPAN.sub("", _FENCE.sub("", _COMMENT.sub("", text)))
    found = (match["path"].replace("\\ ", " ").rstrip(".,;:!?)]\"'") for match in _IMPORT.finditer(prose))
    return list(dict.fromkeys(path for path in found if path))


def located(importer: str, named: str) -> str | None:
    """The path of an import relative to the repository; None when it leads out of it."""
    if named.startswith(("/", "~")) or "\0" in named:
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(importer), named))
    return None if path.startswith("../") or path in {"..", "."} or ".git" in path.lower().split("/") else path


def shown(sections: Sequence[Section], nested: Sequence[str] = ()) -> tuple[str, int]:
    """All guidance as one text within the limit, and how many characters of it are left out."""
    parts: list[str] = []
    room, left_out = LIMIT_CHARACTERS, 0
    for section in sections:
        text = section.text.strip()
        cut = len(text) - room
        if cut > 0:
            left_out += cut
            text = f"{text[:room]}\n[cut here: {cut} more characters; read {section.file} for the rest]"
        room = max(0, room - len(section.text))
        parts.append(f'<{section.whose}_guidance file="{section.file}">\n{text}\n</{section.whose}_guidance>')
    if nested:
        more = f", and {len(nested) - NESTED_SHOWN} more" if len(nested) > NESTED_SHOWN else ""
        named = ", ".join(nested[:NESTED_SHOWN])
        parts.append(f"Folders with guidance of their own, to be read before working there: {named}{more}.")
    return "\n".join(parts), left_out

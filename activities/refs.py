"""Refs of the private repository, read as the files they are: they are asked for often, and a process costs most."""

import re
from pathlib import Path

_OBJECT_NAME = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def loose(repository: Path, ref: str) -> str | None:
    """The object that a ref with a file of its own names; None for any other, which git has to be asked about."""
    try:
        text = (repository / ref).read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return text if _OBJECT_NAME.fullmatch(text) else None

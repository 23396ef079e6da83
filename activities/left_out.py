"""What a checkpoint leaves out though git does not ignore it, and why."""

import os
import re
import stat

from activities.known_tree import ChangeKind
from baton.models import Stored

_REFUSED = re.compile(rb"(?:^|[/\\])(?:\.git|git~1)[ .]*(?:\Z|[/\\:])", re.IGNORECASE)
"""Names that are git's own folder on some file system (`core.protectNTFS`)."""
LARGEST_BYTES = 500_000_000
"""Larger files are not committed: hashing one takes longer than a turn, and hosts of code refuse them."""


class LeftOut(Stored):
    """A path that is not committed, and why."""

    path: str
    reason: str


def why_not(root: bytes, path: bytes, kind: ChangeKind) -> str | None:
    """Of a changed path of the workspace at `root`; None for what may be committed."""
    if kind is ChangeKind.DELETED:
        return None
    if path.endswith(b"/"):
        return "a git repository of its own"
    if _REFUSED.search(path):
        return "a name that git refuses"
    place = os.path.join(root, path)  # noqa: PTH118 (bytes: names need not be UTF-8)
    try:
        found = os.lstat(place)
    except OSError:
        return None
    if stat.S_ISLNK(found.st_mode):
        return _why_not_link(root, place)
    if not stat.S_ISREG(found.st_mode):
        return "no regular file"
    if found.st_size > LARGEST_BYTES:
        return f"larger than {LARGEST_BYTES // 10**6} MB"
    return None if os.access(place, os.R_OK) else "not readable"


def _why_not_link(root: bytes, place: bytes) -> str | None:
    if os.path.basename(place).lower() == b".gitmodules":  # noqa: PTH119
        return "a link that git refuses"
    try:
        if os.readlink(place).startswith(b"/"):  # noqa: PTH115
            return "a link to an absolute path"
        inside = os.path.realpath(place).startswith(os.path.realpath(root) + b"/")
    except OSError:
        return "a link that changed meanwhile"
    return None if inside else "a link that leads outside the workspace"

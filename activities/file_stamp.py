"""What tells a file as it is from any other, without reading it.

A command can set the time of the last writing back, and keep the size; it cannot set the time of the change, and a file
that takes another's place is another one.
"""

import os
from pathlib import Path

Stamp = tuple[int, ...]
"""Inode, size, and the times of the last writing and of the last change; empty for a file that is not there."""


def stamp(found: os.stat_result) -> Stamp:
    """Of a file that was looked at."""
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def stamp_of(file: Path) -> Stamp:
    """Of the file at this path, through links."""
    try:
        return stamp(file.stat())
    except FileNotFoundError:
        return ()

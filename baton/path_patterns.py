"""Glob patterns over repository paths: one meaning for ownership, permissions and the `glob` tool.

`*`, `?` and `[…]` stay inside one path component, `**` as a whole component crosses any number of them,
`{a,b}` are alternatives. Matching is linear in pattern and path, so no pattern can hang a caller.
"""

import fnmatch
import re
import unicodedata
from functools import lru_cache

ALTERNATIVES_LIMIT = 256
"""Braces that expand to more patterns than this are taken literally from there on."""

_INNERMOST_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")


def is_pattern(text: str) -> bool:
    """Whether it can name anything but the one path that it spells."""
    return text.endswith("/") or any(letter in text for letter in "*?[{")


def matches(pattern: str, path: str) -> bool:
    """Whether `pattern` names `path` (relative, `/` between components); a final `/` means all below."""
    components = path.split("/")
    return any(_matches_components(parts, components) for parts in _compiled(pattern))


def matches_anywhere(pattern: str, path: str) -> bool:
    """Whether `path` is named in the sense of gitignore, which permission rules follow.

    A pattern without an inner slash holds in every folder; one that names a folder holds for all below it.
    """
    anchored = pattern.removeprefix("./").removeprefix("/")
    if anchored == pattern and "/" not in pattern.rstrip("/"):
        anchored = f"**/{pattern}"
    return matches(anchored, path) or matches(f"{anchored.rstrip('/')}/**", path)


def fold(text: str) -> str:
    """The spelling under which two names are the same on a disk that ignores case or Unicode form."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> tuple[tuple[re.Pattern[str] | None, ...], ...]:
    pattern = pattern.removeprefix("./")
    if pattern.endswith("/"):
        pattern += "**"
    return tuple(
        tuple(None if part == "**" else re.compile(fnmatch.translate(part)) for part in one.split("/"))
        for one in _alternatives(pattern)
    )


def _alternatives(pattern: str) -> list[str]:
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        one = waiting.pop()
        braces = _INNERMOST_BRACES.search(one)
        if braces is None or len(done) + len(waiting) >= ALTERNATIVES_LIMIT:
            done.append(one)
            continue
        waiting.extend(one[: braces.start()] + choice + one[braces.end() :] for choice in braces[1].split(","))
    return done


def _matches_components(parts: tuple[re.Pattern[str] | None, ...], components: list[str]) -> bool:
    """Walk the path once, keeping every position of the pattern that is still possible."""
    reached = {0}
    for component in components:
        following: set[int] = set()
        for position in _with_skipped_stars(parts, reached):
            if position == len(parts):
                continue
            part = parts[position]
            if part is None:
                # A final `**` is consumed only here, so `src/**` is what is below `src`, not `src` itself.
                following |= {position, position + 1}
            elif part.match(component):
                following.add(position + 1)
        reached = following
    return len(parts) in reached


def _with_skipped_stars(parts: tuple[re.Pattern[str] | None, ...], reached: set[int]) -> set[int]:
    """Positions reachable without a component: a `**` that is not the last part may stand for nothing."""
    skipped = set(reached)
    for position in sorted(reached):
        following = position
        while following < len(parts) - 1 and parts[following] is None:
            following += 1
            skipped.add(following)
    return skipped

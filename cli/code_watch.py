"""Notices that the installed code has changed, once an installation has come to rest."""

from pathlib import Path

from cli import code_version

SETTLED_LOOKS = 3
"""So many looks in a row must see the same files: an installation replaces them one by one."""


class CodeWatch:
    """Looks at the code again and again. `root`: where our packages lie, by default where this one does."""

    def __init__(self, root: Path | None = None) -> None:
        self._root = root or Path(__file__).resolve().parent.parent
        self._known = self._seen = code_version.stamp(self._root)
        self._looks = 0

    def changed(self) -> str | None:
        """The fingerprint of code that is new since the last answer; None where there is none, or not yet whole."""
        now = code_version.stamp(self._root)
        if now == self._known:
            self._looks = 0
            return None
        self._looks = self._looks + 1 if now == self._seen else 1
        self._seen = now
        if self._looks < SETTLED_LOOKS:
            return None
        self._known, self._looks = now, 0
        return code_version.fingerprint(self._root)

"""Where a repository comes from: a path or a URL, and what a URL must not hold."""

import re

_URL = re.compile(r"(?:https?|ssh|git|file)://\S+|[\w.+-]+@[\w.-]+:\S+")
_CREDENTIALS = re.compile(r"^[a-z][a-z0-9+.-]*://[^/@]*:[^/@]*@|^https?://[^/@]+@", re.IGNORECASE)


def is_url(source: str) -> bool:
    """Whether git would fetch it rather than read it from disk: `https://…`, `ssh://…`, `file://…`, `git@host:…`."""
    return _URL.fullmatch(source) is not None


def has_credentials(source: str) -> bool:
    """Whether a URL holds a password or token, which histories and reports would then show."""
    return _CREDENTIALS.match(source) is not None

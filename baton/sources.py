"""Where a repository comes from: a path or a URL, what a URL must not hold, and whether a folder is a checkout."""

import re

_URL = re.compile(r"(?:https?|ssh|git|file)://\S+|[\w.+-]+@[\w.-]+:\S+")
CHECKOUT_QUESTION = ("rev-parse", "--is-bare-repository", "--is-inside-git-dir")
"""What git is asked of a folder; `checkout_fault` reads the answer."""
_CREDENTIALS = re.compile(r"^[a-z][a-z0-9+.-]*://[^/@]*:[^/@]*@|^https?://[^/@]+@", re.IGNORECASE)


def is_url(source: str) -> bool:
    """Whether git would fetch it rather than read it from disk: `https://…`, `ssh://…`, `file://…`, `git@host:…`."""
    return _URL.fullmatch(source) is not None


def has_credentials(source: str) -> bool:
    """Whether a URL holds a password or token, which histories and reports would then show."""
    return _CREDENTIALS.match(source) is not None


def checkout_fault(source: str, exit_code: int, output: bytes, errors: str) -> str | None:
    """Why a folder is not in a checkout, by git's answer to `CHECKOUT_QUESTION` there (in the C locale); None where it
    is."""
    if exit_code != 0 and "dubious ownership" in errors:
        return f"{source}: git does not trust this folder: {errors.strip()}"
    if exit_code != 0:
        return f"{source} is not in a git repository: run git init and commit, or name another with --repo"
    bare, inside = output.split()
    if bare == b"true":
        return f"{source} is a bare repository: name a checkout of it, or its URL (file://…)"
    if inside == b"true":
        return f"{source} is inside a .git folder: name the folder of the checkout"
    return None

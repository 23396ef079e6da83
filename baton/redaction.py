"""Keeping secrets out of what is shown and stored: values from `.env`-like files and known credentials.

In an `.env`-like file every value is masked, so its names can be read and nothing else. Elsewhere only values that
look like secrets are masked: an ordinary setting such as a port occurs in innocent places.
"""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

MASK = "[secret]"
SHORTEST_SECRET = 8

_TEMPLATES = frozenset({".example", ".sample", ".template", ".dist", ".defaults"})
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASS|PWD|CREDENTIAL|AUTH|PRIVATE|SALT|DSN|SIGNATURE", re.IGNORECASE)
_ASSIGNMENT = re.compile(r"^(?P<before>[\s#]*(?:export\s+)?(?P<name>[\w.-]+)\s*[=:]\s*)(?P<value>.*?)(?P<end>\r?)$")
_TOKEN = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[^\s]{20,}")
_URL_PASSWORD = re.compile(r"://[^/\s:@]*:(?P<password>[^/\s@]+)@")


def is_secret_file(path: str) -> bool:
    """Whether a file is made to hold secrets: `.env`, `.env.local`, `prod.env`, but not `.env.example`."""
    name = PurePosixPath(path).name.lower()
    looks = name == ".env" or name.startswith(".env.") or name.endswith(".env")
    return looks and not _TEMPLATES & set(PurePosixPath(name).suffixes)


def masked_line(line: str) -> str:
    """A line of an `.env`-like file without its value; a line that is no assignment may be the rest of one."""
    if not line.strip() or line.strip() == "#":
        return line
    assignment = _ASSIGNMENT.match(line)
    if assignment is None:
        return line if line.lstrip().startswith("# ") else MASK
    return line if not assignment["value"] else f"{assignment['before']}{MASK}{assignment['end']}"


def masked_file(text: str) -> str:
    """An `.env`-like file without its values."""
    return "\n".join(masked_line(line) for line in text.split("\n"))


def secret_values(text: str) -> set[str]:
    """The values in an `.env`-like file that are secrets by their name or their look."""
    found: set[str] = set()
    for line in text.splitlines():
        assignment = _ASSIGNMENT.match(line)
        if assignment is None:
            continue
        value = assignment["value"].strip().strip("'\"")
        if password := _URL_PASSWORD.search(value):
            found.add(password["password"])
        elif _SECRET_NAME.search(assignment["name"]) or _TOKEN.fullmatch(value):
            found.add(value)
    return {value for value in found if len(value) >= SHORTEST_SECRET}


def redacted(text: str, secrets: Iterable[str]) -> str:
    """`text` with every one of `secrets` masked, the longest first."""
    for secret in sorted((secret for secret in secrets if len(secret) >= SHORTEST_SECRET), key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text

"""Keeping secrets out of what is shown and stored: values from `.env`-like files, keys, known credentials and whatever
has the shape of a token.

In an `.env`-like file every value is masked, so its names can be read and nothing else. Elsewhere only values that
look like secrets are masked: an ordinary setting such as a port occurs in innocent places.
"""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import PurePosixPath

MASK = "[secret]"
SHORTEST_SECRET = 8

_TEMPLATES = frozenset({".example", ".sample", ".template", ".dist", ".defaults"})
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASS|PWD|CREDENTIAL|AUTH|PRIVATE|SALT|DSN|SIGNATURE", re.IGNORECASE)
_ASSIGNMENT = re.compile(r"^(?P<before>[\s#]*(?:export\s+)?(?P<name>[\w.-]+)\s*[=:]\s*)(?P<value>.*?)(?P<end>\r?)$")
_TOKEN = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[^\s]{20,}")
_URL_PASSWORD = re.compile(r"://[^/\s:@]*:(?P<password>[^/\s@]+)@")
_KEY_SUFFIXES = (".pem", ".key", ".p8")
_KEY_NAMES = frozenset({"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"})
_KEY_LINE = re.compile(r"^[A-Za-z0-9+/=]{24,}\r?$", re.MULTILINE)
_SHORT_KEY_LINE = re.compile(r"[A-Za-z0-9+/=]+\r?")
_PRIVATE = "PRIVATE KEY-----"
_BASE64 = r"[A-Za-z0-9+/=]"
_KEY_END = re.compile(rf"-----END [A-Z0-9 ]*{_PRIVATE}")
_KEY_BLOCK = (
    rf"-----BEGIN [A-Z0-9 ]*{_PRIVATE}(?:\\[nr]|\s)*(?:[A-Za-z-]+: [^\n]*\n)*\s*{_BASE64}{{16,}}"
    rf"(?:\\[nr]|\s|{_BASE64})*(?:-----END [A-Z0-9 ]*{_PRIVATE})?"
)
"""With or without its end; line ends may be written as `\\n`."""
_SHAPES = (
    _KEY_BLOCK,
    r"\bsk-(?:ant|proj|svcacct|or)-[\w-]{16,}",
    r"\bsk-[A-Za-z0-9]{32,}\b",
    r"\bgh[pousr]_[A-Za-z0-9]{30,}",
    r"\bgithub_pat_\w{22,}",
    r"\bglpat-[\w-]{20,}",
    r"\bxox[abeoprs]-[\w-]{10,}",
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    r"\bAIza[\w-]{35}",
    r"\bnpm_[A-Za-z0-9]{36}",
    r"\bpypi-[\w-]{40,}",
    r"\b[rs]k_live_[A-Za-z0-9]{16,}",
    r"\bhf_[A-Za-z0-9]{30,}",
    r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}",
)
"""Tokens that tell by their form what they are: of models' APIs, code hosts, clouds, chats, registries, payments."""


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


def is_key_file(path: str) -> bool:
    """Whether a file may hold a private key, by its name."""
    name = PurePosixPath(path).name.lower()
    return name in _KEY_NAMES or name.endswith(_KEY_SUFFIXES)


def secrets_of_file(path: str, text: str) -> set[str]:
    """What of a file must not be shown elsewhere: the values of an `.env`-like one, each line of a private key."""
    if is_secret_file(path):
        return secret_values(text)
    return {line.rstrip() for line in _KEY_LINE.findall(text)} if is_key_file(path) and _PRIVATE in text else set()


def url_password(url: str) -> str | None:
    """The password in a URL."""
    found = _URL_PASSWORD.search(url)
    return found["password"] if found else None


def shape_of_secret(text: str) -> str | None:
    """The first word that has the shape of a token, its beginning only, for telling where it stands."""
    found = _shapes().search(text)
    return f"{found[0][:8]}…" if found else None


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` with every one of `secrets` masked, the longest first, and then whatever has the shape of a token."""
    for secret in sorted((secret for secret in secrets if len(secret) >= SHORTEST_SECRET), key=len, reverse=True):
        text = text.replace(secret, MASK)
    return _without_key_ends(_shapes().sub(MASK, text))


@cache
def _shapes() -> re.Pattern[str]:
    return re.compile("|".join(_SHAPES))


def _without_key_ends(text: str) -> str:
    """Without the lines of a private key whose beginning was cut off."""
    kept: list[str] = []
    position = 0
    for end in _KEY_END.finditer(text):
        lines = text[position : end.start()].split("\n")
        first = _first_key_line(lines)
        kept += ["\n".join([*lines[:first], MASK])] if first < len(lines) else [text[position : end.end()]]
        position = end.end()
    return "".join([*kept, text[position:]])


def _first_key_line(lines: list[str]) -> int:
    """Where the lines of a key begin that reach to the end of `lines`, a shorter last one too; else their number."""
    last = len(lines) - (lines[-1] == "")
    shorter = last > 1 and _SHORT_KEY_LINE.fullmatch(lines[last - 1]) and _KEY_LINE.fullmatch(lines[last - 2])
    first = last - 1 if shorter else last
    while first > 0 and _KEY_LINE.fullmatch(lines[first - 1]):
        first -= 1
    return first if first < last else len(lines)

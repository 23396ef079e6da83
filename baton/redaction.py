"""Keeping secrets out of what is shown and stored: values from `.env`-like files, keys, known credentials and whatever
has the shape of a token.

In an `.env`-like file every value is masked, so its names can be read and nothing else. Elsewhere only values that
look like secrets are masked: an ordinary setting such as a port or a host occurs in innocent places. What is masked is
also what no agent may put into the repository (`activities/secret_guard.py`).
"""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any, TypeVar

from baton.models import Stored
from baton.secret_forms import MASK, SHORTEST_SECRET, known
from baton.token_shapes import PRIVATE, shape_of_secret, shapes_in, tokens_in

__all__ = [
    "MASK",
    "SHORTEST_SECRET",
    "is_key_file",
    "is_secret_file",
    "is_secret_name",
    "is_secret_value",
    "masked_file",
    "masked_line",
    "masked_value",
    "redacted",
    "secret_values",
    "secrets_of_file",
    "shape_of_secret",
    "tokens_in",
    "url_password",
    "without_secrets",
]

S = TypeVar("S", bound=Stored)

_TEMPLATES = frozenset({".example", ".sample", ".template", ".dist", ".defaults"})
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASS|PWD|CREDENTIAL|AUTH|PRIVATE|SALT|DSN|SIGNATURE", re.IGNORECASE)
_INNOCENT = re.compile(
    r"(?<![^\W_])(?:AUTHOR(?:S|ED|ING|SHIP|ITY|ITIES|I[SZ]ED|I[SZ]ERS?)?|KEYCLOAK|KEYBOARDS?|TOKENI[SZ]ERS?|"
    r"(?:MAX|MIN|NUM)_(?:[^\W_]+_)?TOKENS)(?![^\W_])",
    re.IGNORECASE,
)
"""Whole words that only sound like a secret; what stands beside them counts."""
_ABOUT_A_SECRET = re.compile(
    r"(?<![^\W_])(?:USER|USER_?NAME|EMAIL|HOST|HOSTNAME|PORT|URL|URI|FILE|PATH|DIR|REALM|ISSUER|AUDIENCE|ALGORITHM|METHOD|"
    r"TYPE|PROVIDER|MODE|ENABLED|TTL|EXPIR[A-Z]*(?:_(?:IN|AT|AFTER|SECONDS|MINUTES|HOURS|DAYS|MS))*|TIMEOUT|LENGTH|SIZE|"
    r"ROUNDS|LIMIT|COUNT|(?P<id>ID))$",
    re.IGNORECASE,
)
"""How names of settings end that go with a secret and hold none."""
_SURELY_SECRET = re.compile(r"(?<![^\W_])(?:PASSWORD|SECRET|TOKEN)(?![^\W_])", re.IGNORECASE)
"""Words after which even an `ID` is a secret, as the one that Vault gives."""
# fmt: off
_COMMON = frozenset((
    "localhost", "development", "production", "password", "password1", "passw0rd", "changeme", "change-me",
    "change_me", "changeit", "example", "undefined", "disabled", "required", "optional", "postgres", "postgresql",
    "mongodb", "rabbitmq", "username", "administrator", "12345678", "123456789", "1234567890", "secretkey",
    "secret-key", "your-secret", "your-key", "your-token", "placeholder", "stand-in",
))
# fmt: on
_PLACE = re.compile(
    r"(?:~|\.{1,2}|/(?:home|Users|Library|etc|usr|opt|var|run|tmp|root|srv|mnt|private|app|workspace|data))/\S*"
)
_URL = re.compile(r"[a-z][a-z0-9+.-]*://\S+")
_RANDOM_PART = re.compile(r"(?=\w*\d)(?=\w*[A-Za-z])[\w-]{16,}")
_ASSIGNMENT = re.compile(r"^(?P<before>[\s#]*(?:export\s+)?(?P<name>[\w.-]+)\s*[=:]\s*)(?P<value>.*?)(?P<end>\r?)$")
_TOKEN = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[^\s]{20,}")
_URL_PASSWORD = re.compile(r"://[^/\s:@]*:(?P<password>[^/\s@]+)@")
_KEY_SUFFIXES = (".pem", ".key", ".p8")
_KEY_NAMES = frozenset({"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"})
_KEY_LINE = re.compile(r"^[A-Za-z0-9+/=]{24,}\r?$", re.MULTILINE)
_SHORT_KEY_LINE = re.compile(r"[A-Za-z0-9+/=]+\r?")
_KEY_END = re.compile(rf"-----END [A-Z0-9 ]*{PRIVATE}")


def is_secret_file(path: str) -> bool:
    """Whether a file is made to hold secrets: `.env`, `.env.local`, `prod.env`, but not `.env.example`."""
    if ".env" not in path.lower():  # nearly all; whole trees are asked about
        return False
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
        elif is_secret_name(assignment["name"]) or _looks_random(value):
            found.add(value)
    return {value for value in found if is_secret_value(value)}


def is_secret_name(name: str) -> bool:
    """Whether a setting of this name holds a secret: `DB_PASSWORD` does, `AUTH_URL` and `KEY_FILE` do not."""
    about = _ABOUT_A_SECRET.search(name)
    if about and not (about["id"] and _SURELY_SECRET.search(name)):
        return False
    return bool(_SECRET_NAME.search(_INNOCENT.sub("", name)))


def is_secret_value(value: str) -> bool:
    """Whether a value is worth hiding: not short, no common word, no filler, no place on a disk."""
    plain = len(value) < SHORTEST_SECRET or value.casefold() in _COMMON or len(set(value)) < 3
    return not (plain or _PLACE.fullmatch(value))


def _looks_random(value: str) -> bool:
    """A long word of letters and digits; of an address only if it holds one, as that of a web hook does."""
    return bool(_RANDOM_PART.search(value) if _URL.fullmatch(value) else _TOKEN.fullmatch(value))


def is_key_file(path: str) -> bool:
    """Whether a file may hold a private key, by its name."""
    name = path.rstrip("/").rpartition("/")[2].lower()
    return name in _KEY_NAMES or name.endswith(_KEY_SUFFIXES)


def secrets_of_file(path: str, text: str) -> set[str]:
    """What of a file must not be shown elsewhere: the values of an `.env`-like one, each line of a private key."""
    if is_secret_file(path):
        return secret_values(text)
    return {line.rstrip() for line in _KEY_LINE.findall(text)} if is_key_file(path) and PRIVATE in text else set()


def url_password(url: str) -> str | None:
    """The password in a URL."""
    found = _URL_PASSWORD.search(url)
    return found["password"] if found else None


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` with every one of `secrets` masked in whatever form, and then whatever has the shape of a token."""
    text = known(secrets).masked(text)
    shapes = shapes_in(text)
    return _without_key_ends(shapes.sub(MASK, text)) if shapes else text


def masked_value(value: Any, secrets: Iterable[str] = ()) -> Any:
    """A JSON value with every text in it `redacted`; the very same where none holds a secret."""
    secrets = frozenset(secrets)
    # All texts at once: there may be thousands, and hardly ever a secret in one.
    together = "\x1f".join(texts_of(value))
    return value if redacted(together, secrets) == together else _masked_value(value, secrets)


def without_secrets(value: S, secrets: Iterable[str] = ()) -> S:
    """A stored value with every text in it `redacted`."""
    plain = value.model_dump(mode="json")
    masked = masked_value(plain, secrets)
    return value if masked is plain else type(value).model_validate(masked)


def texts_of(value: Any) -> list[str]:
    """Every text in a JSON value, the keys of objects included."""
    found: list[str] = []
    _gather(value, found)
    return found


def _gather(value: Any, found: list[str]) -> None:
    if isinstance(value, str):
        found.append(value)
    elif isinstance(value, dict):
        for key, entry in value.items():
            _gather(key, found)
            _gather(entry, found)
    elif isinstance(value, list | tuple):
        for entry in value:
            _gather(entry, found)


def _masked_value(value: Any, secrets: frozenset[str]) -> Any:
    match value:
        case str():
            return redacted(value, secrets)
        case list() | tuple():
            return [_masked_value(entry, secrets) for entry in value]
        case dict():
            return {key: _masked_value(entry, secrets) for key, entry in value.items()}
    return value


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

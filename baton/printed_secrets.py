"""Secrets that commands print and nobody knew: passwords in URLs, and values given to a name that says it is secret.

Only for what commands print. In files such values are content that is worked on: a model must see it as it is, and a
password of a test is no secret.
"""

import re
from collections.abc import Collection, Iterable, Iterator

from baton.redaction import MASK, is_secret_name, is_secret_value, redacted

_NAME = r"(?<![\w.-])(?P<name>[A-Za-z_-][\w.-]{0,80})"
_QUOTED = re.compile(
    rf"{_NAME}\\?[\"']?[ \t]{{0,3}}(?::=|=>|[:=])(?!=)[ \t]{{0,3}}"
    r"(?P<open>\\?[\"'])(?P<value>[^\s\"'\\]{8,400})(?P=open)"
)
"""`password = "…"`, `"password": "…"`, also within a string of JSON."""
_BARE = re.compile(rf"{_NAME}=(?P<value>[^\s\"'\\()<>{{}}\[\]$,;&|`]{{8,400}})(?=[\s\"'\\,;&<|]|$)")
"""`password=…`, as in the environment, in options and in the parameters of a URL."""
_ROW = re.compile(rf"^[ \t-]*{_NAME}:[ \t]+(?P<value>[^\s\"'\\()<>{{}}\[\]$,;&|`]{{8,400}})[ \t]*\r?$", re.MULTILINE)
"""`password: …` on a line of its own, as in YAML."""
_IN_URL = re.compile(r"(?<!\w)[A-Za-z][A-Za-z0-9+.-]{1,30}://[^/\s:@\"'<>]*:(?P<value>[^/\s@\"'<>]{6,400})@")
_POSSIBLE = re.compile(r"pass|pwd|secret|token|key|credential|salt|signature|dsn", re.IGNORECASE)
_WORD_BEGINS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[.-]")
_SURE_NAME = re.compile(
    r"pass(?:word|wd|phrase)(?![a-z])|(?<![a-z])(?:pass|pwd|secret|token|credentials?|salt|signature|dsn)(?![a-z])|"
    r"(?:api|access|private|secret|signing|encryption|auth|account|master)_?key(?![a-z])",
    re.IGNORECASE,
)
"""Narrower than `is_secret_name`: outputs are full of keys, and of words that begin like a secret."""
_REFERENCE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_SHORTEST_WITHOUT_DIGIT = 8


def printed(text: str, secrets: Iterable[str] = (), harmless: Collection[str] = ()) -> str:
    """What a command printed, `redacted`, and without the values that only their place makes secret.

    `harmless`: values to leave, since they stand in files of the repository.
    """
    text = redacted(text, secrets)
    spans = sorted((begin, end) for begin, end in _spans(text) if text[begin:end] not in harmless)
    kept: list[str] = []
    position = 0
    for begin, end in spans:
        if begin >= position:
            kept += [text[position:begin], MASK]
            position = end
    return "".join([*kept, text[position:]])


def printed_values(text: str) -> frozenset[str]:
    """The values in an output that only their place makes secret."""
    return frozenset(text[begin:end] for begin, end in _spans(text))


def _spans(text: str) -> Iterator[tuple[int, int]]:
    if "://" in text:
        for found in _IN_URL.finditer(text):
            if _is_password_of_url(found["value"]):
                yield found.span("value")
    if not _POSSIBLE.search(text):
        return
    for form in (_QUOTED, _BARE, _ROW):
        for found in form.finditer(text):
            if _is_secret(found["name"], found["value"], quoted=form is _QUOTED):
                yield found.span("value")


def _is_password_of_url(value: str) -> bool:
    if value[0] in "$<{%*" or MASK in value:
        return False
    return is_secret_value(value) or (len(value) < _SHORTEST_WITHOUT_DIGIT and bool(re.search(r"\d", value)))


def _is_secret(name: str, value: str, *, quoted: bool) -> bool:
    words = _WORD_BEGINS.sub("_", name).strip("_")
    if not (_SURE_NAME.search(words) and is_secret_name(words) and is_secret_value(value)):
        return False
    if value[0] in "$<{%*" or "://" in value or MASK in value:
        return False
    if not quoted and (_REFERENCE.fullmatch(value) or (_IDENTIFIER.fullmatch(value) and _SURE_NAME.search(value))):
        return False
    return bool(re.search(r"[A-Za-z]", value) and re.search(r"[^A-Za-z_.:-]", value))

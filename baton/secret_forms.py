"""The forms in which a known secret may stand in a text: as it is, escaped for JSON, encoded for a URL, in hex, and in
base64 at each of its three alignments; each of them on one line or broken over several.

What was transformed in any other way is not recognised: a program that can read a secret can always write it so that
nobody finds it. The masks keep secrets from what goes astray, the sandbox from what is meant to be taken.
"""

import base64
import json
import re
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import quote, quote_plus

MASK = "[secret]"
SHORTEST_SECRET = 8
"""Characters. What is shorter occurs in innocent places."""

_BREAK = re.compile(r"(?:\\\r?\n|\\r|\\n|\r\n|\n)[ \t]*")
"""A line end with the next line's indentation; also written as `\\n`, as in JSON, or continued by a backslash. Every
form begins with a given character, so that all others are passed over at once."""
_ESCAPED_BYTE = re.compile(r"%[0-9A-F]{2}")


class KnownSecrets:
    """Secrets to be found in texts. Made once for a set of them: see `known`."""

    def __init__(self, secrets: frozenset[str]) -> None:
        found = {form: secret for secret in secrets if len(secret) >= SHORTEST_SECRET for form in _forms(secret)}
        # Longest first: a secret may be a part of another.
        self._forms = {form: found[form] for form in sorted(found, key=len, reverse=True)}

    def masked(self, text: str) -> str:
        """The text with every secret masked; its lines stay as many as they are."""
        for form in self._forms:
            text = text.replace(form, MASK)
        whole = _joined(text)
        if whole is not text and (broken := [form for form in self._forms if form in whole]):
            text = _masked_across_lines(text, whole, broken)
        return text

    def found_in(self, text: str) -> frozenset[str]:
        """Which secrets stand in the text, in whatever form."""
        whole = _joined(text)
        return frozenset(secret for form, secret in self._forms.items() if form in text or form in whole)


def known(secrets: Iterable[str]) -> KnownSecrets:
    """The secrets, with their forms worked out."""
    return _known(secrets if isinstance(secrets, frozenset) else frozenset(secrets))


@lru_cache(maxsize=64)
def _known(secrets: frozenset[str]) -> KnownSecrets:
    return KnownSecrets(secrets)


@lru_cache(maxsize=4_096)
def _forms(secret: str) -> tuple[str, ...]:
    data = secret.encode("utf-8", "surrogatepass")
    texts = [secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]]
    in_url = [quote(data, safe=""), quote(data), quote_plus(data), "".join(f"%{byte:02X}" for byte in data)]
    texts += [*in_url, *(_ESCAPED_BYTE.sub(lambda found: found[0].lower(), text) for text in in_url)]
    texts += [data.hex(), data.hex().upper()]
    for before in range(3):
        coded = base64.b64encode(bytes(before) + data).decode()
        # Only what the secret alone decides: the first and the last character may hold bits of its neighbours.
        inner = coded[(before * 8 + 5) // 6 : (before + len(data)) * 8 // 6]
        texts += [inner, inner.replace("+", "-").replace("/", "_")]
    return tuple(dict.fromkeys(text for text in texts if len(text) >= SHORTEST_SECRET))


def _joined(text: str) -> str:
    """The text on one line; the same object where it has but one."""
    return _BREAK.sub("", text) if "\n" in text or "\\" in text else text


def _masked_across_lines(text: str, whole: str, forms: Iterable[str]) -> str:
    """`text` with the forms masked that stand in `whole`, its lines joined: their part of every line."""
    starts, shifts, removed = [0], [0], 0
    pieces: list[tuple[int, int]] = []
    position = 0
    for found in _BREAK.finditer(text):
        pieces.append((position, found.start()))
        starts.append(found.start() - removed)
        removed += found.end() - found.start()
        shifts.append(removed)
        position = found.end()
    pieces.append((position, len(text)))
    hidden: list[tuple[int, int]] = []
    for form in forms:
        at = whole.find(form)
        while at >= 0:
            first, last = bisect_right(starts, at) - 1, bisect_right(starts, at + len(form) - 1) - 1
            begin, end = at + shifts[first], at + len(form) + shifts[last]
            hidden += [(max(begin, pieces[n][0]), min(end, pieces[n][1])) for n in range(first, last + 1)]
            at = whole.find(form, at + len(form))
    kept: list[str] = []
    position = 0
    for begin, end in sorted(span for span in hidden if span[0] < span[1]):
        if begin >= position:
            kept += [text[position:begin], MASK]
        position = max(position, end)
    return "".join([*kept, text[position:]])

"""Words that tell by their form that they are secrets: tokens of well-known services, and private keys.

Whatever has such a form is masked. What is *surely* a secret, and no example or placeholder, is also kept out of the
repository (`tokens_in`).
"""

import re
from functools import cache

PRIVATE = "PRIVATE KEY-----"
_BASE64 = r"[A-Za-z0-9+/=]"
_KEY_BLOCK = (
    rf"-----BEGIN [A-Z0-9 ]*{PRIVATE}(?:\\[nr]|\s)*(?:[A-Za-z-]+: [^\n]*\n)*\s*{_BASE64}{{16,}}"
    rf"(?:\\[nr]|\s|{_BASE64})*(?:-----END [A-Z0-9 ]*{PRIVATE})?"
)
"""With or without its end; line ends may be written as `\\n`."""
_SHAPES = (
    (PRIVATE, _KEY_BLOCK),
    ("sk-", r"\bsk-(?:ant|proj|svcacct|or)-[\w-]{16,}"),
    ("sk-", r"\bsk-[A-Za-z0-9]{32,}\b"),
    *((f"gh{kind}_", rf"\bgh{kind}_[A-Za-z0-9]{{30,}}") for kind in "pousr"),
    ("github_pat_", r"\bgithub_pat_\w{22,}"),
    ("glpat-", r"\bglpat-[\w-]{20,}"),
    ("xox", r"\bxox[abeoprs]-[\w-]{10,}"),
    ("AKIA", r"\bAKIA[0-9A-Z]{16}\b"),
    ("ASIA", r"\bASIA[0-9A-Z]{16}\b"),
    ("AIza", r"\bAIza[\w-]{35}"),
    ("npm_", r"\bnpm_[A-Za-z0-9]{36}"),
    ("pypi-", r"\bpypi-[\w-]{40,}"),
    ("k_live_", r"\b[rs]k_live_[A-Za-z0-9]{16,}"),
    ("hf_", r"\bhf_[A-Za-z0-9]{30,}"),
    ("eyJ", r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}"),
)
"""Tokens that tell by their form what they are: of models' APIs, code hosts, clouds, chats, registries, payments. With
each a part that every such token has: looking for it costs little, and most texts have none."""
_PLACEHOLDER = re.compile(
    r"example|placeholder|dummy|fake|redacted|changeme|(?<![a-z])your(?![a-z])|(?<![a-z])test(?![a-z])|(.)\1{5}",
    re.IGNORECASE,
)
"""What a real token does not hold: words that say so, one character again and again."""
_FEWEST_CHARACTERS = 4
"""Different ones in a real token."""
_KEY_CHARACTERS, _KEY_FEWEST_CHARACTERS = 32, 8
"""Of base64 in a private key, and different ones of them; documentation shows less."""
_KEY_PIECE = re.compile(rf"{_BASE64}{{16,}}")


def tokens_in(text: str) -> frozenset[str]:
    """What in a text is surely a secret: whole tokens, and the lines of private keys.

    Examples and placeholders are none. Neither are signed claims (`eyJ…`), which tests are full of.
    """
    shapes = shapes_in(text)
    if shapes is None:
        return frozenset()
    found: set[str] = set()
    for one in shapes.finditer(text):
        found |= _of_key(one[0]) if PRIVATE in one[0] else _of_token(one[0])
    return frozenset(found)


def _of_key(block: str) -> set[str]:
    body = re.split(r"-----(?:END|$)", block.partition(PRIVATE)[2])[0]
    pieces = [piece for line in re.split(r"\\[nr]|\s", body) for piece in _KEY_PIECE.findall(line)]
    whole = "".join(pieces)
    return set(pieces) if len(whole) >= _KEY_CHARACTERS and len(set(whole)) >= _KEY_FEWEST_CHARACTERS else set()


def _of_token(token: str) -> set[str]:
    own = re.split(r"[-_]", token, maxsplit=1)[-1]
    if token.startswith("eyJ") or not re.search(r"\d", own):
        return set()
    return set() if len(set(own)) < _FEWEST_CHARACTERS or _PLACEHOLDER.search(own) else {token}


def shape_of_secret(text: str) -> str | None:
    """The first word that has the shape of a token, its beginning only, for telling where it stands."""
    shapes = shapes_in(text)
    found = shapes.search(text) if shapes else None
    return f"{found[0][:8]}…" if found else None


def shapes_in(text: str) -> re.Pattern[str] | None:
    """What to look for in this text; None where it cannot hold any token."""
    possible = tuple(shape for part, shape in _SHAPES if part in text)
    return _compiled(possible) if possible else None


@cache
def _compiled(shapes: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(shapes))

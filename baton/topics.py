"""Subjects on which agents' choices exclude each other by their meaning, and the words by which they are known.

A text that names two alternatives of one topic settles nothing for it, and neither does one that only says what is not
done any more ("instead of camelCase").
"""

import re
from collections.abc import Iterator, Mapping

_NOUNS = re.compile(
    r"\b(function|method|variable|constant|class|component|type|interface|module|file|test|parameter|argument|key"
    r"|column|table|field|propert(?:y|ie)|enum)(?:s|es)?\b",
    re.IGNORECASE,
)
_REJECTED = re.compile(
    r"\b(?:not|never|avoid(?:ing)?|instead of|rather than|no|without|from|was|were|over|old)\s+(?:\w+\s+){0,2}$",
    re.IGNORECASE,
)

_NAMING: Mapping[str, str] = {
    "camelCase": r"\b(?:lower[ -]?)?camel[ -]?case\b",
    "PascalCase": r"\b(?:pascal|upper[ -]?camel)[ -]?case\b",
    "snake_case": r"\bsnake[ _-]?case\b",
    "kebab-case": r"\bkebab[ -]?case\b",
    "UPPER_CASE": r"\b(?:screaming[ _-]?snake|upper)[ _-]?case\b",
}
_TOPICS: Mapping[str, Mapping[str, str]] = {
    "import paths": {"relative": r"\brelative (?:imports?|paths?)\b", "absolute": r"\babsolute (?:imports?|paths?)\b"},
    "exports": {"named": r"\bnamed (?:im|ex)ports?\b", "default": r"\bdefault (?:im|ex)ports?\b"},
    "module system": {
        "CommonJS": r"\bcommon ?js\b|\brequire\(",
        "ES modules": r"\bes ?modules?\b|\besm\b|\bes6 imports?\b",
    },
    "quotes": {"single": r"\bsingle quotes?\b", "double": r"\bdouble quotes?\b"},
    "indentation": {
        "tabs": r"\b(?:tabs for indent\w*|indent\w* (?:with|by|using) tabs?)\b",
        "2 spaces": r"\b(?:2|two)[ -]spaces?\b",
        "4 spaces": r"\b(?:4|four)[ -]spaces?\b",
    },
    "semicolons": {"without": r"\b(?:no|without|omit) semicolons?\b", "with": r"\b(?:with|always|use) semicolons?\b"},
    "test framework": {
        name: rf"\b{name}\b" for name in ("pytest", "unittest", "jest", "vitest", "mocha", "jasmine", "ava")
    },
    "error handling": {
        "exceptions": r"\berrors are (?:raised|thrown)\b|\b(?:raise|throw)s? (?:an? )?(?:exception|error)s?\b",
        "returned errors": r"\berrors are returned\b|\breturns? (?:an? )?(?:error|result|either)s?\b",
    },
}
_ALTERNATIVES = {
    topic: {choice: re.compile(pattern, re.IGNORECASE) for choice, pattern in alternatives.items()}
    for topic, alternatives in {"naming": _NAMING, **_TOPICS}.items()
}


def topic_choices(text: str) -> Iterator[tuple[str, str]]:
    """The subjects that a text settles, each with its choice."""
    for topic, alternatives in _ALTERNATIVES.items():
        chosen = [choice for choice, pattern in alternatives.items() if _says(text, pattern)]
        if len(chosen) != 1:
            continue
        nouns = sorted({f"{match[1].lower()}s" for match in _NOUNS.finditer(text)}) if topic == "naming" else []
        yield from ((f"naming of {noun}", chosen[0]) for noun in nouns)
        if not nouns:
            yield topic, chosen[0]


def _says(text: str, pattern: re.Pattern[str]) -> bool:
    """Whether the text chooses what the pattern names, and does not only say that it is not done."""
    return any(
        not _REJECTED.search(text[max(0, match.start() - 40) : match.start()]) for match in pattern.finditer(text)
    )

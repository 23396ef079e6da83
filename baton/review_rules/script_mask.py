"""JavaScript and TypeScript text with comments and the insides of strings blanked out, every other character in place.

Understood: line and block comments, strings, templates with nested `${}`, regular expressions. JSX text is read as
code; an apostrophe in it hides no more than the rest of its line.
"""

import re
from dataclasses import dataclass

_BEFORE_EXPRESSION = frozenset("(,=:[!&|?{;+-*%~^>")
_WORDS_BEFORE_EXPRESSION = frozenset(
    ("return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "else", "do", "await", "yield")
)
_REGULAR_EXPRESSION = re.compile(r"/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\[\n])+/[a-z]*")
_LAST_WORD = re.compile(r"[\w$]+$")
_KEY = re.compile(r"[\w$-]+")


@dataclass(frozen=True)
class Masked:
    """`code`: nothing of comments and strings. `named`: the same, with quoted names of properties left readable."""

    code: str
    named: str


def mask(text: str) -> Masked:
    """The masked text; both forms have the length and the lines of the original."""
    return _Masker(text).run()


class _Masker:
    def __init__(self, text: str) -> None:
        self._text = text
        self._code = list(text)
        self._keys: list[tuple[int, int]] = []
        self._at = 0
        self._templates: list[int] = []  # per open `${`: how many braces are open inside it
        self._significant = -1  # where the last character of code stands

    def run(self) -> Masked:
        while self._at < len(self._text):
            self._step()
        code = "".join(self._code)
        named = list(code)
        for start, end in self._keys:
            named[start:end] = self._text[start:end]
        return Masked(code, "".join(named))

    def _step(self) -> None:
        text, at = self._text, self._at
        character = text[at]
        if text.startswith("//", at):
            self._blank(at, _or_end(text.find("\n", at), text))
        elif text.startswith("/*", at):
            self._blank(at, _or_end(text.find("*/", at + 2), text, 2))
        elif character in "'\"":
            self._string(character)
        elif character == "`":
            self._keep()
            self._template()
        elif character == "/" and (found := self._regular_expression()) is not None:
            self._blank(at + 1, found - 1)
            self._at, self._significant = found, found - 1
        elif character in "{}" and self._templates:
            self._brace_in_template(character)
        else:
            self._keep()

    def _keep(self) -> None:
        if not self._text[self._at].isspace():
            self._significant = self._at
        self._at += 1

    def _blank(self, start: int, end: int) -> None:
        for index in range(start, end):
            if self._code[index] != "\n":
                self._code[index] = " "
        self._at = end

    def _string(self, quote: str) -> None:
        """To the closing quote; one that is never closed ends with its line."""
        text, start = self._text, self._at
        before = text[self._significant] if self._significant >= 0 else ""
        end = start + 1
        while end < len(text) and text[end] not in (quote, "\n"):
            end += 2 if text[end] == "\\" else 1
        end = min(end, len(text))
        self._blank(start + 1, end)
        if _is_key(text, before, start + 1, end):
            self._keys.append((start + 1, end))
        if end < len(text) and text[end] == quote:
            self._at = end + 1
        self._significant = self._at - 1

    def _template(self) -> None:
        """The characters of a template, up to its end or to the next `${`."""
        text, start = self._text, self._at
        end = start
        while end < len(text) and text[end] != "`" and not text.startswith("${", end):
            end += 2 if text[end] == "\\" else 1
        end = min(end, len(text))
        self._blank(start, end)
        if text.startswith("${", end):
            self._blank(end, end + 2)
            self._templates.append(0)
            self._significant = -1
        elif end < len(text):
            self._keep()

    def _brace_in_template(self, character: str) -> None:
        if character == "{":
            self._templates[-1] += 1
            self._keep()
        elif self._templates[-1]:
            self._templates[-1] -= 1
            self._keep()
        else:
            self._templates.pop()
            self._blank(self._at, self._at + 1)
            self._template()

    def _regular_expression(self) -> int | None:
        """Where the regular expression that begins here ends; None where the slash divides."""
        if self._significant >= 0 and self._text[self._significant] not in _BEFORE_EXPRESSION:
            word = _LAST_WORD.search(self._text, max(0, self._significant - 12), self._significant + 1)
            if word is None or word[0] not in _WORDS_BEFORE_EXPRESSION:
                return None
        found = _REGULAR_EXPRESSION.match(self._text, self._at)
        return found.end() if found else None


def _is_key(text: str, before: str, start: int, end: int) -> bool:
    after = text[end + 1 : end + 20].lstrip()[:1]
    return ((after == ":" and before in ("{", ",")) or (after == "]" and before == "[")) and _KEY.fullmatch(
        text, start, end
    ) is not None


def _or_end(found: int, text: str, more: int = 0) -> int:
    return len(text) if found < 0 else found + more

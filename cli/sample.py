"""The demo's sample repository: `legacy-toolkit`, old-fashioned Python that works, with a test suite that checks it.

Every module is put together from the pieces below with the words of its own subject. The expected values in the
tests are what the legacy code itself returns, so a wrong conversion of any format fails the suite. The same call
makes the same files, and the same commit.
"""

import os
import runpy
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

PACKAGES: Mapping[str, tuple[str, ...]] = {
    "billing": ("invoice", "receipt", "refund", "discount", "voucher", "deposit", "surcharge", "dividend", "tariff"),
    "inventory": ("bolt", "washer", "bracket", "gasket", "bearing", "spindle", "flange", "rivet", "pulley"),
    "shipping": ("parcel", "pallet", "container", "crate", "envelope", "shuttle", "courier", "manifest", "barge"),
    "people": ("visitor", "student", "teacher", "member", "sponsor", "speaker", "guest", "editor", "reviewer"),
    "weather": ("station", "sensor", "reading", "forecast", "gauge", "balloon", "buoy", "radar"),
}
PIECES_PER_MODULE = 5
NUMBER = "$number"
"""Stands in a sample call for the module's own number."""

WINDOWS_LINE_ENDS = frozenset({"shipping/barge.py", "weather/buoy.py"})
_IDENTITY = ("-c", "user.name=Legacy Toolkit", "-c", "user.email=toolkit@example.invalid")
_PLAIN = ("-c", "commit.gpgsign=false", "-c", "core.hooksPath=/dev/null", "-c", "core.autocrlf=false")
_DATE = "2026-01-05T09:00:00+00:00"


@dataclass(frozen=True)
class Piece:
    """A part of a module: source with `$noun`, `$title`, `$number`, and the calls that the tests make."""

    source: str
    calls: tuple[tuple[str, tuple[Any, ...]], ...]


_PIECES = (
    Piece(
        '''
def format_row(name, count, price):
    """One line of the $noun table: name, count and price in fixed columns."""
    if count < 0:
        raise ValueError("count of $noun %s is negative: %d" % (name, count))
    return "%-14s|%6d|%10.2f" % (name, count, price)


def format_header():
    """The two lines above the $noun table."""
    title = "%-14s|%6s|%10s" % ("$title", "count", "price")
    return "%s\\n%s" % (title, "-" * len(title))
''',
        (("format_row", ("first", 3, 12.5)), ("format_row", ("a longer name", 12000, 0.126)), ("format_header", ())),
    ),
    Piece(
        '''
def describe(identifier, owner, open_days):
    """A sentence about one $noun."""
    text = "{0} {1} belongs to {2}".format("$title", identifier, owner)
    if open_days:
        text += ", open for {} {}".format(open_days, "day" if open_days == 1 else "days")
    return "{}.".format(text)
''',
        (("describe", (17, "Ada", 0)), ("describe", ("x-1", "Grace {H}", 1)), ("describe", (3, "100%", NUMBER))),
    ),
    Piece(
        '''
class Base$class(object):
    """What every $noun has: a name and a weight in grams."""

    def __init__(self, name, grams):
        self.name = name
        self.grams = grams

    def label(self):
        return "%s (%d g)" % (self.name, self.grams)


class Heavy$class(Base$class):
    """A $noun that is announced with its weight in kilograms."""

    def __init__(self, name, grams):
        super(Heavy$class, self).__init__(name, grams)
        self.kilograms = grams / 1000.0

    def label(self):
        return "{}, {:.1f} kg".format(super(Heavy$class, self).label(), self.kilograms)


def labels(entries):
    """The labels of (name, grams) pairs; from $number kilograms on they count as heavy."""
    kinds = [Heavy$class if grams >= $number * 1000 else Base$class for _, grams in entries]
    return [kind(name, grams).label() for kind, (name, grams) in zip(kinds, entries)]
''',
        (("labels", ([("small", 80), ("large", 95524)],)), ("labels", ([("100% wool", 0)],))),
    ),
    Piece(
        '''
KNOWN_STATES = set(["new", "open", "closed", "$noun"])
STATE_CODES = dict([(state, index) for index, state in enumerate(sorted(KNOWN_STATES))])


def state_line(state):
    """The state with its code, or a remark that there is no such state."""
    if state not in KNOWN_STATES:
        return "unknown state %r of a $noun (known: %s)" % (state, ", ".join(sorted(KNOWN_STATES)))
    return "%s=%02d" % (state, STATE_CODES[state])
''',
        (("state_line", ("open",)), ("state_line", ("$noun",)), ("state_line", ("it's",))),
    ),
    Piece(
        '''
def percentage(part, whole):
    """How much of the $noun is done, as text such as `37.5%`."""
    if not whole:
        return "%s" % ("n/a",)
    return "%.1f%%" % (100.0 * part / whole)


def progress_bar(part, whole, width=$number):
    """A bar of `width` characters for a terminal."""
    filled = int(width * part / whole) if whole else 0
    return "[%s%s] %s" % ("#" * filled, "." * (width - filled), percentage(part, whole))
''',
        (("percentage", (3, 8)), ("percentage", (1, 0)), ("progress_bar", (2, 3)), ("progress_bar", (0, 0))),
    ),
    Piece(
        '''
def as_config(settings):
    """Settings of the $noun as `key = value` lines, sorted by key."""
    lines = ["[%s]" % "$noun"]
    for key in sorted(settings):
        lines.append("{key} = {value!r}".format(key=key, value=settings[key]))
    return "\\n".join(lines)


def parse_config(text):
    """The keys of a text made by `as_config`, with the number of the line each stands on."""
    found = {}
    for number, line in enumerate(text.split("\\n"), 1):
        if " = " in line:
            found[line.split(" = ")[0]] = "line %d" % number
    return found
''',
        (
            ("as_config", ({"size": NUMBER, "name": "$noun", "ratio": 0.5},)),
            ("as_config", ({},)),
            ("parse_config", ("[$noun]\na = 1\nb = 2",)),
        ),
    ),
    Piece(
        '''
def as_hex(number):
    """The number of the $noun in the forms that old tools print."""
    return "%d 0x%04x %o %e" % (number, number, number, number)


def checksum_line(name, payload):
    """A name with the sum of its bytes, as the $noun files have it."""
    total = sum(bytearray(payload.encode("utf-8"))) % 65536
    return "{:>12}:{:05d}:{:#x}".format(name, total, total)
''',
        (
            ("as_hex", (NUMBER,)),
            ("as_hex", (65535,)),
            ("checksum_line", ("$noun", "caf\u00e9")),
            ("checksum_line", ("", "")),
        ),
    ),
    Piece(
        '''
def log_line(level, message, *details):
    """A line of the $noun log; details are appended in brackets."""
    line = "%(level)-8s $noun: %(message)s" % {"level": level.upper(), "message": message}
    if details:
        line = "{} [{}]".format(line, ", ".join("%s" % (detail,) for detail in details))
    return line


def count_levels(lines):
    """How many lines there are of each level, as `level: count` strings."""
    counts = {}
    for line in lines:
        level = line.split(" ")[0]
        counts[level] = counts.get(level, 0) + 1
    return ["%s: %i" % (level, counts[level]) for level in sorted(counts)]
''',
        (
            ("log_line", ("info", "started")),
            ("log_line", ("error", "50% lost", "$noun", NUMBER)),
            ("count_levels", (["INFO a", "INFO b", "WARN c"],)),
        ),
    ),
    Piece(
        '''
TEMPLATE = "Dear {name},\\nyour $noun of {amount:.2f} {currency} is due on {day:02d}/{month:02d}."


def letter(name, amount, day, month, currency=u"EUR"):
    """A letter about a $noun; the template is kept apart so that it can be translated."""
    text = TEMPLATE.format(name=name, amount=amount, currency=currency, day=day, month=month)
    return "%s\\n-- \\nThe %s office" % (text, "$title")


def reminder(name, days):
    """What is said when the $noun is late."""
    return u"{0}, your $noun is {1} {2} late".format(name, days, "day" if days == 1 else "days")
''',
        (("letter", ("Ada", NUMBER, 3, 11)), ("letter", ("{x}", 0.005, 12, 1, "SEK")), ("reminder", ("Bob", 1))),
    ),
    Piece(
        '''
def duration(seconds):
    """Seconds that the $noun took as h:mm:ss."""
    hours, rest = divmod(int(seconds), 3600)
    minutes, left = divmod(rest, 60)
    return "%d:%02d:%02d" % (hours, minutes, left)


def schedule(entries):
    """(name, seconds) pairs as a list with the total at its end."""
    lines = ["{:<10} {:>9}".format(name, duration(seconds)) for name, seconds in entries]
    total = sum(seconds for _, seconds in entries)
    lines.append("{:<10} {:>9}".format("total", duration(total)))
    return lines
''',
        (("duration", (3725,)), ("schedule", ([("load", 59), ("$noun", NUMBER)],)), ("schedule", ([],))),
    ),
)


def build_sample_repository(folder: Path) -> Path:
    """Create the repository `legacy-toolkit` inside `folder`; its path.

    It holds 44 modules in five packages, a pytest suite, a README and one commit.

    Raises:
        FileExistsError: `folder` already holds a `legacy-toolkit`.
        subprocess.CalledProcessError: git failed; its output is in the exception.
    """
    root = folder / "legacy-toolkit"
    root.mkdir(parents=True)
    for path, content in _sources():
        _write(root / path, content.replace("\n", "\r\n") if path in WINDOWS_LINE_ENDS else content)
    for package, nouns in PACKAGES.items():
        tests = "\n\n".join(_tests(root, package, noun) for noun in nouns)
        imports = "\n".join(f"from {package} import {noun}" for noun in nouns)
        _write(root / "tests" / f"test_{package}.py", f'"""What {package} must print."""\n\n{imports}\n\n\n{tests}')
    _commit(root)
    return root


def _sources() -> Iterator[tuple[str, str]]:
    """Path and content of every file but the tests."""
    yield "README.md", _README
    yield "pyproject.toml", _PROJECT
    yield ".gitignore", "__pycache__/\n.pytest_cache/\n"
    for package, nouns in PACKAGES.items():
        yield f"{package}/__init__.py", f'"""The {package} part of the toolkit."""\n'
        for noun in nouns:
            source = "\n".join(_filled(piece.source, package, noun) for piece in _pieces_of(package, noun))
            docstring = f'"""Everything about a {noun}: tables, labels and messages in the style of {package}."""\n\n'
            yield f"{package}/{noun}.py", docstring + source


def _pieces_of(package: str, noun: str) -> list[Piece]:
    """Which pieces a module has: another mix for each, always `PIECES_PER_MODULE` different ones."""
    names = [(some, word) for some, words in PACKAGES.items() for word in words]
    number = names.index((package, noun))
    step = (1, 3, 7, 9)[number % 4]  # no common factor with the number of pieces
    return [_PIECES[(number + step * turn) % len(_PIECES)] for turn in range(PIECES_PER_MODULE)]


def _words(package: str, noun: str) -> dict[str, object]:
    return {
        "noun": noun,
        "title": noun.capitalize(),
        "class": noun.capitalize(),
        "number": 10 + len(noun) * 3 + len(package),
    }


def _filled(source: str, package: str, noun: str) -> str:
    return Template(source).substitute(_words(package, noun))


def _tests(root: Path, package: str, noun: str) -> str:
    """One test function per module: every sample call with what the legacy code returns for it."""
    functions = runpy.run_path(str(root / package / f"{noun}.py"))
    lines = [f"def test_{noun}():"]
    for piece in _pieces_of(package, noun):
        for name, template in piece.calls:
            arguments = tuple(_argument(value, package, noun) for value in template)
            call = f"{noun}.{name}({', '.join(map(repr, arguments))})"
            lines.append(f"    assert {call} == {functions[name](*arguments)!r}")
    return "\n".join(lines) + "\n"


def _argument(value: Any, package: str, noun: str) -> Any:
    """The sample value with the words of the module in place of `$noun` and `NUMBER`."""
    match value:
        case str() if value == NUMBER:
            return _words(package, noun)["number"]
        case str():
            return _filled(value, package, noun)
        case list() | tuple():
            return type(value)(_argument(entry, package, noun) for entry in value)
        case dict():
            return {key: _argument(entry, package, noun) for key, entry in value.items()}
        case _:
            return value


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode("utf-8"))


def _commit(root: Path) -> None:
    dates = {"GIT_AUTHOR_DATE": _DATE, "GIT_COMMITTER_DATE": _DATE}
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    for arguments in (
        ("init", "--quiet", "--initial-branch=main", "--template="),
        ("add", "--all", "--force"),
        ("commit", "--quiet", "--no-verify", "--message=Legacy toolkit as it has always been"),
    ):
        subprocess.run(
            ["git", *_IDENTITY, *_PLAIN, *arguments],
            cwd=root,
            env={**clean, **dates},
            check=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )


_README = """# legacy-toolkit

Small helpers for billing, inventory, shipping, people and weather, written a long time ago and still in use.
It runs on Python 3, but much of it is in the style of Python 2: `%` formatting, `str.format`, `super(Class, self)`,
`set([...])`. This repository is made by `orchestrate demo`; run the tests with `python -m pytest -q`.
"""

_PROJECT = """[project]
name = "legacy-toolkit"
version = "0.1.0"
requires-python = ">=3.8"

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["."]
"""

"""The rules that do the real work: pyupgrade and flynt on the text of one Python file, in memory.

Text in, text out; a result that does not compile is never returned.
"""

import ast
import contextlib
import io
import logging
import re
import warnings
from threading import Lock

TARGET_VERSION = (3, 6)
MOST_PASSES = 5
_BYTE_ORDER_MARK = "\ufeff"

_COOKIE = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", re.ASCII)
_UTF_8 = {"utf-8", "utf8", "u8", "utf_8"}
# Both libraries keep state of their own (warning filters, loggers, standard output).
_LOCK = Lock()


class RuleError(Exception):
    """The rules cannot be applied to this file; the message says why."""


def modernize(source: str) -> str:
    """`source` (line ends are LF) with modern string formatting and syntax; equal when there is nothing to do.

    Raises:
        RuleError: the file is no Python 3, not UTF-8, or a rule breaks it.
    """
    if source.startswith(_BYTE_ORDER_MARK):
        return _BYTE_ORDER_MARK + modernize(source.removeprefix(_BYTE_ORDER_MARK))
    for line in source.split("\n")[:2]:
        cookie = _COOKIE.match(line)
        if cookie and cookie.group(1).lower() not in _UTF_8:
            raise RuleError(f"the file declares the encoding {cookie.group(1)}; only UTF-8 is handled")
    with _LOCK, warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        _compile(source, "the file is not valid Python 3")
        try:
            changed = _settled(source)
        except Exception as error:
            raise RuleError(f"a rule failed: {error!r}") from error
        _compile(changed, "the converted file would not compile")
    return changed


def _settled(source: str) -> str:
    """The rules until nothing changes: one rule's result may be another rule's case."""
    for _ in range(MOST_PASSES):
        changed = _flynt(_pyupgrade(source))
        if changed == source:
            break
        source = changed
    return source


def _pyupgrade(source: str) -> str:
    # Importing the rules takes a third of a second: only a process that modernises pays for it.
    from pyupgrade._data import Settings
    from pyupgrade._main import _fix_plugins, _fix_tokens

    settings = Settings(min_version=TARGET_VERSION, keep_percent_format=False, keep_mock=True, keep_runtime_typing=True)
    return str(_fix_tokens(_fix_plugins(source, settings=settings)))


def _flynt(source: str) -> str:
    from flynt.api import fstringify_code
    from flynt.state import State

    logging.getLogger("flynt").setLevel(logging.CRITICAL)
    result = fstringify_code(source, State(quiet=True, multiline=True, len_limit=None))
    return source if result is None else str(result.content)


def _compile(source: str, fault: str) -> None:
    try:
        ast.parse(source)
        compile(source, "<file>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError) as error:
        place = f"line {error.lineno}: " if isinstance(error, SyntaxError) and error.lineno else ""
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise RuleError(f"{fault} ({place}{reason})") from error

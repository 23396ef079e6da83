"""The rules for TypeScript and JavaScript: patterns over masked code, and what makes a match harmless.

A counter-pattern counts within the same function (the outermost one of its class), within the class for rules about
classes, and within the file for what stands outside of any function.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Literal, NamedTuple

from baton.review_rules.finding import Finding, finding
from baton.review_rules.script_mask import mask
from baton.review_rules.script_scopes import Scope, class_at, enclosing, scopes


class _Pattern(NamedTuple):
    rule: str
    wanted: re.Pattern[str]
    unless: re.Pattern[str] | None = None
    within: Literal["function", "class"] = "function"


def _pattern(
    rule: str, wanted: str, unless: str | None = None, within: Literal["function", "class"] = "function"
) -> _Pattern:
    return _Pattern(rule, re.compile(wanted), re.compile(unless, re.IGNORECASE) if unless else None, within)


_PATTERNS = (
    _pattern(
        "parallel-shared-state",
        r"Promise\.all\s*\([^)]+\)[^;]*state\.",
        r"mutex|lock|atomic|synchronized",
    ),
    _pattern(
        "unbounded-recursion",
        r"async\s+\w+Agent[^{]*\{[^}]*this\.\w+Agent|callAgent\s*\([^)]*\)",
        r"maxDepth|maxCalls|circuitBreaker|limit|depth",
    ),
    _pattern(
        "no-handoff-context",
        r"delegate|handoff|transfer|route.*to",
        r"context|state|handoffData|previousAgent",
    ),
    _pattern(
        "no-token-tracking",
        r"Promise\.all\s*\([^)]*\w+Agent|sequential.*agent|parallel.*agent",
        r"token|usage|cost|budget",
    ),
    _pattern(
        "no-orchestration-tracing",
        r"class\s+\w*(?:Orchestrator|Manager|Coordinator|Supervisor)",
        r"trace|log|span|observe|monitor",
        "class",
    ),
    _pattern(
        "no-timeout-multi-agent",
        r"await\s+this\.\w+Agent|await\s+agent\.|await\s+Promise\.all",
        r"timeout|AbortController|deadline|timeLimit",
    ),
    _pattern(
        "hardcoded-agent-selection",
        r"if\s*\([^)]*===?\s*[\"'][^\"']+[\"']\s*\)\s*\{[^}]*Agent",
    ),
    _pattern(
        "no-error-propagation",
        r"catch\s*\([^)]*\)\s*\{[^}]*(?:console\.log|return\s+null|continue)",
    ),
    _pattern(
        "missing-agent-id",
        r"class\s+\w+Agent\s*(?:extends|implements|\{)",
        r"\bid\s*[?!]?\s*:|agentId|this\.id\s*=",
        "class",
    ),
    _pattern(
        "global-state-modification",
        r"global\.|window\.|process\.env\s*=",
    ),
)


def review_script(path: str, text: str) -> Iterator[Finding]:
    """Findings in one file; at most one of a rule per line."""
    masked = mask(text)
    found_scopes = scopes(masked.code)
    starts = [0, *(place.end() for place in re.finditer("\n", text))]
    for pattern in _PATTERNS:
        lines: set[int] = set()
        for at in _matches(pattern, masked.code, masked.named, found_scopes):
            line = _line(starts, at)
            if line not in lines:
                lines.add(line)
                yield finding(pattern.rule, path, line, at - starts[line - 1] + 1)


def _matches(pattern: _Pattern, code: str, named: str, found_scopes: tuple[Scope, ...]) -> Iterator[int]:
    """Where the pattern matches within one scope, and nothing there makes it harmless."""
    start = 0
    while (match := pattern.wanted.search(code, start)) is not None:
        scope = (class_at if pattern.within == "class" else enclosing)(code, found_scopes, match.start())
        start = match.end()
        if match.end() > scope.end:
            # It ran on into the next function: what counts is what it finds in its own.
            start = match.start() + 1
            if pattern.wanted.match(code, match.start(), scope.end) is None:
                continue
        if pattern.unless is None or pattern.unless.search(named, scope.start, scope.end) is None:
            yield match.start()


def _line(starts: list[int], at: int) -> int:
    return bisect_right(starts, at)

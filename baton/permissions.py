"""Permission rules of Claude Code settings, and what they say about one tool call.

`deny` wins over `ask`, `ask` over `allow`; `ask` is a refusal here, for nobody sits at the terminal. Rules for
files decide by path, rules for `Bash` by every single command of a command line. A deny rule for `Bash` is a guard
against mistakes; the wall is the sandbox.
"""

import posixpath
from collections.abc import Collection, Iterable
from functools import cached_property
from typing import Literal, NamedTuple

from pydantic import Field

from baton.command_lines import WRITES_FILE, TooComplex, rough_commands, simple_commands, spellings, words
from baton.models import Stored
from baton.path_patterns import fold, matches_anywhere

GRANTED_BY: dict[str, tuple[str, ...]] = {
    "read": ("read",),
    "write": ("write", "append"),
    "append": ("append",),
    "edit": ("edit",),
    "multiedit": ("edit",),
    "glob": ("glob",),
    "grep": ("grep",),
    "bash": ("bash",),
}
"""Our tools by the lower-case name that an agent file gives them."""

BINDS: dict[str, tuple[str, ...]] = {
    **GRANTED_BY,
    "read": ("read", "glob", "grep", "edit"),  # all of these show what is in a file
    "edit": ("edit", "write", "append"),
    "multiedit": ("edit", "write", "append"),
}
"""Our tools that a permission rule of this lower-case name holds for."""


class Rule(NamedTuple):
    """One rule as written, its tool in lower case, its scope (`None` = every call)."""

    text: str
    tool: str
    scope: str | None


class Permitted(Stored):
    """No rule stands against the call."""

    kind: Literal["permitted"] = "permitted"


class Denied(Stored):
    """A rule stands against the call; `message` tells the model which and what to do instead."""

    kind: Literal["denied"] = "denied"
    rule: str
    message: str


class Permissions(Stored):
    """The rules of all settings files together, as written there."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    only: tuple[str, ...] = Field(
        default=(), description="scoped grants of an agent type: of a tool named here nothing else may be done"
    )
    project_root: str | None = Field(
        default=None, description="absolute path of the user's repository, for rules that begin with //"
    )

    def decide(self, tool: str, argument: str) -> Permitted | Denied:
        """What the rules say of one call: `tool` is our name, `argument` the path or the command line."""
        for kind, rules in (("deny", self._deny), ("ask", self._ask)):
            for rule in rules:
                if self._binds(rule, tool, argument):
                    return Denied(rule=rule.text, message=_refusal(kind, rule, tool))
        granted = [rule for rule in self._only if tool in GRANTED_BY.get(rule.tool, ())]
        if granted and not self._grants(granted, tool, argument):
            named = ", ".join(rule.text for rule in granted)
            return Denied(rule=named, message=f"This kind of agent may use {tool} only as {named}. Work within that.")
        return Permitted()

    def allows_command(self, command: str, exact: Collection[str] = ()) -> bool:
        """Whether `allow` names every command of a command line; `exact` are further ones, word for word.

        What cannot be taken apart with certainty, or writes to a file by redirection, is not allowed.
        """
        return _names_all([rule.scope for rule in self._allow if rule.tool == "bash"], command, exact)

    def _grants(self, rules: Iterable[Rule], tool: str, argument: str) -> bool:
        scopes = [rule.scope for rule in rules]
        if tool == "bash":
            return _names_all(scopes, argument)
        return any(scope is None or self._names_path(scope, argument) for scope in scopes)

    def warnings(self) -> list[str]:
        """One sentence for each rule that cannot have an effect."""
        rules = [*self._allow, *self._deny, *self._ask]
        return unknown_tools(rule.text for rule in rules)

    def _binds(self, rule: Rule, tool: str, argument: str) -> bool:
        if tool == "bash" and rule.tool == "read" and rule.scope is not None:
            scope = rule.scope
            return any(self._names_path(scope, name) for word in words(argument) for name in (word, f"{word}/_"))
        if tool not in BINDS.get(rule.tool, ()):
            return False
        if rule.scope is None:
            return True
        return _denies_command(rule.scope, argument) if tool == "bash" else self._names_path(rule.scope, argument)

    def _names_path(self, scope: str, path: str) -> bool:
        if scope.startswith(("//", "~")):
            root = self.project_root
            if root is None or not scope.startswith(f"/{root}/"):
                return False
            scope = scope[len(root) + 1 :]
        # Case and Unicode form are ignored: on some disks another spelling opens the same file.
        return matches_anywhere(fold(scope), fold(posixpath.normpath(path)))

    @cached_property
    def _allow(self) -> tuple[Rule, ...]:
        return tuple(map(parse_rule, self.allow))

    @cached_property
    def _deny(self) -> tuple[Rule, ...]:
        return tuple(map(parse_rule, self.deny))

    @cached_property
    def _only(self) -> tuple[Rule, ...]:
        return tuple(map(parse_rule, self.only))

    @cached_property
    def _ask(self) -> tuple[Rule, ...]:
        return tuple(map(parse_rule, self.ask))


def parse_rule(text: str) -> Rule:
    """`Bash(npm run *)` as its parts; `Tool(*)` and `Tool()` mean the same as `Tool`."""
    name, parenthesis, rest = text.strip().partition("(")
    scope = rest.removesuffix(")") if parenthesis else None
    return Rule(text, name.strip().lower(), None if scope in {"", "*"} else scope)


def tool_of_rule(text: str) -> str:
    """The tool name of a rule or of an entry in an agent file, in lower case."""
    return parse_rule(text).tool


def unknown_tools(entries: Iterable[str]) -> list[str]:
    """One warning for each rule or agent-file entry whose tool does not exist here."""
    known = ", ".join(name.capitalize() for name in GRANTED_BY if name != "multiedit")
    return [
        f"{entry!r} names a tool that Baton does not have, so it has no effect; known are {known}"
        for entry in dict.fromkeys(entries)
        if tool_of_rule(entry) not in GRANTED_BY
    ]


def command_matches(scope: str, command: str) -> bool:
    """Whether a `Bash` scope names one simple command: exact, `prefix:*`, or `*` anywhere.

    A final ` *` or `:*` also stands for no argument at all, but never for a longer word: `ls *` is not `lsof`.
    """
    scope = scope.strip()
    if scope.endswith(":*"):
        scope = scope[:-2] + " *"
    if scope.endswith(" *") and _wildcard(scope[:-2], command):
        return True
    return _wildcard(scope, command)


def _names_all(scopes: Collection[str | None], command: str, exact: Collection[str] = ()) -> bool:
    """Whether the scopes, or `exact` word for word, name every simple command of a command line."""
    if command.strip() in exact:
        return True
    try:
        parts = simple_commands(command)
    except TooComplex:
        return None in scopes
    return bool(parts) and all(
        part in exact
        or (
            any(scope is None or command_matches(scope, part) for scope in scopes)
            and (None in scopes or not WRITES_FILE.search(part))
        )
        for part in parts
    )


def _wildcard(pattern: str, text: str) -> bool:
    """Match `*` against any text, in linear time per part."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    if not text.startswith(first):
        return False
    position = len(first)
    for part in rest[:-1]:
        found = text.find(part, position)
        if found < 0:
            return False
        position = found + len(part)
    return len(text) - len(rest[-1]) >= position and text.endswith(rest[-1])


def _denies_command(scope: str, command: str) -> bool:
    try:
        parts = simple_commands(command)
    except TooComplex:
        parts = rough_commands(command)
    return any(command_matches(scope, spelling) for part in [command, *parts] for spelling in spellings(part))


def _refusal(kind: str, rule: Rule, tool: str) -> str:
    what = "this command" if tool == "bash" else f"{tool} here"
    reason = (
        f"The permission rule {rule.text} (deny) forbids {what}."
        if kind == "deny"
        else f"The permission rule {rule.text} (ask) wants a person's consent for {what}, and nobody is asked here."
    )
    return f"{reason} Do not try to get around it: work without it, and report it as an issue if it is needed."

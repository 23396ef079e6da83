"""The rules for Python, on the syntax tree: the same meaning as the patterns for JavaScript.

What makes a finding harmless counts within the outermost function of the same class, within the class for rules about
classes, and within the module for what stands outside of any function. Names, attributes, parameters and keywords
count; comments and strings do not.
"""

import ast
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from baton.review_rules.finding import Finding, UnreadableSource, finding
from baton.review_rules.python_names import (
    any_name,
    compares_with_text,
    dotted,
    is_text_pattern,
    last_name,
    names,
    touches_state,
    writes_state,
)

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_AGENT = re.compile(r"agent$", re.IGNORECASE)
_ANY_AGENT = re.compile(r"agent", re.IGNORECASE)
_CALL_AGENT = re.compile(r"^(?:call_?agent)$", re.IGNORECASE)
_HANDOFF = re.compile(r"delegate|hand_?off|transfer|route\w*to", re.IGNORECASE)
_FLOW = re.compile(r"sequential.*agent|parallel.*agent", re.IGNORECASE)
_ORCHESTRATOR = re.compile(r"Orchestrator|Manager|Coordinator|Supervisor")
_GUARDED = re.compile(r"mutex|lock|atomic|synchronized", re.IGNORECASE)
_BOUNDED = re.compile(r"max_?depth|max_?calls|circuit_?breaker|limit|depth", re.IGNORECASE)
_CONTEXT = re.compile(r"context|state|handoff_?data|previous_?agent", re.IGNORECASE)
_COUNTED = re.compile(r"token|usage|cost|budget", re.IGNORECASE)
_TRACED = re.compile(r"trace|log|span|observe|monitor", re.IGNORECASE)
_TIMED = re.compile(r"time_?out|wait_for|deadline|time_?limit|abort", re.IGNORECASE)
_IDENTIFIED = re.compile(r"^(?:id|_id|agent_?id)$", re.IGNORECASE)
_TOGETHER = frozenset(("gather", "TaskGroup"))
_GLOBAL_CALLS = frozenset(("os.environ.update", "os.environ.setdefault", "os.putenv", "globals.update"))


@dataclass(frozen=True)
class _Module:
    """A parsed module with what each node belongs to."""

    tree: ast.Module
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)

    def scope(self, node: ast.AST) -> Scope:
        """The outermost function around a node that lies in the same class; else the class; else the module."""
        function: Scope | None = node if isinstance(node, _FUNCTIONS) else None
        while not isinstance(node, (ast.Module, ast.ClassDef)) or node is function:
            node = self.parents[node]
            function = node if isinstance(node, _FUNCTIONS) else function
        return function or node

    def statement(self, node: ast.AST) -> ast.AST:
        """The statement that a node is part of."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def function_named(self, name: str) -> ast.AST | None:
        """The function or method of this name in the module."""
        return next((n for n in ast.walk(self.tree) if isinstance(n, _FUNCTIONS) and n.name == name), None)


def review_python(path: str, text: str) -> Iterator[Finding]:
    """Findings in one file; at most one of a rule per line. Raises `UnreadableSource` where it cannot be parsed."""
    module = _parsed(text)
    lines = text.encode("utf-8", "replace").splitlines()
    seen: set[tuple[str, int]] = set()
    for rule, found in _RULES:
        for node in found(module):
            line, offset = node.lineno, node.col_offset
            if (rule, line) not in seen:
                seen.add((rule, line))
                before = lines[line - 1][:offset] if line <= len(lines) else b""
                yield finding(rule, path, line, len(before.decode("utf-8", "replace")) + 1)


def _parsed(text: str) -> _Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    except SyntaxError as error:
        raise UnreadableSource(f"line {error.lineno or 1}: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise UnreadableSource(str(error) or "it is nested too deeply") from error
    return _Module(tree, parents)


_Place = ast.expr | ast.stmt | ast.excepthandler


def _parallel_state(module: _Module) -> Iterator[_Place]:
    for call in ast.walk(module.tree):
        if (
            not isinstance(call, ast.Call)
            or last_name(call.func) not in _TOGETHER
            or any_name(module.scope(call), _GUARDED)
        ):
            continue
        statement = module.statement(call)
        if touches_state(statement) or any(writes_state(called) for called in _called(module, statement)):
            yield call


def _called(module: _Module, statement: ast.AST) -> Iterator[ast.AST]:
    """The functions of this module that a statement calls."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and (called := module.function_named(last_name(node.func))) is not None:
            yield called


def _recursion(module: _Module) -> Iterator[_Place]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and _CALL_AGENT.search(last_name(node.func)):
            risky = True
        else:
            risky = isinstance(node, _FUNCTIONS) and _AGENT.search(node.name) is not None and _asks_own_agent(node)
        if risky and isinstance(node, (ast.expr, ast.stmt)) and not any_name(module.scope(node), _BOUNDED):
            yield node


def _asks_own_agent(function: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Attribute) and last_name(node.value) == "self" and _AGENT.search(node.attr)
        for node in ast.walk(function)
    )


def _handoff(module: _Module) -> Iterator[_Place]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call):
            name = last_name(node.func)
        elif isinstance(node, _FUNCTIONS):
            name = node.name
        else:
            continue
        if _HANDOFF.search(name) and not any_name(module.scope(node), _CONTEXT):
            yield node


def _tokens(module: _Module) -> Iterator[_Place]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call):
            together = last_name(node.func) in _TOGETHER
            flow = together and any(_AGENT.search(name.rstrip("s")) for name in names(node))
            flow = flow or _FLOW.search(" ".join(names(node))) is not None
        elif isinstance(node, _FUNCTIONS):
            flow = _FLOW.search(" ".join((node.name, *(a.arg for a in node.args.args)))) is not None
        else:
            continue
        if flow and not any_name(module.scope(node), _COUNTED):
            yield node


def _tracing(module: _Module) -> Iterator[_Place]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef) and _ORCHESTRATOR.search(node.name) and not any_name(node, _TRACED):
            yield node


def _timeouts(module: _Module) -> Iterator[_Place]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Await) and _awaits_agents(node.value) and not any_name(module.scope(node), _TIMED):
            yield node


def _awaits_agents(awaited: ast.expr) -> bool:
    chain = dotted(awaited.func if isinstance(awaited, ast.Call) else awaited)
    if not chain:
        return False
    own = chain[0] in ("self", "cls") and len(chain) > 1 and _AGENT.search(chain[1]) is not None
    return own or chain[-1] in _TOGETHER or (len(chain) > 1 and _AGENT.search(chain[0]) is not None)


def _selection(module: _Module) -> Iterator[_Place]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.If) and compares_with_text(node.test) and _mentions_agent(node.body):
            yield node
        elif isinstance(node, ast.Match):
            chosen = [case for case in node.cases if is_text_pattern(case.pattern) and _mentions_agent(case.body)]
            yield from (node for _ in chosen[:1])


def _mentions_agent(body: list[ast.stmt]) -> bool:
    return any(_ANY_AGENT.search(name) for statement in body for name in names(statement))


def _swallowed(module: _Module) -> Iterator[_Place]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ExceptHandler):
            inside = [inner for statement in node.body for inner in ast.walk(statement)]
            if any(_gives_up(inner) for inner in inside) and not any(isinstance(i, ast.Raise) for i in inside):
                yield node


def _gives_up(node: ast.AST) -> bool:
    if isinstance(node, ast.Return):
        return node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None)
    printed = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    return printed or isinstance(node, (ast.Continue, ast.Pass))


def _identity(module: _Module) -> Iterator[_Place]:
    for node in ast.walk(module.tree):
        named = isinstance(node, ast.ClassDef) and re.fullmatch(r"\w+Agent", node.name)
        if isinstance(node, ast.ClassDef) and named and not any_name(node, _IDENTIFIED):
            yield node


def _globals(module: _Module) -> Iterator[_Place]:
    for node in ast.walk(module.tree):
        targets: list[ast.expr] = []
        if isinstance(node, (ast.Assign, ast.Delete)):
            targets = node.targets
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            targets = [node.target]
        elif isinstance(node, ast.Global) or (
            isinstance(node, ast.Call) and ".".join(dotted(node.func)) in _GLOBAL_CALLS
        ):
            yield node
            continue
        for target in targets:
            if _is_global(target):
                yield target


def _is_global(target: ast.expr) -> bool:
    chain = dotted(target)
    return chain[:2] == ["os", "environ"] or chain[:1] in (["globals"], ["builtins"])


_RULES: tuple[tuple[str, Callable[[_Module], Iterator[_Place]]], ...] = (
    ("parallel-shared-state", _parallel_state),
    ("unbounded-recursion", _recursion),
    ("no-handoff-context", _handoff),
    ("no-token-tracking", _tokens),
    ("no-orchestration-tracing", _tracing),
    ("no-timeout-multi-agent", _timeouts),
    ("hardcoded-agent-selection", _selection),
    ("no-error-propagation", _swallowed),
    ("missing-agent-id", _identity),
    ("global-state-modification", _globals),
)

"""What a project's settings files may bring about only after a person confirmed it.

Commands of a project (gates, set-up, notify) run on the user's machine, so they are shown once and confirmed, word for
word: a changed command is a new one. Rules of a project that allow commands without a sandbox count only once
confirmed. What the user's own settings or the command line say needs no confirmation.
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from baton.permissions import tool_of_rule
from baton.settings import Layer

Kind = Literal["gate", "set-up", "notify", "allow"]


class ProjectCommand(NamedTuple):
    """One command, or one rule that allows commands, and the file that brings it."""

    kind: Kind
    text: str
    source: str

    @property
    def fingerprint(self) -> str:
        """Names the command word for word, whatever file it stands in."""
        return hashlib.sha256(json.dumps([self.kind, self.text]).encode()).hexdigest()

    @property
    def runs(self) -> bool:
        """Whether it runs by itself; a rule only lets agents run something."""
        return self.kind != "allow"


def project_commands(layers: Sequence[Layer]) -> tuple[ProjectCommand, ...]:
    """What the project's files bring about: commands that no later layer replaces, and rules that allow commands."""
    found: list[ProjectCommand] = []
    for key in ("gates", "setup", "notify"):
        holders = [layer for layer in layers if key in layer.orchestration]
        if holders and holders[-1].project:
            found += _commands(key, holders[-1])
    for layer in layers:
        if layer.project:
            rules = [rule for rule in layer.permissions.allow if tool_of_rule(rule) == "bash"]
            found += [ProjectCommand("allow", rule, layer.source) for rule in rules]
    return tuple(dict.fromkeys(found))


def without_rules(layers: Sequence[Layer], unconfirmed: Collection[ProjectCommand]) -> list[Layer]:
    """The layers without rules that nobody confirmed."""
    dropped = {command.text for command in unconfirmed if not command.runs}
    return [_without(layer, dropped) if layer.project and dropped else layer for layer in layers]


def refusal(commands: Sequence[ProjectCommand]) -> str:
    """Why the task does not start, and what a person does about it."""
    listed = "\n".join(listing(commands))
    return (
        f"the settings of this repository bring commands that nobody has confirmed:\n{listed}\n"
        "Look at them; then start the task in a terminal, which asks, or give --trust-project-commands "
        '(from other clients: "trust_project_commands": true in the input)'
    )


def listing(commands: Sequence[ProjectCommand]) -> list[str]:
    """A line for each command: what it is, its text without control characters, its file."""
    return [
        f"  {command.kind:<7} {''.join(c if c.isprintable() else '?' for c in command.text)}  ({command.source})"
        for command in commands
    ]


def confirmed_in(record: str) -> frozenset[str]:
    """The fingerprints in a repository's record of confirmations; none where it cannot be read."""
    try:
        data = json.loads(record)
    except ValueError:
        return frozenset()
    listed = data.get("confirmed") if isinstance(data, dict) else None
    return frozenset(entry for entry in listed if isinstance(entry, str)) if isinstance(listed, list) else frozenset()


def confirmation_record(repository: str, fingerprints: Collection[str]) -> str:
    """The record of a repository as text."""
    return json.dumps({"repository": repository, "confirmed": sorted(fingerprints)}, indent=1) + "\n"


def _commands(key: str, layer: Layer) -> list[ProjectCommand]:
    value = layer.orchestration[key]
    match key:
        case "gates":
            return [ProjectCommand("gate", _command_of(gate), layer.source) for gate in value or ()]
        case "setup":
            return [ProjectCommand("set-up", str(command), layer.source) for command in value or ()]
    return [ProjectCommand("notify", str(value), layer.source)] if value and value != "desktop" else []


def _command_of(gate: Mapping[str, Any] | Any) -> str:
    return str(gate.get("command", "")) if isinstance(gate, Mapping) else str(gate)


def _without(layer: Layer, dropped: Collection[str]) -> Layer:
    rules = layer.permissions
    kept = tuple(rule for rule in rules.allow if rule not in dropped)
    return layer.model_copy(update={"permissions": rules.model_copy(update={"allow": kept})})

"""The question before a project's own commands run for the first time, and what was answered."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cli.exits import Refused

if TYPE_CHECKING:
    from baton.settings import Layer
    from baton.trust import ProjectCommand

QUESTION = "Run these commands? [y]es, this time; [a]lways, these very commands; [N]o: "

Ask = Callable[[str], str]


def confirmed_commands(
    layers: "Sequence[Layer]", top_level: Path | None, state: Path, ask: Ask | None = None
) -> tuple[str, ...]:
    """Fingerprints of the project's commands that the user lets run. Raises `Refused` when the user does not.

    `ask` puts a question to a person; without one, and without a terminal, nobody is asked and new commands are
    refused.
    """
    from baton.layout import confirmations_file
    from baton.trust import confirmed_in, listing, project_commands, refusal

    commands = project_commands(layers)
    if top_level is None or not commands:
        return ()
    record = confirmations_file(state, top_level)
    known = confirmed_in(record.read_text(encoding="utf-8")) if record.is_file() else frozenset[str]()
    new = [command for command in commands if command.fingerprint not in known]
    if any(command.runs for command in new):
        ask = ask or (_ask if sys.stdin.isatty() and sys.stderr.isatty() else None)
        if ask is None:
            raise Refused(refusal([command for command in new if command.runs]))
        shown = "\n".join(listing(new))
        answer = ask(f"The settings of {top_level} bring commands that run here:\n{shown}\n{QUESTION}").strip().lower()
        if answer not in {"y", "yes", "a", "always"}:
            raise Refused("nothing was started: the project's commands were not confirmed")
        if answer in {"a", "always"}:
            _remember(record, top_level, known, new)
        known |= {command.fingerprint for command in new}
    return tuple(sorted(command.fingerprint for command in commands if command.fingerprint in known))


def _ask(question: str) -> str:
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline()


def _remember(record: Path, top_level: Path, known: frozenset[str], new: "Sequence[ProjectCommand]") -> None:
    from baton.trust import confirmation_record

    fingerprints = known | {command.fingerprint for command in new}
    record.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = record.with_suffix(".new")
    temporary.write_text(confirmation_record(str(top_level), fingerprints), encoding="utf-8")
    temporary.chmod(0o600)
    temporary.replace(record)

"""A plan in a person's editor: YAML with comments that explain, edited until it has no fault.

The editor is the one git would open (GIT_EDITOR, core.editor, VISUAL, EDITOR). Saved as it was, the plan is taken as
it is; an emptied file takes nothing.
"""

import os
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cli.exits import Refused

_HEAD = """\
# The plan of {task_id}. Save to approve it; empty the file to leave everything as it is.
# Lines that begin with # are left out. The order of steps is theirs to say with depends_on, not the file's.
#
# step                     its number; others name it in depends_on
# agent_type, description  who does it, and what is to be done
# items                    files to work through; or select: {{include: ["src/**/*.js"], exclude: []}}
# owns                     further paths or globs that the step may write or create
# handoff_strategy         sequential: one chain of agents; parallel: the items are cut into shards side by side
"""
_KEYS = (
    "step", "agent_type", "description", "depends_on", "success_criteria", "items", "owns", "input_context",
    "estimated_output_tokens", "handoff_strategy", "run", "failures_of",
)  # fmt: skip
_FAULT = "#! "

Taken = Callable[[dict[str, Any]], Awaitable[str | None]]
"""Gives a plan to the task; the faults it has, or None when it was taken."""


class Unchanged(Exception):  # noqa: N818 - a person's decision, no fault
    """The file was saved as it was: the plan is right."""


def plan_text(plan: Mapping[str, Any], over: Sequence[int] = ()) -> str:
    """The plan for the editor, without steps that are over."""
    import yaml

    steps = [_shown(step) for step in plan["plan"] if step["step"] not in over]
    head = {key: plan[key] for key in ("mode", "execution_strategy") if plan.get(key)}
    notes = "".join(f"# note: {' '.join(note.split())}\n" for note in plan.get("notes") or ())
    body = yaml.safe_dump(head | {"plan": steps}, sort_keys=False, allow_unicode=True, width=110)
    return f"{_HEAD.format(task_id=plan['task_id'])}{notes}\n{body}"


def with_faults(text: str, faults: str) -> str:
    """The text with its faults at the top, in the place of those of the time before."""
    kept = "".join(line for line in text.splitlines(keepends=True) if not line.startswith(_FAULT.rstrip()))
    told = "".join(f"{_FAULT}{line}\n" for line in faults.splitlines())
    return f"{_FAULT}This plan was not taken:\n{told}{kept}"


def parsed(text: str) -> dict[str, Any] | None:
    """The plan in the text; None where nothing but comments is left. ValueError with the fault where it is none."""
    import yaml

    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"this is no YAML: {error}") from error
    if document is None:
        return None
    if not isinstance(document, dict) or "plan" not in document:
        raise ValueError("a plan is an object with the key 'plan', a list of steps")
    return document


async def edit_until_taken(text: str, taken: Taken) -> bool:
    """Open the editor until the plan is taken; False when the person emptied the file.

    Raises `Unchanged` when it was saved as it was, `Refused` when the editor fails or faults are saved unchanged.
    """
    from baton.steering import given_plan

    with tempfile.TemporaryDirectory(prefix="baton-plan-") as folder:
        path = Path(folder, "plan.yaml")
        first = shown = text
        while True:
            path.write_text(shown, encoding="utf-8")
            _open_editor(path)
            edited = path.read_text(encoding="utf-8", errors="replace")
            faults: str | None
            try:
                document = parsed(edited)
                if document is None:
                    return False
                if edited == first:
                    raise Unchanged
                given_plan(document)
                faults = await taken(document)
            except ValueError as error:
                faults = str(error)
            if faults is None:
                return True
            if edited == shown:
                raise Refused(f"the plan was not taken, and saved again as it was:\n{faults}")
            shown = with_faults(edited, faults)


def _shown(step: Mapping[str, Any]) -> dict[str, Any]:
    return {key: step[key] for key in _KEYS if step.get(key) not in (None, "", [], ())}


def _open_editor(path: Path) -> None:
    """Open the editor on the terminal and wait for it. Raises `Refused` when it fails: nothing was changed then."""
    editor = _editor()
    command = ["sh", "-c", f'{editor} "$@"', editor, str(path)]
    try:
        code = subprocess.run(command, check=False).returncode
    except OSError as error:
        raise Refused(f"the editor {editor!r} cannot be started: {error}; set VISUAL or EDITOR") from error
    if code != 0:
        raise Refused(f"the editor {editor!r} ended with {code}; nothing was changed")


def _editor() -> str:
    """The editor as git finds it; a command for the shell."""
    try:
        found = subprocess.run(["git", "var", "GIT_EDITOR"], check=False, capture_output=True, text=True).stdout.strip()
    except OSError:
        found = ""
    return found or os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"

"""`orchestrate review`: walk through the issues of a task and decide about each.

Decisions are kept in `issues.json` as they are made, so that a review can be left at any time and goes on with what is
open. Issues that shall be mended become the text of a task that starts from the result.
"""

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.exits import ExitCode, Refused
from cli.reading_commands import Json
from cli.terminal import Line, Tone, console, is_terminal, printable, remark, show, show_json

if TYPE_CHECKING:
    from baton.reviewing import Issue

_TONES = {"high": Tone.BAD, "critical": Tone.BAD, "medium": Tone.WAITS}
_KEYS = {"a": "accept", "d": "dismiss", "n": "new_step"}
_ASKED = "[a]ccept, [d]ismiss, hand to a [n]ew step, [s]kip, [q]uit"
FOLLOW_UP = "follow-up.md"
_REVIEW = """\b
Examples:
  orchestrate review migrate-typescript-2026-11-30
  orchestrate review .claude/orchestration/migrate-typescript-2026-11-30/issues.json --json
  orchestrate review migrate-typescript-2026-11-30 --start

On a terminal each open issue is asked about; piped, all are listed. --start starts a task, from the result branch,
that mends the issues handed to a new step.
"""


def register(application: typer.Typer) -> None:
    """Add the command."""
    application.command("review", help="Decide about the issues of a task.", epilog=_REVIEW)(review)


def review(
    named: Annotated[str, typer.Argument(metavar="TASK_ID | FILE", help="A task, or an issues.json.")],
    start: Annotated[bool, typer.Option("--start", help="Start the task that mends what was handed on.")] = False,
    as_json: Json = False,
) -> None:
    """Review the issues."""
    from baton.reviewing import to_hand_on, undecided

    path = _file(named)
    issues = read_issues(path)
    if start and as_json:
        raise Refused("--start and --json do not go together: --json only shows the issues")
    if as_json:
        show_json({"file": str(path), "open": len(undecided(issues)), "issues": issues})
        return
    if not is_terminal() and not start:
        show(_listed(issues))
    elif undecided(issues) and is_terminal():
        _walk(path, issues)
    issues = read_issues(path)
    handed = to_hand_on(issues)
    if start:
        _start(path, issues, handed)
    elif handed:
        show(_how_to_start(path, handed))
    elif is_terminal():
        left = len(undecided(issues))
        show([Line(f"{left} left to decide: orchestrate review {shlex.quote(named)}" if left else "No issue is open.")])


def read_issues(path: Path) -> "list[Issue]":
    """The issues in a file. Raises `Refused` where it is none."""
    try:
        issues = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Refused(f"the issues cannot be read from {path}: {error}") from error
    if not isinstance(issues, list) or not all(isinstance(issue, dict) and issue.get("id") for issue in issues):
        raise Refused(f"{path} holds no issues: it must be a list of objects, each with an id")
    return issues


def _file(named: str) -> Path:
    from baton.layout import ISSUES
    from cli.history_commands import artifacts_for

    given = Path(named).expanduser()
    if given.is_file() or given.suffix == ".json" or "/" in named:
        return given
    path = artifacts_for(named) / ISSUES
    if not path.is_file():
        raise Refused(f"there are no issues of {named} ({path}): they are written when the task ends")
    return path


def _walk(path: Path, issues: Sequence["Issue"]) -> None:
    """Ask about each open issue, until all are decided or the person leaves."""
    from rich.prompt import Prompt

    from baton.reviewing import Decision, decided, undecided

    open_ones = undecided(issues)
    for number, issue in enumerate(open_ones, 1):
        show([Line(f"Issue {number} of {len(open_ones)}", Tone.FAINT), *_issue_lines(issue)])
        try:
            key = Prompt.ask(_ASKED.replace("[", r"\["), choices=[*_KEYS, "s", "q"], default="s", console=console())
            if key == "q":
                return
            comment = Prompt.ask("Remark (empty for none)", default="", show_default=False) if key in _KEYS else ""
        except EOFError:
            return
        except KeyboardInterrupt:
            remark("")
            remark("Interrupted; what was decided so far is kept.")
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        if key in _KEYS:
            new = decided(issue, Decision(_KEYS[key]), comment.strip(), datetime.now(UTC))
            _change(path, {new["id"]: new})


def _change(path: Path, changed: Mapping[str, "Issue"]) -> None:
    """Put changed issues, by id, into the file as it is now; it is replaced whole."""
    issues = [changed.get(issue["id"], issue) for issue in read_issues(path)]
    text = json.dumps(issues, indent=2, ensure_ascii=False) + "\n"
    _replace(path, text)


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise Refused(f"{path} cannot be written: {error.strerror}") from error


def _listed(issues: Sequence["Issue"]) -> list[Line]:
    if not issues:
        return [Line("No issues.")]
    return [line for issue in issues for line in _issue_lines(issue)]


def _issue_lines(issue: "Issue") -> list[Line]:
    severity = str(issue.get("severity", "medium"))
    told = f"{issue['id']} [{severity}] {issue.get('issue', '')}"
    lines = [Line(told, _TONES.get(severity, Tone.PLAIN))]
    details = {
        "files": ", ".join(map(str, issue.get("files") or ())),
        "evidence": issue.get("evidence"),
        "suggested": issue.get("suggested_action"),
        "decided": " ".join(str(issue[key]) for key in ("decision", "decided_at") if issue.get(key)),
        "remark": issue.get("comment"),
        "follow-up": issue.get("follow_up"),
    }
    return lines + [Line(f"{name:<10} {printable(str(value))}", indent=1) for name, value in details.items() if value]


def _origin(path: Path) -> tuple[str, str, str | None]:
    """The task of an issues file, its repository, and the ref or commit that a follow-up starts from."""
    from cli.checks import check_folder
    from cli.finished import from_report, opened_as
    from cli.places import state_path

    task = from_report(path.parent, state_path())
    repository = opened_as(task.task_id, state_path()).source
    if task.ref is None and task.commit and task.commit != task.base_commit:
        raise Refused(f"the result of {task.task_id} was not published as a branch, so nothing can start from it")
    if not repository or not Path(repository).is_dir():
        repository = str(check_folder(str(path.parent)))
    return task.task_id, repository, task.ref or task.base_commit or None


def _how_to_start(path: Path, handed: Sequence["Issue"]) -> list[Line]:
    """Write the text of the task that mends these issues, and the command that starts it."""
    from baton.reviewing import follow_up_task
    from baton.wording import counted

    task_id, repository, base = _origin(path)
    text = path.with_name(FOLLOW_UP)
    _replace(text, follow_up_task(task_id, handed))
    command = ["orchestrate", "run", f"@{text}", "--repo", repository, *(["--base", base] if base else [])]
    return [
        Line(f"{counted(len(handed), 'issue')} handed to a new step. Start it:"),
        Line(shlex.join(command), indent=1),
        Line(f"or: orchestrate review {shlex.quote(str(path))} --start", indent=1),
    ]


def _start(path: Path, issues: Sequence["Issue"], handed: Sequence["Issue"]) -> None:
    """Start the task that mends these issues, and note it with each of them."""
    from baton.reviewing import follow_up_id, follow_up_task
    from cli.access import working
    from cli.places import state_path
    from cli.run_command import start_and_follow
    from cli.starting import Options, prepare

    if not handed:
        raise Refused(f"no issue in {path} is handed to a new step: decide first, without --start")
    task_id, repository, base = _origin(path)
    state, new_id = state_path(), follow_up_id(task_id, issues)
    options = Options(repository=repository, base=base, task_id=new_id)
    order = prepare(follow_up_task(task_id, handed), options, state / "service" / "credentials.json")
    code = start_and_follow(order, working(state), detach=True)
    if code is not ExitCode.DONE:
        raise typer.Exit(code)
    _change(path, {issue["id"]: {**issue, "follow_up": new_id} for issue in handed})

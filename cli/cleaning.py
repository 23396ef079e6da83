"""`orchestrate cleanup`: remove what finished tasks left, never work that would exist nowhere afterwards.

What is finished, Temporal says; of a task that it no longer knows, the report does. A task that runs is never
touched. Work that no other branch holds goes only when a person says so for this very task.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.exits import ExitCode, Refused, ServiceError
from cli.history_commands import moment_before
from cli.reading_commands import Json
from cli.terminal import Line, Tone, is_terminal, remark, show, show_json

if TYPE_CHECKING:
    from cli.leftovers import Leftovers
    from cli.service import Service
    from cli.tasks import Ending

_SHOWN = 20
_CLEANUP = """\b
Examples:
  orchestrate cleanup --older-than 7d --dry-run
  orchestrate cleanup
  orchestrate cleanup --task-id migrate-typescript-2026-11-30
  orchestrate cleanup --abandon migrate-typescript-2026-11-30

Removes of every finished task: its private repository, its result branch, its artifacts, its payloads. A task whose
work no other branch holds is kept, and its commits are named: apply it, or give it up with --abandon. A running task
is never touched. Exit codes: 0 done, 1 something could not be removed, 3 a task named here was kept.
"""


@dataclass(frozen=True)
class Known:
    """What is known of a task beside its files. `fault`: why it is not certain that it is finished."""

    closed_at: datetime | None = None
    fault: str = ""
    ending: "Ending | None" = None
    repository: str = ""


@dataclass(frozen=True)
class Outcome:
    """What became of a task: removed (or would be), or kept for a reason."""

    left: "Leftovers"
    freed_bytes: int = 0
    kept: str = ""
    failed: bool = False

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        facts = {"task_id": self.left.task_id, "folders": self.left.places, "branches": self.left.branches}
        if self.kept:
            return facts | {"reason": self.kept, "unmerged": self.left.lost}
        return facts | {"freed_bytes": self.freed_bytes, "abandoned": self.left.lost}


def register(application: typer.Typer) -> None:
    """Add the command."""
    application.command("cleanup", help="Remove what finished tasks left.", epilog=_CLEANUP)(cleanup)


def cleanup(
    older_than: Annotated[str | None, typer.Option(metavar="TIME", help="Only tasks that ended so long ago.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    task_id: Annotated[list[str] | None, typer.Option(metavar="ID", help="Only this task (repeatable).")] = None,
    abandon: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="This task, with work that is merged nowhere (repeatable).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Remove what is not needed any more."""
    from baton.names import task_id_fault
    from cli.places import state_path

    named = (*(task_id or ()), *(abandon or ()))
    if fault := next((fault for name in named if (fault := task_id_fault(name))), None):
        raise Refused(fault)
    ended_before = moment_before(older_than, "--older-than")
    state = state_path()
    known = asyncio.run(_known(_service(), state, frozenset(named)))
    if missing := [name for name in named if name not in known]:
        raise Refused(f"nothing is known of the task {missing[0]!r}; see: orchestrate list --all")
    outcomes = []
    for name, facts in sorted(known.items()):
        given_up = name in (abandon or ())
        if ended_before and not given_up and (facts.closed_at is None or facts.closed_at > ended_before):
            continue
        outcome = _clean(name, facts, state, given_up=given_up, dry_run=dry_run, asks=not as_json and is_terminal())
        if named or outcome.left.places or outcome.left.branches:
            outcomes.append(outcome)
    _tell(outcomes, dry_run=dry_run, as_json=as_json)
    if any(outcome.failed for outcome in outcomes):
        raise typer.Exit(ExitCode.FAILED)
    if named and any(outcome.kept for outcome in outcomes):
        raise typer.Exit(ExitCode.PARTIAL)


def _service() -> "Service":
    from cli.access import reading, why_none
    from cli.places import state_path

    service = reading(state_path())
    if service is None:
        raise ServiceError(f"without Temporal nobody knows which tasks are finished: {why_none(state_path())}")
    return service


async def _known(service: "Service", state: Path, named: frozenset[str]) -> dict[str, Known]:
    """Every task that may have left something here: those with a folder, and those Temporal has of folders here."""
    from baton.layout import payloads_folder, task_payloads, tasks_folder
    from baton.names import task_id_fault
    from cli.finished import opened_as
    from cli.listing import Wanted, rows
    from cli.service import connect
    from cli.tasks import Task

    server = await connect(service)
    listed = {row.task_id: row for row in await rows(server, Wanted(everything=True))}
    homes = (tasks_folder(state), task_payloads(payloads_folder(state), "any").parent)
    here = {path.name for home in homes if home.is_dir() for path in home.iterdir() if path.is_dir()}
    here = {name for name in here if task_id_fault(name) is None}
    here |= {name for name, row in listed.items() if row.repository and Path(row.repository).is_dir()}
    known = {}
    for name in sorted(here & named if named else here):
        row = listed.get(name)
        if row is None:
            known[name] = _unknown_to_temporal(name, state)
        elif row.running:
            known[name] = Known(fault="it runs")
        else:
            # Where this host has the task's own record, Temporal need not be asked for its result.
            ending = None if opened_as(name, state).source else await Task(server, name).ending()
            known[name] = Known(row.closed_at, "", ending, row.repository)
    return known


def _unknown_to_temporal(task_id: str, state: Path) -> Known:
    """A task that only its files tell of: finished where there is a report, else it may run on another server."""
    from baton.layout import REPORT_JSON
    from cli.finished import opened_as
    from cli.leftovers import is_in_use

    if is_in_use(task_id, state):
        return Known(fault="a worker works on it now")
    report = Path(opened_as(task_id, state).artifacts or "/nowhere") / REPORT_JSON
    if not report.is_file():
        return Known(fault=f"Temporal does not know it and it has no report; give it up with --abandon {task_id}")
    return Known(datetime.fromtimestamp(report.stat().st_mtime, UTC))


def _clean(task_id: str, known: Known, state: Path, *, given_up: bool, dry_run: bool, asks: bool) -> Outcome:
    """Remove what is left of one task, unless something speaks against it."""
    from cli.leftovers import Leftovers, leftovers, remove, size_bytes

    result = known.ending.result if known.ending else None
    unsure = known.fault and not (given_up and "--abandon" in known.fault)
    if unsure:
        return Outcome(Leftovers(task_id, folders=_folder(task_id, state)), kept=known.fault)
    try:
        left = leftovers(
            task_id,
            state,
            repository=known.repository,
            artifacts=result.artifacts if result else "",
            base=result.base_commit if result else "",
        )
        if left.checked_out is not None:
            return Outcome(left, kept=f"its branch is checked out at {left.checked_out}: git switch to another there")
        if left.lost and not given_up and not (asks and not dry_run and _gives_up(left)):
            return Outcome(left, kept=f"its work is merged nowhere; give it up with --abandon {task_id}")
        if dry_run:
            return Outcome(left, sum(size_bytes(place) for place in left.places))
        return Outcome(left, remove(left, state))
    except (OSError, ServiceError) as error:
        return Outcome(Leftovers(task_id, folders=_folder(task_id, state)), kept=str(error), failed=True)


def _folder(task_id: str, state: Path) -> tuple[Path, ...]:
    from baton.layout import task_folder

    return tuple(folder for folder in (task_folder(state, task_id),) if folder.is_dir())


def _gives_up(left: "Leftovers") -> bool:
    """Ask a person about work that would be lost."""
    show([Line(f"{left.task_id}: this work is merged nowhere:", Tone.WAITS), *_lost(left)])
    return typer.confirm("Remove it all the same?", default=False)


def _lost(left: "Leftovers") -> list[Line]:
    lines = [Line(commit, indent=2) for commit in left.lost[:_SHOWN]]
    more = len(left.lost) - _SHOWN
    return [*lines, Line(f"… and {more} more", indent=2)] if more > 0 else lines


def _tell(outcomes: list[Outcome], *, dry_run: bool, as_json: bool) -> None:
    from baton.wording import size

    removed = [outcome for outcome in outcomes if not outcome.kept]
    kept = [outcome for outcome in outcomes if outcome.kept]
    freed = sum(outcome.freed_bytes for outcome in removed)
    if as_json:
        lists = {"removed": [o.as_json() for o in removed], "kept": [o.as_json() for o in kept]}
        show_json({"dry_run": dry_run, "freed_bytes": freed, **lists})
        return
    for outcome in kept:
        show([Line(f"kept     {outcome.left.task_id}: {outcome.kept}", Tone.WAITS), *_lost(outcome.left)])
    for outcome in removed:
        branches = "".join(f", branch {name}" for name in outcome.left.branches)
        word = "would go" if dry_run else "removed "
        show([Line(f"{word} {outcome.left.task_id}: {size(outcome.freed_bytes)}{branches}")])
        if outcome.left.lost and not dry_run:
            _say_how_to_bring_back(outcome.left.repository, outcome.left.branches)
    show([Line(f"{'Would free' if dry_run else 'Freed'} {size(freed)}." if removed else "Nothing was removed.")])


def _say_how_to_bring_back(repository: Path | None, branches: Mapping[str, str]) -> None:
    for name, tip in branches.items():
        remark(f"         until git prunes it, this brings {name} back: git -C {repository} branch {name} {tip}")

"""What came of a task, found where it is: in the files of the task on this host, else by asking Temporal.

The files are enough, so that a result can be read, reviewed and applied without a running service.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baton.layout import DEFAULT_ARTIFACTS, PRIVATE_REPOSITORY, RECORD, REPORT_JSON, REPORT_MARKDOWN, task_folder
from baton.models import Stored
from baton.names import task_id_fault
from baton.states import TaskState
from cli.exits import Refused


class Opened(Stored):
    """The part of a task's record that says where its files are. `source`: a folder, or a URL."""

    source: str = ""
    base_commit: str = ""
    artifacts: str = ""


@dataclass(frozen=True)
class Finished:
    """A task that has ended. `ref` is None where nothing was published; `undone` says what speaks against applying."""

    task_id: str
    state: str
    ref: str | None
    commit: str
    base_commit: str
    private_repository: Path
    undone: tuple[str, ...] = ()
    task: str = ""


def artifacts_of(task_id: str, state: Path, here: Path | None) -> Path | None:
    """The folder of a task's files for people that holds a report; None where this host shows none.

    `here`: the top folder of the current repository. Raises `Refused` for a malformed id.
    """
    if (fault := task_id_fault(task_id)) is not None:
        raise Refused(fault)
    told = opened_as(task_id, state).artifacts
    candidates = [Path(told)] if told else []
    candidates += [here / DEFAULT_ARTIFACTS / task_id] if here else []
    return next((folder for folder in candidates if (folder / REPORT_MARKDOWN).is_file()), None)


def finished(task_id: str, here: Path) -> Finished:
    """A task that has ended: its report, where this host has it, else its result. Raises `Refused` for others."""
    from cli.places import state_path

    state = state_path()
    folder = artifacts_of(task_id, state, here)
    return from_report(folder, state) if folder else asyncio.run(_from_temporal(task_id, state))


def from_report(folder: Path, state: Path) -> Finished:
    """What the report in this folder says. Raises `Refused` where it cannot be read."""
    path = folder / REPORT_JSON
    try:
        report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        result = report["result"]
        return Finished(
            task_id=report["task_id"],
            state=report["state"],
            ref=result["ref"],
            commit=result["commit"],
            base_commit=report["base_commit"],
            private_repository=task_folder(state, report["task_id"]) / PRIVATE_REPOSITORY,
            undone=_undone(report),
            task=report.get("task", ""),
        )
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise Refused(f"the report {path} cannot be read: {error}") from error


async def _from_temporal(task_id: str, state: Path) -> Finished:
    from cli.reading_commands import service_for
    from cli.service import connect
    from cli.tasks import Task

    task = Task(await connect(service_for(task_id)), task_id)
    look = await task.look()
    if not look.closed:
        raise Refused(f"the task {task_id} has not ended ({look.status.state}); see: orchestrate status {task_id}")
    result = (await task.ending()).result
    if result is None:
        raise Refused(f"the task {task_id} ended without a result ({look.status.state}); see: orchestrate list --all")
    undone = () if result.state is TaskState.DONE and result.ready else (f"{result.state}: {result.summary}",)
    return Finished(
        task_id=task_id,
        state=str(result.state),
        ref=result.ref,
        commit=result.commit,
        base_commit=result.base_commit,
        private_repository=task_folder(state, task_id) / PRIVATE_REPOSITORY,
        undone=undone,
        task=look.status.task,
    )


def _undone(report: Mapping[str, Any]) -> tuple[str, ...]:
    """What is not done, or newly fails, in the words of the report."""
    blocking = [gate for gate in report.get("quality_gates", ()) if gate.get("blocks")]
    found = [f"gate {gate['name']}: {str(gate['status']).replace('_', ' ')}" for gate in blocking]
    for step in report.get("steps", ()):
        if step.get("status") != "ok":
            found.append(f"step {step.get('step')} is {str(step.get('status')).replace('_', ' ')}")
    items = report.get("items", {})
    found += [f"items {word}: {items[word]}" for word in ("open", "failed") if items.get(word)]
    if not found and (report.get("state") != TaskState.DONE or not report.get("ready", True)):
        found.append(f"the task is {report.get('state')}: {report.get('summary', '')}".rstrip(": "))
    return tuple(found)


def opened_as(task_id: str, state: Path) -> Opened:
    """What was settled when the task was opened on this host; all empty where it is not known."""
    try:
        record = json.loads((task_folder(state, task_id) / RECORD).read_bytes())
        return Opened.model_validate(record["opened"])
    except (OSError, ValueError, LookupError, TypeError):
        return Opened()

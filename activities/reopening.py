"""Opening a task once more, to go on with it: what it needs must be there, and new settings come on top of its own."""

import asyncio

from activities.artifacts import Artifacts
from activities.child_environment import child_environment
from activities.task_folder import TaskFolder, UnknownTaskError
from baton.messages import OpenedTask, TaskInput
from baton.resume import already_done, unknown, without_repository
from baton.settings import Layer, resolve
from baton.states import TaskState


class CannotResume(Exception):  # noqa: N818 - a sentence for a person
    """Why there is nothing to go on with."""


async def reopen(folder: TaskFolder, given: TaskInput, run_id: str, host_queue: str, *, searchable: bool) -> OpenedTask:
    """Settle the record for another start. Raises `CannotResume`, and `SettingsFaults`."""
    task_id = folder.path.name
    try:
        record = folder.record
    except UnknownTaskError:
        raise CannotResume(unknown(task_id)) from None
    if not folder.repository.path.is_dir():
        raise CannotResume(without_repository(task_id, str(folder.repository.path)))
    progress = await asyncio.to_thread(folder.state.current)
    if progress is not None and progress.status.state is TaskState.DONE:
        raise CannotResume(already_done(task_id))
    settings = (progress and progress.settings) or record.opened.settings
    layers = [
        Layer(source="the settings of the task", orchestration=settings.model_dump(by_alias=True)),
        Layer(source="the command line", orchestration=given.settings),
    ]
    opened = record.opened.model_copy(
        update={"settings": resolve(layers), "host_queue": host_queue, "searchable": searchable}
    )
    environment = record.environment if given.environment is None else child_environment(given.environment)
    await asyncio.to_thread(Artifacts(folder.artifacts).create)
    folder.write_record(record.model_copy(update={"run_id": run_id, "opened": opened, "environment": environment}))
    return opened

"""What turns a fresh workspace into one where the project works: the files to copy, the set-up commands."""

from pathlib import Path

from temporalio.exceptions import ApplicationError

from activities.gates import prepare
from activities.sandbox import Sandbox
from activities.task_folder import TaskFolder, sandbox_for

SETUP_FAILED = "SetupFailed"
OUTPUT_SHOWN_CHARACTERS = 1_500


async def prepare_workspace(folder: TaskFolder, workspace: Path, sandbox: Sandbox | None) -> None:
    """Run the project's set-up in the workspace, when it has one. Raises an error of type `SetupFailed`."""
    record = folder.record
    settings = record.opened.settings
    if not settings.setup and not settings.copy_files:
        return
    source = Path(record.opened.source)
    await folder.repository.exclude(settings.copy_files)
    done = await prepare(
        workspace,
        settings.setup,
        settings.copy_files,
        source if source.is_dir() else None,
        record.environment,
        sandbox=sandbox_for(folder, sandbox),
    )
    if done.failure is not None:
        text = f"{done.failure}:\n{done.output[-OUTPUT_SHOWN_CHARACTERS:]}"
        raise ApplicationError(text, type=SETUP_FAILED, non_retryable=True)

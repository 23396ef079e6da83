"""What turns a fresh workspace into one where the project works: submodules, files to copy, set-up commands."""

from pathlib import Path

from temporalio.exceptions import ApplicationError

from activities.gates import prepare
from activities.outside_parts import fill_submodules
from activities.sandbox import Sandbox
from activities.task_folder import TaskFolder, sandbox_for

SETUP_FAILED = "SetupFailed"
OUTPUT_SHOWN_CHARACTERS = 1_500


async def prepare_workspace(folder: TaskFolder, workspace: Path, sandbox: Sandbox | None) -> None:
    """Fill the submodules, and run the project's set-up, where it has any. Raises an error of type `SetupFailed`."""
    record = folder.record
    settings = record.opened.settings
    source = Path(record.opened.source)
    if (workspace / ".gitmodules").is_file():
        commit, _ = await folder.repository.head(workspace)
        top_level = source if source.is_dir() else None
        await fill_submodules(folder.repository.git(), workspace, commit, top_level)
    if not settings.setup and not settings.copy_files:
        return
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

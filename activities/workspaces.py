"""What turns a fresh workspace into one where the project works: submodules, files to copy, set-up commands.

What set-up leaves is a tool of the work, not a part of it: new files are never committed, changed ones are put back.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from temporalio.exceptions import ApplicationError

from activities.disk_secrets import secrets_below
from activities.gates import masking
from activities.known_tree import ChangeKind
from activities.outside_parts import fill_submodules
from activities.preparing import prepare
from activities.sandbox import Sandbox
from activities.task_folder import TaskFolder, sandbox_for
from baton.printed_secrets import printed
from baton.run_commands import last_lines

SETUP_FAILED = "SetupFailed"
OUTPUT_SHOWN_CHARACTERS = 350


async def prepare_workspace(
    folder: TaskFolder, workspace: Path, sandbox: Sandbox | None, secrets: Sequence[str] = ()
) -> None:
    """Fill the submodules, and run the project's set-up, where it has any. Raises an error of type `SetupFailed`."""
    record = folder.record
    settings = record.opened.settings
    if (workspace / ".gitmodules").is_file():
        commit, _ = await folder.repository.head(workspace)
        await fill_submodules(folder.repository.git(), workspace, commit, folder.checkout)
    if not settings.setup and not settings.copy_files:
        return
    repository = folder.repository
    await repository.exclude(settings.copy_files)
    before = frozenset(await repository.changed_paths(workspace)) if settings.setup else frozenset()
    known = frozenset(secrets) | await asyncio.to_thread(secrets_below, workspace, folder.checkout)
    done = await prepare(
        workspace,
        settings.setup,
        settings.copy_files,
        folder.checkout,
        record.environment,
        runner=masking(known),
        sandbox=sandbox_for(folder, sandbox),
        downloads=folder.downloads,
    )
    if settings.setup:
        await repository.exclude(await repository.untracked(workspace) - {change.name for change in before})
        after = await repository.changed_paths(workspace)
        await repository.restore(workspace, [c for c in after if c not in before and c.kind is not ChangeKind.ADDED])
    if done.failure is not None:
        known |= await asyncio.to_thread(secrets_below, workspace)
        # The end says what went wrong, and must outlive those who cut what is long.
        output = last_lines(printed(done.output, known))[-OUTPUT_SHOWN_CHARACTERS:] or "no output"
        raise ApplicationError(f"{printed(done.failure, known)}: {output}", type=SETUP_FAILED, non_retryable=True)

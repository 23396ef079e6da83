"""Where Baton keeps what: below the state directory, in a task's folder, in a repository. Names only, nothing is read.

The worker makes these places, the command line finds and clears them.
"""

import hashlib
import re
from pathlib import Path

RECORD = "task.json"
"""What was settled when a task was opened; a `TaskRecord`."""
PRIVATE_REPOSITORY = "repository.git"
RESULT = "refs/heads/result"
"""The result in the private repository: one commit per step, from the base on."""
BASE = "refs/baton/base"
"""The commit that the task started from, in the private repository."""
DEFAULT_ARTIFACTS = ".claude/orchestration"
"""The `stateDirectory` of a repository that sets no other."""
REPORT_MARKDOWN, REPORT_JSON, ISSUES = "report.md", "integration-report.json", "issues.json"
BRANCHES = "baton"
"""The first part of the name of every result branch."""
TRAILER_TASK, TRAILER_STEP = "Baton-Task", "Baton-Step"
TRAILER_APPLIED = "Baton-Applied"
TRAILER_CONFLICT = "Baton-Conflict"
"""On a commit that holds a whole result: the tip of the branch that was squashed."""
OPERATIONS = {
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "BISECT_LOG": "bisect",
}
"""What git leaves in its folder while an operation is in progress, and the operation's name."""


def tasks_folder(state: Path) -> Path:
    """The folders of all tasks of a host."""
    return state / "tasks"


def task_folder(state: Path, task_id: str) -> Path:
    """Everything of one task but its payloads and its artifacts."""
    return tasks_folder(state) / task_id


def task_lock(state: Path, task_id: str) -> Path:
    """The lock for making and removing a task's folder; beside it, since the folder itself comes and goes."""
    return tasks_folder(state) / f"{task_id}.lock"


def payloads_folder(state: Path) -> Path:
    """Payloads too large for Temporal's histories."""
    return state / "payloads"


def task_payloads(payloads: Path, workflow_id: str) -> Path:
    """The payloads of the task that a workflow belongs to: its own id, or the part before the first slash."""
    return payloads / "tasks" / workflow_id.partition("/")[0]


def branch_name(task_id: str, number: int = 1) -> str:
    """The name of a task's result branch; `number` above 1 where the first is taken."""
    return f"{BRANCHES}/{task_id}" if number == 1 else f"{BRANCHES}/{task_id}-{number}"


def may_be_branch_of(task_id: str, name: str) -> bool:
    """Whether a branch has a name that this task may have given; another task can have given it, too."""
    return re.fullmatch(rf"{BRANCHES}/{re.escape(task_id)}(?:-\d+)?", name) is not None


def confirmations_file(state: Path, top_level: Path) -> Path:
    """Which commands of a repository's settings its user confirmed; outside the repository, which could change it."""
    return state / "confirmed" / f"{hashlib.sha256(str(top_level).encode()).hexdigest()[:32]}.json"


def settings_files(home: Path, top_level: Path | None) -> list[Path]:
    """The settings files of a repository in rising precedence; any of them may be missing."""
    files = [home / ".claude" / "settings.json"]
    if top_level is not None:
        files += [top_level / ".claude" / name for name in ("settings.json", "settings.local.json")]
    return files

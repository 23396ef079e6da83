"""Names that both sides of a boundary know: workflows, queues, search attributes, types of errors, and task ids."""

import re

from baton.redaction import shape_of_secret

ORCHESTRATION_WORKFLOW = "OrchestrationWorkflow"
AGENT_WORKFLOW = "AgentWorkflow"
QUOTA_WORKFLOW = "QuotaWorkflow"
QUOTA_ID = "baton-quota/{account}"
"""The workflow that holds the pauses of one account of the provider; `account`: see `baton.quota.account_hash`."""
TASK_QUEUE = "baton"

SEARCH_PHASE = "BatonPhase"
SEARCH_REPOSITORY = "BatonRepository"
SEARCH_ATTENTION = "BatonAttention"
SEARCH_ATTRIBUTES = (SEARCH_PHASE, SEARCH_REPOSITORY, SEARCH_ATTENTION)
"""All of them are keywords."""

UPDATES = {
    "approve": "approve_phase",
    "reject": "reject_phase",
    "answer": "answer_attention",
    "pause": "pause_task",
    "unpause": "unpause_task",
    "guide": "give_guidance",
    "set_limits": "change_limits",
    "revise_plan": "replace_plan",
}
"""Each signal of a task and the update of the same meaning, which is refused at once where it makes no sense."""

LONGEST_TASK_ID = 63
TASK_ID = re.compile(rf"[a-z0-9][a-z0-9-]{{0,{LONGEST_TASK_ID - 1}}}")

BAD_INPUT = "BadInput"
"""Error type: what the user gave cannot be used; nothing was left behind."""
CONVERSATION_LOST = "ConversationLost"
"""Error type: a conversation cannot be read any more; the agent is replaced from facts."""
REQUEST_REFUSED = "ModelRefusedRequest"
"""Error type: the API refuses the conversation as it is; the agent is replaced from facts."""
CONTEXT_TOO_LONG = "ContextTooLong"
"""Error type: the conversation does not fit the model's window any more; a successor goes on with a manifest."""
NEEDS_PERSON = "NeedsPerson"
"""Error type: only a person can help (credentials, spend limit, unknown model); the run waits."""

QUOTA_PAUSED = "QuotaPaused"
"""Error type: no model call leaves for now; its detail is a `baton.quota.Pause`. No failure: the agent waits."""

STALLED = "Stalled"
"""Error type: the model fell silent in the middle of a turn; the agent decides whether it waits (`baton.stalls`)."""

OTHER_REVISION = "OtherRevision"
"""Error type: what is told of a task's progress does not fit what this host knows; the whole is told instead."""


def task_id_fault(task_id: str) -> str | None:
    """Why a task id cannot be used, or None."""
    if TASK_ID.fullmatch(task_id):
        return None
    return (
        f"the task id {task_id!r} is malformed: use 1 to {LONGEST_TASK_ID} lower-case letters, digits and hyphens, "
        "starting with a letter or digit, for example migrate-typescript-2026-11-30"
    )


MOST_TASK_BYTES = 100_000
"""A longer text belongs into a file of the repository; histories and first messages carry the task."""


def task_text_fault(task: str) -> str | None:
    """Why a task's text cannot be used, or None."""
    if not task.strip():
        return "the task is empty: say what to do"
    if (size := len(task.encode("utf-8", "replace"))) > MOST_TASK_BYTES:
        return (
            f"the task has {size} bytes, at most {MOST_TASK_BYTES} are taken: put the details into a file of the "
            "repository and name it in the task"
        )
    return secret_fault("the task", task)


def secret_fault(what: str, text: str) -> str | None:
    """Why a person's text cannot be told to a task, which stores it; None where it holds no secret that shows."""
    if (shape := shape_of_secret(text)) is None:
        return None
    return (
        f"{what} holds what looks like a secret ({shape}), and its text is stored: take it out, and let what "
        "needs it read it from the environment or from a file that git ignores"
    )

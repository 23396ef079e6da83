"""What an agent inherits of the knowledge collected so far, within its token limit."""

import hashlib
import json

from activities.model import Model, ModelError
from activities.short_calls import short_request, submitted
from activities.task_folder import TaskFolder
from baton.conversation import Response, estimated_tokens
from baton.first_message import assignment_message
from baton.knowledge import SHARE_FOR_REST, Entry, Knowledge, essentials, select
from baton.models import Stored
from baton.pricing import Usage
from baton.roles import Role
from baton.tool_inputs import SubmitSummary

KNOWLEDGE_LIMIT_TOKENS = 4_000
SUMMARISED_ENTRIES = 2_000
SUMMARY_TOLERANCE = 1.5
"""A summary that is longer by more than this than it was asked to be is not used."""


class Inheritance(Stored):
    """Lines for the first message, and what making them cost."""

    lines: tuple[str, ...] = ()
    usage: Usage = Usage()


async def inherit(
    folder: TaskFolder, model: Model, task_id: str, knowledge: Knowledge, limit_tokens: int = KNOWLEDGE_LIMIT_TOKENS
) -> Inheritance:
    """The knowledge for one agent: all of it, or what is most used and most recent with the rest in short."""
    selection = select(knowledge, limit_tokens)
    lines = [entry.line() for entry in selection.kept]
    if not selection.left_out:
        return Inheritance(lines=tuple(lines))
    short = await _summary(folder, model, task_id, selection.left_out, int(limit_tokens * SHARE_FOR_REST))
    if not short.lines:
        short = short.model_copy(update={"lines": tuple(essentials(selection.left_out, limit_tokens))})
    return Inheritance(lines=(*short.lines, *lines), usage=short.usage)


async def _summary(
    folder: TaskFolder, model: Model, task_id: str, left_out: tuple[Entry, ...], limit_tokens: int
) -> Inheritance:
    """A summary by the summarizer model, journaled by what it summarises; no lines when the model gives none."""
    lines = [entry.line() for entry in left_out[-SUMMARISED_ENTRIES:]]
    key = f"summary/{hashlib.sha256(json.dumps(lines).encode()).hexdigest()}"
    if (known := folder.store.entry(key)) is not None:
        return Inheritance.model_validate_json(known).model_copy(update={"usage": Usage()})
    message = assignment_message(
        {"role": Role.SUMMARIZER, "task_id": task_id, "limit_tokens": limit_tokens, "entries": lines}
    )
    request = short_request(folder, message, asker="summarizer", tools_of=Role.SUMMARIZER, prompt_name="summarizer")
    try:
        response = await model.respond(request, lambda _: None, folder.record.opened.settings.prices)
    except ModelError as error:
        return Inheritance(usage=error.spent or Usage())
    text = submitted_summary(response)
    fits = text and estimated_tokens(text) <= limit_tokens * SUMMARY_TOLERANCE
    summary = (f"summary of {len(left_out)} older entries: {text}",) if fits else ()
    made = Inheritance(lines=summary, usage=response.usage)
    folder.store.enter(key, made.model_dump_json().encode())
    return made


def submitted_summary(response: Response) -> str:
    """The summary, if the response is a complete `submit_summary`."""
    found = submitted(response, "submit_summary", SubmitSummary)
    return found.summary.strip() if found else ""

"""What an agent inherits of the knowledge collected so far, within its token limit."""

import hashlib
import json

from activities.model import Model, ModelError
from activities.pulse import Pulse
from activities.short_calls import ShortCall, asked_once, short_request, submitted
from activities.task_folder import TaskFolder
from activities.trace import Teller
from baton.agent import exceeded
from baton.conversation import Response, estimated_tokens
from baton.first_message import assignment_message
from baton.knowledge import SHARE_FOR_REST, Entry, Knowledge, essentials, select
from baton.messages import TurnLimits
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
    folder: TaskFolder, model: Model, knowledge: Knowledge, agent: str, beat: Pulse, left: TurnLimits
) -> Inheritance:
    """The knowledge for one agent: all of it, or what is most used and most recent with the rest in short: a summary
    where `left` allows a call for it."""
    limit_tokens = KNOWLEDGE_LIMIT_TOKENS
    selection = select(knowledge, limit_tokens)
    lines = [entry.line() for entry in selection.kept]
    if not selection.left_out:
        return Inheritance(lines=tuple(lines))
    if exceeded(left, Usage()) is not None:
        return Inheritance(lines=(*essentials(selection.left_out, limit_tokens), *lines))
    entries, limit = selection.left_out, int(limit_tokens * SHARE_FOR_REST)
    call = _question(folder, entries, limit, agent)
    try:
        answered = await asked_once(folder, model, call, beat)
        short = Inheritance(lines=_summary(answered.response, entries, limit), usage=answered.usage())
    except ModelError as error:
        short = Inheritance(usage=error.lost or Usage())
    if not short.lines:
        short = short.model_copy(update={"lines": tuple(essentials(selection.left_out, limit_tokens))})
    return Inheritance(lines=(*short.lines, *lines), usage=short.usage)


def _question(folder: TaskFolder, left_out: tuple[Entry, ...], limit_tokens: int, agent: str) -> ShortCall:
    """What the summarizer is asked; the same entries are summarised once for all agents."""
    lines = [entry.line() for entry in left_out[-SUMMARISED_ENTRIES:]]
    key = f"summary/{hashlib.sha256(json.dumps(lines).encode()).hexdigest()}"
    message = assignment_message(
        {"role": Role.SUMMARIZER, "task_id": folder.path.name, "limit_tokens": limit_tokens, "entries": lines}
    )
    request = short_request(folder, message, asker="summarizer", tools_of=Role.SUMMARIZER, prompt_name="summarizer")
    return ShortCall(key, Teller(agent, Role.SUMMARIZER, 0, "summary of knowledge"), request)


def _summary(response: Response, left_out: tuple[Entry, ...], limit_tokens: int) -> tuple[str, ...]:
    """The line that stands for the entries; none where the response has no summary, or one that is too long."""
    text = submitted_summary(response)
    fits = text and estimated_tokens(text) <= limit_tokens * SUMMARY_TOLERANCE
    return (f"summary of {len(left_out)} older entries: {text}",) if fits else ()


def submitted_summary(response: Response) -> str:
    """The summary, if the response is a complete `submit_summary`."""
    found = submitted(response, "submit_summary", SubmitSummary)
    return found.summary.strip() if found else ""

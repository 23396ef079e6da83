"""Calls of one question and one submission beside the agents: route, summary of knowledge, summary of the report."""

from typing import TypeVar

from pydantic import BaseModel

from activities.model import ModelRequest
from activities.prompts import prompt
from activities.task_folder import TaskFolder
from baton.conversation import Response, calls
from baton.roles import Role
from baton.tool_schemas import parse, tools_for

ANSWER_TOKENS = 2_000

Submission = TypeVar("Submission", bound=BaseModel)


def short_request(folder: TaskFolder, message: str, *, asker: str, tools_of: str, prompt_name: str) -> ModelRequest:
    """One message to the summarizer's model, under the name of who asks, with the tools of a role."""
    return ModelRequest(
        model=folder.record.opened.settings.models.of(Role.SUMMARIZER),
        system=prompt(prompt_name),
        tools=tuple(tools_for(tools_of)),
        messages=[{"role": "user", "content": [{"type": "text", "text": message}]}],
        max_tokens=ANSWER_TOKENS,
        user_id=f"{folder.path.name}/{asker}",
    )


def submitted(response: Response, tool: str, arguments_type: type[Submission]) -> Submission | None:
    """What the response submits by this tool; None without a complete, valid call of it."""
    for call in calls(response):
        arguments = parse(call.name, call.input, [tool])
        if isinstance(arguments, arguments_type) and call.fault is None:
            return arguments
    return None

"""Answers of a predecessor: one short model call on its stored conversation with the question appended.

The conversation only grows, so the call reads the predecessor's prompt cache; its answer is journaled before it is
used, so a killed turn does not pay for it twice.
"""

from dataclasses import dataclass

from activities.conversations import Conversations
from activities.model import Model, ModelError, ModelRequest
from activities.store import LostBlobError, Store
from baton.conversation import (
    Response,
    ToolCall,
    messages,
    user_content,
    with_cache_breakpoints,
)
from baton.models import Stored
from baton.pricing import Usage
from baton.settings import Settings

QUESTIONS_AT_MOST = 3
ANSWER_TOKENS = 1_500
NO_ANSWER = "No answer: {reason}. Go on with what the manifest and the files say."


class Answer(Stored):
    """What a predecessor said."""

    text: str
    is_error: bool = False
    usage: Usage = Usage()


@dataclass(frozen=True)
class Predecessor:
    """The predecessor of one agent, asked within one turn. `head` is the end of its conversation, if it has one."""

    model: Model
    conversations: Conversations
    store: Store
    settings: Settings
    head: str | None
    journal_key: str

    async def answer(self, call: ToolCall, asked_before: int) -> Answer:
        """The answer to one question; never an exception for what the predecessor's side lacks. Raises `ModelError`
        while no model call may leave: it is asked again then."""
        question = call.input["question"]
        if asked_before >= QUESTIONS_AT_MOST:
            return _none(f"the {QUESTIONS_AT_MOST} questions to the predecessor are used up")
        return await self.ask(question, f"answer/{call.id}")

    async def ask(self, question: str, key: str) -> Answer:
        """The answer to a question, paid for once under this key."""
        key = f"{self.journal_key}/{key}"
        if self.head is None:
            return _none("this agent has no predecessor")
        if (known := self.store.entry(key)) is not None:
            return Answer.model_validate_json(known)
        try:
            response = await self._response(self.head, question)
        except LostBlobError:
            return _none("the predecessor's conversation is lost")
        except ModelError as error:
            if error.fault.pause is not None:
                raise
            reason = f"the predecessor cannot be reached ({error.fault.message[:200]})"
            return _none(reason).model_copy(update={"usage": error.spent or Usage()})
        text = "\n".join(block["text"] for block in response.content if block["type"] == "text").strip()
        given = Answer(text=text, usage=response.usage)
        if not text:
            given = _none("the predecessor said nothing").model_copy(update={"usage": response.usage})
        return Answer.model_validate_json(self.store.enter(key, given.model_dump_json().encode()))

    async def _response(self, head: str, question: str) -> Response:
        conversation = self.conversations.load(head)
        asked = f"Your successor asks: {question}\nAnswer in a few sentences from what you know; call no tool."
        user = user_content(conversation.last, [asked], [])
        opening = conversation.opening
        request = ModelRequest(
            model=opening.model,
            system=opening.system,
            tools=opening.tools,
            messages=with_cache_breakpoints(messages(opening, conversation.turns, user)),
            max_tokens=ANSWER_TOKENS,
            user_id=opening.user_id,
            effort=opening.effort,
        )
        return await self.model.respond(request, lambda _: None, self.settings.prices)


def _none(reason: str) -> Answer:
    return Answer(text=NO_ANSWER.format(reason=reason), is_error=True)

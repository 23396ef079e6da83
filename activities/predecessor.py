"""Answers of a predecessor: one short model call on its stored conversation with the question appended.

The conversation only grows, so the call reads the predecessor's prompt cache; a killed turn does not pay for it twice.
"""

from dataclasses import dataclass

from activities.model import Model, ModelError, ModelRequest
from activities.pulse import Pulse
from activities.short_calls import ShortCall, asked_once
from activities.store import LostBlobError
from activities.task_folder import TaskFolder
from activities.trace import Teller
from baton.agent import exceeded
from baton.conversation import ToolCall, messages, user_content, with_cache_breakpoints
from baton.messages import TurnLimits
from baton.models import Stored
from baton.pricing import Usage
from baton.roles import Role

QUESTIONS_AT_MOST = 3
ANSWER_TOKENS = 1_500
QUESTION = "question to the predecessor"
NO_ANSWER = "No answer: {reason}. Go on with what the manifest and the files say."


class Answer(Stored):
    """What a predecessor said."""

    text: str
    is_error: bool = False
    usage: Usage = Usage()


@dataclass(frozen=True)
class Predecessor:
    """The predecessor of one agent, asked within one turn of this agent. `head` is the end of the predecessor's
    conversation, if it has one; `left` what may be used for questions."""

    folder: TaskFolder
    model: Model
    head: str | None
    journal_key: str
    agent: str
    turn: int
    beat: Pulse
    left: TurnLimits

    async def answer(self, call: ToolCall, asked_before: int, spent: Usage) -> Answer:
        """The answer to one question; never an exception for what the predecessor's side lacks. Raises `ModelError`
        while no model call may leave: it is asked again then. `spent`: on questions of this turn so far."""
        question = call.input["question"]
        if asked_before >= QUESTIONS_AT_MOST:
            return _none(f"the {QUESTIONS_AT_MOST} questions to the predecessor are used up")
        return await self.ask(question, f"answer/{call.id}", spent)

    async def ask(self, question: str, key: str, spent: Usage | None = None) -> Answer:
        """The answer to a question, paid for once under this key."""
        if self.head is None:
            return _none("this agent has no predecessor")
        if (limit := exceeded(self.left, spent or Usage())) is not None:
            return _none(limit.evidence)
        teller = Teller(self.agent, Role.EXECUTOR, self.turn, QUESTION)
        try:
            call = ShortCall(f"{self.journal_key}/{key}", teller, self._request(self.head, question))
            answered = await asked_once(self.folder, self.model, call, self.beat)
        except LostBlobError:
            return _none("the predecessor's conversation is lost")
        except ModelError as error:
            if error.fault.pause is not None:
                raise
            reason = f"the predecessor cannot be reached ({error.fault.message[:200]})"
            return _none(reason).model_copy(update={"usage": error.lost or Usage()})
        content = answered.response.content
        text = "\n".join(block["text"] for block in content if block["type"] == "text").strip()
        given = Answer(text=text) if text else _none("the predecessor said nothing")
        return given.model_copy(update={"usage": answered.usage()})

    def _request(self, head: str, question: str) -> ModelRequest:
        """The question at the end of its conversation. Raises `LostBlobError`."""
        conversation = self.folder.conversations.load(head)
        asked = f"Your successor asks: {question}\nAnswer in a few sentences from what you know; call no tool."
        user = user_content(conversation.last, [asked], [])
        opening = conversation.opening
        return ModelRequest(
            model=opening.model,
            system=opening.system,
            tools=opening.tools,
            messages=with_cache_breakpoints(messages(opening, conversation.turns, user)),
            max_tokens=ANSWER_TOKENS,
            user_id=opening.user_id,
            effort=opening.effort,
        )


def _none(reason: str) -> Answer:
    return Answer(text=NO_ANSWER.format(reason=reason), is_error=True)

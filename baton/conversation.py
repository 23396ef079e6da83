"""A conversation: how responses end, what of them may be sent again, and how nodes become messages.

A conversation is append-only and byte-stable: the same nodes always give the same messages, and a later node never
changes what an earlier one gave. Cache breakpoints are put on at the moment of sending and are not part of it.
"""

import json
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from baton.models import Stored
from baton.pricing import Usage

Block = dict[str, Any]
"""One content block in the API's own form; its fields depend on its type."""

NOT_RUN_CUT = "Not run: the response was cut off at its token limit. Send the call again if it is still needed."
NOT_RUN_ENDED = "Not run: the response did not end with a request for tools."


class Ending(StrEnum):
    """How a response ended, by what has to happen next."""

    TOOLS = "tools"
    SILENT = "silent"
    CUT = "cut"
    CONTEXT_FULL = "context_full"
    PAUSED = "paused"
    REFUSED = "refused"


ENDINGS = {
    "tool_use": Ending.TOOLS,
    "end_turn": Ending.SILENT,
    "stop_sequence": Ending.SILENT,
    "max_tokens": Ending.CUT,
    "model_context_window_exceeded": Ending.CONTEXT_FULL,
    "pause_turn": Ending.PAUSED,
    "refusal": Ending.REFUSED,
}
"""By stop reason. Any other value is a broken stream: the call is made again, nothing is stored."""


class NoticeKind(StrEnum):
    """Notices that an agent gets in a user turn."""

    BUDGET_80 = "budget_80"
    BUDGET_95 = "budget_95"
    GUIDANCE = "guidance"
    NUDGE = "nudge"
    RETRY = "retry"


class Notice(Stored):
    """A remark of the orchestration to a running agent."""

    kind: NoticeKind
    text: str

    def block(self) -> Block:
        """The text block that carries it."""
        return {"type": "text", "text": f'<notice kind="{self.kind}">{self.text}</notice>'}


class Response(Stored):
    """One model response as it arrived. `partial_inputs`: raw JSON of calls whose input did not parse or was cut."""

    id: str
    model: str
    stop_reason: str
    content: tuple[Block, ...] = ()
    usage: Usage = Usage()
    partial_inputs: dict[str, str] = Field(default_factory=dict)
    request_id: str | None = None

    @property
    def ending(self) -> Ending:
        """What the stop reason asks for. KeyError for an unknown one, which is never stored."""
        return ENDINGS[self.stop_reason]


class ToolCall(Stored):
    """A call the model asked for. `fault` says why its input cannot be used."""

    id: str
    name: str
    input: Any = None
    fault: str | None = None


class Opening(Stored):
    """The root node: all that stays the same for every request of an agent."""

    kind: Literal["opening"] = "opening"
    agent_id: str
    model: str
    user_id: str
    system: str
    tools: tuple[Block, ...]
    content: tuple[Block, ...]
    effort: str | None = None
    agent_type: str | None = None
    items: tuple[str, ...] = ()
    owned: tuple[str, ...] = ()
    owns: tuple[str, ...] = ()
    also_owned: tuple[str, ...] = ()
    step: int | None = None
    start_commit: str = ""
    predecessor_head: str | None = None
    conflicted: tuple[str, ...] = ()


class Turn(Stored):
    """A turn's node: what was sent, what came back, what the calls gave. Points to its parent as a git commit does."""

    kind: Literal["turn"] = "turn"
    parent: str
    turn: int
    user: tuple[Block, ...] = ()
    response: Response
    replay: tuple[Block, ...] = ()
    results: tuple[Block, ...] = ()
    facts: dict[str, Any] = Field(default_factory=dict)
    extra_usage: Usage = Usage()


def calls(response: Response) -> tuple[ToolCall, ...]:
    """The calls to run, in order: none unless the response ended to have tools run.

    A call id that came twice is unusable from the second on; so is an input that is no JSON object.
    """
    if response.ending is not Ending.TOOLS:
        return ()
    seen: set[str] = set()
    found = []
    for block in response.content:
        if block["type"] != "tool_use" or block["id"] in seen:
            continue
        seen.add(block["id"])
        fault = None
        if block["id"] in response.partial_inputs or not isinstance(block["input"], dict):
            fault = "the input is not a complete JSON object; send the call again with a smaller, valid input"
        found.append(ToolCall(id=block["id"], name=block["name"], input=block["input"], fault=fault))
    return tuple(found)


def replayable(response: Response) -> tuple[Block, ...]:
    """What of a response may be sent again.

    Left out: unsigned thinking, empty text, the call that a cut response ended in, repeated call ids, and thinking
    at the end, where the API takes none.
    """
    cut = response.ending in {Ending.CUT, Ending.CONTEXT_FULL, Ending.REFUSED}
    kept: list[Block] = []
    seen: set[str] = set()
    for position, block in enumerate(response.content):
        last = position == len(response.content) - 1
        if not _may_stand(block) or (cut and last and block["type"] == "tool_use"):
            continue
        if block["type"] == "tool_use":
            if block["id"] in seen:
                continue
            seen.add(block["id"])
            if not isinstance(block["input"], dict):
                block = {**block, "input": {}}  # noqa: PLW2901
        kept.append(block)
    while kept and kept[-1]["type"] in {"thinking", "redacted_thinking"}:
        kept.pop()
    return tuple(kept)


def unrun_results(replay: Iterable[Block], response: Response) -> tuple[Block, ...]:
    """Error results for complete calls of a response whose calls must not run."""
    text = NOT_RUN_CUT if response.ending in {Ending.CUT, Ending.CONTEXT_FULL} else NOT_RUN_ENDED
    return tuple(tool_result(block["id"], text, is_error=True) for block in replay if block["type"] == "tool_use")


def tool_result(call_id: str, content: str, is_error: bool = False) -> Block:
    """The result block of one call; text is never empty, which the API would refuse."""
    block: Block = {"type": "tool_result", "tool_use_id": call_id, "content": content or "(no output)"}
    return {**block, "is_error": True} if is_error else block


def user_content(previous: Opening | Turn, answers: Sequence[str], notices: Sequence[Notice]) -> tuple[Block, ...]:
    """The user message that follows `previous`: results in call order, other answers of a person, then notices.

    `answers`: first those to the questions that `previous` asked, in their order; each is the result of its call.
    """
    asked = previous.facts.get("asked", ()) if isinstance(previous, Turn) else ()
    results = _answered(previous, answers) if isinstance(previous, Turn) else ()
    remarks = previous.facts.get("remarks", ()) if isinstance(previous, Turn) else ()
    notices = [*(Notice(kind=NoticeKind.RETRY, text=remark) for remark in remarks), *notices]
    texts: list[Block] = [{"type": "text", "text": answer} for answer in answers[len(asked) :] if answer.strip()]
    return (*results, *texts, *(notice.block() for notice in notices))


def messages(opening: Opening, turns: Sequence[Turn], user: Sequence[Block]) -> list[Block]:
    """All messages of the next request. Neighbours of one role become one message; empty ones are not sent."""
    sent: list[Block] = []
    _append(sent, "user", opening.content)
    for turn in turns:
        _append(sent, "user", turn.user)
        _append(sent, "assistant", turn.replay)
    _append(sent, "user", user)
    return sent


def with_cache_breakpoints(conversation: Sequence[Block]) -> list[Block]:
    """A copy whose last two user messages end in a cache breakpoint (the system prompt carries the third)."""
    marked = list(conversation)
    users = [position for position, message in enumerate(marked) if message["role"] == "user"]
    for position in users[-2:]:
        content = list(marked[position]["content"])
        content[-1] = {**content[-1], "cache_control": {"type": "ephemeral"}}
        marked[position] = {**marked[position], "content": content}
    return marked


def estimated_tokens(text: str) -> int:
    """A rough count for text in a prompt: 3.5 characters a token."""
    return int(len(text) / 3.5) + 1


def canonical_json(value: object) -> bytes:
    """The one byte form of a value, for content addresses. Keys keep their order: in a call's input it is content."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass")


def _answered(previous: Turn, answers: Sequence[str]) -> tuple[Block, ...]:
    asked = [question["call_id"] for question in previous.facts.get("asked", ())]
    given = dict(zip(asked, answers, strict=False))
    return tuple(
        tool_result(result["tool_use_id"], given[result["tool_use_id"]])
        if result.get("tool_use_id") in given
        else result
        for result in previous.results
    )


def _may_stand(block: Block) -> bool:
    if block["type"] == "text":
        return bool(block["text"].strip())
    if block["type"] == "thinking":
        return bool(block.get("signature"))
    return True


def _append(sent: list[Block], role: str, content: Iterable[Block]) -> None:
    blocks = list(content)
    if not blocks:
        return
    if sent and sent[-1]["role"] == role:
        sent[-1] = {"role": role, "content": [*sent[-1]["content"], *blocks]}
    else:
        sent.append({"role": role, "content": blocks})

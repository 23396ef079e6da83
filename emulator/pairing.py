"""Every `tool_use` is answered by exactly one `tool_result`, first in the next user turn.

Consecutive messages of one role are one turn, as in the API.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from emulator.errors import invalid
from emulator.request import Block, Message, ToolResultBlock, ToolUseBlock


@dataclass(frozen=True)
class _Turn:
    first: int
    role: str
    blocks: tuple[Block, ...]


def check_pairing(messages: Sequence[Message], first: int = 0, called: Collection[str] = ()) -> None:
    """Refuse calls without results, results without calls, and ids used twice, from message `first` on.

    It begins a turn; `called` are the ids of the calls before it, which all have their results.

    Raises:
        ApiError: 400 with the ids concerned.
    """
    seen = set(called)
    open_calls: list[str] = []
    caller = 0
    for turn in _turns(messages, first):
        if turn.role == "user":
            _check_results(turn, caller, open_calls)
            open_calls = []
            continue
        caller = turn.first
        open_calls = list(calls_of(turn.blocks))
        for call_id in open_calls:
            if call_id in seen:
                raise invalid(f"messages.{turn.first}: `tool_use` ids must be unique: {call_id}")
            seen.add(call_id)


def calls_of(blocks: Iterable[Block]) -> Iterator[str]:
    """The ids of the calls that need a result."""
    return (block.id for block in blocks if isinstance(block, ToolUseBlock) and block.type == "tool_use")


def _turns(messages: Sequence[Message], first: int) -> Iterator[_Turn]:
    begin, blocks = first, list[Block]()
    for number, message in enumerate(messages[first:], first):
        if number > begin and message.role != messages[number - 1].role:
            yield _Turn(begin, messages[number - 1].role, tuple(blocks))
            begin, blocks = number, []
        blocks.extend(message.blocks)
    yield _Turn(begin, messages[-1].role, tuple(blocks))


def _check_results(turn: _Turn, caller: int, open_calls: list[str]) -> None:
    leading: list[str] = []
    for index, block in enumerate(turn.blocks):
        if not isinstance(block, ToolResultBlock):
            continue
        where = f"messages.{turn.first}.content.{index}"
        if block.tool_use_id not in open_calls:
            raise invalid(
                f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: {block.tool_use_id}. Each "
                "`tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
        if block.tool_use_id in leading:
            raise invalid(
                f"{where}: each tool_use must have a single result. "
                f"Found multiple `tool_result` blocks with id: {block.tool_use_id}"
            )
        if index == len(leading):
            leading.append(block.tool_use_id)
    missing = [call_id for call_id in open_calls if call_id not in leading]
    if missing:
        raise invalid(
            f"messages.{caller}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block at the "
            "beginning of the next message."
        )

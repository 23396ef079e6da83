"""The stand-in model: rules instead of a mind, and no state. The same request always gets the same answer."""

from collections.abc import Callable

from emulator import judges, resolver
from emulator.catalogue import STAND_IN
from emulator.dialogue import Dialogue, read_dialogue
from emulator.executor import Executor
from emulator.planner import Planner
from emulator.reply import Block, Reply, Text, Thinking, ToolUse
from emulator.request import Request

THINKS_EVERY = 3
"""Every third answer begins with a signed thought."""

_ROLES: dict[str, Callable[[Dialogue], list[Block]]] = {
    "planner": lambda dialogue: Planner(dialogue).respond(),
    "executor": lambda dialogue: Executor(dialogue).respond(),
    "integrator": judges.integrate,
    "reviewer": judges.review,
    "resolver": resolver.resolve,
    "summarizer": judges.summarize,
    "router": judges.route,
}


class StandIn:
    """A `Model` that plays every role of a task by rules."""

    def respond(self, request: Request) -> Reply:
        """The next message of the conversation."""
        dialogue = read_dialogue(request)
        role = str(dialogue.assignment.get("role", ""))
        if role not in _ROLES:
            return Reply([Text(f"I am a {STAND_IN}. I can only answer assignments, and this is none.")])
        blocks = [
            block for block in _ROLES[role](dialogue) if not isinstance(block, ToolUse) or block.name in dialogue.tools
        ]
        opening = [*_thought(request, dialogue, role), *_greeting(dialogue), *_acknowledged(dialogue)]
        return Reply([*opening, *blocks])


def _thought(request: Request, dialogue: Dialogue, role: str) -> list[Block]:
    if not request.thinks or dialogue.turn % THINKS_EVERY:
        return []
    seen = f"{len(dialogue.calls)} calls so far, {sum(call.failed for call in dialogue.calls)} of them failed"
    return [Thinking(f"Role {role}, turn {dialogue.turn + 1}: {seen}. The rules decide what comes next.")]


def _greeting(dialogue: Dialogue) -> list[Block]:
    if dialogue.turn:
        return []
    agent = dialogue.assignment.get("agent_id", "this agent")
    return [Text(f"{agent} here, played by a {STAND_IN}: what follows comes from fixed rules.")]


def _acknowledged(dialogue: Dialogue) -> list[Block]:
    guidance = [notice.text for notice in dialogue.fresh_notices if notice.kind == "guidance"]
    return [Text(f"I have read the guidance “{text[:200]}”; a stand-in can only take note of it.") for text in guidance]

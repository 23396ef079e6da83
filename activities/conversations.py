"""Conversations as chains of stored nodes, and their facts.

A node is immutable and named by its content; a small cache keeps the newest conversations of this process, so that a
turn reads one node, not all of them.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass

from pydantic import TypeAdapter

from activities.store import LostBlobError, Store, name_of
from baton.conversation import Opening, Turn, canonical_json
from baton.facts import AgentFacts, TurnFacts, fold

CONVERSATIONS_KEPT = 64

_NODE: TypeAdapter[Opening | Turn] = TypeAdapter(Opening | Turn)


@dataclass(frozen=True)
class Conversation:
    """A conversation up to one head, with what its turns established."""

    opening: Opening
    turns: tuple[Turn, ...]
    facts: AgentFacts

    @property
    def last(self) -> Opening | Turn:
        """The newest node."""
        return self.turns[-1] if self.turns else self.opening


class Conversations:
    """The conversations of one task, from any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[str, Conversation] = OrderedDict()
        self._lock = threading.Lock()

    def start(self, opening: Opening) -> str:
        """Store a root node; returns the head."""
        head = self._store.put(bytes_of(opening))
        self._remember(head, Conversation(opening, (), AgentFacts(items=opening.items)))
        return head

    def grow(self, conversation: Conversation, turn: Turn, data: bytes) -> str:
        """Go on with the next node, whose bytes these are, to be stored by the caller; returns the new head. The
        conversation up to the turn's parent is known no longer."""
        head = name_of(data)
        facts = conversation.facts.after(TurnFacts.model_validate(turn.facts))
        self._remember(head, Conversation(conversation.opening, (*conversation.turns, turn), facts), turn.parent)
        return head

    def load(self, head: str) -> Conversation:
        """The conversation that ends in `head`. Raises `LostBlobError` when a node is missing or damaged."""
        newer: list[Turn] = []
        name = head
        while (conversation := self._known.get(name)) is None:
            node = self.node(name)
            if isinstance(node, Opening):
                conversation = Conversation(node, (), AgentFacts(items=node.items))
                break
            newer.append(node)
            name = node.parent
        facts = fold(conversation.facts, (TurnFacts.model_validate(turn.facts) for turn in reversed(newer)))
        conversation = Conversation(conversation.opening, (*conversation.turns, *reversed(newer)), facts)
        self._remember(head, conversation)
        return conversation

    def node(self, name: str) -> Opening | Turn:
        """One node. Raises `LostBlobError`."""
        try:
            return _NODE.validate_json(self._store.get(name))
        except ValueError as error:
            raise LostBlobError(f"blob {name} is no conversation node") from error

    def _remember(self, head: str, conversation: Conversation, parent: str = "") -> None:
        with self._lock:
            self._known.pop(parent, None)
            self._known[head] = conversation
            self._known.move_to_end(head)
            while len(self._known) > CONVERSATIONS_KEPT:
                self._known.popitem(last=False)


def bytes_of(node: Opening | Turn) -> bytes:
    """A node as it is stored; it is named by these bytes (`store.name_of`)."""
    return canonical_json(node.model_dump(mode="json"))

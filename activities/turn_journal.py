"""What the journal holds of a turn: its response, its outcome and the calls that were lost on the way.

The key is that of one run of a workflow, so that a run counts what it asked for itself.
"""

from activities.lost_calls import lost_in_turn, place_of_turn
from activities.store import Store
from baton.conversation import Block, Response
from baton.messages import TurnOutcome
from baton.models import Stored
from baton.pricing import Usage


class Paid(Stored):
    """A journaled response, with the user content that it answers, when it came and how long it took. `lost`: what
    earlier calls of its turn cost that brought nothing. `guidance`: how much of it the content tells; None where an
    older version did not say."""

    user: tuple[Block, ...]
    response: Response
    at: str = ""
    seconds: float = 0.0
    lost: Usage = Usage()
    guidance: int | None = None


def turn_key(run_id: str | None, turn: int, head: str) -> str:
    """The key of the turn that goes on from this head of the conversation."""
    return f"{place_of_turn(run_id, turn)}/{head}"


def is_begun(store: Store, key: str) -> bool:
    """Whether the turn has its response, or is over."""
    return any(store.entry(f"{key}/{what}") is not None for what in ("outcome", "response"))


def unheard(store: Store, run_id: str | None, turn: int, head: str) -> tuple[TurnOutcome, ...]:
    """The turns after this one that were over when their activity died: their workflow did not hear of them."""
    found: list[TurnOutcome] = []
    while (known := store.entry(f"{turn_key(run_id, turn + len(found) + 1, head)}/outcome")) is not None:
        found.append(TurnOutcome.model_validate_json(known))
        head = found[-1].head
    return tuple(found)


def cost_so_far(store: Store, run_id: str | None, turn: int, head: str) -> Usage:
    """What a turn cost that has no outcome: all of it, lost calls included, and those of the turn after it, for which
    the model may have been asked before this one could not be kept."""
    lost = lost_in_turn(store, place_of_turn(run_id, turn)) + lost_in_turn(store, place_of_turn(run_id, turn + 1))
    paid = store.entry(f"{turn_key(run_id, turn, head)}/response")
    return lost if paid is None else lost + Paid.model_validate_json(paid).response.usage

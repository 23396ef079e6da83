"""What the journal holds of a turn: its response, its outcome and the calls that were lost on the way.

The key is that of one run of a workflow, so that a run counts what it asked for itself.
"""

from activities.lost_calls import lost_in_turn
from activities.store import Store
from baton.conversation import Block, Response
from baton.messages import TurnOutcome
from baton.models import Stored
from baton.pricing import Usage


class Paid(Stored):
    """A journaled response, with the user content that it answers, when it came and how long it took. `lost`: what
    earlier calls of its turn cost that brought nothing."""

    user: tuple[Block, ...]
    response: Response
    at: str = ""
    seconds: float = 0.0
    lost: Usage = Usage()


def turn_key(run_id: str | None, turn: int, head: str) -> str:
    """The key of the turn that goes on from this head of the conversation."""
    return f"{run_id}/{turn}/{head}"


def cost_so_far(store: Store, key: str) -> Usage:
    """What a turn cost whose outcome its workflow never got: all of it, lost calls included."""
    if (outcome := store.entry(f"{key}/outcome")) is not None:
        ended = TurnOutcome.model_validate_json(outcome)
        return ended.usage + ended.extra_usage
    lost, paid = lost_in_turn(store, key), store.entry(f"{key}/response")
    return lost if paid is None else lost + Paid.model_validate_json(paid).response.usage

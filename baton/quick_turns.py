"""Quick turns: while an agent's turns are short, one activity takes several of them.

The way over the server costs as much for a turn of a second as for one of a minute. So the workflow says how far the
agent may go on by itself (`Ahead`), and the activity goes on as long as it is young and the last turn left nothing to
decide. Everything else, limits and the line of the budget first of all, ends the activity, and the workflow decides.
"""

from collections.abc import Sequence

from baton.agent import AgentState, Ask, exceeded, is_nearly_full, remaining
from baton.budget import Phase
from baton.conversation import Ending
from baton.messages import Ahead, Assignment, TurnOutcome, TurnRequest
from baton.pricing import Usage

QUICK_SECONDS = 5.0
"""No further turn begins in an activity that is as old as this: what its turns came to is known by then."""
MOST_TURNS = 16
"""Of one activity: its result stays small."""


def ahead(assignment: Assignment, state: AgentState, ask: Ask, directions: int) -> Ahead | None:
    """How far an agent that asks this, and got so many directions, may go on by itself afterwards; None where the
    workflow looks at each turn."""
    turns = min(MOST_TURNS, assignment.max_turns - state.turn) - 1
    if state.turn == 0:
        # Its siblings wait for its first answer.
        return None
    if turns < 1 or ask.prepared or ask.hand_off_asked or ask.warned or state.warned:
        return None
    return Ahead(
        turns=turns,
        directions=directions,
        budget=assignment.budget,
        used_tokens=state.usage.output_tokens,
        context_tokens=assignment.context_tokens,
        most_output_tokens=assignment.most_output_tokens,
    )


def following(request: TurnRequest, done: Sequence[TurnOutcome]) -> TurnRequest | None:
    """The request after these turns, the first of which was `request`; None when the workflow is to decide.

    As `next_move` would have it: a turn of calls, and nothing that the agent has to be told.
    """
    bounds, last = request.ahead, done[-1]
    if bounds is None or len(done) > bounds.turns or not _plain(last) or _again(last, done[:-1]):
        return None
    used = sum((outcome.usage for outcome in done), Usage())
    left = remaining(request.left, all_used := sum((outcome.extra_usage for outcome in done), used))
    tokens = bounds.used_tokens + used.output_tokens
    if exceeded(request.left, all_used) is not None or bounds.budget.phase(tokens) is not Phase.WORKING:
        return None
    if is_nearly_full(bounds.context_tokens, last):
        return None
    most = (bounds.budget.max_tokens(tokens, Phase.WORKING), bounds.most_output_tokens, left.output_tokens)
    return TurnRequest(
        task_id=request.task_id,
        agent_id=request.agent_id,
        role=request.role,
        workspace=request.workspace,
        head=last.head,
        commit=last.commit,
        turn=request.turn + len(done),
        max_tokens=min(bound for bound in most if bound is not None),
        left=left,
        ahead=bounds,
    )


def _plain(outcome: TurnOutcome) -> bool:
    asks = outcome.submitted or outcome.refused_submissions or outcome.asked
    return outcome.ending is Ending.TOOLS and outcome.calls > 0 and not asks


def _again(last: TurnOutcome, before: Sequence[TurnOutcome]) -> bool:
    """Whether it failed, or did what it had just done: that is for the breakers to see."""
    return bool(last.signs.error) or any(last.signs.calls == outcome.signs.calls for outcome in before)

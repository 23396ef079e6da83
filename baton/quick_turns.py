"""Quick turns: while an agent's turns are short, one activity takes several of them.

The way over the server costs as much for a turn of a second as for one of a minute. So the workflow says how far the
agent may go on by itself (`Ahead`), and the activity goes on as long as it is young and the workflow would only ask for
one more turn. Whatever else there is to do ends the activity: a limit, the line of the budget, a word of the breakers.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import takewhile

from baton.agent import AgentState, Ask, exceeded, is_nearly_full, makes_progress, remaining
from baton.breakers import SAME_CALLS, SAME_EDITS, SAME_ERRORS, SAME_WORDS, since_progress
from baton.budget import Phase
from baton.conversation import Ending
from baton.messages import Ahead, Assignment, TurnOutcome, TurnRequest
from baton.pricing import Usage

QUICK_SECONDS = 5.0
"""No further turn begins in an activity that is as old as this, so that what was done is soon known."""
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
    made = Counter(turn.signs.edits for turn in state.seen if turn.signs.edits and turn.progress)
    return Ahead(
        turns=turns,
        directions=directions,
        idle=len(since_progress(state.seen)),
        edits=tuple(edit for edit, times in made.items() if times >= SAME_EDITS - 2),
        budget=assignment.budget,
        used_tokens=state.usage.output_tokens,
        context_tokens=assignment.context_tokens,
        most_output_tokens=assignment.most_output_tokens,
    )


def next_request(request: TurnRequest, done: Sequence[TurnOutcome]) -> TurnRequest | None:
    """The request after these turns, the first of which was `request`; None when the workflow is to decide.

    As `next_move` would have it: a turn of calls, and nothing that the agent has to be told.
    """
    bounds, last = request.ahead, done[-1]
    if bounds is None or len(done) > bounds.turns or not _plain(last) or _may_trip(bounds, done):
        return None
    used = sum((outcome.usage for outcome in done), Usage())
    all_used = sum((outcome.extra_usage for outcome in done), used)
    left = remaining(request.left, all_used)
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


def _may_trip(bounds: Ahead, done: Sequence[TurnOutcome]) -> bool:
    """Whether these turns are for the breakers to see: fewer than any of them needs to trip."""
    last, before = done[-1], done[:-1]
    edits = (*bounds.edits, *(outcome.signs.edits for outcome in before))
    if last.signs.edits and last.signs.edits in edits:
        return True
    idle = list(takewhile(lambda outcome: not makes_progress(outcome), reversed(done)))
    turns = len(idle) + (bounds.idle if len(idle) == len(done) else 0)
    return turns >= min(SAME_CALLS, SAME_ERRORS, SAME_WORDS)

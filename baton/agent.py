"""What an agent does next: one pure decision after every turn.

Every path is bounded: turns, nudges, refused submissions and the single request for a hand-off (invariant 7).
"""

from dataclasses import dataclass

from baton.bounds import CHAIN_AGENTS
from baton.breakers import Seen, Trip, TripKind, limit_trip, remembered, tripped
from baton.budget import Phase
from baton.conversation import Ending, Notice, NoticeKind
from baton.knowledge import Entry
from baton.ledger import ItemRecord
from baton.manifest import HandoffReason
from baton.messages import Assignment, TurnLimits, TurnOutcome
from baton.models import Stored
from baton.pricing import Usage
from baton.roles import SUBMISSION_TOOLS

MAX_NUDGES = 3
"""Responses in a row that ask for no tool and submit nothing."""

CONTEXT_SHARE = 0.9
"""Of the model's window; beyond it the next request might not fit any more."""

MAX_REFUSED_SUBMISSIONS = 3
"""Plans or results sent back with their faults named."""


class AgentState(Stored):
    """Where an agent stands between two turns."""

    head: str
    commit: str
    turn: int = 0
    usage: Usage = Usage()
    last: TurnOutcome | None = None
    prepared: bool = False
    hand_off_asked: bool = False
    silent: int = 0
    refused_submissions: int = 0
    extra_usage: Usage = Usage()
    records: tuple[ItemRecord, ...] = ()
    knowledge: tuple[Entry, ...] = ()
    inherited: tuple[Entry, ...] = ()
    changed_files: bool = False
    seen: tuple[Seen, ...] = ()
    warned: bool = False

    @property
    def progressed(self) -> bool:
        """An item, a diff or a finding: what makes a handoff more than a repetition."""
        return bool(self.records or self.knowledge or self.changed_files)

    def after(self, outcome: TurnOutcome) -> "AgentState":
        """The state after one more turn."""
        silent = outcome.ending in {Ending.SILENT, Ending.TOOLS, Ending.PAUSED} and outcome.calls == 0
        return self.model_copy(
            update={
                "head": outcome.head,
                "commit": outcome.commit,
                "turn": self.turn + 1,
                "usage": self.usage + outcome.usage,
                "last": outcome,
                "silent": self.silent + 1 if silent else 0,
                "refused_submissions": self.refused_submissions + outcome.refused_submissions,
                "extra_usage": self.extra_usage + outcome.extra_usage,
                "records": (*self.records, *outcome.items),
                "knowledge": (*self.knowledge, *outcome.knowledge),
                "changed_files": self.changed_files or outcome.files_changed > 0,
                "seen": remembered(self.seen, _seen(self.turn + 1, outcome)),
            }
        )

    def asked(self, ask: "Ask") -> "AgentState":
        """The state with what the last request said; a warning has the breakers look at what comes after it."""
        return self.model_copy(
            update={
                "prepared": self.prepared or ask.prepared,
                "hand_off_asked": ask.hand_off_asked,
                "warned": self.warned or ask.warned,
                "seen": self.seen[-1:] if ask.warned else self.seen,
            }
        )


@dataclass(frozen=True)
class Ask:
    """Make one more request, with these notices and at most so many tokens."""

    max_tokens: int
    notices: tuple[Notice, ...] = ()
    prepared: bool = False
    hand_off_asked: bool = False
    warned: bool = False


@dataclass(frozen=True)
class HandOff:
    """Hand a manifest to a successor. `trip`: why a fresh agent is to go on."""

    reason: HandoffReason
    trip: Trip | None = None


@dataclass(frozen=True)
class Finish:
    """The agent submitted its work."""


@dataclass(frozen=True)
class Stop:
    """The chain cannot go on: a limit or a fault, told in one sentence. `limit`: with a larger allowance it could."""

    blocked: bool
    detail: str
    limit: bool = False
    trip: Trip | None = None


Move = Ask | HandOff | Finish | Stop


def next_move(assignment: Assignment, state: AgentState, guidance: tuple[str, ...] = ()) -> Move:
    """What to do now."""
    return _after_last(assignment, state) or _limit_reached(assignment, state) or _ask(assignment, state, guidance)


def _after_last(assignment: Assignment, state: AgentState) -> Move | None:
    last = state.last
    if last is None:
        return None
    if last.submitted == SUBMISSION_TOOLS[assignment.role]:
        return Finish()
    if last.submitted == "hand_off":
        return HandOff(HandoffReason.OUTPUT_LIMIT)
    if last.ending is Ending.REFUSED:
        return Stop(blocked=True, detail="the model refused to go on with this work")
    if last.ending is Ending.CONTEXT_FULL:
        return HandOff(HandoffReason.CONTEXT_LIMIT)
    if state.hand_off_asked:
        return HandOff(HandoffReason.OUTPUT_LIMIT)
    if state.silent > MAX_NUDGES:
        return Stop(blocked=True, detail=f"the model ended {state.silent} responses in a row without doing anything")
    if state.refused_submissions >= MAX_REFUSED_SUBMISSIONS:
        return Stop(blocked=True, detail=f"what it submitted was sent back {state.refused_submissions} times")
    return None


def _limit_reached(assignment: Assignment, state: AgentState) -> Move | None:
    if (trip := exceeded(assignment.allowance, state.usage + state.extra_usage)) is not None:
        return Stop(blocked=False, detail=trip.evidence, limit=True, trip=trip)
    if assignment.generation > CHAIN_AGENTS:
        trip = limit_trip(TripKind.MAX_DEPTH, f"{CHAIN_AGENTS} agents followed one another on this work")
        return Stop(blocked=False, detail=trip.sentence, trip=trip)
    if state.turn >= assignment.max_turns:
        return HandOff(HandoffReason.OUTPUT_LIMIT)
    if is_nearly_full(assignment.context_tokens, state.last):
        return HandOff(HandoffReason.CONTEXT_LIMIT)
    return None


def _ask(assignment: Assignment, state: AgentState, guidance: tuple[str, ...]) -> Move:
    budget, used = assignment.budget, state.usage.output_tokens
    cut = state.last is not None and state.last.ending is Ending.CUT
    phase = budget.phase(used, cut)
    if phase is Phase.SPENT:
        return HandOff(HandoffReason.OUTPUT_LIMIT)
    trip = None if phase is Phase.HANDING_OFF else tripped(state.seen, has_items=bool(assignment.items))
    if trip is not None and state.warned:
        return _after_a_warning(assignment, trip)
    notices = [Notice(kind=NoticeKind.GUIDANCE, text=text) for text in guidance]
    if trip is not None:
        notices.append(Notice(kind=NoticeKind.NUDGE, text=f"{trip.evidence}. What to do: {trip.recommendation}."))
    elif state.silent and state.last is not None and state.last.ending is not Ending.PAUSED:
        notices.append(Notice(kind=NoticeKind.NUDGE, text=""))
    if phase is Phase.PREPARING and not state.prepared:
        notices.append(Notice(kind=NoticeKind.BUDGET_80, text=""))
    if phase is Phase.HANDING_OFF:
        notices.append(Notice(kind=NoticeKind.BUDGET_95, text=""))
    return Ask(
        max_tokens=_at_most(budget.max_tokens(used, phase), assignment, state),
        notices=tuple(notices),
        prepared=state.prepared or phase is not Phase.WORKING,
        hand_off_asked=phase is Phase.HANDING_OFF,
        warned=trip is not None,
    )


def _after_a_warning(assignment: Assignment, trip: Trip) -> Move:
    """A fresh agent with a re-brief; where one was tried before, the end of the chain with what it has."""
    if assignment.totals.trips:
        return Stop(blocked=False, detail=trip.sentence, trip=trip)
    return HandOff(HandoffReason.ERROR_RECOVERY, trip)


def _seen(turn: int, outcome: TurnOutcome) -> Seen:
    return Seen(turn=turn, doing=outcome.doing[:80], progress=makes_progress(outcome), signs=outcome.signs)


def makes_progress(outcome: TurnOutcome) -> bool:
    """Whether a turn changed a file, finished an item or recorded something."""
    return bool(outcome.files_changed or outcome.items or outcome.knowledge)


def _at_most(tokens: int, assignment: Assignment, state: AgentState) -> int:
    """What may be asked for: not more than the model writes in one response, nor than the task's limit leaves."""
    bounds = [tokens]
    if assignment.most_output_tokens is not None:
        bounds.append(assignment.most_output_tokens)
    if assignment.allowance.output_tokens is not None:
        spent = state.usage.output_tokens + state.extra_usage.output_tokens
        bounds.append(max(1, assignment.allowance.output_tokens - spent))
    return min(bounds)


def is_nearly_full(context_tokens: int | None, last: TurnOutcome | None) -> bool:
    """Whether a request after this turn might not fit into a window of so many tokens."""
    if context_tokens is None or last is None:
        return False
    used = last.usage.total_input_tokens + last.usage.output_tokens
    return used >= context_tokens * CONTEXT_SHARE


def exceeded(allowance: TurnLimits, usage: Usage) -> Trip | None:
    """Which limit is reached; None when there is room for one more call. Zero allows none."""
    calls, tokens, cost = allowance.model_calls, allowance.output_tokens, allowance.cost_usd
    if calls is not None and usage.model_calls >= calls:
        return limit_trip(TripKind.MAX_CALLS, f"the limit of model calls is reached ({calls} were left for this work)")
    if tokens is not None and usage.output_tokens >= tokens:
        left = f"({tokens} were left for this work)"
        return limit_trip(TripKind.TOKEN_LIMIT, f"the limit of output tokens is reached {left}")
    if cost is not None and usage.cost_usd >= cost:
        left = f"({cost:.2f} USD were left for this work)"
        return limit_trip(TripKind.TOKEN_LIMIT, f"the cost limit is reached {left}")
    return None


def remaining(allowance: TurnLimits, usage: Usage) -> TurnLimits:
    """What is left of an allowance after `usage`."""
    return TurnLimits(
        cost_usd=None if allowance.cost_usd is None else max(allowance.cost_usd - usage.cost_usd, usage.cost_usd * 0),
        output_tokens=None
        if allowance.output_tokens is None
        else max(allowance.output_tokens - usage.output_tokens, 0),
        model_calls=None if allowance.model_calls is None else max(allowance.model_calls - usage.model_calls, 0),
    )

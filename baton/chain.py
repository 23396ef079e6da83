"""From one agent to the next, and from the last one to the result: what a chain of agents carries on.

Pure: the workflow knows the state and the manifest, this says what the successor gets.
"""

from baton.agent import AgentState, remaining
from baton.bounds import FRUITLESS_HANDOFFS
from baton.breakers import Trip
from baton.budget import Budget
from baton.knowledge import Knowledge
from baton.ledger import ItemCounts, ItemRecord, ItemStatus, counts, merge
from baton.manifest import HandoffReason, Manifest
from baton.messages import AgentEvent, AgentResult, Assignment, ChainTotals, ClosedAgent, EventKind, HandoffRow
from baton.roles import Role, agent_id
from baton.states import AgentEnd

MORE_BUDGET, SKIP_ITEM, REPLAN, STOP = "more_budget", "skip_item", "replan", "stop"


def no_progress_choices(role: Role) -> tuple[str, ...]:
    """What a person may choose when a chain goes on without progress. Only an executor has items and a plan."""
    return (MORE_BUDGET, SKIP_ITEM, REPLAN, STOP) if role is Role.EXECUTOR else (MORE_BUDGET, STOP)


def may_be_fruitless(assignment: Assignment, state: AgentState) -> bool:
    """Whether a handoff now could be one too many without progress; the manifest then tells for certain."""
    stuck_before = assignment.manifest is not None and assignment.manifest.in_progress_item is not None
    return stuck_before or (not state.progressed and assignment.totals.fruitless > 0)


def successor(assignment: Assignment, state: AgentState, manifest: Manifest, choice: str | None = None) -> Assignment:
    """The assignment of the next agent: what is left, and everything that is known.

    `choice`: a person's answer to a chain without progress; it starts the count of fruitless handoffs anew.
    """
    skipped = _skipped(assignment, manifest) if choice == SKIP_ITEM else ()
    done = (*state.records, *skipped)
    finished = {record.item for record in done}
    paused = manifest.reason is HandoffReason.PAUSED
    fruitless = 0 if choice or state.progressed else assignment.totals.fruitless + (0 if paused else 1)
    if not choice and manifest.repeats(assignment.manifest):
        fruitless = FRUITLESS_HANDOFFS
    return assignment.model_copy(
        update={
            "generation": assignment.generation + 1,
            "items": tuple(item for item in assignment.items if item not in finished),
            "done": (*assignment.done, *done),
            "manifest": manifest,
            "waited": (),
            "knowledge": knowledge_after(assignment, state),
            "chain": manifest.chain,
            "budget": _doubled(assignment.budget) if choice == MORE_BUDGET else assignment.budget,
            "predecessor_head": None if manifest.reason is HandoffReason.ERROR_RECOVERY else state.head,
            "successors_left": None if assignment.successors_left is None else assignment.successors_left - 1,
            "allowance": remaining(assignment.allowance, state.usage + state.extra_usage),
            "totals": chain_totals(assignment, state).model_copy(
                update={
                    "handoffs": assignment.totals.handoffs + 1,
                    "fruitless": fruitless,
                    "trips": assignment.totals.trips + (manifest.trip is not None),
                }
            ),
        }
    )


def result(
    assignment: Assignment,
    state: AgentState | None,
    closed: ClosedAgent | None,
    end: AgentEnd,
    detail: str,
    trip: Trip | None = None,
) -> AgentResult:
    """What the chain came to. `trip`: the breaker that ended it."""
    own = state.records if state else ()
    return AgentResult(
        agent_id=agent_id(assignment.name, assignment.generation),
        end=end,
        detail=detail,
        submission=closed.submission if closed else None,
        plan=closed.plan if closed else None,
        items=_all_records(assignment, own),
        knowledge=knowledge_after(assignment, state),
        totals=chain_totals(assignment, state),
        commit=state.commit if state else assignment.start_commit,
        trip=trip,
        changed=closed.changed if closed else (),
    )


def chain_totals(assignment: Assignment, state: AgentState | None) -> ChainTotals:
    """What the chain used up to and with this agent."""
    before = assignment.totals
    if state is None:
        return before
    return before.model_copy(
        update={
            "usage": before.usage + state.usage + state.extra_usage,
            "agents": before.agents + 1,
            "turns": before.turns + state.turn,
        }
    )


def knowledge_after(assignment: Assignment, state: AgentState | None) -> Knowledge:
    """The knowledge with what this agent recorded."""
    return assignment.knowledge.with_entries((*state.inherited, *state.knowledge) if state else ())


def agent_event(
    kind: EventKind, workflow_id: str, assignment: Assignment, state: AgentState | None, handoff: ClosedAgent | None
) -> AgentEvent:
    """How the agent stands, for its parent and for its own status query."""
    return AgentEvent(
        kind=kind,
        agent_id=agent_id(assignment.name, assignment.generation),
        workflow_id=workflow_id,
        step=assignment.step.step if assignment.step else None,
        role=Role(assignment.role),
        turn=state.turn if state else 0,
        used_tokens=state.usage.output_tokens if state else 0,
        budget_tokens=assignment.budget.tokens,
        usage=chain_totals(assignment, state).usage,
        agents=assignment.totals.agents + 1,
        items=_counts(assignment, state),
        doing=state.last.doing if state and state.last else "",
        handoff=_row(handoff) if handoff else None,
    )


def _row(closed: ClosedAgent) -> HandoffRow:
    manifest = closed.manifest
    return HandoffRow(
        agent_id=manifest.from_agent.id,
        successor_id=manifest.to_agent.id if manifest.to_agent else "",
        step=manifest.step,
        reason=manifest.reason,
        completed=len(manifest.completed_items),
        pending=len(manifest.pending_items),
        in_progress=manifest.in_progress_item.file if manifest.in_progress_item else None,
        corrections=len(manifest.verification.corrections),
        file=closed.file,
        at=manifest.chain[-1].at,
    )


def _skipped(assignment: Assignment, manifest: Manifest) -> tuple[ItemRecord, ...]:
    """The item the chain is stuck at, as skipped by a person."""
    in_progress = manifest.in_progress_item.file if manifest.in_progress_item else None
    item = in_progress if in_progress in assignment.items else next(iter(manifest.pending_items), None)
    if item is None:
        return ()
    note = "skipped by a person: no progress"
    return (ItemRecord(item=item, status=ItemStatus.SKIPPED, agent_id=manifest.from_agent.id, note=note),)


def _doubled(budget: Budget) -> Budget:
    return budget.model_copy(update={"tokens": budget.tokens * 2})


def _all_records(assignment: Assignment, own: tuple[ItemRecord, ...]) -> tuple[ItemRecord, ...]:
    return merge(assignment.step.items if assignment.step else (), assignment.done, own)


def _counts(assignment: Assignment, state: AgentState | None) -> ItemCounts:
    return counts(_all_records(assignment, state.records if state else ()))

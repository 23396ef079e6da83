"""From what a chain of agents left to what a step came to, and from all steps to what the task came to.

States are computed from the ledger and the gates, never from what an agent says of itself (invariant 2).
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from baton.breakers import undoing_trip
from baton.facts import Submission
from baton.findings import GateVerdict, ready
from baton.ledger import ItemCounts, ItemRecord, ItemStatus, counts, merge
from baton.merging import finding_of
from baton.messages import AgentResult, ChainTotals, MergedStep, StepResult
from baton.plan import PlanStep
from baton.pricing import Usage
from baton.recovery import is_persistent
from baton.reviews import review_findings, review_gaps
from baton.states import AgentEnd, StepStatusWord, TaskState


def step_result(step: PlanStep, agent: AgentResult, merged: MergedStep | None) -> StepResult:
    """What the step came to: `ok` needs every item done, an agent that finished, and a merge without conflict."""
    said = agent.submission.input if agent.submission and agent.submission.tool == "finish_step" else {}
    item_counts = counts(agent.items)
    blockers = list(said.get("blockers", ()))
    if merged is not None and merged.conflicts:
        blockers.append("merging conflicts in " + ", ".join(merged.conflicts))
    if agent.end is not AgentEnd.FINISHED and agent.detail:
        blockers.append(agent.detail)
    status = _status(agent, item_counts, said.get("status"), merged)
    # A repair may well take back what made a gate fail.
    undoing = undoing_trip(merged.undoes) if merged and not step.repair_round else None
    if undoing is not None:
        status = StepStatusWord.PARTIAL
        blockers.append(undoing.sentence)
    return StepResult(
        step=step.step,
        agent_type=step.agent_type,
        description=step.description,
        status=status,
        summary=said.get("summary", "") or agent.detail,
        findings=(*said.get("findings", ()), *_resolved(merged), *review_findings(agent.reviews)),
        criteria=tuple(said.get("criteria", ())),
        files_changed=merged.files_changed if merged else (),
        blockers=tuple(blockers),
        verification_gaps=(*said.get("verification_gaps", ()), *review_gaps(agent.reviews)),
        items=item_counts,
        agents=agent.totals.agents,
        handoffs=agent.totals.handoffs,
        usage=agent.totals.usage,
        commit=merged.commit if merged and merged.merged else None,
        trip=agent.trip or undoing,
        reviews=agent.reviews,
        persistent=is_persistent(step, agent, merged, status),
        unmerged=bool(merged and merged.conflicts),
    )


def _resolved(merged: MergedStep | None) -> tuple[dict[str, Any], ...]:
    return tuple(finding_of(resolution) for resolution in merged.resolutions) if merged is not None else ()


def combined(step: PlanStep, chains: Sequence[AgentResult], not_started: Sequence[str] = ()) -> AgentResult:
    """The chains of a step's shards as one: finished when all are; `not_started` says why some never began."""
    if len(chains) == 1 and not not_started:
        return chains[0]
    unfinished = [chain for chain in chains if chain.end is not AgentEnd.FINISHED]
    said = [chain.submission.input for chain in chains if chain.submission is not None]
    whole = unfinished[0].end if unfinished else AgentEnd.STOPPED if not_started else AgentEnd.FINISHED
    statuses = {entry.get("status") for entry in said}
    submission = {
        "status": "ok" if statuses == {"ok"} else "partial",
        "summary": " ".join(dict.fromkeys(str(entry.get("summary", "")) for entry in said)),
        **{
            key: list({json.dumps(row, sort_keys=True): row for entry in said for row in entry.get(key, ())}.values())
            for key in ("findings", "criteria", "blockers", "verification_gaps")
        },
    }
    return AgentResult(
        agent_id=chains[0].agent_id,
        end=whole,
        detail="; ".join(dict.fromkeys([*(c.detail for c in unfinished if c.detail), *not_started])),
        submission=Submission(tool="finish_step", input=submission),
        items=merge(step.items, *(chain.items for chain in chains)),
        knowledge=chains[-1].knowledge,
        totals=ChainTotals(
            usage=sum((chain.totals.usage for chain in chains), Usage()),
            agents=sum(chain.totals.agents for chain in chains),
            handoffs=sum(chain.totals.handoffs for chain in chains),
            turns=sum(chain.totals.turns for chain in chains),
        ),
        commit=chains[-1].commit,
        trip=next((chain.trip for chain in unfinished if chain.trip), None),
        reviews=tuple(review for chain in chains for review in chain.reviews),
        rejected=any(chain.rejected for chain in chains),
        stopped_by_person=any(chain.stopped_by_person for chain in chains),
    )


def nothing_needed(step: PlanStep) -> StepResult:
    """A step for what others need in hub files, where nobody needed anything."""
    return StepResult(
        step=step.step,
        agent_type=step.agent_type,
        description=step.description,
        status=StepStatusWord.OK,
        summary="No step recorded a need, so there was nothing to do.",
    )


def not_attempted(step: PlanStep, why: str) -> StepResult:
    """A step that never started."""
    return StepResult(
        step=step.step,
        agent_type=step.agent_type,
        description=step.description,
        status=StepStatusWord.NOT_ATTEMPTED,
        blockers=(why,),
        items=ItemCounts(total=len(step.items), open=len(step.items)),
    )


def broken(step: PlanStep, why: str, records: Sequence[ItemRecord]) -> StepResult:
    """A step whose result could not be brought home: nothing of it is on the result."""
    rows = merge(step.items, records)
    return StepResult(
        step=step.step,
        agent_type=step.agent_type,
        description=step.description,
        status=StepStatusWord.FAILED,
        blockers=(why,),
        items=counts(_failed(rows, why)),
    )


def unmerged(agent: AgentResult, conflicts: Sequence[str]) -> AgentResult:
    """A chain whose work is not on the result: what it finished does not count as done (invariant 2)."""
    why = "not on the result: merging conflicts in " + ", ".join(conflicts[:5])
    return agent.model_copy(update={"items": _failed(agent.items, why)})


def task_state(results: Sequence[StepResult], verdicts: Iterable[GateVerdict], cancelled: bool = False) -> TaskState:
    """What the task came to."""
    if cancelled:
        return TaskState.CANCELLED
    if results and all(result.status in _FRUITLESS for result in results):
        return TaskState.FAILED
    if any(result.status is not StepStatusWord.OK for result in results) or not ready(list(verdicts)):
        return TaskState.PARTIAL
    return TaskState.DONE


_FRUITLESS = {StepStatusWord.FAILED, StepStatusWord.BLOCKED, StepStatusWord.NOT_ATTEMPTED}


def _status(agent: AgentResult, items: ItemCounts, said: object, merged: MergedStep | None) -> StepStatusWord:
    if merged is not None and merged.conflicts:
        return StepStatusWord.FAILED
    complete = items.done == items.total
    if agent.end is AgentEnd.FINISHED and said == "ok" and complete:
        return StepStatusWord.OK
    if agent.end is AgentEnd.FINISHED and said in {"blocked", "failed"} and not items.done:
        return StepStatusWord(said)
    something = items.done > 0 or bool(merged and merged.files_changed)
    if something or (agent.end is AgentEnd.FINISHED and said != "failed"):
        return StepStatusWord.PARTIAL
    return StepStatusWord.BLOCKED if agent.end is AgentEnd.BLOCKED else StepStatusWord.FAILED


def _failed(records: Iterable[ItemRecord], why: str) -> tuple[ItemRecord, ...]:
    return tuple(
        record.model_copy(update={"status": ItemStatus.FAILED, "note": why}) if record.status.finished else record
        for record in records
    )

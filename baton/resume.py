"""Going on with a task that was cancelled, failed or stayed partial: what is done is kept, only the rest runs again.

The evidence is the progress that was told last, and what checkpoints on branches that were never merged vouch for.
"""

from collections.abc import Sequence

from pydantic import Field

from baton.knowledge import Knowledge
from baton.layout import branch_name
from baton.ledger import ItemCounts, ItemRecord, counts, grouped, merge, ungrouped
from baton.messages import AgentResult, ChainTotals, StepResult
from baton.models import Stored
from baton.plan import PlanStep
from baton.pricing import Usage
from baton.progress import Earlier, Progress, Salvaged, Unmerged
from baton.schedule import branch_prefix
from baton.states import AgentEnd, StepStatusWord, TaskState
from baton.status import TaskStatus

NOT_CONFIRMED = "all items are done; no agent confirmed the step itself, because its chain was stopped"


class Resumed(Stored):
    """Where the task goes on."""

    progress: Progress
    unmerged: tuple[Unmerged, ...] = Field(default=())


def resumed(progress: Progress, salvaged: Sequence[Salvaged]) -> Resumed:
    """The progress to go on with: finished steps stay, all others are to do, without the items that are done.

    A partial step with no item left stays as well, with its status and what it lacks: no agent would have work there.
    """
    plan, usage = progress.plan, sum((one.usage for one in salvaged), progress.status.usage)
    agents = sum(one.agents for one in salvaged)
    steps = plan.plan if plan is not None and progress.approved else ()
    kept, earlier = {}, {}
    for step in steps:
        result = progress.results.get(step.step)
        before = _earlier(step, result, progress)
        if result is not None and (result.status is StepStatusWord.OK or before.is_whole(step)):
            kept[step.step] = result
        elif before.records or before.result:
            earlier[step.step] = before
    after = progress.model_copy(
        update={
            "status": _status(progress.status, kept, earlier, usage, agents),
            "agents": progress.agents + agents,
            "round": 1,
            "replan_wanted": False,
            "results": kept,
            "earlier": earlier,
            "starts": {},
            "chains": {},
            "labels": (),
            "left_behind": {},
            "knowledge": Knowledge(entries=progress.knowledge)
            .with_entries(entry for one in salvaged for entry in one.knowledge)
            .entries,
            "verdicts": (),
            "settings": None,
        }
    )
    open_steps = {step.step: step for step in steps if step.step in open_or_unmerged(progress)}
    return Resumed(progress=after, unmerged=_unmerged(open_steps, salvaged))


def open_or_unmerged(progress: Progress) -> frozenset[int]:
    """The steps whose branches may hold what is not on the result: without a result, or with one that did not merge."""
    steps = progress.plan.plan if progress.plan is not None else ()
    results = progress.results
    return frozenset(one.step for one in steps if one.step not in results or results[one.step].unmerged)


def rest(step: PlanStep, earlier: Earlier | None) -> PlanStep:
    """The step with the items that are left of it."""
    if earlier is None:
        return step
    records = ungrouped(earlier.records)
    if not records:
        return step
    known = {record.item for record in records}
    left = [record.item for record in records if not record.status.finished]
    taken = [item for item in step.items if item not in known] if step.failures_of is not None else []
    return step.model_copy(update={"items": tuple(left + taken)})


def put_together(
    earlier: Earlier, result: StepResult, records: Sequence[ItemRecord]
) -> tuple[StepResult, tuple[ItemRecord, ...]]:
    """The result of the whole step, and the records of all its items, from what was done before and now."""
    before, first = ungrouped(earlier.records), earlier.result
    items = dict.fromkeys([*(record.item for record in before), *(record.item for record in records)])
    rows = merge(items, before, records)
    told = counts(rows) if rows else result.items
    if first is None:
        return result.model_copy(update={"items": told}), rows
    status = result.status
    if told.done < told.total if status is StepStatusWord.OK else told.done:
        status = StepStatusWord.PARTIAL
    whole = result.model_copy(
        update={
            "status": status,
            "items": told,
            "findings": (*first.findings, *result.findings),
            "files_changed": tuple(sorted({*first.files_changed, *result.files_changed})),
            "agents": first.agents + result.agents,
            "handoffs": first.handoffs + result.handoffs,
            "usage": first.usage + result.usage,
            "commit": result.commit or first.commit,
        }
    )
    return whole, rows


def confirmed(result: StepResult) -> StepResult:
    """The result of a step whose chain was interrupted when all items were done, before it said so; one that a breaker
    or bound ended stays as it is."""
    if result.trip is not None:
        return result
    gaps = (*result.verification_gaps, NOT_CONFIRMED)
    return result.model_copy(update={"status": StepStatusWord.OK, "verification_gaps": gaps, "blockers": ()})


def only_done(records: Sequence[ItemRecord]) -> tuple[ItemRecord, ...]:
    """The records with every item open that is not done."""
    return tuple(record if record.status.done else ItemRecord(item=record.item) for record in records)


def _earlier(step: PlanStep, result: StepResult | None, progress: Progress) -> Earlier:
    """What is kept of an unfinished step: its done items and what it used; skipped and failed ones are open again."""
    rows = progress.ledger.get(step.step, ())
    if before := progress.earlier.get(step.step):
        known = only_done(ungrouped(before.records))
        rows = merge([record.item for record in known], known, rows)
        result = result or before.result
    again = only_done(rows)
    return Earlier(result=result, records=grouped(again) if any(r.status.done for r in again) else ())


def _unmerged(steps: dict[int, PlanStep], salvaged: Sequence[Salvaged]) -> tuple[Unmerged, ...]:
    found = []
    for number, step in steps.items():
        own = [one for one in salvaged if one.step == number]
        if not own:
            continue
        totals = ChainTotals(usage=sum((one.usage for one in own), Usage()), agents=sum(one.agents for one in own))
        agent = AgentResult(
            agent_id=_branch(own[-1]),
            end=AgentEnd.STOPPED,
            detail="it was interrupted",
            items=merge(step.items, *(ungrouped(one.records) for one in own)),
            totals=totals,
            commit=own[-1].tip,
        )
        found.append(Unmerged(step=number, branches=tuple(map(_branch, own)), agent=agent))
    return tuple(found)


def _branch(one: Salvaged) -> str:
    return one.branch or branch_prefix(0) + one.label


def _status(
    status: TaskStatus,
    kept: dict[int, StepResult],
    earlier: dict[int, Earlier],
    usage: Usage,
    agents: int,
) -> TaskStatus:
    steps = []
    for step in status.steps:
        if step.step in kept:
            steps.append(step.model_copy(update={"state": str(kept[step.step].status)}))
            continue
        done = counts(ungrouped(earlier[step.step].records)) if step.step in earlier else ItemCounts()
        left = step.items.total - done.done
        items = done.model_copy(update={"total": step.items.total, "open": max(0, left)})
        steps.append(step.model_copy(update={"state": "pending", "items": items}))
    return status.model_copy(
        update={
            "state": TaskState.RUNNING,
            "closed_at": None,
            "steps": tuple(steps),
            "agents_at_work": (),
            "usage": usage,
            "agents": status.agents + agents,
            "attention": tuple(item for item in status.attention if not item.workflow_id),
            "rejected_signals": (),
            "paused": False,
            "paused_since": None,
            "summary": "",
        }
    )


def unknown(task_id: str) -> str:
    """Why a task that left nothing on this host cannot go on."""
    return f"nothing is known of a task {task_id!r} on this host: there is nothing to resume"


def already_done(task_id: str) -> str:
    """Why a task that is done does not go on."""
    return f"the task {task_id} is done: there is nothing to resume"


def without_repository(task_id: str, path: str) -> str:
    """Why a task whose private repository is gone cannot go on. `path`: where it was."""
    return (
        f"the private repository of {task_id} is gone ({path}), and with it all work that was not published: start a "
        f"new task, from the result if there is one: orchestrate run … --base {branch_name(task_id)}"
    )

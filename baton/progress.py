"""Progress: everything a task needs to go on, in another run of its workflow or after a resume; `state.json`.

The workflow holds it in memory and tells this host what is new after every merge; the host folds that into the file.
So a save costs what changed, whatever the size of the task, and the file alone is enough to go on.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from pydantic import Field

from baton.findings import GateResult, GateVerdict
from baton.gate_trail import GateTrail
from baton.knowledge import Entry, Knowledge
from baton.ledger import ItemRecord, RecordGroup, grouped, ungrouped
from baton.messages import (
    AgentResult,
    HandoffRow,
    OpenedTask,
    Redone,
    StepResult,
    TaskInput,
    WaitingConflict,
    WriteArtifacts,
)
from baton.models import Stored
from baton.performance import Size
from baton.plan import Plan, PlanStep
from baton.pricing import Usage
from baton.settings import Settings
from baton.status import TaskStatus
from baton.steering import Remark


class Answer(Stored):
    """A person's answer to a question."""

    choice: str
    comment: str = ""


class ChainEnd(Stored):
    """The end of a chain whose step has no result yet; `result` without items and knowledge, which stand elsewhere."""

    result: AgentResult
    records: tuple[RecordGroup, ...] = ()

    @classmethod
    def of(cls, result: AgentResult) -> "ChainEnd":
        """The end of the chain that came to this."""
        bare = result.model_copy(update={"items": (), "knowledge": Knowledge()})
        return cls(result=bare, records=grouped(result.items))

    @property
    def whole(self) -> AgentResult:
        """The chain's result; what it learned is part of the task's knowledge already."""
        return self.result.model_copy(update={"items": ungrouped(self.records)})


class Earlier(Stored):
    """What an earlier start of the task left of a step that goes on: its result then, and the records of its items,
    none where no item is finished."""

    result: StepResult | None = None
    records: tuple[RecordGroup, ...] = ()

    def is_whole(self, step: PlanStep) -> bool:
        """Whether every item is done; what was skipped or failed is left to do."""
        return bool(step.items) and bool(self.records) and all(group.status.done for group in self.records)


class Unmerged(Stored):
    """Branches of one step that are to be put on the result before its rest is done; `agent`: what they hold."""

    step: int
    branches: tuple[str, ...]
    agent: AgentResult


class Progress(Stored):
    """Where a task stands.

    `revision`: a name of this state. `since`: the revision that this one adds to; empty: it is the whole. `active`:
    how long the task ran, time between a stop and a resume left out. `agents`: those counted against `maxAgents`.
    `asked`: questions asked so far. `settings`: those that hold now, with limits that a person changed since the start.
    `proposed`, `approved`: the plan waits for a person; it may run. `round`: how often a plan was executed.
    `replan_wanted`: a person asked for a new plan.
    `records`: by step, also of steps that will go on. `starts` and `chains`: where a step began whose result is still
    open, and the ends of those of its chains that are through, by their label (`labels`: all of them). `merged`: the
    tips of branches that are on the result, by label. `earlier`: by step, from before a resume. `baseline`: None before
    it is known.
    `after_merges`: what gates said of each step that was merged alone since they ran last (`trail`).
    `resolutions`: conflicts laid out so far.
    `left_behind`: by step, what an earlier start left on branches and does not merge.
    `again`: steps that a person had done again. `conflicts`: laid out, and waiting for a person.
    """

    revision: str = ""
    since: str = ""
    task_id: str = ""
    status: TaskStatus = TaskStatus()
    head: str = ""
    active: timedelta = timedelta()
    agents: int = 0
    asked: int = 0
    answers: dict[str, Answer] = Field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    guidance: tuple[Remark, ...] = ()
    settings: Settings | None = None
    round: int = 1
    plan: Plan | None = None
    proposed: bool = False
    approved: bool = False
    replan_wanted: bool = False
    results: dict[int, StepResult] = Field(default_factory=dict)
    records: dict[int, tuple[RecordGroup, ...]] = Field(default_factory=dict)
    starts: dict[int, str] = Field(default_factory=dict)
    chains: dict[str, ChainEnd] = Field(default_factory=dict)
    labels: tuple[str, ...] = ()
    merged: dict[str, str] = Field(default_factory=dict)
    earlier: dict[int, Earlier] = Field(default_factory=dict)
    knowledge: tuple[Entry, ...] = ()
    handoffs_before: int = 0
    handoffs: tuple[HandoffRow, ...] = ()
    baseline: tuple[GateResult, ...] | None = None
    verdicts: tuple[GateVerdict, ...] = ()
    sizes_before: tuple[Size, ...] = ()
    sizes: tuple[Size, ...] = ()
    integration: dict[str, Any] = Field(default_factory=dict)
    after_merges: dict[int, tuple[GateVerdict, ...]] = Field(default_factory=dict)
    trail: GateTrail = GateTrail()
    resolutions: int = 0
    left_behind: dict[int, Unmerged] = Field(default_factory=dict)
    again: dict[int, Redone] = Field(default_factory=dict)
    conflicts: dict[int, WaitingConflict] = Field(default_factory=dict)

    @property
    def ledger(self) -> dict[int, tuple[ItemRecord, ...]]:
        """The records of every step, in the order of its items."""
        return {step: ungrouped(groups) for step, groups in self.records.items()}


class SaveProgress(WriteArtifacts):
    """Input of `write_artifacts`: files for people, and what is new of the task's progress.

    `for_next_run`: the next run of the workflow starts from this very revision, whatever comes after it.
    """

    progress: Progress | None = None
    for_next_run: bool = False


class LoadProgress(Stored):
    """Input of `load_progress`: a revision that was kept for the next run; empty: the newest state."""

    task_id: str
    revision: str = ""


class Salvaged(Stored):
    """What a chain did whose `branch` was never put on the result. `usage` and `agents`: what was not counted yet."""

    step: int
    label: str
    tip: str
    branch: str = ""
    records: tuple[RecordGroup, ...] = ()
    knowledge: tuple[Entry, ...] = ()
    usage: Usage = Usage()
    agents: int = 0


class LoadedProgress(Stored):
    """Result of `load_progress`. No progress where none was told before the task ended. `salvaged`: of a resume, what
    branches hold that are not on the result."""

    opened: OpenedTask
    input: TaskInput
    progress: Progress | None = None
    salvaged: tuple[Salvaged, ...] = ()


class OtherRevisionError(ValueError):
    """What is to be added does not fit the state that is there."""


_BY_KEY = ("results", "records")
"""Fields that grow with the task; of these only what changed is told. The others are small and told every time."""


def grouped_records(records: Mapping[int, Sequence[ItemRecord]]) -> dict[int, tuple[RecordGroup, ...]]:
    """Records of all steps as a `Progress` holds them."""
    return {step: grouped(rows) for step, rows in records.items()}


def added(before: Progress, now: Progress) -> Progress:
    """What `now` adds to `before`, so that `after(before, added(before, now)) == now`; the whole where it removes."""
    if _removes(before, now):
        return now
    changes: dict[str, Any] = {name: _new(getattr(before, name), getattr(now, name)) for name in _BY_KEY}
    known = set(before.knowledge)
    return now.model_copy(
        update={
            **changes,
            "chains": _new(before.chains, now.chains),
            "since": before.revision,
            "plan": None if now.plan == before.plan else now.plan,
            "knowledge": tuple(entry for entry in now.knowledge if entry not in known),
            "handoffs_before": len(before.handoffs),
            "handoffs": now.handoffs[len(before.handoffs) :],
        }
    )


def after(before: Progress | None, new: Progress) -> Progress:
    """The whole state after `new`; the same once more where `new` was taken before.

    Raises `OtherRevisionError` when it does not fit.
    """
    if not new.since:
        return new
    if before is not None and before.revision == new.revision:
        return before
    if before is None or before.revision != new.since:
        there = "no state" if before is None else f"the state {before.revision}"
        raise OtherRevisionError(f"what comes after {new.since} does not fit: there is {there}")
    changes: dict[str, Any] = {name: getattr(before, name) | getattr(new, name) for name in _BY_KEY}
    return new.model_copy(
        update={
            **changes,
            "chains": {label: (before.chains | new.chains)[label] for label in new.labels},
            "since": "",
            "plan": new.plan or before.plan,
            "knowledge": _said(before.knowledge, new.knowledge),
            "handoffs_before": 0,
            "handoffs": (*before.handoffs, *new.handoffs),
        }
    )


def _removes(before: Progress, now: Progress) -> bool:
    fewer = any(not getattr(before, name).keys() <= getattr(now, name).keys() for name in _BY_KEY)
    other = now.handoffs[: len(before.handoffs)] != before.handoffs or (now.plan is None and before.plan is not None)
    subjects = [entry.subject for entry in now.knowledge]
    return fewer or other or subjects[: len(before.knowledge)] != [entry.subject for entry in before.knowledge]


def _new(before: Mapping[Any, Any], now: Mapping[Any, Any]) -> dict[Any, Any]:
    return {key: value for key, value in now.items() if before.get(key) != value}


def _said(before: Sequence[Entry], new: Sequence[Entry]) -> tuple[Entry, ...]:
    """Each subject once, in the order in which it was first said, as it was last told."""
    known = {entry.subject: entry for entry in before} | {entry.subject: entry for entry in new}
    return tuple(known.values())


def knowledge_of(progress: Progress) -> Knowledge:
    """All that is known."""
    return Knowledge(entries=progress.knowledge)

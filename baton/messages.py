"""What crosses a boundary: every payload between workflows, activities and clients, but for the status.

New fields get defaults and unknown ones are ignored, so that a run started on one version finishes on the next.
"""

from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from pydantic import Field

from baton.agent_types import TypeRow
from baton.breakers import Trip, TripKind, TurnSigns
from baton.budget import Budget
from baton.conversation import Ending, Notice
from baton.facts import Question, Submission
from baton.findings import GateResult, GateSpec, GateVerdict
from baton.knowledge import Entry, Knowledge
from baton.ledger import ItemCounts, ItemRecord
from baton.manifest import HandoffReason, Link, Manifest
from baton.merging import Conflict, PreparedConflict, Resolution
from baton.models import Stored
from baton.names import TASK_QUEUE
from baton.performance import Size
from baton.plan import HandoffStrategy, Plan, PlanDraft, PlanStep
from baton.pricing import Usage
from baton.reviews import Review, Subject
from baton.roles import Role
from baton.settings import Settings
from baton.states import AgentEnd, StepStatusWord


class Carried(Stored):
    """What one run of a task leaves to the next: where its progress is."""

    host_queue: str
    revision: str


class TaskInput(Stored):
    """What starts a task. Only `task` and `repository` are required; the workflow id is the task id.

    `repository`: a path on the workers' host or a git URL. `settings`: the command-line layer, in the form of the
    settings file. `environment`: the caller's allowed variables for gates and commands. `resume`: go on with the
    task of this id; what is given comes on top of what it was started with. `carried`: set by the workflow itself.
    Commands that the project's settings bring run when all are trusted, or those whose fingerprints are confirmed,
    here or on the workers' host. `traceparent`: the span of the caller, as the W3C header names it; what is no such
    header is ignored.
    """

    task: str = ""
    repository: str = ""
    base: str | None = None
    plan: PlanDraft | None = None
    plan_only: bool = False
    mode: Literal["auto", "single", "orchestrated"] = "auto"
    handoff_strategy: HandoffStrategy | None = None
    integration: bool = True
    settings: dict[str, Any] = Field(default_factory=dict)
    environment: dict[str, str] | None = None
    resume: bool = False
    trust_project_commands: bool = False
    confirmed_commands: tuple[str, ...] = ()
    traceparent: str = ""
    carried: Carried | None = None


class OpenTask(Stored):
    """Input of `open_task`."""

    task_id: str
    input: TaskInput
    first_run_id: str = ""


class OpenedTask(Stored):
    """What `open_task` found and made; recorded once per task."""

    host_queue: str
    source: str
    base_commit: str
    base_name: str
    settings: Settings
    gates: tuple[GateSpec, ...] = ()
    survey: str = ""
    artifacts: str = ""
    private_repository: str = ""
    warnings: tuple[str, ...] = ()
    searchable: bool = False
    context_tokens: dict[str, int] = Field(default_factory=dict)
    most_output_tokens: dict[str, int] = Field(default_factory=dict)
    agent_types: tuple[TypeRow, ...] = ()


class TurnLimits(Stored):
    """What a chain of agents may still use. None: no limit."""

    cost_usd: Decimal | None = None
    output_tokens: int | None = None
    model_calls: int | None = None


class ChainTotals(Stored):
    """What a chain of agents used so far."""

    usage: Usage = Usage()
    agents: int = 0
    handoffs: int = 0
    turns: int = 0
    fruitless: int = 0
    trips: int = 0

    def __add__(self, other: "ChainTotals") -> "ChainTotals":
        return ChainTotals(**{name: getattr(self, name) + getattr(other, name) for name in ChainTotals.model_fields})


class Redone(Stored):
    """A step that is done again: how often by now, why, and what it used before. `wanted`: it has yet to begin.
    `paths`: what was in conflict, and is the step's own this time."""

    times: int
    guidance: str
    totals: ChainTotals = ChainTotals()
    wanted: bool = False
    paths: tuple[str, ...] = ()


class WaitingConflict(Stored):
    """A conflict that is laid out in a workspace and waits for a person; `branches`: what is to be merged with it."""

    workspace: str
    branches: tuple[str, ...]
    prepared: PreparedConflict


WaitReason = Literal["slot", "merge_queue", "quota"]


class Waited(Stored):
    """A time in which work waited, though it could have gone on: for a slot beside others, for its turn to be merged,
    for the provider."""

    reason: WaitReason
    since: datetime
    until: datetime


class Assignment(Stored):
    """Input of `AgentWorkflow`: the work of one agent. A successor gets the same with what is left and a manifest.

    `waited`: before this agent could start. `also_owned`: paths that are its own beside those of its step.

    `knowledge_kept`: `knowledge` holds only what is not in the task's `state.json` yet; the rest is read there, so that
    histories do not carry it once per agent.
    """

    task_id: str
    task: str
    role: Role
    name: str
    generation: int = 1
    model: str
    budget: Budget = Budget()
    max_turns: int = 200
    successors_left: int | None = None
    allowance: TurnLimits = TurnLimits()
    host_queue: str = TASK_QUEUE
    workspace: str
    start_commit: str
    step: PlanStep | None = None
    items: tuple[str, ...] = ()
    done: tuple[ItemRecord, ...] = ()
    plan: tuple[PlanStep, ...] = ()
    completed_steps: tuple[int, ...] = ()
    manifest: Manifest | None = None
    knowledge: Knowledge = Knowledge()
    knowledge_kept: bool = False
    guidance: tuple[str, ...] = ()
    chain: tuple[Link, ...] = ()
    predecessor_head: str | None = None
    context_tokens: int | None = None
    most_output_tokens: int | None = None
    agent_type: str | None = None
    effort: str | None = None
    paused: bool = False
    totals: ChainTotals = ChainTotals()
    survey: str | None = None
    shown_settings: dict[str, Any] | None = None
    results: tuple["StepResult", ...] = ()
    gates: tuple[GateVerdict, ...] = ()
    comparison: dict[str, Any] | None = None
    conflict: Conflict | None = None
    subject: Subject | None = None
    waited: tuple[Waited, ...] = ()
    also_owned: tuple[str, ...] = ()


class OpenedAgent(Stored):
    """What `open_agent` made: the conversation's root node and the workspace's commit, and the agent's number."""

    head: str
    commit: str
    generation: int | None = None
    usage: Usage = Usage()
    knowledge: tuple[Entry, ...] = ()


class Ahead(Stored):
    """How far an agent may go on by itself after a turn: so many further turns, within its budget, of which it has used
    `used_tokens`, within what the model's window and one response hold, and unless it got more than `directions`.

    For the breakers: how many turns brought no progress before (`idle`), and the edits that may not come once more.
    """

    turns: int
    directions: int
    idle: int = 0
    edits: tuple[str, ...] = ()
    budget: Budget
    used_tokens: int
    context_tokens: int | None = None
    most_output_tokens: int | None = None


class TurnRequest(Stored):
    """Input of one turn. `head` and `commit`: where the conversation and the workspace stand.

    `asked_before`: how often the turn ended without an answer, because it had to wait or the model fell silent; `lost`:
    what that cost; `waited`: before it could be asked at all. `left`: what the agent may still use, this turn included.
    `ahead`: whether further turns may be taken in the same activity.
    """

    task_id: str
    agent_id: str
    role: Role
    workspace: str
    head: str
    commit: str
    turn: int
    max_tokens: int
    notices: tuple[Notice, ...] = ()
    answers: tuple[str, ...] = ()
    asked_before: int = 0
    lost: Usage = Usage()
    waited: tuple[Waited, ...] = ()
    left: TurnLimits = TurnLimits()
    ahead: Ahead | None = None


class InVain(Stored):
    """A call that brought nothing. `lost`: what it cost; `silent`: the model had fallen silent."""

    lost: Usage = Usage()
    silent: bool = False


class TurnOutcome(Stored):
    """The small result of one turn. `extra_usage`: calls beside the agent's own, such as answers of a predecessor.

    `guidance`: how much of it the model was told; None in outcomes of older versions, which told all. `further`: the
    turns that the same activity took after it; `in_vain`: a call for one more that failed; None where none did.
    """

    head: str
    commit: str
    ending: Ending
    usage: Usage
    submitted: str | None = None
    refused_submissions: int = 0
    items: tuple[ItemRecord, ...] = ()
    knowledge: tuple[Entry, ...] = ()
    files_changed: int = 0
    extra_usage: Usage = Usage()
    calls: int = 0
    doing: str = ""
    asked: tuple[Question, ...] = ()
    signs: TurnSigns = TurnSigns()
    guidance: int | None = None
    further: tuple["TurnOutcome", ...] = ()
    in_vain: InVain | None = None


class CloseAgent(Stored):
    """Input of `close_agent`: the agent's end, from which manifest and result are made. `evidence`: only to see what it
    did; it is closed again when that is decided upon. `waited`: since its last turn, for a call that it never made."""

    assignment: Assignment
    head: str
    commit: str
    turns: int
    usage: Usage
    records: tuple[ItemRecord, ...] = ()
    knowledge: tuple[Entry, ...] = ()
    reason: HandoffReason
    successor: bool
    evidence: bool = False
    at: datetime
    trip: Trip | None = None
    waited: tuple[Waited, ...] = ()


class ClosedAgent(Stored):
    """What is left of an agent: the verified manifest, the file that holds it, what it submitted, and some of the paths
    that its chain changed. `unheard`: turns of which the workflow got no outcome, for their activity died; `usage`:
    what the one after them cost, which has none."""

    manifest: Manifest
    file: str | None = None
    submission: Submission | None = None
    plan: Plan | None = None
    changed: tuple[str, ...] = ()
    unheard: tuple[TurnOutcome, ...] = ()
    usage: Usage = Usage()


class AgentResult(Stored):
    """Result of `AgentWorkflow`: what its last agent submitted and what the whole chain did.

    `changed`: some of the paths it changed. `reviews`: what was said of it so far; `reviewed`: no more will be.
    `rejected`: a person did not accept it, so it is not merged.
    """

    agent_id: str
    end: AgentEnd
    detail: str = ""
    submission: Submission | None = None
    plan: Plan | None = None
    items: tuple[ItemRecord, ...] = ()
    knowledge: Knowledge = Knowledge()
    totals: ChainTotals = ChainTotals()
    commit: str = ""
    trip: Trip | None = None
    changed: tuple[str, ...] = ()
    reviews: tuple[Review, ...] = ()
    reviewed: bool = False
    rejected: bool = False
    stopped_by_person: bool = False


class HandoffRow(Stored):
    """A handoff in a line: who, to whom, why, and how the items stood. `file`: the manifest among the artifacts."""

    agent_id: str
    successor_id: str
    step: int | None = None
    reason: HandoffReason
    completed: int = 0
    pending: int = 0
    in_progress: str | None = None
    corrections: int = 0
    file: str | None = None
    at: datetime


EventKind = Literal["started", "progress", "handoff", "lease", "allowance", "attention", "ended"]


class AgentEvent(Stored):
    """Child to parent: an agent started, made progress, handed off, waits for a person, or ended.

    `lease`: it wants a successor. `allowance`: it used up its part of the limits and waits for more.
    """

    kind: EventKind = "progress"
    agent_id: str = ""
    workflow_id: str = ""
    step: int | None = None
    role: Role = Role.EXECUTOR
    turn: int = 0
    used_tokens: int = 0
    budget_tokens: int = 0
    usage: Usage = Usage()
    agents: int = 1
    items: ItemCounts = ItemCounts()
    doing: str = ""
    detail: str = ""
    handoff: HandoffRow | None = None
    attention: str = ""
    choices: tuple[str, ...] = ()
    paused_until: datetime | None = None


class Direction(Stored):
    """Parent to child: guidance, a pause or its end, the answer to what the agent waits for, or to its wish for a
    successor (`lease`; an empty text refuses it).

    `allowance`: what its chain may use in all since it began; `hold`: ask for an allowance before the next turn;
    `stop`: end with what is done; `limit`: the kind of limit that is the reason; `released`: the
    provider's pause is over.
    """

    kind: Literal["guidance", "choice", "lease", "pause", "unpause", "hold", "allowance", "stop", "released"] = (
        "guidance"
    )
    text: str = ""
    allowance: TurnLimits | None = None
    limit: TripKind | None = None


class StepResult(Stored):
    """What `results/<step>.yaml` holds. `trip`: the breaker or bound that ended it early.
    `persistent`: it fell short in a way that another plan may mend. `unmerged`: it conflicts and is not on the result.
    """

    step: int
    agent_type: str = ""
    description: str = ""
    status: StepStatusWord
    summary: str = ""
    findings: tuple[dict[str, Any], ...] = ()
    criteria: tuple[dict[str, Any], ...] = ()
    files_changed: tuple[str, ...] = ()
    blockers: tuple[str, ...] = ()
    verification_gaps: tuple[str, ...] = ()
    items: ItemCounts = ItemCounts()
    agents: int = 0
    handoffs: int = 0
    usage: Usage = Usage()
    commit: str | None = None
    trip: Trip | None = None
    reviews: tuple[Review, ...] = ()
    persistent: bool = False
    unmerged: bool = False


class RunCommands(Stored):
    """Input of `run_commands`: the step whose command runs. `only_tell`: run nothing, say what is recorded.
    `also_owned`: paths that are its own beside those of the step."""

    task_id: str
    agent_id: str
    step: PlanStep
    workspace: str
    start_commit: str
    only_tell: bool = False
    waited: tuple[Waited, ...] = ()
    also_owned: tuple[str, ...] = ()


class CommandsRun(Stored):
    """What the commands of a step came to so far; `finished` when there is nothing left to run.

    `failure`: why a command for all items failed. `refused`: why the command may not run here.
    """

    commit: str
    records: tuple[ItemRecord, ...] = ()
    remarks: tuple[str, ...] = ()
    failure: str = ""
    refused: str = ""
    finished: bool = False


class MergeStep(Stored):
    """Input of `merge_step`: the branches of a step's chains, in the order of its shards.

    `onto`: the head of the result as the task knows it; empty: as it is. What is beyond it is from before a reset.
    """

    task_id: str
    onto: str = ""
    branches: tuple[str, ...]
    step: int | None
    subject: str
    waited: tuple[Waited, ...] = ()


class MergeSteps(Stored):
    """Input of `merge_steps`: merges of one task in their order, all asked for when the result had the same head."""

    task_id: str
    merges: tuple[MergeStep, ...]


class MergedStep(Stored):
    """Result of `merge_step`: the new head of the result, or the paths in conflict and what there is to know of them.

    `resolutions`: how the conflicts that were met on the way were resolved. `undoes`: by earlier step the paths that
    this step gave back the content they had before that step.
    """

    commit: str
    merged: bool
    files_changed: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    conflict: Conflict | None = None
    resolutions: tuple[Resolution, ...] = ()
    undoes: dict[int, tuple[str, ...]] = Field(default_factory=dict)


class TaskRef(Stored):
    """Input of activities that need only the task."""

    task_id: str


class SettlePlan(Stored):
    """Input of `settle_plan`."""

    task_id: str
    plan: Plan


class RunGates(Stored):
    """Input of `run_gates`: the gates on one commit, in a workspace of this name.

    `baseline`: their results on the base commit, where those are known. `watched`: tests that failed newly before.
    `sizes`: paths and globs to measure after them. `keep`: the workspace stays for the next ones.
    """

    task_id: str
    commit: str
    workspace: str
    gates: tuple[GateSpec, ...]
    baseline: tuple[GateResult, ...] = ()
    watched: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    keep: bool = False


class GateResults(Stored):
    """Result of `run_gates`. `sizes`: those that the settings name, measured after the gates."""

    results: tuple[GateResult, ...] = ()
    sizes: tuple[Size, ...] = ()


class Publish(Stored):
    """Input of `publish`."""

    task_id: str
    commit: str


class Published(Stored):
    """The ref in the user's repository; None where the source is a URL and the result stays in `repository`.

    `notes`: what else a person has to know of it.
    """

    ref: str | None
    repository: str
    notes: tuple[str, ...] = ()


class Notify(Stored):
    """Input of `notify_person`: a task began to wait for a person, or has ended."""

    task_id: str
    event: Literal["waiting", "ended"]
    text: str
    state: str = ""
    attention_id: str = ""
    kind: str = ""
    choices: tuple[str, ...] = ()


class Notified(Stored):
    """Result of `notify_person`: why it did not work; empty where it did."""

    fault: str = ""


class Artifact(Stored):
    """One file for people: a name below the artifacts folder and the value it holds."""

    name: str
    form: Literal["json", "yaml", "text"]
    value: Any


class WriteArtifacts(Stored):
    """Input of `write_artifacts`."""

    task_id: str
    artifacts: tuple[Artifact, ...]


Assignment.model_rebuild()

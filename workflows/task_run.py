"""What a running task knows and can do: its status and views, its counters, and the actions its phases share.

`TaskRun` holds state that lives as long as the workflow; the phases (`orchestration`, `execution`) decide the order.
"""

from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributeUpdate
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from baton.allowances import Allowances
    from baton.bounds import PLANS
    from baton.durations import format_duration
    from baton.estimates import Estimate, plan_estimate
    from baton.findings import GateResult, GateVerdict, VerdictStatus
    from baton.gate_trail import INTEGRATOR, GateTrail
    from baton.knowledge import Knowledge
    from baton.ledger import ItemRecord
    from baton.messages import (
        AgentResult,
        Artifact,
        Direction,
        HandoffRow,
        OpenedTask,
        Redone,
        StepResult,
        TaskInput,
        TurnLimits,
        WaitingConflict,
    )
    from baton.names import SEARCH_ATTENTION, SEARCH_PHASE, SEARCH_REPOSITORY
    from baton.performance import Size
    from baton.plan import Plan
    from baton.pricing import Usage
    from baton.progress import Answer, ChainEnd, Earlier, Progress, Unmerged, grouped_records, knowledge_of
    from baton.settings import Phase
    from baton.states import TaskState
    from baton.status import PAUSE, TaskStatus, details_markdown, title_of
    from baton.status_changes import with_happening
    from baton.steering import LimitsChange, Remark
    from workflows import policies
    from workflows.account import AccountQuestion
    from workflows.attention import Attention, HeldBack
    from workflows.chains import Chains
    from workflows.host_work import HostWork
    from workflows.keeping import Keeping
    from workflows.limits import Limits
    from workflows.log import say
    from workflows.notices import Notices
    from workflows.time_limit import TimeLimit
    from workflows.versions import PROGRESS, SAVED_ASIDE

PHASE_KEY = SearchAttributeKey.for_keyword(SEARCH_PHASE)
REPOSITORY_KEY = SearchAttributeKey.for_keyword(SEARCH_REPOSITORY)
PROVIDER_PAUSES = "paused by the provider"
"""In the place of the phase, where only that is shown."""
UNTOLD_AT_MOST = 50
"""Entries of knowledge that assignments carry because the host was not told of them yet."""
WARNINGS_KEPT = 200
ATTENTION_KEY = SearchAttributeKey.for_keyword(SEARCH_ATTENTION)


class TaskRun:
    """One task while it runs."""

    def __init__(self, task: TaskInput) -> None:
        self.input = task
        self.status = TaskStatus(
            task_id=workflow.info().workflow_id,
            task=title_of(task.task),
            repository=task.repository,
            started_at=workflow.info().start_time,
        )
        self.attention = Attention(self.show, lambda: self.renewal_due and not self.books.running)
        self.account = AccountQuestion(self.attention)
        self.results: dict[int, StepResult] = {}
        self.records: dict[int, tuple[ItemRecord, ...]] = {}
        self.handoffs: list[HandoffRow] = []
        self.knowledge = Knowledge()
        self.head = ""
        self.plan: Plan | None = None
        self.proposed = self.approved = self.replan_wanted = False
        self.round = 1
        self.remarks: list[str] = []
        self.starts: dict[int, str] = {}
        self.chain_ends: dict[str, AgentResult] = {}
        self.merged: dict[str, str] = {}
        self.earlier: dict[int, Earlier] = {}
        self.left_behind: dict[int, Unmerged] = {}
        self.baseline: tuple[GateResult, ...] | None = None
        self.verdicts: tuple[GateVerdict, ...] = ()
        self.sizes_before: tuple[Size, ...] = ()
        self.sizes: tuple[Size, ...] = ()
        self.chains = Chains(self)
        self.host = HostWork(self)
        self.time_limit = TimeLimit(self)
        self.limits = Limits(self)
        self.notices = Notices(self)
        self.after_merges: dict[int, tuple[GateVerdict, ...]] = {}
        self.trail = GateTrail()
        self.resolutions = 0
        self.again: dict[int, Redone] = {}
        self.conflicts: dict[int, WaitingConflict] = {}
        self.books = Allowances(kept_for_integrator=1 if task.integration else 0)
        self.time_is_up = False
        self.guidance: list[Remark] = []
        self._opened: OpenedTask | None = None
        self._active_before = timedelta()
        self.keeping = Keeping(self.task_id, self.progress)
        self.keeps_progress = self._shown_paused = False

    # --- facts ---------------------------------------------------------------------------------------------------

    @property
    def task_id(self) -> str:
        """The task's id, which is the workflow's."""
        return self.status.task_id

    @property
    def is_open(self) -> bool:
        """Whether the task was opened; before that nothing exists that could be reported."""
        return self._opened is not None

    @property
    def opened(self) -> OpenedTask:
        """What opening the task found."""
        if self._opened is None:
            raise ApplicationError("the task was not opened", non_retryable=True)
        return self._opened

    def take_opened(self, opened: OpenedTask) -> None:
        """The task is open."""
        self.head = opened.base_commit
        self.keeping.host_queue = opened.host_queue
        self.keeps_progress = workflow.patched(PROGRESS)
        self._use(opened)
        self.update(
            repository=opened.source,
            base_commit=opened.base_commit,
            base_name=opened.base_name,
            artifacts=opened.artifacts,
            warnings=opened.warnings,
        )

    def step_is_over(self, step: int, *, is_unmerged: bool = False) -> None:
        """The step has its result: what was known of its chains stands there. `is_unmerged`: its branches stay open."""
        self.starts.pop(step, None)
        over = [label for label in self.chain_ends if int(label.partition(".")[0]) == step]
        for label in over:
            tip = self.chain_ends.pop(label).commit
            if not is_unmerged:
                self.merged[label] = tip

    def checked(self, results: tuple[GateResult, ...]) -> None:
        """Gates ran on the result as it is: what newly fails came in with the step that was merged since, if only one
        was; that is told."""
        self.trail, found = self.trail.with_results(results, self.baseline or ())
        for step, verdicts in found.items():
            # The newest word on a failure stands last.
            self.after_merges[step] = (*self.after_merges.pop(step, ()), *verdicts)
            for verdict in verdicts:
                if verdict.status is VerdictStatus.NEW_FAILURE and step != INTEGRATOR:
                    self.happened(f"gate {verdict.name} newly fails since step {step} was merged")

    def set_limits(self, change: LimitsChange) -> tuple[tuple[str, Direction], ...]:
        """Other limits from now on; what the chains that run are to be told of it."""
        self._use(self.opened.model_copy(update={"settings": change.applied(self.opened.settings)}))
        self.happened(f"limits were changed: {change.told()}")
        self.limits.over = None
        if "max_duration" in change.model_fields_set:
            self.time_is_up = False
            self.time_limit.stop()
            self.time_limit.start()
        served = self.limits.served()
        told = {name for name, _ in served} | self.limits.waiting
        shared = self.books.share_out(self.chains.usage)
        running = [(name, Direction(kind="allowance", allowance=part)) for name, part in shared.items()]
        return (*served, *((name, direction) for name, direction in running if name not in told))

    def _use(self, opened: OpenedTask) -> None:
        self._opened = opened
        limits = opened.settings.limits
        self.books.cap = TurnLimits(
            cost_usd=limits.cost_usd, output_tokens=limits.output_tokens, model_calls=limits.model_calls
        )
        self.books.most_agents = opened.settings.max_agents

    @property
    def used(self) -> Usage:
        """What was used so far: by chains that ended, and by those at work as far as they told."""
        return sum(self.chains.usage.values(), self.books.settled)

    def limit_reached(self) -> str | None:
        """Why no further agent may start, in a sentence; None when one may."""
        if self.time_is_up:
            return f"the time limit is reached ({format_duration(self.opened.settings.limits.duration or timedelta())})"
        return self.books.reached()

    def take_input(self, task: TaskInput) -> None:
        """What the task was started with, when this run was not."""
        self.input = task
        self.books.kept_for_integrator = 1 if task.integration else 0

    def take_up(self, opened: OpenedTask, progress: Progress, *, is_kept: bool) -> None:
        """Go on from where an earlier run stood. `is_kept`: the host knows this very progress."""
        self.take_opened(opened)
        self._use(opened.model_copy(update={"settings": progress.settings or opened.settings}))
        self.status, self.guidance = progress.status, list(progress.guidance)
        self.head, self._active_before = progress.head, progress.active
        self.books.settled, self.books.agents = progress.status.usage, progress.agents
        self.plan, self.round, self.remarks = progress.plan, progress.round, list(progress.remarks)
        self.proposed, self.approved = progress.proposed, progress.approved
        self.replan_wanted = progress.replan_wanted
        self.results, self.records = dict(progress.results), progress.ledger
        self.starts = dict(progress.starts)
        self.chain_ends = {label: end.whole for label, end in progress.chains.items()}
        self.merged, self.earlier = dict(progress.merged), dict(progress.earlier)
        self.left_behind = dict(progress.left_behind)
        self.knowledge, self.handoffs = knowledge_of(progress), list(progress.handoffs)
        self.baseline, self.verdicts = progress.baseline, progress.verdicts
        self.after_merges, self.resolutions = dict(progress.after_merges), progress.resolutions
        self.trail = progress.trail
        self.sizes_before, self.sizes = progress.sizes_before, progress.sizes
        limit = self.opened.settings.limits.duration
        self.time_is_up = limit is not None and self.active >= limit
        self.attention.take_up(progress)
        if is_kept:
            # A resume begins what is left anew.
            self.again, self.conflicts = dict(progress.again), dict(progress.conflicts)
            self.keeping.take_up(progress)
        self.show()

    @property
    def renewal_due(self) -> bool:
        """Whether the history is so long that no further chain may start in this run."""
        info = workflow.info()
        long = info.is_continue_as_new_suggested() or info.get_current_history_length() >= policies.MOST_EVENTS
        return self.keeps_progress and long

    def hold_back_if_due(self) -> None:
        """Raise `HeldBack` where what comes now belongs to the next run."""
        if self.renewal_due:
            raise HeldBack

    async def keep_for_next_run(self) -> str:
        """Keep the progress as the next run will find it; returns its name."""
        await self.keeping.write((), with_progress=True, for_next_run=True)
        return self.keeping.revision

    def is_kept(self) -> bool:
        """Whether nothing happened since the progress was kept."""
        return self.keeping.is_up_to_date()

    def progress(self) -> Progress:
        """Everything that is needed to go on."""
        return Progress(
            task_id=self.task_id,
            status=self.status.model_copy(update={"agents_at_work": ()}),
            head=self.head,
            active=self.active,
            agents=self.books.agents,
            asked=self.attention.asked,
            answers=dict(self.attention.answers),
            remarks=tuple(self.remarks),
            guidance=tuple(self.guidance),
            settings=self.opened.settings,
            round=self.round,
            plan=self.plan,
            proposed=self.proposed,
            approved=self.approved,
            replan_wanted=self.replan_wanted,
            results=dict(self.results),
            records=grouped_records(self.records),
            starts=dict(self.starts),
            chains={label: ChainEnd.of(end) for label, end in self.chain_ends.items()},
            labels=tuple(self.chain_ends),
            merged=dict(self.merged),
            earlier=dict(self.earlier),
            left_behind=dict(self.left_behind),
            knowledge=self.knowledge.entries,
            handoffs=tuple(self.handoffs),
            baseline=self.baseline,
            after_merges=dict(self.after_merges),
            trail=self.trail,
            resolutions=self.resolutions,
            again=dict(self.again),
            conflicts=dict(self.conflicts),
            verdicts=self.verdicts,
            sizes_before=self.sizes_before,
            sizes=self.sizes,
        )

    @property
    def may_replan(self) -> bool:
        """Whether the task may have one more plan."""
        return self.round < PLANS

    @property
    def active(self) -> timedelta:
        """How long the task has been running, the time between a stop and a resume left out."""
        return self._active_before + (workflow.now() - workflow.info().start_time)

    # --- views ---------------------------------------------------------------------------------------------------

    def update(self, **changes: Any) -> None:
        """Change fields of the status."""
        self.status = self.status.model_copy(update=changes)
        self.show()

    def pause(self) -> None:
        """No agent works from now on."""
        self.update(paused=True, paused_since=workflow.now())

    def end_pause(self) -> None:
        """The agents may go on, or the task ends; the pause is a wait that is over."""
        if self.status.paused_since is not None:
            self.attention.waited(PAUSE, self.status.paused_since)
        self.update(paused=False, paused_since=None)

    def enter(self, phase: str) -> None:
        """A phase begins."""
        self.update(phase=phase)
        self._make_searchable(PHASE_KEY.value_set(phase), REPOSITORY_KEY.value_set(self.status.repository))

    def happened(self, text: str) -> None:
        """Something worth a line, in the status and in the log."""
        say(text)
        self.status = with_happening(self.status, workflow.now(), text)
        self.show()

    def warn(self, text: str) -> None:
        """Something that stays to be seen, once, and not without bound."""
        warnings = self.status.warnings
        if text not in warnings and len(warnings) < WARNINGS_KEPT:
            say(f"warning: {text}")
            self.update(warnings=(*warnings, text))

    def show(self) -> None:
        """Bring the views up to date: status, current details, search attribute of what is waited for."""
        items = self.attention.items
        known = {item.id for item in self.status.attention}
        if tuple(i.id for i in items) != tuple(i.id for i in self.status.attention):
            self._make_searchable(ATTENTION_KEY.value_set(items[0].kind if items else ""))
        state = self.status.state
        if state in {TaskState.RUNNING, TaskState.WAITING}:
            state = TaskState.WAITING if items else TaskState.RUNNING
        self.status = self.status.model_copy(
            update={
                "attention": items,
                "waits": self.attention.waits,
                "rejected_signals": tuple(self.attention.rejected),
                "state": state,
            }
        )
        if (paused := self.status.paused_until is not None) != self._shown_paused:
            self._shown_paused = paused
            self._make_searchable(PHASE_KEY.value_set(PROVIDER_PAUSES if paused else self.status.phase))
        workflow.set_current_details(details_markdown(self.status, workflow.now()))
        for item in items:
            if item.id not in known:
                self.notices.waits(item)

    def _make_searchable(self, *updates: SearchAttributeUpdate[str]) -> None:
        """Set search attributes where the server has them; upserting an unknown one would wedge the workflow."""
        if self._opened is not None and self._opened.searchable:
            workflow.upsert_search_attributes(updates)

    # --- agents --------------------------------------------------------------------------------------------------

    async def approval(self, phase: Phase, *, stays: bool = False) -> Answer | None:
        """A person's answer for this phase; None where no approval is wanted. `stays`: see `Attention.ask`."""
        settings = self.opened.settings
        if self.input.plan_only or not settings.require_approval or phase not in settings.approve_phases:
            return None
        question, estimate = f"Approve {phase}?", self.estimate() if phase == "planning" else None
        if estimate is not None:
            question = f"{question} {estimate.told()}."
        return await self.attention.ask("approval", question, ("approve", "reject"), stays=stays, phase=phase)

    def estimate(self) -> Estimate | None:
        """What the steps of the plan that have no result yet will likely need."""
        if self.plan is None or self._opened is None:
            return None
        left = tuple(step for step in self.plan.plan if step.step not in self.results)
        plan = self.plan.model_copy(update={"plan": left})
        return plan_estimate(plan, self.opened.settings, integration=self.input.integration)

    # --- files and git -------------------------------------------------------------------------------------------

    async def write(self, artifacts: tuple[Artifact, ...] = ()) -> None:
        """Write files for people, and keep the progress."""
        await self.keeping.write(artifacts, with_progress=self.keeps_progress)

    async def write_aside(self, artifacts: tuple[Artifact, ...] = ()) -> None:
        """The same, and the task goes on meanwhile."""
        if self.keeps_progress and workflow.patched(SAVED_ASIDE):
            self.keeping.write_aside(artifacts)
        elif artifacts or self.keeps_progress:
            await self.write(artifacts)

    async def save(self) -> None:
        """Keep the progress."""
        if self.keeps_progress:
            await self.write()

    async def save_much_knowledge(self) -> None:
        """Keep the progress where so much was learned since that every further agent would carry it."""
        if len(self.keeping.untold(self.knowledge).entries) > UNTOLD_AT_MOST:
            await self.save()

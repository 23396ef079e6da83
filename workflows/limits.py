"""A task at its limits: who waits for more, what is granted, and the question to a person when nothing is left.

Nobody stops at a limit by itself: agents wait at the end of their turn, chains wait before they start. As long as
another chain works, it may leave something over; when nobody can go on, a person is asked, or `onLimit` answers.
"""

from decimal import Decimal
from typing import TYPE_CHECKING

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from baton.breakers import TripKind
    from baton.estimates import limit_question
    from baton.messages import AgentEvent, Direction
    from baton.pricing import Usage
    from baton.roles import WRITING_ROLES, Role
    from baton.steering import LimitsChange, limit_from_comment
    from workflows.attention import HeldBack
    from workflows.versions import LIMITS_ASK

if TYPE_CHECKING:
    from workflows.task_run import TaskRun

RAISE, INTEGRATE, STOP = "raise", "integrate", "stop"
CHOICES = (RAISE, INTEGRATE, STOP)

_LIMIT_KINDS = {
    "max_duration": TripKind.TIMEOUT,
    "max_model_calls": TripKind.MAX_CALLS,
    "max_agents": TripKind.MAX_DEPTH,
}

Directions = tuple[tuple[str, Direction], ...]
"""What is passed on to agents: workflow id and direction."""


class Limits:
    """Waiting at the limits of one task. `over`: the choice of whoever gave up on more."""

    def __init__(self, run: "TaskRun") -> None:
        self._run = run
        self._waiting: dict[str, AgentEvent] = {}
        self._starts: list[Role] = []
        self._told: set[str] = set()
        self.over: str | None = None

    @property
    def waiting(self) -> frozenset[str]:
        """The chains that wait for more."""
        return frozenset(self._waiting)

    async def hindrance(self, role: Role = Role.EXECUTOR) -> str | None:
        """Why an agent of this role may not start, once that is certain; None when it may, and then it is counted.

        Raises `HeldBack` where the wait goes on in a new run of the workflow; the question stays open.
        """
        while (reason := self.reason(role)) is not None:
            if self.over is not None or not workflow.patched(LIMITS_ASK):
                return reason
            self._starts.append(role)
            try:
                await self.look()
                await workflow.wait_condition(lambda: self._decided(role) or self._must_end(role))
            finally:
                self._starts.remove(role)
            if not self._decided(role):
                raise HeldBack
        if role in WRITING_ROLES:
            self._run.books.count_agent(for_integrator=role is Role.INTEGRATOR)
        if not self._waiting and not self._starts:
            self._drop_question()
        return None

    async def asked(self, event: AgentEvent) -> None:
        """An agent wants a successor, or more than its part."""
        direction = self._answer(event)
        if direction is None and (self._run.status.paused or not workflow.patched(LIMITS_ASK)):
            # Who pauses needs no successor: it waits as it is.
            direction = Direction(kind="lease") if event.kind == "lease" else None
        if direction is not None:
            await self._run.chains.direct(event.workflow_id, direction)
            return
        self._waiting[event.workflow_id] = event
        await self.look()

    async def ended(self, workflow_id: str) -> None:
        """A chain ended; what it did not use is free for those that wait."""
        self._waiting.pop(workflow_id, None)
        if self._waiting or self._starts:
            await self.look()

    async def look(self) -> None:
        """Serve those that wait; ask a person, or go by `onLimit`, when nobody can go on."""
        for workflow_id, direction in self.served():
            await self._run.chains.direct(workflow_id, direction)

    def served(self) -> Directions:
        """What those that wait are to be told now."""
        answers = {name: self._answer(event) for name, event in self._waiting.items()}
        starts = [role for role in self._starts if self.reason(role) is not None]
        stuck = [name for name, answer in answers.items() if answer is None]
        works = any(name not in stuck for name in self._run.chains.names())
        if not stuck and not starts:
            self._drop_question()
        elif not works and self.over is None:
            self._nobody_can_go_on()
        if self.over is not None:
            answers |= {name: self._refusal(self._waiting[name]) for name in stuck}
        given = tuple((name, answer) for name, answer in answers.items() if answer is not None)
        for name, _ in given:
            del self._waiting[name]
        return given

    def take(self, choice: str, comment: str) -> Directions:
        """A person's choice. ValueError where a raise names no limit that would help."""
        if choice == RAISE:
            return self._run.set_limits(self.raised(comment))
        self.over = choice
        self._run.happened(f"at the limit a person chose: {choice}")
        self._drop_question()
        return self.served()

    def raised(self, comment: str) -> LimitsChange:
        """The change that a comment names for the limit that is reached."""
        which = self._reached()
        if which is None:
            raise ValueError("raise: no limit is reached any more")
        return limit_from_comment(which, comment, self._used_of(which))

    def tell_when_near(self) -> None:
        """Say that a limit is near: once for each amount, also where an earlier run of the workflow said it."""
        run = self._run
        self._told |= {text.partition(" of ")[2] for text in run.status.warnings}
        for text in run.books.near(run.used):
            limit = text.partition(" of ")[2]
            if limit not in self._told:
                self._told.add(limit)
                run.warn(text)

    def _nobody_can_go_on(self) -> None:
        run = self._run
        policy = run.opened.settings.on_limit
        if policy != "ask":
            self.over = policy
            run.happened(f"{self._sentence()}; as set by onLimit: {policy}")
            return
        if not self._questions():
            run.attention.put("limit", limit_question(self._sentence(), run.used, run.status.items), CHOICES)
            run.happened(self._sentence())

    def _questions(self) -> list[str]:
        return [item.id for item in self._run.attention.items if item.kind == "limit"]

    def _drop_question(self) -> None:
        for name in self._questions():
            self._run.attention.drop(name)

    def _decided(self, role: Role) -> bool:
        return self.over is not None or self.reason(role) is None

    def _must_end(self, role: Role) -> bool:
        """Whether the wait is to go on in a new run; before the integrator it never does."""
        return role is not Role.INTEGRATOR and self._run.renewal_due and not self._run.books.running

    def _answer(self, event: AgentEvent) -> Direction | None:
        """What an agent gets now; None while there is nothing for it."""
        run = self._run
        if event.kind == "lease":
            counts = event.role in WRITING_ROLES
            if counts and not run.books.count_agent(for_integrator=event.role is Role.INTEGRATOR):
                return None
            return Direction(kind="lease", text="granted")
        if run.time_is_up:
            return None
        more = run.books.extend(event.workflow_id, event.usage, self._share(), run.opened.settings.output_budget)
        return None if more is None else Direction(kind="allowance", allowance=more)

    def _share(self) -> Decimal:
        """Those that run share what is left."""
        return Decimal(1) / max(1, len(self._run.chains.names()))

    def _refusal(self, event: AgentEvent) -> Direction:
        if event.kind == "lease":
            return Direction(kind="lease")
        limit = _LIMIT_KINDS.get(self._reached() or "", TripKind.TOKEN_LIMIT)
        return Direction(kind="stop", text=self._sentence(), limit=limit)

    def reason(self, role: Role = Role.EXECUTOR) -> str | None:
        """Why nobody of this role may start now; nobody is asked."""
        run = self._run
        if (reached := run.limit_reached()) is not None:
            return reached
        if role in WRITING_ROLES and run.books.agents_left(for_integrator=role is Role.INTEGRATOR) < 1:
            return self._no_agent()
        return None

    def _sentence(self) -> str:
        return self._run.limit_reached() or self._no_agent()

    def _no_agent(self) -> str:
        return f"no further agent is allowed (maxAgents is {self._run.opened.settings.max_agents})"

    def _reached(self) -> str | None:
        """The limit that keeps those that wait from going on, as `LimitsChange` names it."""
        run = self._run
        if run.time_is_up:
            return "max_duration"
        left = run.books.left()
        amounts = {
            "max_model_calls": left.model_calls,
            "max_output_tokens": left.output_tokens,
            "max_cost_usd": left.cost_usd,
        }
        used_up = [name for name, amount in amounts.items() if amount is not None and amount <= 0]
        agents = bool(self._starts) or any(event.kind == "lease" for event in self._waiting.values())
        return next(iter(used_up), "max_agents" if agents else None)

    def _used_of(self, which: str) -> Decimal:
        """How much of a limit is used: a new one must be above it. Durations in seconds."""
        run = self._run
        used: Usage = run.used
        amounts: dict[str, float | Decimal] = {
            "max_duration": run.active.total_seconds(),
            "max_model_calls": used.model_calls,
            "max_output_tokens": used.output_tokens,
            "max_cost_usd": used.cost_usd,
            "max_agents": run.books.agents,
        }
        return Decimal(str(amounts[which]))

"""The gate before every model call: one view of the provider's limits for all agents of this process, and the pauses
that hold for all workers of all hosts.

`Gate` keeps a `RateView` for each account and waits as it says; what it decides is in `baton/quota.py`. `Pauses` asks
the account's quota workflow, which the server answers without a worker, and begins one.
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from baton.names import QUOTA_ID, QUOTA_WORKFLOW, TASK_QUEUE
from baton.quota import (
    COME_AGAIN,
    JITTER,
    LONGEST_WAIT,
    PAUSE_MEMO,
    PAUSED_FROM,
    Held,
    Left,
    Pause,
    RateView,
    usage_limit_until,
)

RPC_LIMIT = timedelta(seconds=5)
DICE = secrets.SystemRandom()
SHORTEST_WAIT_SECONDS = 0.01
MOST_REASON = 500
NOT_ASKED_AGAIN = timedelta(seconds=3)
"""An account that was not paused is not asked about for so long: a call that leaves in the meantime is refused by the
provider, and learns it there."""
USED_UP = "the provider's limit is used up"
OTHERS_FIRST = "other calls go first"

logger = logging.getLogger(__name__)


class NotNow(Exception):  # noqa: N818 - no fault: the call is made later
    """No model call of the account may leave now."""

    def __init__(self, pause: Pause) -> None:
        self.pause = pause
        super().__init__(pause.reason)


class Pauses:
    """The pauses of accounts, held by workflows on Temporal's server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def current(self, account: str) -> Pause | None:
        """The pause that holds, if one does. A server that does not answer holds nobody back."""
        handle = self._client.get_workflow_handle(QUOTA_ID.format(account=account))
        try:
            found = await handle.describe(rpc_timeout=RPC_LIMIT)
            if found.status is not WorkflowExecutionStatus.RUNNING:
                return None
            memo = (await found.memo()).get(PAUSE_MEMO)
            return None if memo is None else Pause.model_validate(memo)  # it has ended, and tells those who waited
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                logger.warning("whether the account is paused cannot be found out: %s", error)
            return None

    async def begin(self, account: str, pause: Pause) -> Pause:
        """Have all agents of the account wait; the pause as it holds then. Where the server does not answer it is held
        by nobody, and each agent waits on its own."""
        name = QUOTA_ID.format(account=account)
        held = pause.model_copy(update={"workflow_id": name})
        try:
            await self._client.start_workflow(
                QUOTA_WORKFLOW,
                Held(pause=held),
                id=name,
                task_queue=TASK_QUEUE,
                memo={PAUSE_MEMO: held.model_dump(mode="json")},
                start_signal="pause",
                start_signal_args=[held],
                static_summary=f"the provider's account {account}",
                rpc_timeout=RPC_LIMIT,
            )
        except RPCError as error:
            logger.warning("a pause could not be told to others: %s", error)
            return pause
        return await self.current(account) or held


@dataclass
class _Account:
    """The view of one account; `changed` wakes those who wait."""

    view: RateView
    changed: asyncio.Condition
    not_paused_at: datetime | None = None

    async def wake(self) -> None:
        """Whoever waits may look again."""
        async with self.changed:
            self.changed.notify_all()


class Gate:
    """Lets model calls through. `dice` gives numbers from 0 to 1."""

    def __init__(
        self,
        pauses: Pauses | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        dice: Callable[[], float] = DICE.random,
        longest_wait: timedelta = LONGEST_WAIT,
    ) -> None:
        self._pauses = pauses
        self._clock = clock
        self.dice = dice
        self._longest_wait = longest_wait
        self._accounts: dict[str, _Account] = {}

    @asynccontextmanager
    async def place(self, name: str, waiting: Callable[[bool], None]) -> "AsyncIterator[Place]":
        """A place for one call, held as long as the block runs. Raises `NotNow`."""
        account = self._accounts.setdefault(name, _Account(RateView(), asyncio.Condition()))
        await self._admitted(name, account, waiting)
        place = Place(self, name, account)
        try:
            yield place
        finally:
            await asyncio.shield(place.leave())

    async def _admitted(self, name: str, account: _Account, waiting: Callable[[bool], None]) -> None:
        give_up = self.now() + self._longest_wait
        waits = False
        await self._raise_if_paused(name, account)
        while True:
            now = self.now()
            if account.view.may_begin(now) and waits:
                await self._raise_if_paused(name, account)
            if account.view.may_begin(now):
                account.view = account.view.begun()
                if waits:
                    waiting(False)
                return
            delay = account.view.delay(now)
            if delay >= PAUSED_FROM:
                usage = Pause(kind="usage", reason=USED_UP, since=now, until=now + delay)
                raise NotNow(await self.pause(name, account, usage))
            if now + delay >= give_up:
                again = max(delay, COME_AGAIN) * (1 + JITTER * self.dice())
                raise NotNow(Pause(kind="busy", reason=OTHERS_FIRST, since=now, until=now + again))
            if not waits:
                waits = True
                waiting(True)
            await _changed(account, delay or give_up - now)

    async def _raise_if_paused(self, name: str, account: _Account) -> None:
        if self._pauses is None:
            return
        if account.not_paused_at is not None and self.now() - account.not_paused_at < NOT_ASKED_AGAIN:
            return
        pause = await self._pauses.current(name)
        if pause is not None:
            account.view = account.view.resumed()
            raise NotNow(pause)
        account.not_paused_at = self.now()

    async def pause(self, name: str, account: _Account, pause: Pause) -> Pause:
        """Hold every call of the account back; where nobody holds pauses, the one call learns of it."""
        account.view, account.not_paused_at = account.view.narrowed(), None
        held = await self._pauses.begin(name, pause) if self._pauses is not None else pause
        account.view = account.view.resumed()
        return held

    @property
    def holds_pauses(self) -> bool:
        """Whether a pause is known beyond the call that met it."""
        return self._pauses is not None

    def now(self) -> datetime:
        """The gate's own time."""
        return self._clock()


@dataclass(frozen=True)
class Place:
    """A call that is under way, and what it learns of the provider."""

    gate: Gate
    name: str
    account: _Account

    async def accepted(self, left: tuple[Left, ...]) -> None:
        """An answer begins; what its headers say."""
        self.account.view = self.account.view.accepted().heard(left, self.gate.now())
        await self.account.wake()

    def succeeded(self) -> None:
        """The call was answered."""
        self.account.view = self.account.view.succeeded()

    async def overloaded(
        self, reason: str, retry_after: timedelta | None, left: tuple[Left, ...]
    ) -> tuple[Pause | None, timedelta]:
        """The provider refused for now: how long all wait, and the pause where it is a usage limit."""
        now = self.gate.now()
        if (until := usage_limit_until(retry_after, left, now)) is not None:
            usage = Pause(kind="usage", reason=reason[:MOST_REASON], since=now, until=until)
            return await self.gate.pause(self.name, self.account, usage), until - now
        self.account.view, delay = self.account.view.refused(retry_after, left, now, self.gate.dice())
        return None, delay

    async def needs_person(self, reason: str) -> Pause | None:
        """Only a person can help the account; None where nobody holds pauses."""
        if not self.gate.holds_pauses:
            return None
        asked = Pause(kind="person", reason=reason[:MOST_REASON], since=self.gate.now())
        return await self.gate.pause(self.name, self.account, asked)

    async def leave(self) -> None:
        """The call is over; whoever waits may look again."""
        self.account.view = self.account.view.ended()
        await self.account.wake()


async def _changed(account: _Account, at_most: timedelta) -> None:
    """Wait for a call to end, or that long."""
    with suppress(TimeoutError):
        async with account.changed, asyncio.timeout(max(at_most.total_seconds(), SHORTEST_WAIT_SECONDS)):
            await account.changed.wait()

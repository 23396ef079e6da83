"""The turns of agents: an activity takes one, and while they are quick those after it.

While a turn is kept the model is asked for the next one already (`activities/transaction.py`).
"""

import asyncio
import logging
import time

from temporalio import activity

from activities.credentials import Credentials
from activities.directions import number_of
from activities.lost_calls import place_of_turn, was_asked
from activities.model import Model, ModelError
from activities.pulse import pulse
from activities.sandbox import Sandbox
from activities.task_folder import TaskFolder, Tasks
from activities.transaction import Ran, Transactions, Workplace
from activities.turn_journal import is_begun, turn_key
from activities.workspace_lock import WorkspaceLock
from baton.messages import InVain, TurnOutcome, TurnRequest
from baton.pricing import Usage
from baton.quick_turns import QUICK_SECONDS, next_request

logger = logging.getLogger("baton.turn")


class Turns:
    """Turns of agents of every role."""

    def __init__(self, tasks: Tasks, model: Model, credentials: Credentials, sandbox: Sandbox | None = None) -> None:
        self._tasks = tasks
        self._transactions = Transactions(model, credentials, sandbox)

    @activity.defn(name="plan")
    async def plan(self, request: TurnRequest) -> TurnOutcome:
        """Turns of a planner."""
        return await self._turns(request)

    @activity.defn(name="execute_step")
    async def execute_step(self, request: TurnRequest) -> TurnOutcome:
        """Turns of an executor."""
        return await self._turns(request)

    @activity.defn(name="review")
    async def review(self, request: TurnRequest) -> TurnOutcome:
        """Turns of a reviewer."""
        return await self._turns(request)

    @activity.defn(name="resolve")
    async def resolve(self, request: TurnRequest) -> TurnOutcome:
        """Turns of a resolver."""
        return await self._turns(request)

    @activity.defn(name="integrate")
    async def integrate(self, request: TurnRequest) -> TurnOutcome:
        """Turns of an integrator."""
        return await self._turns(request)

    async def _turns(self, request: TurnRequest) -> TurnOutcome:
        """The turn, and while they are quick those after it."""
        began = time.monotonic()
        folder = self._tasks.folder(request.task_id)
        folder.require()
        async with pulse("waiting for the workspace") as beat, folder.locked(request.workspace) as lock:
            place = Workplace(folder, lock, beat)
            try:
                ran = await self._transactions.turn(place, request)
            except ModelError as error:
                raise error.fault.error(error.lost) from error
            done, in_vain = list[TurnOutcome](), None
            while (further := next_request(request, [*done, ran.outcome])) is not None:
                if not (_was_begun(folder, lock, further) or _may_go_on(request, began)):
                    break
                try:
                    following = await self._transactions.turn(place, further, ran)
                    done.append(await ran.kept())
                    ran = following
                except ModelError as error:
                    in_vain = InVain(lost=error.lost or Usage(), silent=error.fault.stalled)
                    break
                except asyncio.CancelledError:
                    if not _is_cancelled_by_workflow():
                        await _kept(ran, request.turn + len(done), is_first=False)
                        raise
                    # It hears of what was done, and `close_agent` counts the rest.
                    break
                except Exception:
                    if ran.is_kept:
                        logger.exception("turn %d is left to the next activity, which meets the same", further.turn)
                    break
            done += await _kept(ran, request.turn + len(done), is_first=not done)
        return done[0].model_copy(update={"further": tuple(done[1:]), "in_vain": in_vain})


async def _kept(ran: Ran, turn: int, *, is_first: bool) -> list[TurnOutcome]:
    """The last turn that ran; none where it cannot be kept, and there are others to tell of."""
    try:
        return [await ran.kept()]
    except Exception:
        if is_first:
            raise
        logger.exception("turn %d could not be kept: whoever comes next runs its calls again", turn)
        return []


def _was_begun(folder: TaskFolder, lock: WorkspaceLock, request: TurnRequest) -> bool:
    """Whether an earlier attempt was over with the turn or in the middle of it: it is taken up as it was asked for,
    whatever came since."""
    info = activity.info()
    key = turn_key(info.workflow_run_id, request.turn, request.head)
    place = place_of_turn(info.workflow_run_id, request.turn)
    return info.attempt > 1 and (
        is_begun(folder.store, key) or was_asked(lock.descriptor, place, info.activity_id, info.attempt)
    )


def _may_go_on(request: TurnRequest, began: float) -> bool:
    """Whether an activity that began then is young enough for one more turn, and nobody told the agent anything."""
    told = number_of(activity.info().workflow_run_id)
    is_told = request.ahead is not None and told > request.ahead.directions
    is_ending = activity.is_cancelled() or activity.is_worker_shutdown()
    return time.monotonic() - began < QUICK_SECONDS and not is_told and not is_ending


def _is_cancelled_by_workflow() -> bool:
    """Else the worker stops, and another attempt takes up what this one is in the middle of."""
    details = activity.cancellation_details()
    return details is not None and details.cancel_requested

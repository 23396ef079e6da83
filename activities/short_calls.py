"""Model calls beside the turns: route, summary of knowledge, summary of the report, questions to a predecessor.

Each is asked once: a lock and the journal see to it that of several attempts, also of such as overlap, one pays. Each
leaves one line in the trace and one span, told when its response came and before anybody tries to read it. What it cost
counts for the run that asked, broken attempts included; whoever finds the response of another run pays nothing.
"""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from pydantic import BaseModel
from temporalio import activity

from activities.call_telemetry import response_found
from activities.locking import exclusive
from activities.lost_calls import LostCalls
from activities.model import Model, ModelCancelled, ModelError, ModelRequest
from activities.overload_waits import OverloadWaits
from activities.prompts import prompt
from activities.pulse import Pulse
from activities.task_folder import TaskFolder
from activities.telemetry import asking
from activities.trace import Teller, TurnTrace
from baton.conversation import Response, calls
from baton.models import Stored
from baton.pricing import Usage
from baton.roles import Role
from baton.tool_schemas import parse, tools_for

ANSWER_TOKENS = 2_000
_LOCKS = 2
"""Hexadecimal digits of a call's name that choose its lock: calls never wait within calls, so they may share some."""

Submission = TypeVar("Submission", bound=BaseModel)


@dataclass(frozen=True)
class ShortCall:
    """One question. `key`: whatever has the same one is the same question, asked once; `teller`: who the trace says
    asks it."""

    key: str
    teller: Teller
    request: ModelRequest

    @property
    def what(self) -> str:
        """What it is called."""
        return self.teller.what or self.teller.agent


class Answered(Stored):
    """A response, when it came, how long it took, and which run of a workflow paid for it."""

    response: Response
    at: str
    seconds: float
    payer: str
    spent: Usage

    def usage(self) -> Usage:
        """What it cost the run that now asks: all of it, or nothing where another run paid."""
        return self.spent if self.payer == _run_id() else Usage()


async def asked_once(folder: TaskFolder, model: Model, call: ShortCall, beat: Pulse) -> Answered:
    """The journaled response to this question, else a new one, journaled before it is used.

    Raises `ModelError` with all that was lost so far; nothing is journaled then, and the question may be asked again.
    """
    name = hashlib.sha256(call.key.encode()).hexdigest()
    async with exclusive(folder.lock_path(f"call-{name[:_LOCKS]}")) as lock:
        with asking(call.what), beat.asking(call.what) as doing:
            key, attempt = f"calls/{name}/{_run_id()}", activity.info().attempt
            return await _once(folder, model, call, LostCalls(folder.store, key, lock, attempt, doing=doing), beat)


async def _once(folder: TaskFolder, model: Model, call: ShortCall, lost: LostCalls, beat: Pulse) -> Answered:
    trace = TurnTrace(folder, call.teller, activity.info().attempt)
    if (known := folder.store.entry(f"call/{call.key}")) is not None:
        found = Answered.model_validate_json(known)
        if found.payer == _run_id():
            response_found(call.request.model, call.request.max_tokens, found.response, found.at, found.seconds)
            trace.model_answered(found.response, found.seconds, found.at, again=True)
        return found
    asked = await _asked(folder, model, call, lost, beat, trace)
    answered = Answered.model_validate_json(folder.store.enter(f"call/{call.key}", _json(asked)))
    trace.model_answered(answered.response, answered.seconds, answered.at)
    return answered


async def _asked(
    folder: TaskFolder, model: Model, call: ShortCall, lost: LostCalls, beat: Pulse, trace: TurnTrace
) -> Answered:
    prices, due = folder.record.opened.settings.prices, activity.info().current_attempt_scheduled_time
    lost.was_killed(call.request, None, prices, trace)
    waits = OverloadWaits(folder.store, lost.key, lost.attempt, due, beat, trace)
    waits.begun()
    trace.begin()
    try:
        response = await model.respond(call.request, lost.watching(beat.report_tokens), prices, waits.waiting)
    except ModelCancelled as error:
        lost.broke(error.spent)
        trace.model_cancelled(call.request.model, error.spent)
        raise
    except ModelError as error:
        waits.failed(error.fault)
        lost.broke(error.spent)
        error.lost = lost.total()
        trace.model_failed(call.request.model, error.fault, error.spent)
        raise
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    spent = response.usage + lost.total()
    return Answered(response=response, at=at, seconds=trace.seconds, payer=_run_id(), spent=spent)


def short_request(folder: TaskFolder, message: str, *, asker: str, tools_of: str, prompt_name: str) -> ModelRequest:
    """One message to the summarizer's model, under the name of who asks, with the tools of a role."""
    return ModelRequest(
        model=folder.record.opened.settings.models.of(Role.SUMMARIZER),
        system=prompt(prompt_name),
        tools=tuple(tools_for(tools_of)),
        messages=[{"role": "user", "content": [{"type": "text", "text": message}]}],
        max_tokens=ANSWER_TOKENS,
        user_id=f"{folder.path.name}/{asker}",
    )


def submitted(response: Response, tool: str, arguments_type: type[Submission]) -> Submission | None:
    """What the response submits by this tool; None without a complete, valid call of it."""
    for call in calls(response):
        arguments = parse(call.name, call.input, [tool])
        if isinstance(arguments, arguments_type) and call.fault is None:
            return arguments
    return None


def _run_id() -> str:
    return activity.info().workflow_run_id or ""


def _json(value: Stored) -> bytes:
    return value.model_dump_json().encode()

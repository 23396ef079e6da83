"""The final summary: one plain call to the summarizer's model, paid once, and held against the facts."""

import hashlib
from datetime import UTC, datetime

from temporalio import activity

from activities.call_telemetry import response_found
from activities.inheritance import submitted_summary
from activities.model import Model, ModelError
from activities.pulse import pulse
from activities.short_calls import ANSWER_TOKENS, short_request
from activities.task_folder import TaskFolder, Tasks
from activities.telemetry import working
from activities.trace import TurnTrace
from activities.workspace_lock import workspace_lock
from baton.conversation import Response
from baton.first_message import assignment_message
from baton.messages import TurnRequest
from baton.models import Stored
from baton.roles import Role
from baton.synthesis import SUMMARIZER, Synthesis, SynthesisFacts, assignment, checked


class _Paid(Stored):
    """A journaled response, when it came and how long it took."""

    response: Response
    at: str
    seconds: float


class Synthesizing:
    """The summarizer's one call for the report."""

    def __init__(self, tasks: Tasks, model: Model) -> None:
        self._tasks = tasks
        self._model = model

    @activity.defn(name="summarize")
    async def summarize(self, facts: SynthesisFacts) -> Synthesis:
        """The summary as far as it agrees with the facts."""
        folder = self._tasks.folder(facts.task_id)
        folder.require()
        message = assignment_message(assignment(facts))
        key = f"{activity.info().workflow_run_id}/summary/{hashlib.sha256(message.encode()).hexdigest()}"
        async with pulse("writing the summary"), workspace_lock(folder.lock_path(SUMMARIZER)):
            with working(folder):
                response = await self._response(folder, facts.task_id, message, key)
        text = submitted_summary(response)
        found = checked(text, facts)
        why = "" if found.text else "nothing of it agrees with the facts" if text else "the summarizer submitted none"
        return found.model_copy(update={"usage": response.usage, "model": response.model, "why": why})

    async def _response(self, folder: TaskFolder, task_id: str, message: str, key: str) -> Response:
        """The journaled response, else a new one that is journaled before it is used."""
        request = TurnRequest(
            task_id=task_id,
            agent_id=SUMMARIZER,
            role=Role.SUMMARIZER,
            workspace=SUMMARIZER,
            head="",
            commit="",
            turn=1,
            max_tokens=ANSWER_TOKENS,
        )
        trace = TurnTrace(folder, request, activity.info().attempt)
        if (known := folder.store.entry(key)) is not None:
            paid = _Paid.model_validate_json(known)
            model = folder.record.opened.settings.models.of(Role.SUMMARIZER)
            response_found(model, ANSWER_TOKENS, paid.response, paid.at, paid.seconds)
        else:
            paid = await self._paid(folder, message, request, trace)
            paid = _Paid.model_validate_json(folder.store.enter(key, paid.model_dump_json().encode()))
        trace.model_answered(paid.response, paid.seconds, paid.at)
        return paid.response

    async def _paid(self, folder: TaskFolder, message: str, request: TurnRequest, trace: TurnTrace) -> _Paid:
        settings = folder.record.opened.settings
        model = settings.models.of(Role.SUMMARIZER)
        trace.begin()
        try:
            response = await self._model.respond(
                short_request(folder, message, asker=SUMMARIZER, tools_of=Role.SUMMARIZER, prompt_name="synthesis"),
                lambda _: None,
                settings.prices,
            )
        except ModelError as error:
            trace.model_failed(model, error.fault)
            raise error.fault.error() from error
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        return _Paid(response=response, at=at, seconds=trace.seconds)

"""The final summary: one plain call to the summarizer's model, paid once, and held against the facts."""

import hashlib

from temporalio import activity

from activities.credentials import Credentials
from activities.errors import Reaction
from activities.inheritance import submitted_summary
from activities.model import Model, ModelError
from activities.pulse import pulse
from activities.short_calls import ShortCall, asked_once, short_request
from activities.task_folder import Tasks
from activities.telemetry import working
from activities.trace import Teller
from baton.first_message import assignment_message
from baton.pricing import Usage
from baton.redaction import masked_value
from baton.roles import Role
from baton.synthesis import ATTEMPTS, SUMMARIZER, Synthesis, SynthesisFacts, assignment, checked


class Synthesizing:
    """The summarizer's one call for the report."""

    def __init__(self, tasks: Tasks, model: Model, credentials: Credentials) -> None:
        self._tasks = tasks
        self._model = model
        self._credentials = credentials

    @activity.defn(name="summarize")
    async def summarize(self, facts: SynthesisFacts) -> Synthesis:
        """The summary as far as it agrees with the facts; without one, why, and what it cost all the same."""
        folder = self._tasks.folder(facts.task_id)
        folder.require()
        secrets = await self._credentials.secrets_around(folder.checkout)
        message = assignment_message(masked_value(assignment(facts), secrets))
        request = short_request(folder, message, asker=SUMMARIZER, tools_of=Role.SUMMARIZER, prompt_name="synthesis")
        key = f"{activity.info().workflow_run_id}/summary/{hashlib.sha256(message.encode()).hexdigest()}"
        call = ShortCall(key, Teller(SUMMARIZER, Role.SUMMARIZER, 1), request)
        async with pulse("writing the summary") as beat:
            with working(folder):
                try:
                    answered = await asked_once(folder, self._model, call, beat)
                except ModelError as error:
                    if error.fault.reaction is Reaction.RETRY and activity.info().attempt < ATTEMPTS:
                        raise error.fault.error() from error
                    return Synthesis(why=error.fault.text[:300], usage=error.lost or Usage())
        text = submitted_summary(answered.response)
        found = checked(text, facts)
        why = "" if found.text else "nothing of it agrees with the facts" if text else "the summarizer submitted none"
        update = {"usage": answered.usage(), "model": answered.response.model, "why": why}
        return found.model_copy(update=update)

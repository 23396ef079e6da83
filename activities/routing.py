"""The route of a task: by facts of its text and files, else one small model call, paid once.

A model that does not answer is no failure of the task: then the planner decides alone.
"""

from temporalio import activity

from activities.model import Model, ModelError
from activities.pulse import Pulse, pulse
from activities.short_calls import ShortCall, asked_once, short_request, submitted
from activities.task_folder import TaskFolder, Tasks
from activities.telemetry import working
from activities.trace import Teller
from baton.first_message import assignment_message
from baton.messages import TaskRef
from baton.pricing import Usage
from baton.routing import Route, Routed, TaskFacts, decided_by_facts, decided_by_person, shown_facts, task_facts
from baton.tool_inputs import SubmitRoute

ROUTER = "router"
_KEY = "route"


class Routing:
    """The activity that finds the route."""

    def __init__(self, tasks: Tasks, model: Model) -> None:
        self._tasks = tasks
        self._model = model

    @activity.defn(name="route")
    async def route(self, request: TaskRef) -> Routed:
        """The route of a task, if there is one."""
        folder = self._tasks.folder(request.task_id)
        async with pulse("choosing the way") as beat:
            if (known := folder.store.entry(_KEY)) is not None:
                return Routed.model_validate_json(known)
            asked, opened = folder.record.input, folder.record.opened
            facts = task_facts(asked.task, frozenset(await folder.repository.list_files(opened.base_commit)))
            route = decided_by_person(asked.settings.get("parallelExecution")) or decided_by_facts(facts)
            routed = Routed(route=route) if route is not None else await self._asked(folder, facts, beat)
            return Routed.model_validate_json(folder.store.enter(_KEY, routed.model_dump_json().encode()))

    async def _asked(self, folder: TaskFolder, facts: TaskFacts, beat: Pulse) -> Routed:
        opened = folder.record.opened
        message = assignment_message(
            {
                "role": ROUTER,
                "task": folder.record.input.task,
                "task_id": folder.path.name,
                "facts": shown_facts(facts),
                "survey": opened.survey,
            }
        )
        request = short_request(folder, message, asker=ROUTER, tools_of=ROUTER, prompt_name=ROUTER)
        try:
            with working(folder):
                call = ShortCall(_KEY, Teller(ROUTER, ROUTER, 1), request)
                answered = await asked_once(folder, self._model, call, beat)
        except ModelError as error:
            return Routed(usage=error.lost or Usage())
        found = submitted(answered.response, "submit_route", SubmitRoute)
        return Routed(route=Route(**found.model_dump()) if found else None, usage=answered.usage())

"""The route of a task: by facts of its text and files, else one small model call, paid once.

A model that does not answer is no failure of the task: then the planner decides alone.
"""

from temporalio import activity

from activities.model import Model, ModelError, ModelRequest
from activities.prompts import prompt
from activities.pulse import pulse
from activities.task_folder import TaskFolder, Tasks
from activities.telemetry import working
from baton.conversation import Response, calls
from baton.first_message import assignment_message
from baton.messages import TaskRef
from baton.pricing import Usage
from baton.roles import Role
from baton.routing import Route, Routed, TaskFacts, decided_by_facts, shown_facts, task_facts
from baton.tool_inputs import SubmitRoute
from baton.tool_schemas import parse, tools_for

ROUTER = "router"
ROUTE_TOKENS = 2_000
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
        async with pulse("choosing the way"):
            if (known := folder.store.entry(_KEY)) is not None:
                return Routed.model_validate_json(known)
            files = await folder.repository.list_files(folder.record.opened.base_commit)
            facts = task_facts(folder.record.input.task, frozenset(files))
            route = decided_by_facts(facts)
            routed = Routed(route=route) if route is not None else await self._asked(folder, request.task_id, facts)
            return Routed.model_validate_json(folder.store.enter(_KEY, routed.model_dump_json().encode()))

    async def _asked(self, folder: TaskFolder, task_id: str, facts: TaskFacts) -> Routed:
        opened = folder.record.opened
        message = assignment_message(
            {
                "role": ROUTER,
                "task": folder.record.input.task,
                "task_id": task_id,
                "facts": shown_facts(facts),
                "survey": opened.survey,
            }
        )
        request = ModelRequest(
            model=opened.settings.models.of(Role.SUMMARIZER),
            system=prompt(ROUTER),
            tools=tuple(tools_for(ROUTER)),
            messages=[{"role": "user", "content": [{"type": "text", "text": message}]}],
            max_tokens=ROUTE_TOKENS,
            user_id=f"{task_id}/{ROUTER}",
        )
        try:
            with working(folder):
                response = await self._model.respond(request, lambda _: None, opened.settings.prices)
        except ModelError as error:
            return Routed(usage=error.spent or Usage())
        return Routed(route=_submitted(response), usage=response.usage)


def _submitted(response: Response) -> Route | None:
    """The route, if the response is a complete `submit_route`."""
    for call in calls(response):
        arguments = parse(call.name, call.input, ["submit_route"])
        if isinstance(arguments, SubmitRoute) and call.fault is None:
            return Route(**arguments.model_dump())
    return None

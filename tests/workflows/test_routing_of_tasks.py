"""The router through the real workflow: facts, a small model, a person, and a model that does not answer."""

from collections.abc import Sequence
from typing import Any

import pytest

from baton.messages import TaskInput
from baton.status import TaskResult
from emulator.dialogue import Dialogue
from emulator.reply import Block, HttpError, Reply, ToolUse
from tests.end_to_end.bench import Rules, task
from tests.workflows.rig import Rig, answer, attention

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMES = "abcde"
UNSURE = {"mode": "parallel", "confidence": 0.4, "reason": "unclear", "question": "Which way?"}


class Planned:
    """A planner that plans nothing, and a router by rule; `seen` keeps what the planner was told."""

    def __init__(self, route: dict[str, Any] | None) -> None:
        self.route, self.planner, self.asked = route, {}, 0

    def __call__(self, dialogue: Dialogue) -> Reply | Sequence[Block]:
        if dialogue.assignment["role"] == "router":
            self.asked += 1
            if self.route is None:
                return Reply(fault=HttpError(400, "invalid_request_error"))
            return [ToolUse("submit_route", self.route)]
        self.planner = dict(dialogue.assignment)
        return [ToolUse("submit_plan", {"plan": []})]


def open_task(rig: Rig, text: str, **settings: Any) -> TaskInput:
    source = rig.repository(**dict.fromkeys(NAMES, "x = 1\n"))
    return task(source, **settings).model_copy(update={"task": text, "plan": None, "plan_only": True})


async def run(rig: Rig, model: Planned, text: str, **settings: Any) -> TaskResult:
    with rig.api(Rules(model)):
        return await rig.run(open_task(rig, text, **settings))


async def test_facts_alone_decide_where_they_can(rig: Rig) -> None:
    model = Planned(UNSURE)
    await run(rig, model, "Fix the rounding in a.py")
    assert (model.asked, model.planner["settings"]["mode"]) == (0, "single")


async def test_a_small_model_decides_the_rest_and_its_call_is_counted(rig: Rig) -> None:
    model = Planned({"mode": "parallel", "confidence": 0.9, "reason": "independent modules"})
    result = await run(rig, model, "Modernise all modules")
    assert model.asked == 1
    settings = model.planner["settings"]
    assert (settings["mode"], settings["strategy"]) == ("orchestrated", "parallel")
    assert result.usage.model_calls == 2


@pytest.mark.parametrize(("parallel", "strategy"), [(True, "parallel"), (False, "sequential")])
async def test_what_was_asked_for_at_the_start_is_not_asked_again(rig: Rig, parallel: bool, strategy: str) -> None:
    model = Planned(UNSURE)
    await run(rig, model, "Modernise all modules", parallelExecution=parallel)
    assert (model.asked, model.planner["settings"]["strategy"]) == (0, strategy)


async def test_a_person_is_asked_where_it_is_not_sure(rig: Rig) -> None:
    model = Planned(UNSURE | {"options": ["keep the API", "break it"]})
    with rig.api(Rules(model)):
        handle = await rig.start(open_task(rig, "Modernise all modules"))
        item = await attention(handle)
        assert (item.kind, item.question, item.choices) == ("question", "Which way?", ("keep the API", "break it"))
        await answer(handle, item, "break it")
        await handle.result()
    assert "The answer: break it" in model.planner["guidance"][0]


async def test_where_nobody_can_be_asked_steps_go_in_a_row(rig: Rig) -> None:
    model = Planned(UNSURE)
    await run(rig, model, "Modernise all modules", onLimit="integrate")
    assert model.planner["settings"]["strategy"] == "sequential"


async def test_a_router_that_does_not_answer_leaves_it_to_the_planner(rig: Rig) -> None:
    model = Planned(None)
    await run(rig, model, "Modernise all modules")
    assert model.planner["settings"]["mode"] == "auto"


ZERO = ({"outputTokens": 0}, {"costUsd": 0}, {"modelCalls": 0}, {"duration": "0s"})


@pytest.mark.parametrize("limits", ZERO, ids=str)
async def test_where_nothing_may_be_used_the_router_is_not_asked(rig: Rig, limits: dict[str, Any]) -> None:
    model = Planned(UNSURE)
    with rig.api(Rules(model)) as api:
        result = await rig.run(open_task(rig, "Modernise all modules", limits=limits, onLimit="stop"))
        assert not [exchange.path for exchange in api.requests if exchange.path == "/v1/messages"]
    assert (model.asked, result.usage.model_calls) == (0, 0)
    assert "limit" in result.summary


async def test_the_router_is_asked_after_a_raise(rig: Rig) -> None:
    model = Planned({"mode": "parallel", "confidence": 0.9, "reason": "independent modules"})
    with rig.api(Rules(model)):
        handle = await rig.start(open_task(rig, "Modernise all modules", limits={"duration": "0s"}))
        item = await attention(handle)
        assert (item.kind, model.asked) == ("limit", 0)
        given = {"attention_id": item.id, "choice": "raise", "comment": "1h"}
        await handle.execute_update("answer_attention", given)
        await handle.result()
    assert (model.asked, model.planner["settings"]["strategy"]) == (1, "parallel")

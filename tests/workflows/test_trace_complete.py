"""The trace of a run whose every activity dies once, after its work and before Temporal knows: nothing is missing,
nothing counts twice, and everything is in order."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from temporalio.worker import ExecuteActivityInput

from baton import trace
from baton.states import TaskState
from emulator.standin import StandIn
from tests.end_to_end.bench import task
from tests.workflows.rig import Attempt, Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")

OLD = "def hello(name):\n    return 'hello %s' % (name,)\n"
COMMAND = "test {item} != b.py && sed -i 's/%s/-/;s/ % (name,)//' {item}"
GATE = {"name": "compiles", "kind": "build", "command": "python3 -m compileall -q ."}


async def test_a_trace_is_complete_and_in_order_when_every_activity_dies_once(rig: Rig) -> None:
    died: Counter[str] = Counter()

    async def die_once(attempt: Attempt, given: ExecuteActivityInput) -> Any:
        done = await attempt()
        first = json.dumps([str(argument) for argument in given.args])
        died[f"{given.fn.__name__} {first}"] += 1
        if died[f"{given.fn.__name__} {first}"] == 1:
            raise OSError("the worker dies with what it did")
        return done

    source = rig.repository(a=OLD, b=OLD, c=OLD, d=OLD)
    given = task(source, gates=[GATE], review="always").model_copy(
        update={"plan": None, "task": f"Run `{COMMAND}` on every module that needs it", "integration": True}
    )
    with rig.api(StandIn()) as api, rig.around(die_once):
        result = await rig.run(given)
        asked = sum(exchange.path == "/v1/messages" for exchange in api.requests)
    assert result.state is TaskState.DONE, result.summary
    assert {"route", "run_commands", "merge_step", "run_gates", "summarize", "close_task"} <= {
        name.partition(" ")[0] for name in died
    }
    text = (Path(result.artifacts) / trace.NAME).read_text()
    told = trace.parse(text)
    assert told.unreadable == 0
    calls = told.of("model")
    assert len(calls) == len({line.response for line in calls}) == asked == result.usage.model_calls
    assert sum(line.output_tokens for line in calls) == result.usage.output_tokens
    assert sum(line.cost_usd for line in calls) == result.usage.cost_usd
    agents = {line.agent for line in told.of("started")}
    assert agents == {line.agent for line in told.of("ended")}
    assert len(told.of("started")) == len(agents) == len(told.of("ended"))
    for agent in agents:
        kinds = [line.kind for line in told.lines if line.agent == agent]
        assert (kinds[0], kinds[-1]) == ("started", "ended"), agent
    assert Counter((line.step, line.outcome) for line in told.of("merge")) == {
        (1, "merged"): 1,
        (2, "merged"): 1,
        (None, "nothing to merge"): 1,
    }
    assert len(told.of("command")) == 1
    assert [(line.outcome, line.name != "") for line in told.of("closed")] == [("done", True)]
    assert told.lines[-1].kind == "closed"

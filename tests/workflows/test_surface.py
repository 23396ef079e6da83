"""What a person tells a running task, by signal and by update: done at once, or refused and nothing changed."""

from typing import Any

import pytest
from temporalio.client import WorkflowHandle, WorkflowUpdateFailedError

from baton.names import UPDATES
from baton.roles import Role
from baton.states import TaskState
from tests.workflows.test_orchestration import Start, bench, plan_of, scripted, step

__all__ = ["bench"]


async def refusal(handle: WorkflowHandle[Any, Any], act: str, payload: Any) -> str:
    """Why an update is refused."""
    with pytest.raises(WorkflowUpdateFailedError) as raised:
        await handle.execute_update(UPDATES[act], payload)
    return str(raised.value.cause)


async def test_updates_do_what_the_signals_do(bench: Start) -> None:
    async with bench(scripted(plan_of(step(1))), {"requireApproval": True}) as one:
        handle = await one.start()
        waiting = await one.status(handle, lambda s: bool(s.attention))
        assert await handle.execute_update("pause_task") == "paused: the agents hand off and wait"
        paused = await one.status(handle, lambda s: True)
        assert paused.paused
        assert paused.paused_since is not None
        assert await handle.execute_update("unpause_task") == "the task goes on"
        (pause,) = (await one.status(handle, lambda s: not s.paused)).waits
        assert (pause.kind, pause.since) == ("pause", paused.paused_since)
        assert pause.until >= pause.since
        await handle.execute_update("answer_attention", {"attention_id": waiting.attention[0].id, "choice": "reject"})
        await one.status(handle, lambda s: len(one.files.assignments) == 2 and bool(s.attention))
        assert await handle.execute_update("approve_phase", {}) == "planning: approve was taken"
        await one.status(handle, lambda s: s.phase == "integrating" and bool(s.attention))
        await handle.execute_update("approve_phase", {"phase": "integration"})
        assert (await handle.result()).state is TaskState.DONE


async def test_what_makes_no_sense_is_refused_at_once_and_changes_nothing(bench: Start) -> None:
    async with bench(scripted(plan_of(step(1))), {"requireApproval": True}) as one:
        handle = await one.start()
        before = await one.status(handle, lambda s: bool(s.attention))
        for act, payload, why in (
            ("approve", {"phase": "integration"}, "no such approval is waited for"),
            ("reject", [], "must be a JSON object"),
            ("answer", {"attention_id": "x", "choice": "y"}, "there is no such question"),
            ("unpause", {}, "it is not paused"),
            ("guide", {"text": ""}, "the remark has no text"),
            ("guide", {"text": "x", "step": 9}, "there is no step 9; the steps are: 1"),
            ("set_limits", {"max_cost": 4}, "allowed are max_cost_usd"),
        ):
            assert why in await refusal(handle, act, payload)
        assert await one.status(handle, lambda s: True) == before
        await handle.signal("set_limits", {"max_cost": 4})
        await handle.signal("approve", "planning")
        after = await one.status(handle, lambda s: len(s.rejected_signals) == 2)
        assert after.attention == before.attention
        await handle.cancel()


async def test_guidance_reaches_every_agent_that_starts_later(bench: Start) -> None:
    async with bench(scripted(plan_of(step(1), step(2, items=("b.py",)))), {"requireApproval": True}) as one:
        handle = await one.start()
        await one.status(handle, lambda s: bool(s.attention))
        told = await handle.execute_update("give_guidance", {"text": "keep the names"})
        assert told.startswith("0 agents at work")
        await handle.signal("guide", {"text": "no new imports", "step": 2})
        await handle.signal("pause")
        await handle.execute_update("approve_phase", {"phase": "planning"})
        await handle.signal("guide", {"text": "said while paused"})
        await handle.signal("unpause")
        await one.status(handle, lambda s: s.phase == "integrating" and bool(s.attention))
        await handle.execute_update("approve_phase", {"phase": "integration"})
        await handle.result()
        seen = {(a.role, a.step.step if a.step else None): a.guidance for a in one.files.assignments}
        assert seen[Role.PLANNER, None] == ()
        assert seen[Role.EXECUTOR, 1] == ("keep the names", "said while paused")
        assert seen[Role.EXECUTOR, 2] == ("keep the names", "no new imports", "said while paused")
        assert "no new imports" not in seen[Role.INTEGRATOR, None]


async def test_raised_limits_hold_for_what_starts_later(bench: Start) -> None:
    settings = {"maxAgents": 2, "requireApproval": True, "approvePhases": ["planning"]}
    async with bench(scripted(plan_of(step(1), step(2, items=("b.py",)))), settings) as one:
        handle = await one.start()
        await one.status(handle, lambda s: bool(s.attention))
        assert await handle.execute_update("change_limits", {"max_agents": 9}) == "limits: max agents 9"
        await handle.execute_update("approve_phase")
        result = await handle.result()
        assert (result.state, result.agents) == (TaskState.DONE, 4)


def draft(*steps: int, description: str = "Do it.", **more: Any) -> dict[str, Any]:
    return {"plan": [{"step": n, "agent_type": "x", "description": description} for n in steps], **more}


async def test_a_plan_that_waits_is_replaced_and_asked_again_or_approved(bench: Start) -> None:
    settings = {"requireApproval": True, "approvePhases": ["planning"]}
    async with bench(scripted(plan_of(step(1))), settings) as one:
        handle = await one.start()
        before = await one.status(handle, lambda s: bool(s.attention))
        assert (
            await handle.execute_update("replace_plan", draft(1, 2)) == "the plan was replaced; it waits for approval"
        )
        again = await one.status(handle, lambda s: len(s.steps) == 2 and bool(s.attention))
        assert again.attention[0].id != before.attention[0].id
        assert "of nothing" not in str(one.files.written["plan.json"])
        for payload, why in (
            (draft(1, description="of nothing"), "- step 1: no items"),
            ({"plan": [{"step": 1}]}, "plan.0.agent_type: Field required"),
            (draft(1, approve="yes"), "approve must be true or false"),
        ):
            assert why in await refusal(handle, "revise_plan", payload)
        await handle.signal("revise_plan", draft(1, description="of nothing"))
        noted = await one.status(handle, lambda s: bool(s.rejected_signals))
        assert (len(noted.steps), noted.attention) == (2, again.attention)
        await handle.execute_update("replace_plan", draft(1, 2, 3, approve=True))
        result = await handle.result()
        assert (result.state, one.files.merged) == (TaskState.DONE, [1, 2, 3, None])


async def test_no_plan_is_replaced_where_none_waits(bench: Start) -> None:
    async with bench(scripted(plan_of(step(1)))) as one:
        one.files.block.clear()
        handle = await one.start()
        await one.status(handle, lambda s: s.phase == "planning")
        assert "no plan waits for approval" in await refusal(handle, "revise_plan", draft(1))
        one.files.block.set()
        await handle.result()

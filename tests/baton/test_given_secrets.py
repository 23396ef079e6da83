"""What starts a task holds no secret, wherever it stands; the message says where."""

import pytest

from baton.given_secrets import given_secret_fault
from baton.messages import TaskInput
from baton.plan import PlanDraft

TOKEN = "ghp_" + "k3Rw9ZbQ7mLx" * 3


def plan(**changes: object) -> PlanDraft:
    first = {"step": 1, "agent_type": "editor", "description": "edit", "items": ["a.py"]}
    return PlanDraft.model_validate({"plan": [first, first | {"step": 2} | changes]})


@pytest.mark.parametrize(
    ("where", "given"),
    [
        ("the task", TaskInput(task=f"Use {TOKEN}")),
        ("--plan: step 2, run", TaskInput(plan=plan(run=f"deploy --token {TOKEN}"))),
        ("--plan: step 2, description", TaskInput(plan=plan(description=f"create `t` with `{TOKEN}`"))),
        ("--plan: step 2, success_criteria", TaskInput(plan=plan(success_criteria=["fine", TOKEN]))),
        ("--plan: step 2, items", TaskInput(plan=plan(items=[f"{TOKEN}.txt"]))),
        ("--gate deploy", TaskInput(settings={"gates": [{"name": "deploy", "command": f"curl -H {TOKEN}"}]})),
        ("--gate", TaskInput(settings={"gates": [{"name": TOKEN, "command": "true"}]})),
        ("the setting models", TaskInput(settings={"models": {"executor": TOKEN}})),
        ("--gate x", TaskInput(resume=True, settings={"gates": [{"name": "x", "command": TOKEN}]})),
    ],
)
def test_a_secret_is_named_by_its_place(where: str, given: TaskInput) -> None:
    fault = given_secret_fault(given)
    assert fault is not None
    assert fault.startswith(f"{where} holds what looks like a secret (ghp_k3Rw…)")
    assert "read it from the environment" in fault
    assert TOKEN not in fault


def test_what_holds_none_is_taken() -> None:
    gates = [{"name": "tests", "command": 'curl -H "$TOKEN"', "timeout": "2m"}]
    assert given_secret_fault(TaskInput(task="Do it", plan=plan(run="make {item}"), settings={"gates": gates})) is None
    assert given_secret_fault(TaskInput(task=TOKEN, resume=True)) is None, "it was refused when it was given"

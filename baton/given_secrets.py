"""Secrets in what starts a task: its words, plan and settings are stored as they are, so none may stand there."""

from collections.abc import Iterator, Mapping
from typing import Any

from baton.messages import TaskInput
from baton.names import secret_fault
from baton.plan import PlanDraft
from baton.redaction import texts_of


def given_texts(task: TaskInput) -> Iterator[tuple[str, str]]:
    """Every text that a person gave, after the words for where it stands: `--plan: step 2, run`, `--gate lint`."""
    if not task.resume:
        yield "the task", task.task
    if task.plan is not None:
        yield from plan_texts(task.plan)
    yield from setting_texts(task.settings)


def plan_texts(plan: PlanDraft, name: str = "--plan") -> Iterator[tuple[str, str]]:
    """The texts of a plan's steps. `name`: what a person calls the plan."""
    for step in plan.plan:
        for key, value in step.model_dump(mode="json").items():
            for text in texts_of(value):
                yield f"{name}: step {step.step}, {key}", text


def setting_texts(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The texts of the command line's settings."""
    for key, value in settings.items():
        if key == "gates" and isinstance(value, list):
            for gate in value:
                name = gate.get("name", "") if isinstance(gate, Mapping) else ""
                for text in texts_of(gate):
                    yield f"--gate {'' if secret_fault('', str(name)) else name}".rstrip(), text
        else:
            for text in texts_of(value):
                yield f"the setting {key}", text


def given_secret_fault(task: TaskInput) -> str | None:
    """Why this cannot start a task; None where no text holds a secret that shows."""
    return next((fault for where, text in given_texts(task) if (fault := secret_fault(where, text)) is not None), None)

"""What an agent's first message holds, by role: small whatever the number of items, agents and steps before it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from baton.knowledge import needs_of
from baton.manifest import Manifest
from baton.merging import Conflict
from baton.messages import Assignment
from baton.plan import PlanStep
from baton.reviews import Subject
from baton.roles import Role, agent_id
from baton.step_outputs import PREFIX, expected

NAMES_SHOWN = 200
STEPS_SHOWN = 60
NEEDS_SHOWN = 100


def assignment_message(fields: Mapping[str, Any]) -> str:
    """The text block with which every conversation starts."""
    return f"<assignment>\n{json.dumps(fields, ensure_ascii=False, indent=1, default=str)}\n</assignment>"


def assignment_fields(
    assignment: Assignment, knowledge: Sequence[str], context: Mapping[str, Any] | None = None, diff: str = ""
) -> dict[str, Any]:
    """The assignment as its agent sees it; `knowledge` are the lines it inherits, `context` is its `input_context`,
    `diff` what a reviewer judges."""
    common: dict[str, Any] = {
        "role": assignment.role,
        "task": assignment.task,
        "task_id": assignment.task_id,
        "agent_id": agent_id(assignment.name, assignment.generation),
        "output_budget": assignment.budget.tokens,
        "manifest": _shown_manifest(assignment.manifest),
        "guidance": list(assignment.guidance),
    }
    match assignment.role:
        case Role.PLANNER:
            return common | {"survey": assignment.survey, "settings": assignment.shown_settings}
        case Role.INTEGRATOR:
            return common | {
                "plan": _shown_plan(assignment.plan),
                "results": [result.model_dump(mode="json", exclude_defaults=True) for result in assignment.results],
                "gates": [gate.model_dump(mode="json") for gate in assignment.gates],
                "consistency": (assignment.comparison or {}) | {"recorded": list(knowledge)},
            }
        case Role.RESOLVER:
            return common | {"conflict": _shown_conflict(assignment.conflict), "knowledge": list(knowledge)}
        case Role.REVIEWER:
            return common | {"step": _shown_step(assignment.step), "diff": diff} | _shown_subject(assignment.subject)
        case _:
            return common | {
                "plan": _shown_plan(assignment.plan),
                "step": _shown_step(assignment.step),
                "items": list(assignment.items[:NAMES_SHOWN]),
                "items_not_shown": max(0, len(assignment.items) - NAMES_SHOWN),
                "input_context": context,
                "outputs_expected": _expected(assignment),
                "needs": _needs(assignment),
                "knowledge": list(knowledge),
            }


def _expected(assignment: Assignment) -> list[str]:
    """Outputs that later steps want from this one."""
    number = assignment.step.step if assignment.step else 0
    return [f"{PREFIX}{number}/{name}" for name in expected(assignment.plan, number)]


def _needs(assignment: Assignment) -> list[dict[str, Any]]:
    """What other steps need in this one's files."""
    claims = (*assignment.items, *(assignment.step.owns if assignment.step else ()))
    found = needs_of(claims, assignment.knowledge)
    return [{"file": entry.file, "need": entry.text, "from": entry.agent_id} for entry in found[-NEEDS_SHOWN:]]


def _shown_subject(subject: Subject | None) -> dict[str, Any]:
    """What a reviewer is told of the work beside its diff."""
    if subject is None:
        return {"result": None}
    shown = subject.model_dump(mode="json", exclude={"since", "result"}, exclude_defaults=True)
    return {"result": subject.result} | shown


def _shown_conflict(conflict: Conflict | None) -> dict[str, Any] | None:
    if conflict is None:
        return None
    shown = conflict.model_dump(mode="json", exclude={"branch", "intents", "paths"})
    paths = [path.model_dump(mode="json", exclude_defaults=True) for path in conflict.paths]
    return shown | {"intents": [intent.model_dump(mode="json") for intent in conflict.intents], "paths": paths}


def _shown_step(step: PlanStep | None) -> dict[str, Any] | None:
    if step is None:
        return None
    return step.model_dump(mode="json", exclude={"items"}, exclude_none=True) | {"item_count": len(step.items)}


def _shown_plan(steps: Sequence[PlanStep]) -> list[dict[str, Any]]:
    """The plan in a line per step."""
    fields = {"step", "agent_type", "description", "depends_on"}
    return [step.model_dump(mode="json", include=fields) for step in steps[:STEPS_SHOWN]]


def _shown_manifest(manifest: Manifest | None) -> dict[str, Any] | None:
    """The manifest without what stands elsewhere in the message, long lists cut with their number."""
    if manifest is None:
        return None
    shown = manifest.model_dump(mode="json", exclude={"chain", "task_id", "pending_items"}, exclude_none=True)
    del shown["context"]["original_task"]
    shown["pending_count"] = len(manifest.pending_items)
    names = shown["completed_items"]
    if len(names) > NAMES_SHOWN:
        shown["completed_items"] = [f"… {len(names) - NAMES_SHOWN} earlier ones", *names[-NAMES_SHOWN:]]
    shown["agents_before"] = len(manifest.chain)
    return shown

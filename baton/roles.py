"""The roles of agents: which activity runs their turns, what ends their work, and what their first message says."""

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from baton.knowledge import Knowledge, lines_within
from baton.manifest import Manifest
from baton.plan import PlanStep

KNOWLEDGE_LIMIT_TOKENS = 4_000
NAMES_SHOWN = 200
"""A first message stays small whatever the number of items: longer lists are cut with their number."""


class Role(StrEnum):
    """What an agent is there for."""

    PLANNER = "planner"
    EXECUTOR = "executor"
    REVIEWER = "reviewer"
    RESOLVER = "resolver"
    INTEGRATOR = "integrator"
    SUMMARIZER = "summarizer"


TURN_ACTIVITIES: Mapping[Role, str] = {
    Role.PLANNER: "plan",
    Role.EXECUTOR: "execute_step",
    Role.REVIEWER: "review",
    Role.RESOLVER: "resolve",
    Role.INTEGRATOR: "integrate",
}

SUBMISSION_TOOLS: Mapping[Role, str] = {
    Role.PLANNER: "submit_plan",
    Role.EXECUTOR: "finish_step",
    Role.REVIEWER: "submit_review",
    Role.RESOLVER: "submit_resolution",
    Role.INTEGRATOR: "submit_integration",
}
"""The call with which an agent of the role says that its work is complete."""

WRITING_ROLES = frozenset({Role.EXECUTOR, Role.RESOLVER, Role.INTEGRATOR})
"""Roles that may change files; the same ones count against `max_agents`."""


def executor_name(step: PlanStep) -> str:
    """`executor-2-typescript-converter`."""
    return f"executor-{step.step}-{step.agent_type}"


def agent_id(name: str, generation: int) -> str:
    """The agent of a chain: successors are numbered from ~2."""
    return name if generation == 1 else f"{name}~{generation}"


def assignment_message(fields: Mapping[str, Any]) -> str:
    """The text block with which every conversation starts."""
    return f"<assignment>\n{json.dumps(fields, ensure_ascii=False, indent=1, default=str)}\n</assignment>"


def shown_step(step: PlanStep) -> dict[str, Any]:
    """A step as an agent sees it; its items come on their own."""
    shown = step.model_dump(mode="json", exclude={"items"}, exclude_none=True)
    return shown | {"item_count": len(step.items)}


def shown_plan(steps: Sequence[PlanStep]) -> list[dict[str, Any]]:
    """The whole plan in a line per step."""
    return [step.model_dump(mode="json", include={"step", "agent_type", "description", "depends_on"}) for step in steps]


def shown_manifest(manifest: Manifest | None) -> dict[str, Any] | None:
    """A manifest as the successor sees it: its own bytes, long lists cut."""
    if manifest is None:
        return None
    shown = manifest.model_dump(mode="json", exclude={"chain", "task_id"})
    del shown["context"]["original_task"]
    for key in ("completed_items", "pending_items"):
        shown[key] = shown_names(shown[key])
    return shown


def shown_names(names: Sequence[str]) -> list[str]:
    """Names for a prompt, at most `NAMES_SHOWN`, with the number of those left out."""
    if len(names) <= NAMES_SHOWN:
        return list(names)
    return [*names[:NAMES_SHOWN], f"… and {len(names) - NAMES_SHOWN} more"]


def shown_knowledge(knowledge: Knowledge) -> list[str]:
    """Knowledge within its own token limit."""
    return lines_within(knowledge, KNOWLEDGE_LIMIT_TOKENS)

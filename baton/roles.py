"""The roles of agents: which activity runs their turns, and what ends their work."""

from collections.abc import Mapping
from enum import StrEnum


class Role(StrEnum):
    """What an agent is there for."""

    PLANNER = "planner"
    EXECUTOR = "executor"
    REVIEWER = "reviewer"
    RESOLVER = "resolver"
    INTEGRATOR = "integrator"
    SUMMARIZER = "summarizer"


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


def agent_id(name: str, generation: int) -> str:
    """The agent of a chain: successors are numbered from ~2."""
    return name if generation == 1 else f"{name}~{generation}"

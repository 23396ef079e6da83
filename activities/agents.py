"""The beginning and the end of an agent: the first message and workspace, the verified manifest and what is left."""

import asyncio

from temporalio import activity

from activities.artifacts import Artifacts
from activities.prompts import system_prompt
from activities.pulse import pulse
from activities.task_folder import Tasks
from activities.workspace_lock import workspace_lock
from activities.workspaces import prepare_workspace
from baton.conversation import Opening
from baton.manifest import FromAgent, Handing, complete
from baton.messages import Assignment, CloseAgent, ClosedAgent, OpenedAgent
from baton.plan import Plan
from baton.roles import (
    NAMES_SHOWN,
    WRITING_ROLES,
    Role,
    agent_id,
    assignment_message,
    shown_knowledge,
    shown_manifest,
    shown_plan,
    shown_step,
)
from baton.tool_schemas import tools_for

NOT_OFFERED = frozenset({"ask_user", "ask_predecessor"})
"""Tools whose other side is not built yet; offering them would promise an answer that never comes."""


class Agents:
    """Opens and closes agents."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks

    @activity.defn(name="open_agent")
    async def open_agent(self, assignment: Assignment) -> OpenedAgent:
        """Prepare the workspace and store the conversation's root node."""
        folder = self._tasks.folder(assignment.task_id)
        async with pulse("preparing the workspace"), workspace_lock(folder.lock_path(assignment.workspace)):
            branch = assignment.workspace if assignment.role in WRITING_ROLES else None
            workspace = await folder.repository.open_workspace(assignment.workspace, assignment.start_commit, branch)
            commit, _ = await folder.repository.head(workspace)
            if assignment.generation == 1:
                await prepare_workspace(folder, workspace)
        tools = tools_for(assignment.role)
        opening = Opening(
            agent_id=_id(assignment),
            model=assignment.model,
            user_id=f"{assignment.task_id}/{_id(assignment)}",
            system=system_prompt(assignment.role),
            tools=tuple(tool for tool in tools if tool["name"] not in NOT_OFFERED),
            content=tuple(_content(assignment, folder.record.guidance)),
            items=assignment.items,
            owned=assignment.step.items if assignment.step else (),
            owns=assignment.step.owns if assignment.step else (),
            start_commit=assignment.start_commit,
        )
        return OpenedAgent(head=await asyncio.to_thread(folder.conversations.start, opening), commit=commit)

    @activity.defn(name="close_agent")
    async def close_agent(self, request: CloseAgent) -> ClosedAgent:
        """Complete and verify the manifest from facts, write it for people, and tell what the agent leaves."""
        assignment = request.assignment
        folder = self._tasks.folder(assignment.task_id)
        async with pulse("writing the manifest"), workspace_lock(folder.lock_path(assignment.workspace)):
            facts = folder.conversations.load(request.head).facts
            changed: list[str] = []
            if assignment.role in WRITING_ROLES:
                workspace = folder.workspace(assignment.workspace)
                await folder.repository.reset(workspace, request.commit)
                changed = [c.path for c in await folder.repository.changed_paths(workspace, assignment.start_commit)]
        successor = agent_id(assignment.name, assignment.generation + 1) if request.successor else None
        manifest = complete(
            Handing(
                agent_id=_id(assignment),
                successor_id=successor,
                task_id=assignment.task_id,
                task=assignment.task,
                reason=request.reason,
                from_agent=FromAgent(
                    id=_id(assignment),
                    output_tokens=request.usage.output_tokens,
                    turns=request.turns,
                    model=assignment.model,
                ),
                step=assignment.step,
                completed_steps=assignment.completed_steps,
                done_before=assignment.done,
                chain=assignment.chain,
                commit=request.commit,
                at=request.at,
            ),
            facts,
            changed,
        )
        if request.successor:
            await asyncio.to_thread(Artifacts(folder.artifacts).write_handoff, manifest)
        submission = facts.submission
        is_plan = submission is not None and submission.tool == "submit_plan"
        return ClosedAgent(
            manifest=manifest,
            records=tuple(record.model_copy(update={"commit": request.commit}) for record in facts.records.values()),
            knowledge=assignment.knowledge.with_entries(facts.knowledge),
            submission=None if is_plan else submission,
            plan=Plan.model_validate(submission.input) if submission is not None and is_plan else None,
            progressed=bool(facts.records or facts.knowledge or facts.written),
        )


def _id(assignment: Assignment) -> str:
    return agent_id(assignment.name, assignment.generation)


def _content(assignment: Assignment, guidance: str) -> list[dict[str, str]]:
    """The first user message: the project's guidance files, then the assignment."""
    blocks = [{"type": "text", "text": guidance}] if guidance.strip() else []
    return [*blocks, {"type": "text", "text": assignment_message(_fields(assignment))}]


def _fields(assignment: Assignment) -> dict[str, object]:
    common: dict[str, object] = {
        "role": assignment.role,
        "task": assignment.task,
        "task_id": assignment.task_id,
        "agent_id": _id(assignment),
        "output_budget": assignment.budget.tokens,
        "manifest": shown_manifest(assignment.manifest),
        "guidance": list(assignment.guidance),
    }
    match assignment.role:
        case Role.PLANNER:
            return common | {"survey": assignment.survey, "settings": assignment.shown_settings}
        case Role.INTEGRATOR:
            return common | {
                "plan": shown_plan(assignment.plan),
                "results": [result.model_dump(mode="json", exclude_defaults=True) for result in assignment.results],
                "gates": [gate.model_dump(mode="json") for gate in assignment.gates],
                "consistency": shown_knowledge(assignment.knowledge),
            }
        case _:
            return common | {
                "plan": shown_plan(assignment.plan),
                "step": shown_step(assignment.step) if assignment.step else None,
                "items": list(assignment.items[:NAMES_SHOWN]),
                "items_not_shown": max(0, len(assignment.items) - NAMES_SHOWN),
                "knowledge": shown_knowledge(assignment.knowledge),
            }

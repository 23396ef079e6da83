"""The tools of one turn: what its agent owns, may run and sees."""

from collections.abc import Callable
from functools import partial

from activities.python_origin import command_environment
from activities.sandbox import Sandbox
from activities.secret_guard import SecretGuard
from activities.submodule_writes import submodule_paths
from activities.task_folder import TaskFolder, sandbox_for
from activities.tools import Tools
from activities.workspace_lock import WorkspaceLock
from baton.conversation import Opening
from baton.messages import TurnRequest
from baton.ownership import Ownership
from baton.permissions import Permissions
from baton.plan import Plan
from baton.roles import WRITING_ROLES, Role
from baton.schedule import others_paths

OWNERSHIPS_KEPT = 32
"""Of agents at work: each has thousands of paths of others where a plan has thousands of items."""


def workspace_tools(
    folder: TaskFolder,
    request: TurnRequest,
    opening: Opening,
    lock: WorkspaceLock,
    sandbox: Sandbox | None,
    secrets: tuple[str, ...],
    on_output: Callable[[], None] | None = None,
) -> Tools:
    """The tools for one turn of the agent that `opening` describes. `on_output`: told when a command prints."""
    record = folder.record
    settings = record.opened.settings
    workspace = folder.workspace(request.workspace)
    kind = record.agent_type(opening.agent_type)
    permissions = Permissions(
        allow=record.permissions.allow,
        deny=(*record.permissions.deny, *(kind.scoped_refusals if kind else ())),
        ask=record.permissions.ask,
        only=kind.scoped_grants if kind else (),
        project_root=record.opened.source,
    )
    return Tools(
        workspace,
        ownership=ownership_of(folder, request, opening),
        permissions=permissions,
        environment=record.environment,
        for_commands=partial(command_environment, record.environment, workspace, folder.checkout),
        available=[tool["name"] for tool in opening.tools],
        gate_commands=[gate.command for gate in record.opened.gates],
        sandbox=sandbox_for(folder, sandbox),
        sandbox_mode=settings.sandbox,
        on_start=lock.remember,
        on_output=on_output,
        base_commit=opening.start_commit,
        git=folder.repository.git_command(workspace),
        guard=SecretGuard(
            workspace,
            git=folder.repository.git_command(workspace),
            environment=record.environment,
            base_commit=opening.start_commit,
            commit=request.commit or opening.start_commit,
            credentials=secrets,
            readable=[folder.checkout] if folder.checkout else [],
            files=folder.secret_files,
        ),
        outputs=folder.outputs(opening.step if request.role is Role.EXECUTOR else None),
        submodules=partial(submodule_paths, folder.repository.git(), opening.start_commit, workspace),
    )


def ownership_of(folder: TaskFolder, request: TurnRequest, opening: Opening) -> Ownership:
    """What the agent may change. The integrator works on the whole result; an executor on its part of the plan."""
    if request.role not in WRITING_ROLES:
        return Ownership(read_only=True)
    plan = folder.plan
    if opening.step is None or plan is None:
        return Ownership(items=opening.owned, owns=opening.owns)
    return _ownership_in(plan, opening.step, opening, folder)


def _ownership_in(plan: Plan, step: int, opening: Opening, folder: TaskFolder) -> Ownership:
    """As the plan has it; kept from turn to turn."""
    known = folder.ownerships.pop(opening.user_id, None)
    if known is None or known[0] is not plan:
        also = opening.also_owned
        others = others_paths(plan.plan, step, (*opening.owned, *also))
        known = plan, Ownership(items=opening.owned, owns=opening.owns, also=also, others=others)
    folder.ownerships[opening.user_id] = known
    while len(folder.ownerships) > OWNERSHIPS_KEPT:
        folder.ownerships.popitem(last=False)
    return known[1]

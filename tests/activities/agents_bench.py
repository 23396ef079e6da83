"""One task composed as the worker composes it: a real repository, the real SDK, and a scripted model behind HTTP.

`Bench.restart` gives the view of a new process: nothing is cached, only what is on disk is known.
"""

import json
import os
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anthropic
from temporalio.testing import ActivityEnvironment

from activities.agents import Agents
from activities.credentials import Credentials
from activities.model import Model
from activities.task_folder import TaskFolder, TaskRecord, Tasks
from activities.turn import Turns
from baton.agent import AgentState, Ask, Move, next_move, remaining
from baton.chain import successor
from baton.conversation import Notice
from baton.manifest import HandoffReason
from baton.messages import (
    Assignment,
    CloseAgent,
    ClosedAgent,
    OpenedAgent,
    OpenedTask,
    TaskInput,
    TurnOutcome,
    TurnRequest,
)
from baton.plan import PlanStep
from baton.roles import WRITING_ROLES, Role, agent_id
from baton.settings import Settings
from emulator.reply import Reply, ScriptedModel, Text, ToolUse
from emulator.request import Request
from emulator.server import EmulatorServer

TASK = "bench-task"
MODEL = "claude-opus-5-5"
KEY = "sk-ant-bench-0123456789abcdef"
AT = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)
ITEMS = ("src/a.py", "src/b.py")
FILES = {"src/a.py": "A = 1\n", "src/b.py": "B = 1\n", "docs/guide.md": "# Guide\n"}
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}

Answer = Reply | Callable[[Request], Reply]
MakeBench = Callable[..., Awaitable["Bench"]]
Serve = Callable[..., EmulatorServer]


def call(name: str, **arguments: Any) -> ToolUse:
    """A tool call."""
    return ToolUse(name, arguments)


def says(*texts: str, stop_reason: str | None = None) -> Reply:
    """A reply of text only."""
    return Reply([Text(text) for text in texts], stop_reason)


def does(*calls: ToolUse) -> Reply:
    """A reply that calls tools."""
    return Reply(calls)


def make_source(path: Path, files: Mapping[str, str] = FILES) -> Path:
    """The user's repository with one commit."""
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(text.encode())
    git(path, "init", "-q", "-b", "main")
    git(path, "add", "-A")
    git(path, "-c", "user.name=Ada", "-c", "user.email=ada@example.invalid", "commit", "-q", "-m", "start")
    return path


def git(folder: Path, *arguments: str) -> str:
    """Plain git, for looking at what ours did."""
    environment = {**ENVIRONMENT, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(["git", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def differing(workspace: Path) -> str:
    """What differs on disk from the last checkpoint, which the workspace's own index and HEAD need not have reached."""
    index, last = workspace.parents[1] / f"{workspace.name}.index", f"refs/heads/{workspace.name}"
    environment = {**ENVIRONMENT, "GIT_INDEX_FILE": str(index)}
    subprocess.run(["git", "read-tree", last], cwd=workspace, env=environment, check=True)
    command = ["git", "status", "--porcelain=v2", "--no-renames"]
    done = subprocess.run(command, cwd=workspace, env=environment, capture_output=True, text=True, check=True)
    # The second letter is about index and disk; the first, about HEAD and index.
    return "\n".join(line for line in done.stdout.splitlines() if line[0] == "?" or line[3] != ".")


@dataclass
class Agent:
    """One agent of a chain, driven as its workflow drives it."""

    bench: "Bench"
    assignment: Assignment
    state: AgentState
    run_id: str
    opening_head: str

    @property
    def id(self) -> str:
        return agent_id(self.assignment.name, self.assignment.generation)

    @property
    def workspace(self) -> Path:
        return self.bench.folder.workspace(self.assignment.workspace)

    async def furnished(self) -> "Agent":
        """The agent with its workspace, which its first turn would make otherwise."""
        writes = self.assignment.role in WRITING_ROLES
        name, start = self.assignment.workspace, self.state.commit
        await self.bench.folder.repository.open_workspace(name, start, name if writes else None)
        return self

    def request(self, max_tokens: int = 4_000, notices: Sequence[Notice] = ()) -> TurnRequest:
        """The next turn, as the workflow asks for it."""
        return TurnRequest(
            task_id=TASK,
            agent_id=self.id,
            role=self.assignment.role,
            workspace=self.assignment.workspace,
            head=self.state.head,
            commit=self.state.commit,
            turn=self.state.turn + 1,
            max_tokens=max_tokens,
            notices=tuple(notices),
            left=remaining(self.assignment.allowance, self.state.usage + self.state.extra_usage),
        )

    async def attempt(self, request: TurnRequest, number: int = 1) -> TurnOutcome:
        """One attempt of a turn; the state stays as it is."""
        turn = self.bench.turns.plan if request.role is Role.PLANNER else self.bench.turns.execute_step
        outcome: TurnOutcome = await self.bench.environment(self.run_id, number).run(turn, request)
        return outcome

    async def turn(self, max_tokens: int = 4_000, notices: Sequence[Notice] = ()) -> TurnOutcome:
        """One turn whatever `next_move` would say."""
        outcome = await self.attempt(self.request(max_tokens, notices))
        self.state = self.state.after(outcome)
        return outcome

    def move(self) -> Move:
        """What the workflow would do now."""
        return next_move(self.assignment, self.state)

    async def go_on(self) -> TurnOutcome:
        """The turn that the workflow would ask for now."""
        ask = self.move()
        assert isinstance(ask, Ask), ask
        outcome = await self.turn(ask.max_tokens, ask.notices)
        self.state = self.state.model_copy(
            update={"prepared": self.state.prepared or ask.prepared, "hand_off_asked": ask.hand_off_asked}
        )
        return outcome

    async def close(
        self, reason: HandoffReason = HandoffReason.OUTPUT_LIMIT, *, has_successor: bool = True
    ) -> ClosedAgent:
        """The agent's end."""
        request = CloseAgent(
            assignment=self.assignment,
            head=self.state.head,
            commit=self.state.commit,
            turns=self.state.turn,
            usage=self.state.usage,
            records=self.state.records,
            knowledge=(*self.state.inherited, *self.state.knowledge),
            reason=reason,
            successor=has_successor,
            at=AT,
        )
        closed: ClosedAgent = await self.bench.environment(self.run_id).run(self.bench.agents.close_agent, request)
        return closed

    async def succeed(self, reason: HandoffReason = HandoffReason.OUTPUT_LIMIT) -> "Agent":
        """Hand off, and open the successor."""
        closed = await self.close(reason)
        return await self.bench.start(successor(self.assignment, self.state, closed.manifest))

    def commits(self) -> list[str]:
        """Subjects of the checkpoints since the step's start, oldest first."""
        repository, branch = self.bench.folder.repository.path, self.assignment.workspace
        if not git(repository, "for-each-ref", f"refs/heads/{branch}"):
            return []
        since = f"{self.assignment.start_commit}..refs/heads/{branch}"
        return git(repository, "log", "--reverse", "--format=%s", since).splitlines()


class Bench:
    """The task, its model and the composed activities."""

    def __init__(self, state: Path, source: Path, server: EmulatorServer) -> None:
        self.state = state
        self.source = source
        self.server = server
        self.credentials = Credentials(state / "service" / "credentials.json", environment={})
        credentials = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url}
        (state / "service").mkdir(parents=True)
        (state / "service" / "credentials.json").write_text(json.dumps(credentials), encoding="utf-8")
        self.longest_silence = timedelta(seconds=20)
        self.runs = 0
        self.heartbeats: list[dict[str, Any]] = []
        self.restart()

    def restart(self) -> None:
        """A new process: everything is composed anew over what is on disk."""
        self.model = Model(self._client, longest_silence=self.longest_silence)
        self.tasks = Tasks(self.state)
        self.turns = Turns(self.tasks, self.model, self.credentials)
        self.agents = Agents(self.tasks, self.model, self.credentials)

    @property
    def folder(self) -> TaskFolder:
        return self.tasks.folder(TASK)

    async def create(self) -> None:
        """What `open_task` makes: the record and the private repository."""
        facts = await self.folder.repository.inspect(str(self.source))
        await self.folder.repository.create(facts)
        artifacts = self.state / "artifacts"
        artifacts.mkdir()
        opened = OpenedTask(
            host_queue="bench",
            source=str(self.source),
            base_commit=facts.base_commit,
            base_name="main",
            settings=Settings.model_validate({"sandbox": "off"}),
            artifacts=str(artifacts),
        )
        task = TaskInput(task="Modernise the modules", repository=str(self.source))
        self.folder.write_record(TaskRecord(task_id=TASK, input=task, opened=opened, environment=ENVIRONMENT))

    def environment(self, run_id: str, attempt: int = 1) -> ActivityEnvironment:
        """Temporal's side of one attempt of an activity."""
        environment = ActivityEnvironment()
        environment.info = replace(environment.info, workflow_run_id=run_id, attempt=attempt)
        environment.on_heartbeat = self.heartbeats.append
        return environment

    def assignment(self, **changes: Any) -> Assignment:
        """The executor's, unless changed."""
        step = PlanStep(
            step=2, agent_type="converter", description="Modernise", items=ITEMS, success_criteria=("works",)
        )
        start = self.folder.record.opened.base_commit
        plain = Assignment(
            task_id=TASK,
            task="Modernise the modules",
            role=Role.EXECUTOR,
            name="executor-2-converter",
            model=MODEL,
            successors_left=5,
            workspace="step-2",
            start_commit=start,
            step=step,
            items=ITEMS,
            plan=(step.model_copy(update={"items": ()}),),
            completed_steps=(1,),
        )
        return plain.model_copy(update=changes)

    async def start(self, assignment: Assignment | None = None, run_id: str = "") -> Agent:
        """Open an agent; once more the same one with its `run_id`."""
        assignment = assignment or self.assignment()
        self.runs += 1
        run_id = run_id or f"run-{self.runs}"
        opened: OpenedAgent = await self.environment(run_id).run(self.agents.open_agent, assignment)
        assignment = assignment.model_copy(update={"generation": opened.generation})
        state = AgentState(head=opened.head, commit=opened.commit, extra_usage=opened.usage, inherited=opened.knowledge)
        return Agent(self, assignment, state, run_id, opened.head)

    def statuses(self) -> list[int]:
        """HTTP status of every model call so far."""
        return [exchange.status for exchange in self.server.requests if exchange.path == "/v1/messages"]

    def sent(self, number: int = -1) -> list[dict[str, Any]]:
        """The messages of one request, without cache breakpoints."""
        body = self.server.bodies[number]
        assert body is not None
        return [
            {**message, "content": [{k: v for k, v in b.items() if k != "cache_control"} for b in message["content"]]}
            for message in body["messages"]
        ]

    def _client(self) -> anthropic.AsyncAnthropic:
        found = self.credentials.current()
        return anthropic.AsyncAnthropic(
            api_key=found["ANTHROPIC_API_KEY"],
            base_url=found["ANTHROPIC_BASE_URL"],
            max_retries=0,
            open_telemetry=False,
        )


def texts(content: Sequence[Mapping[str, Any]]) -> str:
    """All text of some blocks, results included."""
    return "\n".join(str(block.get("text") or block.get("content") or "") for block in content)


def script(*replies: Answer) -> ScriptedModel:
    """A model that gives these replies."""
    return ScriptedModel(replies)

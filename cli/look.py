"""What a client saw of a task at one moment; every view is made from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from baton.pricing import Usage
from baton.status import AgentStatus, TaskStatus


@dataclass(frozen=True)
class Pulse:
    """The heartbeat of a running turn: what is being done, and an estimate of the output tokens of this turn."""

    doing: str = ""
    tokens: int = 0


@dataclass(frozen=True)
class Look:
    """`pulses` by workflow id. `hint` says why the status may be old; `closed` that the workflow has ended,
    `terminated` that it was ended from outside and could not stop its steps itself."""

    status: TaskStatus
    pulses: Mapping[str, Pulse] = field(default_factory=dict)
    hint: str = ""
    closed: bool = False
    terminated: bool = False

    @property
    def usage(self) -> Usage:
        """What was used so far: chains of agents that ended, and those at work."""
        return sum((agent.usage for agent in self.status.agents_at_work), self.status.usage)

    @property
    def agents(self) -> int:
        """Agents so far, those at work and their predecessors included."""
        return self.status.agents + sum(generation(agent) for agent in self.status.agents_at_work)


def generation(agent: AgentStatus) -> int:
    """Which of its chain an agent is: `name~3` is the third."""
    _, _, number = agent.agent_id.partition("~")
    return int(number) if number.isdecimal() else 1

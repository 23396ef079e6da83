"""One question for all agents of a task that wait for the same help: a spend limit, or a key that was refused."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from baton.messages import AgentEvent, Direction
    from baton.quota import ACCOUNT
    from workflows.attention import Attention

KIND = "credentials"


class AccountQuestion:
    """The question about the provider's account, open as long as an agent waits for its answer."""

    def __init__(self, attention: Attention) -> None:
        self._attention = attention
        self._waiting: dict[str, None] = {}
        self._name: str | None = None

    def take(self, event: AgentEvent) -> bool:
        """An agent waits, or goes on; whether the event was nothing else than that question."""
        if event.kind != "attention" or event.attention != ACCOUNT:
            self.goes_on(event.workflow_id)
            return False
        self._waiting[event.workflow_id] = None
        if self._name is None:
            self._name = self._attention.put(KIND, event.detail, event.choices)
        return True

    def goes_on(self, workflow_id: str) -> None:
        """This agent does not wait any more; with the last one the question goes."""
        self._waiting.pop(workflow_id, None)
        if self._name is not None and not self._waiting:
            name, self._name = self._name, None
            self._attention.drop(name)

    def holds(self, name: str) -> bool:
        """Whether this is the question."""
        return self._name is not None and name == self._name

    def answered(self, choice: str) -> tuple[tuple[str, Direction], ...]:
        """A person's answer, and who is to be told."""
        directions = tuple((name, Direction(kind="choice", text=choice)) for name in self._waiting)
        name, self._name = self._name, None
        self._waiting.clear()
        if name is not None:
            self._attention.take(name)
        return directions

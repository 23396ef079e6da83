"""The numbers of a task's agents: the host remembers them, so none is given twice, whatever is resumed or reset."""

from activities.store import Store


def agent_number(store: Store, name: str, wanted: int, run_id: str) -> int:
    """The number of the agent that this run of the workflow is: the one it got before, else the next free one."""
    number = wanted
    while store.enter(f"agent/{name}/{number}", run_id.encode()) != run_id.encode():
        number += 1
    return number

"""What branches hold that are not on the result: after a hard stop the checkpoints vouch for what agents finished."""

from activities.git import split
from activities.store import LostBlobError
from activities.task_folder import TaskFolder
from activities.working_tree import TRAILER_AGENT, TRAILER_RESULT, trailers_of
from baton.conversation import Turn
from baton.facts import TurnFacts
from baton.knowledge import Entry
from baton.ledger import ItemRecord, grouped, merge
from baton.pricing import Usage
from baton.progress import Progress, Salvaged

BRANCHES = "refs/heads/step-"


async def salvage(folder: TaskFolder, progress: Progress) -> tuple[Salvaged, ...]:
    """The chains of steps without a result whose branches hold checkpoints that were not merged."""
    open_steps = (
        {step.step for step in progress.plan.plan if step.step not in progress.results} if progress.plan else ()
    )
    git = folder.repository.git()
    refs = (await git.text("for-each-ref", "--format=%(refname) %(objectname)", f"{BRANCHES}*")).splitlines()
    found = []
    for ref, tip in (line.split(" ") for line in refs):
        label = ref.removeprefix(BRANCHES)
        number = label.partition(".")[0]
        if number.isdigit() and int(number) in open_steps and progress.merged.get(label) != tip:
            one = await _salvaged(folder, progress, int(number), label, tip)
            found += [one] if one is not None else []
    return tuple(sorted(found, key=lambda one: [int(part) for part in one.label.split(".")]))


async def _salvaged(folder: TaskFolder, progress: Progress, step: int, label: str, tip: str) -> Salvaged | None:
    since = progress.starts.get(step) or folder.record.opened.base_commit
    log = await folder.repository.git().output("log", "-z", "--reverse", "--format=%H%n%B", f"{since}..{tip}", "--")
    records: list[ItemRecord] = []
    knowledge: list[Entry] = []
    last: dict[str, str] = {}
    for entry in split(log):
        commit, _, text = entry.decode("utf-8", "replace").partition("\n")
        trailers = trailers_of(text)
        if not (node := trailers.get(TRAILER_RESULT)):
            continue
        last[trailers.get(TRAILER_AGENT, "")] = node
        facts = _facts(folder, node)
        records += [record.model_copy(update={"commit": commit}) for record in facts.items]
        knowledge += facts.knowledge
    if not last:
        return None
    counted = label in progress.chains
    return Salvaged(
        step=step,
        label=label,
        tip=tip,
        records=grouped(merge(dict.fromkeys(record.item for record in records), records)),
        knowledge=() if counted else tuple(knowledge),
        usage=Usage() if counted else sum((_usage(folder, node) for node in last.values()), Usage()),
        agents=0 if counted else len(last),
    )


def _facts(folder: TaskFolder, name: str) -> TurnFacts:
    try:
        node = folder.conversations.node(name)
    except LostBlobError:
        return TurnFacts()
    return TurnFacts.model_validate(node.facts) if isinstance(node, Turn) else TurnFacts()


def _usage(folder: TaskFolder, head: str) -> Usage:
    """What the agent whose conversation ends here used, as far as it is known."""
    try:
        turns = folder.conversations.load(head).turns
    except LostBlobError:
        return Usage()
    return sum((turn.response.usage + turn.extra_usage for turn in turns), Usage())

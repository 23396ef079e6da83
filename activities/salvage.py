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
from baton.resume import open_or_unmerged
from baton.schedule import branch_prefix

BRANCHES = "refs/heads/"


async def salvage(folder: TaskFolder, progress: Progress) -> tuple[Salvaged, ...]:
    """The chains of steps whose branches hold checkpoints that were not merged. Of a step that is done again only the
    newest branches count."""
    git = folder.repository.git()
    heads = await git.text("for-each-ref", "--format=%(refname:lstrip=2) %(objectname)", BRANCHES)
    tips = dict(line.split(" ") for line in heads.splitlines())
    found = []
    for step in open_or_unmerged(progress):
        again = progress.again.get(step)
        prefix = branch_prefix(again.times if again else 0)
        for branch, tip in tips.items():
            label = branch.removeprefix(prefix)
            if branch.startswith(prefix) and label.partition(".")[0] == str(step) and progress.merged.get(label) != tip:
                one = await _salvaged(folder, progress, step, label, branch, tip)
                found += [one] if one is not None else []
    return tuple(sorted(found, key=lambda one: [int(part) for part in one.label.split(".")]))


async def _salvaged(
    folder: TaskFolder, progress: Progress, step: int, label: str, branch: str, tip: str
) -> Salvaged | None:
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
    counted = label in progress.chains or step in progress.results
    return Salvaged(
        step=step,
        label=label,
        branch=branch,
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

"""Conflicts of a merge as payloads, and what may be done about them.

A conflict names both sides: the step that is merged and the steps whose commits on the result touched the same paths.
"""

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal

from pydantic import Field

from baton.findings import GateKind, GateOutcome, GateResult, GateSpec
from baton.knowledge import Entry, Knowledge
from baton.ledger import ItemRecord, ItemStatus
from baton.merge_tree import ConflictKind
from baton.models import Stored
from baton.ownership import Ownership
from baton.plan import Plan, PlanStep

PATHS_KEPT = 200
"""More would not fit a small payload; the verification looks at all of them."""
PATHS_NAMED = 8
KNOWLEDGE_KEPT = 12

OURS, THEIRS, AGENT, REDO, EDIT = "ours", "theirs", "agent", "redo", "edit"
CHOICES = (OURS, THEIRS, AGENT, REDO, EDIT)

Side = Literal["ours", "theirs"]
Settling = Literal["agent", "edit", "ours", "theirs"]
"""What is verified or done in a workspace where a conflict is laid out."""

CHEAP = timedelta(minutes=1)
QUICK = timedelta(seconds=10)
"""After every merge those gates run that were fast on the base commit; tests only when they are over at once."""
_LIMITS = {
    GateKind.LINT: CHEAP,
    GateKind.TYPES: CHEAP,
    GateKind.BUILD: CHEAP,
    GateKind.TEST: QUICK,
    GateKind.CUSTOM: QUICK,
}

_WORDS = {
    ConflictKind.SUBMODULE: "both moved the submodule",
    ConflictKind.BINARY: "both changed a binary file",
    ConflictKind.FILE_DIRECTORY: "a file on one side, a folder on the other",
    ConflictKind.TYPE: "a file on one side, a link on the other",
    ConflictKind.LINK: "links to different places",
    ConflictKind.RENAME_RENAME: "renamed to different names",
    ConflictKind.RENAME_DELETE: "renamed on one side, deleted on the other",
    ConflictKind.RENAME_COLLISION: "two files of one name after a rename",
    ConflictKind.DIRECTORY_RENAME: "its folder was renamed on the other side",
    ConflictKind.MODIFY_DELETE: "changed on one side, deleted on the other",
    ConflictKind.MODE: "different file modes",
    ConflictKind.BOTH_ADDED: "both added it",
    ConflictKind.CONTENT: "both changed the same lines",
    ConflictKind.OTHER: "not merged by git",
}


class PathConflict(Stored):
    """One path in conflict. `stages`: which of base, ours (the result) and theirs (the step) have it."""

    path: str
    kind: ConflictKind
    stages: tuple[Literal["base", "ours", "theirs"], ...] = ()
    other_paths: tuple[str, ...] = ()
    message: str = ""
    versions: dict[str, str] = Field(default_factory=dict)
    """The text of each side where the file in the working tree does not show it by markers."""

    def line(self) -> str:
        """The path and what is wrong with it."""
        return f"{self.path} ({_WORDS[self.kind]})"


class Intent(Stored):
    """What a step wanted, for whoever resolves its conflict."""

    step: int
    description: str = ""
    summary: str = ""


class Conflict(Stored):
    """A step that does not merge. `head`: the result it met. `others`: the steps whose commits touched the paths."""

    step: int | None
    branch: str
    head: str
    others: tuple[int, ...] = ()
    paths: tuple[PathConflict, ...] = ()
    paths_left_out: int = 0
    intents: tuple[Intent, ...] = ()
    knowledge: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every path that takes part, those that were renamed included."""
        return tuple(dict.fromkeys(name for path in self.paths for name in (path.path, *path.other_paths)))

    @property
    def owners(self) -> tuple[int, ...]:
        """The steps that take part."""
        return (*(() if self.step is None else (self.step,)), *self.others)

    def without_versions(self) -> "Conflict":
        """The same without the text of the sides, for who does not resolve it."""
        paths = tuple(path.model_copy(update={"versions": {}}) for path in self.paths)
        return self.model_copy(update={"paths": paths})

    def described(self) -> str:
        """What conflicts, in a line."""
        named = ", ".join(path.line() for path in self.paths[:PATHS_NAMED])
        more = len(self.paths) + self.paths_left_out - PATHS_NAMED
        return f"{named} and {more} more" if more > 0 else named


class Resolution(Stored):
    """How a conflict was resolved: by which agent or by a person's choice, and why that is right.

    `gave_way`: paths where nothing of the step's version is left, as facts show it.
    """

    by: str
    choice: str = AGENT
    paths: tuple[str, ...] = ()
    resolution: str = ""
    rationale: str = ""
    gave_way: tuple[str, ...] = ()


class PrepareConflict(Stored):
    """Input of `prepare_conflict`: merge `branches` as `merge_step` would, and lay the conflict out in a workspace."""

    task_id: str
    step: int | None
    branches: tuple[str, ...]
    workspace: str


class PreparedConflict(Stored):
    """The conflict laid out at `path`, at `commit`; none when the branches merge cleanly now.

    `rest`: branches that are still to be merged after this one.
    """

    conflict: Conflict | None = None
    commit: str = ""
    path: str = ""
    rest: tuple[str, ...] = ()


class SettleConflict(Stored):
    """Input of `settle_conflict`: verify what an agent (`agent`) or a person (`edit`) made of the conflict in the
    workspace, or take one side (`ours`, `theirs`). `owners`: the steps whose files an agent may have changed too."""

    task_id: str
    workspace: str
    commit: str
    branch: str
    choice: Settling
    owners: tuple[int, ...] = ()


class SettledConflict(Stored):
    """The commit of the resolution, or in sentences why it is none yet. `gave_way`: paths in conflict that are as the
    result had them, though the step had them otherwise."""

    commit: str = ""
    faults: tuple[str, ...] = ()
    gave_way: tuple[str, ...] = ()


def cheap_gates(gates: Sequence[GateSpec], baseline: Sequence[GateResult]) -> tuple[GateSpec, ...]:
    """The gates to run after every merge, judged by how long they took on the base commit."""
    cheap = {
        result.name
        for result in baseline
        if result.outcome is not GateOutcome.INCONCLUSIVE
        and timedelta(seconds=result.duration_seconds) <= _LIMITS.get(result.kind, timedelta(-1))
    }
    return tuple(gate for gate in gates if gate.name in cheap)


def settling(choice: str) -> Settling:
    """A person's choice that a workspace is settled by. ValueError for one that is no such choice."""
    match choice:
        case "ours" | "theirs" | "edit":
            return choice
    raise ValueError(f"{choice!r} settles nothing")


def sent_back(faults: Sequence[str]) -> str:
    """What the resolver is told whose work is not taken yet."""
    return (
        "Your working copy holds a resolution that was not taken. Mend it and submit again: " + "; ".join(faults) + "."
    )


def conflict_ownership(paths: Iterable[str], steps: Iterable[PlanStep], owners: Collection[int]) -> Ownership:
    """What a resolver may change: the paths in conflict, and what the steps that take part in it own."""
    taking_part = [step for step in steps if step.step in owners]
    items = dict.fromkeys([*paths, *(item for step in taking_part for item in step.items)])
    return Ownership(items=tuple(items), owns=tuple(glob for step in taking_part for glob in step.owns))


def beside_the_conflict(path: str, commit: str) -> str:
    """What a person is told who changed more than the conflict by hand; `commit` lays it out."""
    return (
        f"{path} was changed too, and is neither in conflict nor a file of the steps that take part: bring it back "
        f"with git restore --source={commit[:12]} -- {shlex.quote(path)}, and make that change after the task"
    )


def with_intents(conflict: Conflict, plan: Plan, summaries: Mapping[int, str], knowledge: Knowledge) -> Conflict:
    """The conflict with what each side wanted, and the knowledge that names one of its paths or steps."""
    steps = {step.step: step for step in plan.plan}
    intents = tuple(
        Intent(step=number, description=steps[number].description, summary=summaries.get(number, ""))
        for number in dict.fromkeys(conflict.owners)
        if number in steps
    )
    return conflict.model_copy(update={"intents": intents, "knowledge": _about(conflict, knowledge.entries)})


def whose(step: int | None) -> str:
    """Whose work is merged: a step's, or with None the integrator's."""
    return "the integrator's work" if step is None else f"step {step}"


def question(conflict: Conflict, where: str, why: Sequence[str] = ()) -> str:
    """What a person is asked about a conflict."""
    others = ", ".join(str(number) for number in conflict.others)
    with_whom = f"what step {others} changed" if others else "the result"
    told = "".join(f" {sentence.rstrip('.')}." for sentence in why)
    work = whose(conflict.step)
    version = "the integrator's version" if conflict.step is None else f"the version of {work}"
    return (
        f"{work[0].upper()}{work[1:]} conflicts with {with_whom}: {conflict.described()}.{told} "
        f"Choose: ours (the result's version wins), theirs ({version} wins), agent (a "
        f"resolver tries again; say in the comment what it should do), redo ({work} is done again on "
        f"top of the present result), edit (resolve the conflict yourself in {where}, then answer)."
    )


def redo_guidance(conflict: Conflict, comment: str) -> str:
    """What the executor of a step that is done again is told."""
    others = ", ".join(str(number) for number in conflict.others)
    who = f"step {others}" if others else "other steps"
    said = f" The person says: {comment}" if comment else ""
    return (
        f"This work was done before, and its result conflicted with what {who} had changed meanwhile: "
        f"{conflict.described()}. A person chose to have it done again. Your working copy now holds the changes of "
        f"{who}: keep them and do your work on top.{said}"
    )


def finding_of(resolution: Resolution) -> dict[str, Any]:
    """How a conflict was resolved, in the form of a step's findings."""
    why = f" ({resolution.rationale})" if resolution.rationale else ""
    return {
        "finding": f"a merge conflict was resolved by {resolution.by}: {resolution.resolution}{why}",
        "files": list(resolution.paths),
        "severity": "low",
        "suggested_action": "look at these files in the result",
    }


def with_resolutions(said: Mapping[str, Any], resolutions: Sequence[Resolution]) -> dict[str, Any]:
    """What the integrator submitted, with how the conflicts of its own work were resolved."""
    if not resolutions:
        return dict(said)
    return {**said, "findings": [*said.get("findings", ()), *map(finding_of, resolutions)]}


def given_up_paths(resolutions: Iterable[Resolution]) -> frozenset[str]:
    """Where the step's version gave way to the result's, by a person's choice or by what a resolver made of it."""
    return frozenset(path for one in resolutions for path in (one.paths if one.choice == OURS else one.gave_way))


def given_up_items(records: Iterable[ItemRecord], lost: Collection[str]) -> tuple[ItemRecord, ...]:
    """The records of a step whose version gave way to the result's: of the `lost` paths none is done (invariant 2)."""
    note = "the result's version was kept where this step's conflicted"
    return tuple(
        record.model_copy(update={"status": ItemStatus.SKIPPED, "note": note})
        if record.item in lost and record.status is ItemStatus.CHANGED
        else record
        for record in records
    )


def _about(conflict: Conflict, entries: Sequence[Entry]) -> tuple[str, ...]:
    found = [
        entry.line()
        for entry in entries
        if any(name in entry.text or name == entry.file or name in (entry.rationale or "") for name in conflict.names)
    ]
    return tuple(found[-KNOWLEDGE_KEPT:])

"""Everything a report is made of, and the issues that need a person."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from pydantic import Field

from baton.consistency import Agreement, Settlement
from baton.consistency_report import Row, open_settlements
from baton.findings import GateResult, GateVerdict, VerdictStatus
from baton.knowledge import Entry, Knowledge
from baton.ledger import ItemCounts, ItemRecord
from baton.messages import StepResult
from baton.models import Stored
from baton.performance import Size, SizeChange, Timing, size_changes, timings
from baton.plan import Plan
from baton.states import StepStatusWord
from baton.status import TaskStatus
from baton.synthesis import Synthesis
from baton.wording import counted

UNDONE_SHOWN = 20
"""So many of a step's items that are not done are named in the report; the ledger has all."""
NOTE_CHARACTERS = 200


class ReportFacts(Stored):
    """Everything the report is made of."""

    status: TaskStatus
    results: tuple[StepResult, ...] = ()
    verdicts: tuple[GateVerdict, ...] = ()
    baseline: tuple[GateResult, ...] = ()
    integration: dict[str, Any] = Field(default_factory=dict)
    knowledge: Knowledge = Knowledge()
    head: str = ""
    private_repository: str = ""
    plan_only: bool = False
    persisted: bool = True
    sizes_before: tuple[Size, ...] = ()
    sizes: tuple[Size, ...] = ()
    synthesis: Synthesis = Synthesis()
    plan: Plan | None = None
    settlements: tuple[Settlement, ...] = ()
    agreed: tuple[Agreement, ...] = ()
    undone: dict[int, tuple[ItemRecord, ...]] = Field(default_factory=dict)

    @property
    def timings(self) -> tuple[Timing, ...]:
        """How long tests and builds took, before and now."""
        return timings(self.verdicts)

    @property
    def size_changes(self) -> tuple[SizeChange, ...]:
        """The configured sizes, before and now."""
        return size_changes(self.sizes_before, self.sizes)

    @property
    def duration(self) -> timedelta | None:
        """From the task's start to its end, waiting included."""
        status = self.status
        return status.closed_at - status.started_at if status.closed_at and status.started_at else None

    @property
    def waited(self) -> timedelta:
        """How long at least one question was open or the task paused, in whole seconds."""
        total, reached = timedelta(), None
        for wait in sorted(self.status.waits, key=lambda one: one.since):
            since = wait.since if reached is None else max(wait.since, reached)
            total += max(timedelta(), wait.until - since)
            reached = wait.until if reached is None else max(wait.until, reached)
        return timedelta(seconds=int(total.total_seconds()))

    @property
    def items(self) -> ItemCounts:
        """Items of all steps."""
        return sum((result.items for result in self.results), ItemCounts())


def undone(ledger: Mapping[int, Sequence[ItemRecord]]) -> dict[int, tuple[ItemRecord, ...]]:
    """The items of each step that are not done, at most `UNDONE_SHOWN`; steps without any are left out."""
    left = {step: [row for row in rows if not row.status.done][:UNDONE_SHOWN] for step, rows in ledger.items()}
    return {step: tuple(rows) for step, rows in left.items() if rows}


def undone_notes(rows: Sequence[ItemRecord], items: ItemCounts) -> list[str]:
    """A line for each item that is not done, and one for those that are not listed."""
    more = items.total - items.done - len(rows)
    lines = [_undone_line(row) for row in rows]
    return [*lines, f"and {counted(more, 'more item')}, see `ledger.json`"] if rows and more > 0 else lines


def _undone_line(row: ItemRecord) -> str:
    item = (row.item if row.item.isprintable() else repr(row.item)).replace("`", "'")
    note = " ".join((row.note or "").split())
    shown = note if len(note) <= NOTE_CHARACTERS else f"{note[:NOTE_CHARACTERS]}…"
    return f"{row.status.replace('_', ' ')}: `{item}`" + (f" ({shown})" if shown else "")


def issues(facts: ReportFacts) -> list[dict[str, Any]]:
    """What needs a person, each with id, severity, files, evidence and suggested action."""
    found: list[dict[str, Any]] = []

    def add(severity: str, what: str, action: str, files: Sequence[str] = (), evidence: str = "") -> None:
        found.append(
            {
                "id": f"issue-{len(found) + 1}",
                "severity": severity,
                "issue": what,
                "files": list(files),
                "evidence": evidence,
                "suggested_action": action,
            }
        )

    for verdict in facts.verdicts:
        for row in _of_verdict(verdict):
            add(*row)
    for result in facts.results:
        if result.status is not StepStatusWord.OK:
            left = facts.undone.get(result.step, ())
            add(
                "high",
                f"step {result.step} is {result.status}",
                "look at its results file, then resume the task",
                [row.item for row in left],
                "; ".join((*result.blockers, *undone_notes(left, result.items))),
            )
    for finding in (*(f for result in facts.results for f in result.findings), *facts.integration.get("findings", ())):
        add(
            finding.get("severity", "medium"),
            finding.get("finding", ""),
            finding.get("suggested_action") or "decide whether it matters",
            finding.get("files", ()),
        )
    for row in _of_knowledge(facts):
        add(*row)
    return found


def _of_knowledge(facts: ReportFacts) -> Iterator[Row]:
    """What agents recorded, or the integrator saw, and nobody settled."""
    yield from open_settlements(facts.settlements, facts.plan, facts.results)
    for conflict in facts.integration.get("conflicts", ()):
        yield "medium", conflict, "decide what holds", (), "a contradiction that the integrator left"
    for entry in facts.knowledge.entries:
        if (said := _unsettled(entry, facts.results)) is not None:
            files = [entry.file] if entry.file else []
            yield said.severity, said.issue, said.action, files, f"recorded by {entry.agent_id}"


class _Unsettled(NamedTuple):
    severity: str
    issue: str
    action: str


def _unsettled(entry: Entry, results: Sequence[StepResult]) -> _Unsettled | None:
    """What an agent recorded and nobody settled: an issue without resolution, a need in a file that nobody changed."""
    if entry.kind == "issue" and not entry.resolution:
        return _Unsettled("medium", entry.text, "decide whether it matters")
    if entry.kind == "need" and not any(entry.file in result.files_changed for result in results):
        issue = f"{entry.file} was not changed, though another step needs it: {entry.text}"
        return _Unsettled("high", issue, "make the change, or decide that it is not needed")
    return None


def _of_verdict(verdict: GateVerdict) -> Iterator[Row]:
    """What a gate leaves to people: severity, issue, suggested action, files, evidence."""
    for one in verdict.integrity:
        action = "put back what was taken away, or see that it was meant" if one.blocks else "see that it was meant"
        severity = "high" if one.blocks else "medium"
        yield severity, f"{one.kind}: {one.detail}", action, one.files, "; ".join(one.names[:10])
    if verdict.blocks and not verdict.integrity:
        files = tuple(dict.fromkeys(path for detail in verdict.details for path in detail.files))
        evidence = "; ".join((verdict.detail, *verdict.new_failures[:10]))
        yield "high", f"gate {verdict.name}: {verdict.status}", "fix it before you merge the result", files, evidence
    elif verdict.status is VerdictStatus.INCONCLUSIVE:
        what = f"gate {verdict.name} says nothing: it could not run, neither now nor on the base commit"
        yield "medium", what, "see why, or remove the gate", (), verdict.detail
    if verdict.flaky:
        what = f"gate {verdict.name}: {counted(len(verdict.flaky), 'failure')} that come and go"
        yield "low", what, "make them reliable; they say nothing of this result", (), "; ".join(verdict.flaky[:10])
